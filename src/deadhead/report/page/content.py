"""All that the page shows of a study, as plain data: `content(folder)`."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from deadhead.report.figures.build import study_figures
from deadhead.report.findings import findings
from deadhead.report.labels import STAGES, metric_words, removal_words, score_words
from deadhead.report.tables.build import study_tables
from deadhead.results import Study
from deadhead.results.cells import Cell
from deadhead.results.records import map_measures
from deadhead.results.study import no_garbage_collection
from deadhead.tasks import METRICS
from deadhead.tasks.metrics import sign

from .heads import heads, maps
from .records import full_records

FORMAT = 1
PRINTED = re.compile(r"(Table|Figure) \d")  # how the title of what a paper prints begins
MOST_JUDGED = 5000  # cells of a study whose recipe names no claims and that is judged anyway
MOST_LANGUAGES = 24  # columns of scores in the list of trials


@no_garbage_collection()
def content(folder: str | Path) -> dict[str, Any]:
    """Everything that the page shows of a study, which may still be running."""
    study = Study.open(folder)
    opened, tables, figures = study.opened, study_tables(study), study_figures(study)
    return {
        "format": FORMAT,
        "name": study.name,
        "about": str(study.recipe.get("about") or ""),
        "recipe": dict(study.recipe),
        "words": {
            "metrics": {name: metric_words(name) for name in METRICS},
            "score": f"mean {score_words(study.metrics)}",
            "up": min(map(sign, study.metrics), default=1),  # -1: lower scores are better
            "measures": {
                name: {"label": measure.label, "legend": measure.legend}
                for name, measure in map_measures().items()
            },
            "stages": STAGES,
        },
        "models": [str(model) for model in study.labels("model") if model is not None],
        "versions": study.versions,
        "data": study.data,
        "progress": study.progress,
        "damaged": study.damage,
        "opened": {"records": len(opened), "of": study.states.total() - study.states["left"]},
        "findings": findings(study, tables),
        "tables": tables,
        "figures": figures,
        **opening(tables, figures),
        "claims": claims(study),
        "layout": study.heads.layout,
        "trials": trials(study),
        "records": full_records(study),
        "maps": maps(study),
        "heads": heads(study),
    }


def opening(
    tables: Sequence[Mapping[str, Any]], figures: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The id of the table or figure that opens the page, and the order of the two kinds below it.

    What the paper prints opens the page. If no title says so, it is the first curve of the recipe,
    else its first figure, else its first table.
    """
    named = [figure for figure in figures if not figure["extra"]]
    printed = [display for display in (*tables, *named) if PRINTED.match(display["title"])]
    curves = [figure for figure in named if figure["kind"] == "curve"]
    first = next(iter((*printed, *curves, *named, *tables)), {"id": ""})
    figures_first = first in printed and first in named
    order = ["figures", "tables"] if figures_first else ["tables", "figures"]
    return {"lead": first["id"], "order": order}


def claims(study: Study) -> list[dict[str, Any]]:
    """Verdicts on the papers' claims; if the recipe names none, only those this study can judge.

    A very large study is judged only if its recipe names claims: readers would wait too long.
    """
    named = any(part.get("claims") for part in study.recipes)
    if len(study.description["cells"]) > MOST_JUDGED and not named:
        return []
    from deadhead.papers.claims import (
        check,  # imports many modules, which a large study can do without
    )

    return [verdict.to_dict() for verdict in check(study) if named or verdict.judged]


def trials(study: Study) -> dict[str, Any]:
    """One row for each trial: its labels, its mean score, its scores by language, its cost."""
    axes = [axis for axis in study.axes if axis not in ("strategy", "amount")]
    languages = study.languages[:MOST_LANGUAGES]
    labels = {str(cell.axes.get("remove")) for cell in study.trials.values()}
    words = {label: removal_words(label) for label in labels}
    rows = [_row(cell, axes, languages, words) for cell in study.trials.values()]
    fields = ["id", "state", *axes, "score", *languages, "seconds", "parameters"]
    return {"fields": fields, "rows": rows}


def _row(
    cell: Cell, axes: list[str], languages: tuple[str, ...], words: Mapping[Any, str]
) -> list[Any]:
    names = cell.names
    main_row, labels = cell.main_row, [(axis, names.get(axis)) for axis in axes]
    by_language = main_row if cell.languages == languages else map(cell.scores.get, languages)
    scored = [score for score in main_row if score is not None]
    return [
        cell.trial,
        cell.state,
        *[words.get(label, label) if axis == "remove" else label for axis, label in labels],
        round(fmean(scored), 2) if scored else None,
        *[None if score is None else round(score, 2) for score in by_language],
        None if cell.seconds is None else round(cell.seconds, 1),
        cell.parameters,
    ]
