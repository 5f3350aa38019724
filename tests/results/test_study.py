"""`Study.open`: every number once, in points, with the labels of tables."""

import ast
from collections import Counter
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

import deadhead
from deadhead import results
from deadhead.papers.claims import check
from deadhead.papers.claims.from_study import finished, measured
from deadhead.report.page.content import content
from deadhead.results import Study
from deadhead.results.cells import is_target, one_label, setting
from hand_made import study
from pinned_numbers import unpack

FIXED = {
    "model": "nobody/nothing",
    "task": "pos",
    "targets": ["de", "en"],
    "splits": ["dev", "test"],
}


@pytest.mark.parametrize("archive", ["ner-search", "nli-layers", "pos-measures", "rankers"])
def test_claims_and_report_read_the_same_scores(archive, tmp_path):
    """Every archive opens through one door; nobody makes numbers of their own."""
    study = Study.open(unpack(archive, tmp_path))
    evidence = measured([study])
    assert bool(evidence.scores) == (archive != "rankers")  # which only ranks
    assert {*map(id, evidence.scores)} <= {*map(id, study.scores)}
    assert len(evidence.searches) == len(list(finished(study.searches)))
    assert {*map(id, evidence.searches)} <= {*map(id, study.searches)}
    assert {*map(id, evidence.measures)} <= {*map(id, study.measures)}
    cells = study.trials
    compared = [
        (score.value, cells[score.trial].scores[score.target])
        for score in study.scores
        if score.split == cells[score.trial].split and score.target in cells[score.trial].languages
    ]
    assert bool(compared) == bool(evidence.scores)
    assert all(score == texts for score, texts in compared)
    assert Study.open(study) is study


def test_each_result_and_statistic_is_defined_once():
    statistics = {"Correlation", "Overlap", "spearman", "overlap", "deviation", "removal_effects"}
    statistics |= {"entropy_change", "means"}
    names = {*results.__all__, *statistics, "points", "task_info", "ranking_of", "measures_of"}
    defined = Counter(
        node.name
        for file in Path(deadhead.__file__).parent.rglob("*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names
    )
    assert defined == dict.fromkeys(names, 1)


def test_the_page_opens_a_study_once(tmp_path, monkeypatch):
    records_read = []
    read = Study.open.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(
        Study,
        "open",
        classmethod(lambda cls, folder: records_read.append(folder) or read(cls, folder)),
    )
    folder = unpack("ner-search", tmp_path)
    assert content(folder)["claims"]
    assert [source for source in records_read if not isinstance(source, Study)] == [folder]
    assert check(folder)  # the claims alone open it once more
    assert [source for source in records_read if not isinstance(source, Study)] == [folder, folder]


def test_a_score_for_every_number(tmp_path):
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
    fixed = {**FIXED, "source": "en", "seed": 7}
    whole = Study.open(study(tmp_path / "s", fixed, cells, ["prune", "finetune", "evaluate"]))
    scores = whole.all_scores()
    both = "top 3 + bottom 3"
    assert [
        (s.remove, s.strategy, s.amount, s.draw, s.target, s.split, s.metric, s.value)
        for s in scores
    ] == [
        ("none", "", 0, None, "de", "dev", "micro_f1", 50),
        ("random 50 per=block", "random", 50, 1, "de", "dev", "micro_f1", 40),
        ("random 50 per=block", "random", 50, 1, "de", "dev@1", "micro_f1", 30),
        ("random 50 per=block", "random", 50, 1, "en", "dev", "macro_f1", 20),
        (f"layers {both}", "layers", both, None, "en", "dev", "micro_f1", 10),
    ]
    labels = ("model", "task", "source", "train", "seed", "arm", "k", "parts", "rank", "kind")
    assert {tuple(getattr(s, name) for name in labels) for s in scores} == {
        ("nobody/nothing", "pos", "en", "en", 7, "", None, None, "", "tag")
    }
    assert [s.setting for s in scores] == ["cross-lingual"] * 3 + ["mono-lingual"] * 2
    assert [s.epoch for s in scores] == [None, None, 1, None, None]
    assert [s.share for s in scores] == [0, 50, 50, 50, None]  # one record says how many heads
    assert scores[-1].shape == ("ends", 6)
    assert list(whole.scores) == [s for s in scores if s.metric == "micro_f1"]
    with pytest.raises(FrozenInstanceError):
        scores[0].value = 1.0  # type: ignore[misc]


def search_cells(train, full, by_arm):
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
            removed = "none" if arm == "seeds" else {remove[arm]: k}
            cell = {
                "labels": {**labels, "arm": arm, "k": k, "remove": removed},
                "metrics": {"de/test/micro_f1": value},
            }
            cells.append({**cell, "fields": {"seed": 1000 + k}} if arm == "seeds" else cell)
    return cells


ARMS = {"lowest": {1: 0.6, 2: 0.7}, "seeds": {1: 0.55, 2: 0.5}, "highest": {1: 0.4}}


def test_searches(tmp_path):
    fixed = {**FIXED, "data": {"parts": {"de": 3}}, "rank": {"method": "taylor"}}
    cells = [
        *search_cells(["en"], 0.5, ARMS),
        *search_cells(["en", "de"], 0.8, {"lowest": {1: 0.75}}),
    ]
    whole = Study.open(study(tmp_path / "s", fixed, cells))
    german, english, both = sorted(
        whole.searches, key=lambda search: (len(dict(search.group)["train"]), search.target)
    )
    assert (german.source, german.target, german.setting) == ("en", "de", "cross-lingual")
    assert (german.unpruned, german.parts, german.rank) == (50, 3, "taylor")
    assert german.lowest is not None
    assert (german.lowest.k, german.lowest.budget) == (2, 2)
    assert german.lowest.gain == pytest.approx(20)
    assert list(german.arms) == ["lowest", "seeds", "highest"]
    assert {name: dict(arm.scores) for name, arm in german.arms.items()} == {
        name: {k: pytest.approx(100 * score) for k, score in scores.items()}
        for name, scores in ARMS.items()
    }
    assert set(german.lowest.trials) == {0, 1, 2}
    assert german.trials[0] == german.lowest.trials[0]
    assert len(german.trials) == len(set(german.trials)) == 6
    assert (english.target, english.setting) == ("en", "mono-lingual")
    # a trial of an unpruned model does not keep its source; the recipe does
    assert (both.source, both.setting, both.unpruned) == ("en", "multi-lingual", 80)
    trained_on_both = [
        search.target for search in whole.searches if search.setting == "multi-lingual"
    ]
    assert trained_on_both == ["de"]  # en is trained on only to get there
    rows = [s for s in whole.all_scores() if s.arm == "lowest" and s.k == 2]
    assert [(s.source, s.train, s.rank, s.parts, s.remove) for s in rows] == [
        ("en", "en", "taylor", 3, "lowest 2")
    ]


def test_setting():
    assert setting("en", "de") == "cross-lingual"
    assert setting("en+de", "de") == "multi-lingual"
    assert setting("en", "en") == "mono-lingual"
    assert setting("en+ar", "de") == "cross-lingual"
    assert is_target("en", "en+de", "de")
    assert not is_target("en", "en+de", "en")


def test_one_label_for_everything():
    share = 0.4
    collapsed = {"en/test/accuracy": share, "en/test/macro_f1": 2 * share / (1 + share) / 3}
    assert one_label(collapsed, ["en"], "test", "accuracy")
    assert not one_label({**collapsed, "en/test/macro_f1": 0.35}, ["en"], "test", "accuracy")
    assert not one_label(collapsed, ["de"], "test", "accuracy")
    assert not one_label({}, ["en"], "test", "accuracy")
