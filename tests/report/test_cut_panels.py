"""Figures with more panels than are drawn say how many there are."""

import pytest
from by_hand import HEADS, study

from deadhead.report.figures.build import figures
from deadhead.studies.store.records import Record

SHARES = """\
steps: [prune, finetune, measure, evaluate]
fixed: {model: a/model, source: en, splits: dev, task: mnli, measure: [embeddings]}
axes: {remove: {random: [SHARES]}}
figures: [{title: Removed, kind: heads, show: removed, panels: remove}, {title: Points, kind: points}]
"""


def measured(trial, labels):
    points = {"en": [[0.0, 1.0], [1.0, 0.0]], "de": [[2.0, 1.0], [1.0, 2.0]]}
    details = {"measures": {"after": {"embeddings": {"points": points}}}}
    return Record(
        trial=trial,
        state="done",
        removed=HEADS[:1],
        metrics={"en/dev/accuracy": 0.5},
        details=details,
    )


@pytest.mark.parametrize(
    ("shares", "titles", "drawn"),
    [
        (6, ["Removed", "Points"], [6, 6]),
        (13, ["Removed (the first 12 of 13)", "Points (the first 6 of 13)"], [12, 6]),
    ],
)
def test_the_title_counts_panels_that_are_not_drawn(shares, titles, drawn, tmp_path):
    recipe = SHARES.replace("SHARES", ", ".join(str(5 + i) for i in range(shares)))
    charts = figures(study(tmp_path, recipe, measured))
    for figure, title, panels in zip(charts, titles, drawn, strict=True):
        spec = figure["spec"]
        assert figure["title"] == spec["title"] == title
        assert len({row["panel"] for row in spec["data"]["values"]}) == panels
        assert len(spec["facet"]["sort"]) == panels
