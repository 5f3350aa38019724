"""Tidy scores of a study written by hand: every number once, in the words of tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from hand_made import study

from deadhead.results.scores import Score, pairs, scores, setting

FIXED = {
    "model": "nobody/nothing",
    "task": "pos",
    "targets": ["de", "en"],
    "splits": ["dev", "test"],
}


def test_setting() -> None:
    assert setting("en", "de") == "cross-lingual"
    assert setting("en+de", "de") == "multi-lingual"
    assert setting("en", "en") == "mono-lingual"
    assert setting("en+ar", "de") == "cross-lingual"


def test_a_row_for_every_number(tmp_path: Path) -> None:
    cells = [
        {"labels": {"remove": {"random": 0}, "draw": 0}, "metrics": {"de/dev/micro_f1": 0.5}},
        {"labels": {"remove": {"random": 0}, "draw": 1}, "metrics": {"de/dev/micro_f1": 0.5}},
        {
            "labels": {"remove": {"random": 50, "per": "block"}, "draw": 1},
            "metrics": {"de/dev/micro_f1": 0.4, "de/dev@1/micro_f1": 0.3, "en/dev/macro_f1": 0.2},
        },
        {
            "labels": {"remove": {"layers": "top 3 + bottom 3"}, "draw": 0},
            "metrics": {"en/dev/micro_f1": 0.1},
        },
        {
            "labels": {"remove": {"random": 90}, "draw": 0},
            "state": "failed",
            "metrics": {"en/dev/micro_f1": 0.9},
        },
        {"labels": {"remove": {"random": 80}, "draw": 0}, "state": "left"},
    ]
    found = scores(
        study(
            tmp_path / "s",
            {**FIXED, "source": "en", "seed": 7},
            cells,
            ["prune", "finetune", "evaluate"],
        )
    )
    told = [
        (s.remove, s.strategy, s.amount, s.draw, s.target, s.split, s.metric, s.value)
        for s in found
    ]
    assert told == [
        ("none", "", 0, None, "de", "dev", "micro_f1", 0.5),
        ("random 50 per=block", "random", 50, 1, "de", "dev", "micro_f1", 0.4),
        ("random 50 per=block", "random", 50, 1, "de", "dev@1", "micro_f1", 0.3),
        ("random 50 per=block", "random", 50, 1, "en", "dev", "macro_f1", 0.2),
        (
            "layers top 3 + bottom 3",
            "layers",
            "top 3 + bottom 3",
            None,
            "en",
            "dev",
            "micro_f1",
            0.1,
        ),
    ]
    assert {
        (s.model, s.task, s.source, s.train, s.seed, s.arm, s.k, s.parts, s.rank) for s in found
    } == {("nobody/nothing", "pos", "en", "en", 7, "", None, None, "")}
    assert [s.setting for s in found] == [
        "cross-lingual",
        "cross-lingual",
        "cross-lingual",
        "mono-lingual",
        "mono-lingual",
    ]


def search_cells(train: list[str], full: float, by_arm: dict[str, dict[int, float]]) -> list[dict]:
    labels = {"source": "en", "train": train, "seed": 0}
    remove = {"lowest": "lowest", "highest": "highest", "random": "random_k"}
    cells = [
        {
            "labels": {**labels, "arm": "full", "k": 0, "remove": "none"},
            "metrics": {"de/test/micro_f1": full, "en/test/micro_f1": 1},
        }
    ]
    for arm, values in by_arm.items():
        for k, value in values.items():
            gone = "none" if arm == "seeds" else {remove[arm]: k}
            cell = {
                "labels": {**labels, "arm": arm, "k": k, "remove": gone},
                "metrics": {"de/test/micro_f1": value},
            }
            cells.append({**cell, "fields": {"seed": 1000 + k}} if arm == "seeds" else cell)
    return cells


def test_pairs_of_a_search(tmp_path: Path) -> None:
    arms = {"lowest": {1: 0.6, 2: 0.7}, "seeds": {1: 0.55, 2: 0.5}, "highest": {1: 0.4}}
    fixed = {**FIXED, "data": {"parts": {"de": 3}}, "rank": {"method": "taylor"}}
    folder = study(
        tmp_path / "s",
        fixed,
        [*search_cells(["en"], 0.5, arms), *search_cells(["en", "de"], 0.8, {"lowest": {1: 0.75}})],
    )
    one, english, both = sorted(
        pairs(folder), key=lambda pair: (len(dict(pair.group)["train"]), pair.target)
    )
    assert (one.source, one.target, one.setting, one.unpruned, one.parts, one.rank) == (
        "en",
        "de",
        "cross-lingual",
        0.5,
        3,
        "taylor",
    )
    assert one.lowest is not None
    assert (one.lowest.picks["test"].k, one.lowest.picks["test"].gain) == (2, pytest.approx(0.2))
    assert {name: arm.scores for name, arm in one.controls.items()} == {
        "seeds": arms["seeds"],
        "highest": arms["highest"],
    }
    assert set(one.lowest.trials) == {0, 1, 2}
    assert (english.target, english.setting) == ("en", "mono-lingual")
    assert (both.source, both.setting, both.unpruned) == (
        "en",
        "multi-lingual",
        0.8,
    )  # a trial of an unpruned model forgets its source
    assert {pair.target for pair in pairs(folder) if pair.setting == "multi-lingual"} == {
        "de"
    }  # en was trained on to get there
    rows = [s for s in scores(folder) if s.arm == "lowest" and s.k == 2]
    assert [(s.source, s.train, s.rank, s.parts, s.remove) for s in rows] == [
        ("en", "en", "taylor", 3, "lowest 2")
    ]


def test_no_row_is_there_twice_and_scores_are_plain_data(tmp_path: Path) -> None:
    cells = search_cells(["en"], 0.5, {"lowest": {1: 0.6}, "random": {1: 0.5}})
    found = scores(study(tmp_path / "s", FIXED, cells))
    assert len(found) == len(set(found)) == 4
    assert all(isinstance(score, Score) for score in found)
