"""Evidence out of study folders: what is read, in which units, and that nothing counts twice."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deadhead.papers.claims import all_claims
from deadhead.papers.claims.from_study import measured
from deadhead.results import study as open_study
from deadhead.results.study import TRIES
from deadhead.studies.store.records import read_within, summaries, write
from hand_made import study

CLAIMS = all_claims()

FIXED = {
    "model": "nobody/nothing",
    "source": "en",
    "splits": ["dev", "test"],
    "targets": ["de", "en"],
}
PRUNE = ["prune", "finetune", "evaluate"]


def test_scores_are_points_of_the_reported_split_and_shares_are_counted(tmp_path: Path) -> None:
    cells = [
        {
            "labels": {"task": "mnli", "remove": "none"},
            "metrics": {"en/dev/accuracy": 0.8, "en/dev/macro_f1": 0.1},
        },
        {
            "labels": {"task": "mnli", "remove": {"layers": "top 1"}},
            "metrics": {"en/dev/accuracy": 0.7, "en/dev@1/accuracy": 0.6},
            "removed": [f"encoder.4.{i}" for i in range(8)],
            "cost": {"heads before": 40},
        },
        {
            "labels": {"task": "mnli", "remove": {"random": 30}},
            "metrics": {"en/dev/accuracy": 0.1, "en/test/accuracy": 0.9},
        },
        {
            "labels": {"task": "slots-atis", "remove": {"stratified": 1}},
            "metrics": {"de/test/span_f1": 0.5},
        },
        {"labels": {"task": "parallel", "remove": "none"}, "metrics": {"en-de/test/bleu": 21.5}},
        {"labels": {"task": "gone.yaml", "remove": "none"}, "metrics": {"en/test/accuracy": 0.5}},
    ]
    scores = measured([study(tmp_path / "s", FIXED, cells, PRUNE)]).scores
    assert [
        (f.task, f.remove, f.target, f.share, f.epoch, pytest.approx(f.value)) for f in scores
    ] == [
        ("mnli", "none", "en", 0.0, None, 80),
        ("mnli", "layers top 1", "en", 20.0, None, 70),
        ("mnli", "layers top 1", "en", 20.0, 1, 60),
        ("mnli", "random 30", "en", 30.0, None, 90),
        ("slots", "stratified 1", "de", None, None, 50),
        ("parallel", "none", "en-de", 0.0, None, 21.5),
    ]
    assert scores[1].shape == ("top", 1)


def test_a_training_of_one_epoch_says_nothing_about_the_first(tmp_path: Path) -> None:
    """Its weights after the first epoch are its last, unlike those of a longer training."""
    cell = {
        "labels": {"task": "mnli", "remove": {"random": 30}},
        "metrics": {"en/dev/accuracy": 0.7, "en/dev@1/accuracy": 0.7},
    }
    for epochs, expected in ((1, [None]), (2, [None, 1])):
        fixed = {**FIXED, "finetune": {"epochs": epochs, "first": True}}
        assert [
            f.epoch for f in measured([study(tmp_path / str(epochs), fixed, [cell], PRUNE)]).scores
        ] == expected


def test_failed_trainings_are_reported_beside_a_verdict(tmp_path: Path) -> None:
    """One label of three for everything; a model that is bad in another way has not failed."""
    cells = [
        {
            "labels": {"task": "mnli", "remove": remove},
            "metrics": {"en/dev/accuracy": right, "en/dev/macro_f1": mean},
        }
        for remove, right, mean in (
            ("none", 0.8, 0.79),
            ({"random": 50}, 0.4, 0.8 / 1.4 / 3),
            ({"random": 40}, 0.4, 0.39),
        )
    ]
    evidence = measured([study(tmp_path / "s", FIXED, cells, PRUNE)])
    assert [f.one_label for f in evidence.scores] == [False, True, False]
    assert "1 of 1 trainings failed: one label for everything" in CLAIMS["M4"].on(evidence).strength
    slow = {
        "en/dev@1/accuracy": 0.4,
        "en/dev@1/macro_f1": 0.8 / 1.4 / 3,
        "en/dev/accuracy": 0.8,
        "en/dev/macro_f1": 0.79,
    }  # it learnt later
    (first, last) = measured(
        [study(tmp_path / "slow", FIXED, [{**cells[1], "metrics": slow}], PRUNE)]
    ).scores
    assert not first.one_label
    assert not last.one_label


def lowest(
    labels: dict[str, Any], full: float, scores: list[float], target: str = "de"
) -> list[dict[str, Any]]:
    name = f"{target}/test/micro_f1"
    cells = [
        {"labels": {**labels, "arm": "full", "k": 0, "remove": "none"}, "metrics": {name: full}}
    ]
    for k, score in enumerate(scores, 1):
        cells.append(
            {
                "labels": {**labels, "arm": "lowest", "k": k, "remove": {"lowest": k}},
                "metrics": {name: score},
            }
        )
    return cells


def test_searches_and_repeats(tmp_path: Path) -> None:
    fixed = {**FIXED, "task": "pos", "targets": ["de"]}
    cells = [*lowest({"seed": 0}, 0.5, [0.6, 0.55]), *lowest({"seed": 1}, 0.6, [0.6, 0.62])]
    cells.append(
        {
            "labels": {"seed": 0, "arm": "random", "k": 1, "remove": {"random_k": 1}, "draw": 42},
            "metrics": {"de/test/micro_f1": 0.4},
        }
    )
    whole = measured([study(tmp_path / "s", fixed, cells)])
    first, second = whole.searches
    assert (first.unpruned, first.setting, first.rank) == (50.0, "cross-lingual", "gradient")
    best = first.arms["lowest"]
    assert (best.gain, best.k, best.budget, tuple(best.scores.values())) == (
        pytest.approx(10),
        1,
        2,
        pytest.approx((60, 55)),
    )
    assert first.arms["random"].gain == pytest.approx(-10)
    assert len(first.trials) == 4
    assert first.trials[0] != second.trials[0]
    (pair,) = whole.pairs
    assert pair.arms["lowest"].gain == pytest.approx((10 + 2) / 2)
    assert pair.arms["lowest"].k == 1.5
    assert set(pair.arms) == {"lowest"}  # one of the repeats has no random arm


def test_several_sources(tmp_path: Path) -> None:
    fixed = {**FIXED, "task": "pos", "targets": ["zh"]}
    del fixed["source"]
    joined = {"source": ["en", "de"]}
    cells = [
        *lowest({**joined, "rank.merge": "md"}, 0.5, [0.6, 0.55], "zh"),
        *lowest({"source": "en", "train": ["en", "de"]}, 0.5, [0.7], "zh"),
        *lowest({"source": "de", "train": ["en", "de"]}, 0.5, [0.65], "zh"),
    ]
    for cell in cells:
        cell["fields"] = (
            {"rank": {"method": "gradient", "merge": "md"}}
            if "rank.merge" in cell["labels"]
            else {}
        )
    (search,) = measured(
        [study(tmp_path / "s", fixed, cells, ["rank_each", "prune", "finetune", "evaluate"])]
    ).merged
    assert (search.target, search.unpruned, dict(search.scores)) == (
        "zh",
        50.0,
        {"MD": 60.0, "EC": 70.0},
    )
    (partial,) = measured(
        [study(tmp_path / "t", fixed, cells[:-2], ["rank_each", "prune", "finetune", "evaluate"])]
    ).merged
    assert dict(partial.scores) == {"MD": 60.0}  # EC is the best over the rankings of all of them


def test_measures_and_rankings(tmp_path: Path) -> None:
    fixed = {**FIXED, "task": "mnli", "measure": ["weights"]}
    details = {
        "measures": {
            "after": {"weights": {"encoder.0.0": 0.5}},
            "before": {"entropy": {"encoder.0.0": 1.0}},
        }
    }
    steps = ["prune", "measure", "finetune", "measure"]
    cells = [{"labels": {"remove": {"random": 50}}, "details": details, "removed": ["encoder.0.1"]}]
    results = measured([study(tmp_path / "m", fixed, cells, steps)]).measures
    assert [(m.name, m.stage, m.remove, dict(m.values), m.removed) for m in results] == [
        ("entropy", "before", "random 50", {"encoder.0.0": 1.0}, ("encoder.0.1",)),
        ("weights", "after", "random 50", {"encoder.0.0": 0.5}, ("encoder.0.1",)),
    ]
    ranking = {
        "ranking": {"method": "gradient", "languages": ["en"], "scores": {"encoder.0.0": 0.5}}
    }
    cells = [{"labels": {"seed": seed}, "details": ranking} for seed in (0, 1)]
    (ranked,) = measured(
        [study(tmp_path / "r", {**FIXED, "task": "slots-atis"}, cells, ["finetune", "rank"])]
    ).rankings
    assert (ranked.language, ranked.task, ranked.method, dict(ranked.scores)) == (
        "en",
        "slots",
        "gradient",
        {"encoder.0.0": 0.5},
    )


def test_rankings_of_several_studies_are_joined_whatever_their_order(tmp_path: Path) -> None:
    def ranked(name: str, *scores: float) -> Path:
        details = {
            "ranking": {
                "method": "gradient",
                "languages": ["en"],
                "scores": {f"encoder.0.{i}": x for i, x in enumerate(scores)},
            }
        }
        cells = [{"labels": {"seed": len(name)}, "details": details}]
        return study(tmp_path / name, {**FIXED, "task": "pos"}, cells, ["finetune", "rank"])

    studies_of_one = [ranked("a", 0.1, 0.7), ranked("bb", 0.3, 0.1)]
    (there,), (back,) = (
        measured(folders).rankings for folders in (studies_of_one, studies_of_one[::-1])
    )
    assert there == back
    assert dict(there.scores) == {
        "encoder.0.0": pytest.approx(0.2),
        "encoder.0.1": pytest.approx(0.4),
    }
    (same,) = measured(
        [studies_of_one[0], studies_of_one[0]]
    ).rankings  # a trial that two studies ran is one
    assert dict(same.scores) == {"encoder.0.0": 0.1, "encoder.0.1": 0.7}


def test_pruned_trials_of_a_search_are_no_facts(tmp_path: Path) -> None:
    cells = [*lowest({"seed": 0}, 0.5, [0.6]), *lowest({"seed": 0}, 0.4, [0.3], "en")]
    for cell in cells:
        cell["metrics"] |= {"de/test/macro_f1": 0.1, "de/dev/micro_f1": 0.2}
    joined = [
        {**one, "metrics": one["metrics"] | other["metrics"]}
        for one, other in zip(cells[:2], cells[2:], strict=True)
    ]
    evidence = measured([study(tmp_path / "s", {**FIXED, "task": "pos"}, joined)])
    assert [(f.target, f.remove, f.value) for f in evidence.scores] == [
        ("de", "none", 50.0),
        ("en", "none", 40.0),
    ]
    assert len(evidence.searches) == 2


def test_a_ranking_that_no_record_holds_is_not_looked_for_in_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records_read: list[str] = []
    monkeypatch.setattr(
        open_study,
        "read_within",
        lambda home, name: records_read.append(name) or read_within(home, name),
    )
    ranking = {
        "ranking": {"method": "gradient", "languages": ["en"], "scores": {"encoder.0.0": 0.5}}
    }
    for name, at, expected in (("first", 0, 1), ("third", 2, 1), ("none", None, 0)):
        cells = [{"labels": {"seed": seed}} for seed in range(3 * TRIES)]
        folder = study(tmp_path / name, {**FIXED, "task": "pos"}, cells, ["finetune", "rank"])
        if at is not None:
            trial = sorted(summaries(folder))[at]
            write(replace(read_within(folder, trial), details=ranking), folder)
        records_read.clear()
        assert len(measured([folder]).rankings) == expected
        assert len(records_read) == (TRIES if at is None else at + 1)


def test_what_two_studies_share_counts_once(tmp_path: Path) -> None:
    cells = [
        {"labels": {"task": "mnli", "remove": {"random": 30}}, "metrics": {"en/test/accuracy": 0.9}}
    ]
    more = [
        *cells,
        {"labels": {"task": "mnli", "remove": "none"}, "metrics": {"en/test/accuracy": 0.95}},
    ]
    one, other = (
        study(tmp_path / name, FIXED, some, PRUNE) for name, some in (("a", cells), ("b", more))
    )
    assert len(measured([one]).scores) == 1
    assert len(measured([one, other]).scores) == 2


def test_a_search_that_two_studies_share_has_the_arms_of_both(tmp_path: Path) -> None:
    fixed = {**FIXED, "task": "pos", "targets": ["de"]}
    plain = lowest({"seed": 0}, 0.5, [0.6])
    control = {
        "labels": {"seed": 0, "arm": "highest", "k": 1, "remove": {"highest": 1}},
        "metrics": {"de/test/micro_f1": 0.4},
    }
    folders = [study(tmp_path / "a", fixed, [*plain, control]), study(tmp_path / "b", fixed, plain)]
    for order in (folders, folders[::-1]):
        (search,) = measured(order).searches
        assert set(search.arms) == {"lowest", "highest"}
        assert len(search.trials) == 3


def test_damaged_records_and_values_that_are_no_numbers_are_skipped(tmp_path: Path) -> None:
    fixed = {**FIXED, "task": "mnli", "measure": ["weights"]}
    details = {
        "measures": {
            "after": {
                "weights": {"encoder.0.0": float("nan"), "encoder.0.1": 0.5},
                "embeddings": {"silhouette": None},
            },
            "first": None,
        }
    }
    cells = [
        {
            "labels": {"remove": {"random": 50}},
            "details": details,
            "metrics": {"en/test/accuracy": float("nan")},
        },
        {
            "labels": {"remove": {"layers": "top 1"}},
            "cost": {"heads before": 8},
            "metrics": {"en/test/accuracy": 0.5},
        },
    ]
    folder = study(tmp_path / "m", fixed, cells, ["prune", "finetune", "measure", "evaluate"])
    evidence = measured([folder])
    assert [(m.name, dict(m.values)) for m in evidence.measures] == [
        ("weights", {"encoder.0.1": 0.5})
    ]
    assert [(f.remove, f.value, f.share) for f in evidence.scores] == [("layers top 1", 50.0, 0.0)]
    (removed,) = [file for file in (folder / "records").iterdir() if "layers" in file.read_text()]
    stamp = removed.stat()
    removed.write_text(
        removed.read_text()[:-9].ljust(stamp.st_size)
    )  # as long as it was, but cut off
    os.utime(removed, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert [(f.remove, f.share) for f in measured([folder]).scores] == [("layers top 1", None)]


def test_a_search_with_a_score_that_is_no_number(tmp_path: Path) -> None:
    cells = lowest({"seed": 0}, 0.5, [0.6, float("nan"), 0.55])
    (search,) = measured(
        [study(tmp_path / "s", {**FIXED, "task": "pos", "targets": ["de"]}, cells)]
    ).searches
    assert (search.arms["lowest"].k, search.arms["lowest"].budget) == (1, 2)
    without_scores = lowest({"seed": 0}, float("nan"), [0.6])
    assert (
        measured(
            [study(tmp_path / "t", {**FIXED, "task": "pos", "targets": ["de"]}, without_scores)]
        ).searches
        == ()
    )
