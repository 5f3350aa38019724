"""Draw the figures of a study: those its recipe names, or suggested ones if it names none.

Each is {"id", "title", "note", "kind", "spec", "extra"}; its spec is a vega-lite chart, which the
page draws and `export` writes as SVG, PNG and PDF. Extra figures are those of a recipe that names
only tables: the page shows them last, on request.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deadhead.report.labels import removal_words
from deadhead.report.spec import Figure, specs
from deadhead.report.tables.build import display_id
from deadhead.results import Study

from . import FIGURES


def figures(folder: str | Path) -> list[dict[str, Any]]:
    """Every figure of a study that has something to draw."""
    return study_figures(Study.open(folder))


def study_figures(study: Study) -> list[dict[str, Any]]:
    removals = {str(label): removal_words(str(label)) for label in study.labels("remove")}
    drawn: list[dict[str, Any]] = []
    named = list(specs(study.recipe.get("figures"), FIGURES))
    extra = not named and bool(study.recipe.get("tables"))
    for figure in named or suggested(study):
        chart = figure.draw(study)
        if chart is not None:
            drawn.append(
                {
                    "id": display_id("figure", len(drawn), chart["title"]),
                    "title": chart["title"],
                    "note": figure.note or figure.explanation(chart),
                    "kind": figure.kind,
                    "spec": _with_removal_words(chart, removals),
                    "extra": extra,
                }
            )
    return drawn


def suggested(study: Study) -> list[Figure]:
    """The figures that fit a study whose recipe names none."""
    figures = (entry for kind in FIGURES.values() for entry in kind.suggest(study))
    return [figure for _, figure in sorted(figures, key=lambda entry: entry[0])]


def _with_removal_words(part: Any, removals: Mapping[str, str]) -> Any:
    """A chart with its labels of removals in words, alone or in a comma-separated list."""
    if isinstance(part, dict):
        return {name: _with_removal_words(value, removals) for name, value in part.items()}
    if isinstance(part, list):
        return [_with_removal_words(value, removals) for value in part]
    if isinstance(part, str):
        return ", ".join(removals.get(label, label) for label in part.split(", "))
    return part
