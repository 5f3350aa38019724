"""Evidence out of study folders: what is read, in which units, and that nothing counts twice."""

from typing import Any

import pytest

from deadhead.papers.claims import all_claims
from deadhead.papers.claims.from_study import measured
from hand_made import study

FIXED = {"model": "nobody/nothing", "source": "en", "splits": ["dev", "test"]}
TARGETS = {**FIXED, "targets": ["de", "en"]}
TAGS = {**FIXED, "task": "pos", "targets": ["de"]}
RANK = ["finetune", "rank"]
Cells = list[dict[str, Any]]


def read(folder, cells, fixed=TARGETS):
    return measured([study(folder, fixed, cells, ["prune", "finetune", "measure", "evaluate"])])


def cell(remove, metrics, task="mnli", **more):
    return {"labels": {"task": task, "remove": remove}, "metrics": metrics, **more}


def test_scores_are_points_of_the_reported_split_and_shares_are_counted(tmp_path):
    layer = {"removed": [f"encoder.4.{i}" for i in range(8)], "cost": {"heads before": 40}}
    cells = [
        cell("none", {"en/dev/accuracy": 0.8, "en/dev/macro_f1": 0.1}),
        cell({"layers": "top 1"}, {"en/dev/accuracy": 0.7, "en/dev@1/accuracy": 0.6}, **layer),
        cell({"random": 30}, {"en/dev/accuracy": 0.1, "en/test/accuracy": 0.9}),
        cell({"stratified": 1}, {"de/test/span_f1": 0.5}, "slots-atis"),
        cell("none", {"en-de/test/bleu": 21.5}, "parallel"),
        cell("none", {"en/test/accuracy": 0.5}, "gone.yaml"),
    ]
    scores = read(tmp_path / "s", cells).scores
    assert [
        (s.task, s.remove, s.target, s.share, s.epoch, pytest.approx(s.value)) for s in scores
    ] == [
        ("mnli", "none", "en", 0.0, None, 80),
        ("mnli", "layers top 1", "en", 20.0, None, 70),
        ("mnli", "layers top 1", "en", 20.0, 1, 60),
        ("mnli", "random 30", "en", 30.0, None, 90),
        ("slots", "stratified 1", "de", None, None, 50),
        ("parallel", "none", "en-de", 0.0, None, 21.5),
    ]
    assert scores[1].shape == ("top", 1)


@pytest.mark.parametrize(("epochs", "expected"), [(1, [None]), (2, [None, 1])])
def test_a_training_of_one_epoch_says_nothing_about_the_first(epochs, expected, tmp_path):
    """Its weights after the first epoch are its last, unlike those of a longer training."""
    fixed = {**TARGETS, "finetune": {"epochs": epochs, "first": True}}
    one = cell({"random": 30}, {"en/dev/accuracy": 0.7, "en/dev@1/accuracy": 0.7})
    assert [s.epoch for s in read(tmp_path / "s", [one], fixed).scores] == expected


def test_failed_trainings_are_reported_beside_a_verdict(tmp_path):
    """One label of three for everything; a model that is bad in another way has not failed."""
    one_label = {"en/dev/accuracy": 0.4, "en/dev/macro_f1": 0.8 / 1.4 / 3}
    good = {"en/dev/accuracy": 0.8, "en/dev/macro_f1": 0.79}
    bad = {"en/dev/accuracy": 0.4, "en/dev/macro_f1": 0.39}
    cells = [cell("none", good), cell({"random": 50}, one_label), cell({"random": 40}, bad)]
    evidence = read(tmp_path / "s", cells, {**TARGETS, "model": "bert-base-uncased"})
    assert [s.one_label for s in evidence.scores] == [False, True, False]
    strength = all_claims()["M4"].on(evidence).strength
    assert "1 of 1 trainings failed: one label for everything" in strength


def lowest(seed, full, scores):
    name = "de/test/micro_f1"
    searched: list[tuple[str, Any, float]] = [("full", "none", full)]
    searched += [("lowest", {"lowest": k}, score) for k, score in enumerate(scores, 1)]
    return [
        {"labels": {"seed": seed, "arm": arm, "k": k, "remove": remove}, "metrics": {name: score}}
        for k, (arm, remove, score) in enumerate(searched)
    ]


def test_seeds_of_a_search_are_one_pair_with_the_arms_of_all(tmp_path):
    random = {"seed": 0, "arm": "random", "k": 1, "remove": {"random_k": 1}, "draw": 42}
    cells = [*lowest(0, 0.5, [0.6, 0.55]), *lowest(1, 0.6, [0.6, 0.62])]
    cells.append({"labels": random, "metrics": {"de/test/micro_f1": 0.4}})
    evidence = measured([study(tmp_path / "s", TAGS, cells)])
    first, second = evidence.searches
    assert (first.unpruned, first.setting, first.rank) == (50.0, "cross-lingual", "gradient")
    assert first.arms["random"].gain == pytest.approx(-10)
    assert not {*first.trials} & {*second.trials}
    (pair,) = evidence.pairs
    assert pair.arms["lowest"].gain == pytest.approx((10 + 2) / 2)
    assert (pair.arms["lowest"].k, set(pair.arms)) == (1.5, {"lowest"})


def ranking(*scores):
    heads = {f"encoder.0.{i}": score for i, score in enumerate(scores)}
    return {"ranking": {"method": "gradient", "languages": ["en"], "scores": heads}}


def test_rankings_of_several_studies_are_joined_whatever_their_order(tmp_path):
    one, other = (
        study(tmp_path / f"{seed}", TAGS, [{"labels": {"seed": seed}, "details": details}], RANK)
        for seed, details in enumerate((ranking(0.1, 0.7), ranking(0.3, 0.1)))
    )
    ((there,), (back,), (same,)) = (
        measured(folders).rankings for folders in ([one, other], [other, one], [one, one])
    )
    assert there == back
    assert dict(there.scores) == pytest.approx({"encoder.0.0": 0.2, "encoder.0.1": 0.4})
    assert dict(same.scores) == {"encoder.0.0": 0.1, "encoder.0.1": 0.7}  # the same trial is one


def test_what_two_studies_share_counts_once(tmp_path):
    cells = [cell({"random": 30}, {"en/test/accuracy": 0.9})]
    one = study(tmp_path / "a", TARGETS, cells, ["prune", "finetune", "evaluate"])
    cells.append(cell("none", {"en/test/accuracy": 0.95}))
    other = study(tmp_path / "b", TARGETS, cells, ["prune", "finetune", "evaluate"])
    assert (len(measured([one]).scores), len(measured([one, other]).scores)) == (1, 2)


def test_a_search_that_two_studies_share_has_the_arms_of_both(tmp_path):
    cells = lowest(0, 0.5, [0.6])
    highest = {"seed": 0, "arm": "highest", "k": 1, "remove": {"highest": 1}}
    control = {"labels": highest, "metrics": {"de/test/micro_f1": 0.4}}
    folders = [study(tmp_path / "a", TAGS, [*cells, control]), study(tmp_path / "b", TAGS, cells)]
    for order in (folders, folders[::-1]):
        (search,) = measured(order).searches
        assert set(search.arms) == {"lowest", "highest"}
        assert len(search.trials) == 3


def test_values_that_are_no_numbers_are_skipped(tmp_path):
    nan = float("nan")
    weights = {"encoder.0.0": nan, "encoder.0.1": 0.5}
    after = {"weights": weights, "embeddings": {"silhouette": None}}
    details = {"measures": {"after": after, "first": None}}
    cells = [
        cell({"random": 50}, {"en/test/accuracy": nan}, details=details),
        cell({"layers": "top 1"}, {"en/test/accuracy": 0.5}, cost={"heads before": 8}),
    ]
    folder, fixed = tmp_path / "m", {**TARGETS, "measure": ["weights"]}
    evidence = read(folder, cells, fixed)
    assert [(m.name, dict(m.values)) for m in evidence.measures] == [
        ("weights", {"encoder.0.1": 0.5})
    ]
    assert [(s.remove, s.value, s.share) for s in evidence.scores] == [("layers top 1", 50.0, 0.0)]
