"""The search rules on cases worked out by hand, and the arms of a study from its records."""

import pytest

from deadhead.results import Pick, Study
from deadhead.results.searches import best, picks, until_fall
from hand_made import study

TEST = {1: 0.60, 2: 0.55, 3: 0.70, 4: 0.70}


def test_rules_by_hand():
    assert best(TEST) == 3  # the smallest among equals
    assert until_fall(0.50, TEST) == {1: 0.60, 2: 0.55}
    assert until_fall(0.65, TEST) == {1: 0.60}  # it falls at once: the paper reports that trial
    assert until_fall(0.50, {1: 0.5, 2: 0.6}) == {1: 0.5, 2: 0.6}  # equal is no fall
    dev, source = {1: 0.1, 2: 0.9, 3: 0.3, 4: 0.2}, {1: 0.4, 2: 0.3, 3: 0.3, 4: 0.5}
    chosen = picks(0.50, TEST, dev, source)
    assert {rule: pick.k for rule, pick in chosen.items()} == {
        "test": 3,
        "stop": 1,
        "dev": 2,
        "source dev": 4,
    }
    assert chosen["dev"] == Pick(2, 0.55, pytest.approx(0.05))
    assert "dev" not in picks(0.50, TEST, {1: 0.1}, source)  # not scored on dev everywhere
    assert picks(0.5, {}, {}, {}) == {}


FIXED = {
    "model": "nobody/nothing",
    "source": "en",
    "task": "pos",
    "targets": ["en", "de"],
    "splits": ["dev", "test"],
}


def searched(seed):
    """A search up to k = 3 with a control; dev of the source prefers 3, test prefers 2."""
    cells = []
    for arm, k in [("full", 0), *((arm, k) for arm in ("lowest", "highest") for k in (1, 2, 3))]:
        names = ("en/dev", "en/test", "de/dev", "de/test")
        scores = (0.1 * k, 0.5, 0.1, 0.7 - 0.01 * abs(k - 2) - 0.1 * seed)
        remove = "none" if arm == "full" else {arm: k}
        metrics = {f"{n}/micro_f1": score for n, score in zip(names, scores, strict=True)}
        labels = {"seed": seed, "arm": arm, "k": k, "remove": remove}
        cells.append({"labels": labels, "metrics": metrics})
    return cells


def test_arms_of_a_study(tmp_path):
    folder = study(tmp_path / "s", FIXED, [*searched(0), *searched(1)])
    searches = Study.open(folder).searches
    assert [(dict(s.group)["seed"], s.target, list(s.arms)) for s in searches] == [
        (seed, language, ["lowest", "highest"]) for seed in (0, 1) for language in ("de", "en")
    ]
    arm = searches[2].lowest
    assert arm.scores == pytest.approx({1: 59, 2: 60, 3: 59})
    assert (arm.picks["test"].k, arm.picks["source dev"].k, arm.missing) == (2, 3, 0)
    assert arm.full == pytest.approx(58)
    (folder / "records" / f"{arm.trials[2]}.json").unlink()
    again = Study.open(folder).searches[2].lowest
    assert (again.missing, sorted(again.scores), again.picks["test"].k) == (1, [1, 3], 1)


def test_a_search_without_its_unpruned_model_is_left_out(tmp_path):
    folder = study(tmp_path / "s", FIXED, searched(0)[1:])
    assert Study.open(folder).searches == ()
