"""Settings: the schedules, the papers' presets, and what is refused."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadhead.errors import UnknownName
from deadhead.training import PRESETS, Settings, SettingsError, preset

WHOLE = "a whole number from 1 to 1,000,000,000"


@given(
    total=st.integers(1, 300),
    warmup=st.one_of(st.floats(0, 0.99), st.integers(1, 400)),
    schedule=st.sampled_from(["linear", "constant", "inverse_sqrt"]),
)
def test_rates_rise_then_do_not(total, warmup, schedule):
    settings = Settings(rate=2.0, warmup=warmup, schedule=schedule)
    rates, warm = settings.rates(total), settings.warmup_updates(total)
    assert len(rates) == total
    assert (rates > 0).all()
    assert (rates <= 2.0).all()
    assert (np.diff(rates[: max(1, warm)]) > 0).all()
    assert (np.diff(rates[max(1, warm) :]) <= 0).all()
    if warm < total:
        assert rates[max(0, warm - 1)] == pytest.approx(2.0)


def test_linear_reaches_the_published_points():
    rates = Settings(rate=1.0, warmup=0.1, schedule="linear").rates(100)
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == pytest.approx(1.0)
    assert rates[55] == pytest.approx(0.5)
    assert rates[99] == pytest.approx(1 / 90)


def test_transformer_schedule_is_the_papers_formula():
    settings = preset("weak-link-transformer-en-ru")
    rates = settings.rates(40_000)
    for step in (1, 500, 16_000, 16_001, 40_000):
        published = 2.0 * 512**-0.5 * min(1, step / 16_000) * max(step, 16_000) ** -0.5
        assert rates[step - 1] == pytest.approx(published, rel=1e-12)


def test_presets_are_those_of_the_papers():
    assert {
        task: preset("weak-link-bert", task).rate for task in ("sst2", "qqp", "mnli", "qnli")
    } == {"sst2": 2e-5, "qqp": 5e-5, "mnli": 3e-5, "qnli": 5e-5}
    bert = preset("weak-link-bert", "sst2")
    assert (bert.batch, bert.epochs, bert.warmup, bert.decay, bert.clip, bert.schedule) == (
        128,
        10,
        0.1,
        0.01,
        1.0,
        "linear",
    )
    assert preset("mbert-prunability", "xnli") == PRESETS["mbert-prunability-mnli"]
    other = preset("contributions")
    assert (other.epochs, other.rate, other.batch, other.sampler, other.seed, other.warmup) == (
        3,
        5e-5,
        32,
        "sequential",
        42,
        0.0,
    )
    noam = preset("weak-link-transformer-en-de")
    assert (noam.tokens, noam.accumulate, noam.smoothing, noam.betas, noam.epsilon) == (
        25_000,
        10,
        0.1,
        (0.9, 0.997),
        1e-9,
    )
    assert preset("contributions", epochs=1) == Settings.from_dict({**other.to_dict(), "epochs": 1})


def test_settings_go_through_json():
    for settings in PRESETS.values():
        assert Settings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 0}, f"`epochs` expects {WHOLE}, got 0"),
        ({"batch": True}, f"`batch` expects {WHOLE}, got True"),
        ({"batch": 2.5}, f"`batch` expects {WHOLE}, got 2.5"),
        ({"rate": float("nan")}, "`rate` expects a number above 0, got nan"),
        ({"clip": 0.0}, "`clip` expects a number above 0, got 0.0"),
        ({"warmup": "1"}, "`warmup` expects a number of at least 0, got '1'"),
        ({"smoothing": 1.0}, "`smoothing` expects a number from 0 to below 1, got 1.0"),
        ({"betas": (0.9,)}, "`betas` expects two numbers from 0 to below 1, got (0.9,)"),
        ({"betas": (0.9, 1.5)}, "`betas` expects two numbers from 0 to below 1, got (0.9, 1.5)"),
        ({"seed": 2**64}, "below 2**64, got 18446744073709551616"),
        ({"by_length": "no"}, "`by_length` expects True or False, got 'no'"),
    ],
)
def test_impossible_settings_are_refused(wrong, message):
    with pytest.raises(SettingsError, match=re.escape(message)) as caught:
        Settings(**wrong)
    assert caught.value.hint


def test_whole_numbers_may_be_written_with_a_point():
    """As a spreadsheet or JSON of another language has them."""
    built = Settings(batch=8.0, epochs=2.0, accumulate=2.0, tokens=60.0)
    assert built == Settings(batch=8, epochs=2, accumulate=2, tokens=60)
    assert all(
        isinstance(n, int) for n in (built.batch, built.epochs, built.accumulate, built.tokens)
    )
    assert built.patience is None


def test_misspelt_names_are_guessed():
    with pytest.raises(UnknownName, match="inverse_sqrt"):
        Settings(schedule="inverse-sqrt")
    with pytest.raises(UnknownName, match="Did you mean 'contributions'"):
        preset("contribution")
    with pytest.raises(UnknownName, match="Did you mean 'epochs'"):
        preset("contributions", epoch=3)
