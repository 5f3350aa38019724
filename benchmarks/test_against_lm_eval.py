"""The lm-evaluation-harness takes a pruned model as it is, and gives the numbers of `choice`."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from lm_eval.api.registry import get_model

from deadhead import save

BENCHMARKS = Path(__file__).parent


@pytest.fixture(scope="module")
def against():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("against_lm_eval")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DEADHEAD_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("family", ["GPT-2", "Llama"])
def test_the_harness_gives_the_numbers_of_choice(against, family, tmp_path):
    """Log-likelihoods of the options and three accuracies, of the whole and the pruned model."""
    model, tokenizer = against.small(family)
    whole = against.compared(family, model, tokenizer, None)
    model = against.pruned(model, tokenizer, tmp_path / "pruned")
    pruned = against.compared(family, model, tokenizer, whole["values"])
    assert pruned["moved"] > 1.0  # what was removed counts
    for row in (whole, pruned):
        assert row["contexts cut"] > 0  # the harness cuts long contexts on the left, too
        assert row["difference"] < 1e-9  # in float64; summed in other batches
        assert row["ours"] == pytest.approx(row["theirs"])
    assert 0 < pruned["ours"]["acc"] < 1


def test_a_folder_by_its_name(against, tmp_path):
    """As the command line makes its model of `--model hf --model_args pretrained=...`."""
    model, tokenizer = against.small("Llama")
    model = against.pruned(model, tokenizer, tmp_path / "compact")
    save(model, tmp_path / "padded", tokenizer, form="padded")
    data = against.data_of(against.QUESTIONS[:3], " ")

    def by_name(form):
        arguments = f"pretrained={tmp_path / form},dtype=float64"
        return get_model("hf").create_from_arg_string(arguments, {"device": "cpu"})

    loaded = against.HFLM(pretrained=model, tokenizer=tokenizer)
    expected = against.harness_likelihoods(loaded, data)
    got = against.harness_likelihoods(by_name("padded"), data)
    assert abs(got - expected).max() < 1e-9
    with pytest.raises(ValueError, match="this model is pruned; load it with deadhead"):
        by_name("compact")
