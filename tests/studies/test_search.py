"""The search rules on a case done by hand, and the arms of a study out of its records."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_study import WORK

from deadhead.results import Pick, arms
from deadhead.results.searches import best, picks, until_fall
from deadhead.studies import load, run, summaries

TEST = {1: 0.60, 2: 0.55, 3: 0.70, 4: 0.70}


def test_by_hand() -> None:
    assert best(TEST) == 3  # the smallest among equals
    assert until_fall(0.50, TEST) == {1: 0.60, 2: 0.55}
    assert until_fall(0.65, TEST) == {1: 0.60}  # it falls at once: the paper reports that trial
    assert until_fall(0.50, {1: 0.5, 2: 0.6}) == {1: 0.5, 2: 0.6}  # equal is no fall
    dev, source = {1: 0.1, 2: 0.9, 3: 0.3, 4: 0.2}, {1: 0.4, 2: 0.3, 3: 0.3, 4: 0.5}
    found = picks(0.50, TEST, dev, source)
    assert {name: pick.k for name, pick in found.items()} == {
        "test": 3,
        "stop": 1,
        "dev": 2,
        "source dev": 4,
    }
    assert found["dev"] == Pick(2, 0.55, pytest.approx(0.05))
    assert "dev" not in picks(0.50, TEST, {1: 0.1}, source)  # not scored on dev everywhere
    assert picks(0.5, {}, {}, {}) == {}


def test_arms_of_a_study(search_file: Path, tmp_path: Path) -> None:
    recipe = load(search_file, ["targets=[en, de]", "splits=[dev, test]"])
    run(recipe, tmp_path / "s", executor="serial", work=WORK)
    found = arms(tmp_path / "s")
    assert {(a.labels["seed"], a.arm, a.language) for a in found} == {
        (seed, arm, lang)
        for seed in (0, 1)
        for arm in ("lowest", "seeds", "random", "highest")
        for lang in ("en", "de")
    }
    known = summaries(tmp_path / "s")
    one = next(a for a in found if (a.labels["seed"], a.arm, a.language) == (1, "lowest", "de"))
    trials = {
        c.labels["k"]: c.trial.id
        for c in recipe.cells
        if c.labels["arm"] == "lowest" and c.labels["seed"] == 1
    }
    scores = {k: known[trial].metrics["de/test/micro_f1"] for k, trial in trials.items()}
    assert one.scores == scores
    assert one.picks["test"].score == max(scores.values())
    chosen = max(trials, key=lambda k: known[trials[k]].metrics["en/dev/micro_f1"])
    assert one.picks["source dev"].k == chosen
    assert one.missing == 0
    (tmp_path / "s" / "records" / f"{trials[2]}.json").unlink()
    again = next(
        a
        for a in arms(tmp_path / "s")
        if (a.labels["seed"], a.arm, a.language) == (1, "lowest", "de")
    )
    assert again.missing == 1
    assert 2 not in again.scores
