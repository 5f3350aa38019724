"""Cells that are alike are placed together: each placed by itself gives the same means."""

from dataclasses import replace
from typing import Any

import pytest
from by_hand import done, study

from deadhead.report.figures.curve import Curve
from deadhead.report.figures.curve_chart import gather_curve
from deadhead.report.spec import read
from deadhead.results import Mean, Study
from deadhead.results.means import means_of, values_by
from deadhead.studies.store.records import Record

RECIPE = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, targets: [en, de, zh], splits: [dev, test]}
axes:
  train: [en, [en, de], zh]
  remove: [none, {lowest: [1, 2]}, {random: 50}]
  data.parts: [1, 10]
  seed: [0, 1]
"""


def outcome(trial, labels):
    """Some trials are left, some failed, some lack a score or were scored by one more metric."""
    number = int(trial.id, 16)
    if number % 11 == 0:
        return None
    if number % 13 == 0:
        return Record(trial=trial, state="failed", error="no luck")
    metrics = {
        f"{language}/{split}/micro_f1": (number >> i) % 997 / 997
        for i, language in enumerate(("en", "de", "zh"))
        for split in ("dev", "test")
    }
    if number % 5 == 0:
        del metrics["de/test/micro_f1"]
    if number % 3 == 0:
        metrics |= {"en/test/macro_f1": 0.25}
    return done(trial, metrics)


SEARCHES = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: a/model, task: pos, targets: [en, de, zh], splits: [dev, test]}
axes:
  - {source: [en, zh], seed: [0, 1]}
  - {source: [en, de], train: [[en, de]], data.target_parts: [1, 5]}
search: {lowest: 1..2, controls: [seeds]}
"""


@pytest.fixture(scope="module")
def searches(tmp_path_factory):
    return Study.open(study(tmp_path_factory.mktemp("searches"), SEARCHES, outcome))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return Study.open(study(tmp_path_factory.mktemp("gathered"), RECIPE, outcome))


def counted(means):
    return {
        key: (mean.by_repetition(), sorted(mean.repeats), {*mean.cells}, mean.state(), mean.lacking)
        for key, mean in means.items()
    }


def put_together(parts):
    together: dict[Any, Mean] = {}
    for means in parts:
        for key, mean in means.items():
            together.setdefault(key, Mean()).extend(mean)
    return together


@pytest.mark.parametrize(
    ("axis", "where", "over"),
    [
        ("language", {}, ()),
        ("train", {"setting": "cross-lingual"}, ("seed",)),
        ("learnt", {"seed": 1, "language": ["de", "zh"]}, ()),
        ("setting", {}, ("language", "seed")),
        ("parts", {"parts": 1}, ("seed",)),
        ("split", {"parts": 1}, ()),
        ("metric", {}, ("seed",)),
    ],
)
def test_means_of_cells_together_are_those_one_by_one(whole, searches, axis, where, over):
    axes = ("remove", axis)
    for all_of_it, of_searches in ((whole, False), (searches, True)):
        for kind, split in (("score", None), ("score", "dev"), ("drop", None)):
            values = values_by(all_of_it.cells, kind)
            together = all_of_it.means(
                axes, where, over, kind=kind, split=split, searches=of_searches
            )
            parts = (
                means_of([cell], axes, where, over, values, split=split, searches=of_searches)
                for cell in all_of_it.cells
            )
            assert counted(together) == counted(put_together(parts))
            assert len(together) > 1


@pytest.mark.parametrize(
    "options",
    [
        {"lines": "language"},
        {"lines": "train", "panels": ["language"]},
        {"group": "word_order", "panels": "train"},
        {"group": "word_order", "lines": "remove", "x": "parts"},
        {"x": "data.parts", "lines": "remove", "where": {"train": "zh"}},
        {"lines": "setting", "where": {"strategy": "lowest"}},
    ],
)
def test_a_curve_gathers_cells_together_as_it_would_one_by_one(whole, options):
    """Of pruned cells: where a line begins (the unpruned model) takes more than one cell to say."""
    pruned = replace(whole, cells=tuple(cell for cell in whole.cells if not cell.unpruned))
    curve = read({"x": "remove"} | options, Curve)
    together = gather_curve(pruned, curve, {})
    parts = (gather_curve(replace(pruned, cells=(cell,)), curve, {}) for cell in pruned.cells)
    assert counted(together) == counted(put_together(parts))
    assert len(together) > 1
