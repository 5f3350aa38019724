"""Cells that are alike are placed together, and that changes nothing: each of them placed by itself gives the same means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from by_hand import done, study

from deadhead.report.figures.curve import Curve
from deadhead.report.figures.curve_means import gather_curve
from deadhead.report.spec import read
from deadhead.report.tables.grid import Layout
from deadhead.report.tables.pairs import by_target
from deadhead.report.tables.scores import Scores
from deadhead.results import Mean, Study
from deadhead.results.cells import is_target, matches
from deadhead.results.means import gathered
from deadhead.studies.store.records import Record
from deadhead.studies.trial import Trial

RECIPE = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, targets: [en, de, zh], splits: [dev, test]}
axes:
  train: [en, [en, de], zh]
  remove: [none, {lowest: [1, 2]}, {random: 50}]
  data.parts: [1, 10]
  seed: [0, 1]
"""


def outcome(trial: Trial, labels: Mapping[str, Any]) -> Record | None:
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


def counted(means: Mapping[Any, Mean]) -> dict[Any, Any]:
    return {
        key: (mean.by_repetition(), sorted(mean.repeats), {*mean.cells}, mean.state(), mean.lacking)
        for key, mean in means.items()
    }


def one_by_one(whole: Study, gather) -> dict[Any, Mean]:
    """The means of studies of a single cell each, put together."""
    results: dict[Any, Mean] = {}
    for cell in whole.cells:
        for key, mean in gather(replace(whole, cells=(cell,))).items():
            records = results.setdefault(key, Mean())
            for name in ("values", "trials", "languages", "repetition_of"):
                getattr(records, name).extend(getattr(mean, name))
            records.cells |= mean.cells
            records.lacking += mean.lacking
    return results


@pytest.mark.parametrize("over", [(), ("seed",), ("language", "seed")])
@pytest.mark.parametrize(
    "where", [{}, {"setting": "cross-lingual"}, {"seed": 1, "language": ["de", "zh"]}, {"parts": 1}]
)
@pytest.mark.parametrize(
    "axes", ["remove", "language", "train", "setting", "parts", "split", "metric"]
)
def test_a_table_gathers_cells_together_as_it_would_one_by_one(whole, axes, where, over):
    layout = Layout(("remove",), (axes,) if axes != "remove" else (), where, over)
    for table, kind in ((Scores(), "score"), (Scores(split="dev"), "score"), (Scores(), "drop")):
        values = table.values(whole, kind)

        def gather(part, values=values):
            return gathered(part.cells, layout.axes, values, where, over)

        together = gather(whole)
        assert counted(together) == counted(one_by_one(whole, gather))
        assert len(together) > 1


@pytest.mark.parametrize(
    "where", [{}, {"setting": "cross-lingual"}, {"seed": 1}, {"language": ["de", "zh"], "parts": 1}]
)
@pytest.mark.parametrize(
    "axes", [("source",), ("language", "train"), ("setting",), ("parts", "source"), ("seed",)]
)
def test_trials_of_searches_are_placed_as_each_would_be_by_itself(searches, axes, where):
    groups = list(by_target(searches.cells, axes, where))
    for group, languages in groups:
        for cell in group:
            source, train = str(cell.axes["source"]), "+".join(cell.train)
            assert languages == [
                language
                for language in cell.languages
                if is_target(source, train, language) and matches(cell, language, where)
            ]
            labels = {tuple(cell.axis(name, language) for name in axes) for language in languages}
            assert labels == {tuple(group[0].axis(a, name) for a in axes) for name in languages}
    assert sum(len(group) for group, _ in groups) == len(searches.cells)
    assert 1 < len(groups) < len(searches.cells)
    assert any(languages for _, languages in groups)


@pytest.mark.parametrize(
    "options",
    [
        {"lines": "language"},
        {"lines": "train", "panels": ["language"]},
        {"panels": "setting", "mean_over": ["seed"]},
        {"group": "word_order", "panels": "train"},
        {"group": "word_order", "lines": "remove", "x": "parts"},
        {"x": "data.parts", "lines": "remove", "where": {"train": "zh"}},
        {"lines": "setting", "where": {"strategy": "lowest"}},
        {"x": "data.parts"},
        {"x": "amount", "lines": "train"},
    ],
)
def test_a_curve_gathers_cells_together_as_it_would_one_by_one(whole, options):
    """Of pruned cells: where a line begins, with the unpruned model, takes more than one cell to say."""
    pruned = replace(whole, cells=tuple(cell for cell in whole.cells if not cell.unpruned))
    curve = read({"x": "remove"} | options, Curve)
    together = gather_curve(pruned, curve, {})
    assert counted(together) == counted(
        one_by_one(pruned, lambda part: gather_curve(part, curve, {}))
    )
    assert len(together) > 1
