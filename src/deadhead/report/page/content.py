"""All that the page shows of a study, as plain data: `content(folder)`. The page is drawn from this and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from deadhead.report.figures.build import study_figures
from deadhead.report.figures.head_maps import heads, layout, maps
from deadhead.report.findings.build import findings
from deadhead.report.labels import metric_words, removal_words, score_words
from deadhead.report.tables.build import study_tables
from deadhead.results import Study
from deadhead.results.cells import Cell, as_dict, parts_of
from deadhead.results.study import no_garbage_collection
from deadhead.studies.status import seconds
from deadhead.studies.store import folder as place
from deadhead.studies.store.records import MOST_NAMED, Record, damage
from deadhead.tasks import METRICS

from .trial_details import shown

FORMAT = 1
MOST_JUDGED = 5000  # cells of a study that is judged without being asked to
MOST_LANGUAGES = 24  # columns of scores in the list of trials


def content(folder: str | Path) -> dict[str, Any]:
    """Everything about a study that is worth looking at; it may still be running."""
    with no_garbage_collection():
        return _content(folder)


def _content(folder: str | Path) -> dict[str, Any]:
    study = Study.open(folder)
    records = study.records
    made = study_tables(study)
    shape = layout(records)
    return {
        "format": FORMAT,
        "name": study.name,
        "about": str(study.recipe.get("about") or ""),
        "recipe": dict(study.recipe),
        "words": {
            "metrics": {name: metric_words(name) for name in METRICS},
            "score": f"mean {score_words(study.metrics)}",
        },
        "models": [str(model) for model in study.labels("model") if model is not None],
        "versions": _versions(records),
        "data": {name: value for record in records.values() for name, value in record.data.items()},
        "progress": progress(study),
        "damaged": damaged(study),
        "opened": {"records": len(records), "of": len(study.recorded)},
        "findings": findings(study, records, made),
        "tables": made,
        "figures": study_figures(study, records),
        "claims": claims(study),
        "layout": shape,
        "maps": maps(study, records),
        "trials": trials(study),
        "records": shown(study, records),
        "heads": heads(study, records, shape),
    }


def damaged(study: Study) -> list[str]:
    """What is said about records that are damaged: those the index does not vouch for, and those found damaged when opened."""
    names = study.unreadable
    late = f"damaged although the index knows {'it' if len(names) == 1 else 'them'}: {', '.join(names[:MOST_NAMED])}"
    late = f"{len(names)} opened record{' is' if len(names) == 1 else 's are'} {late}; delete {study.home / 'index.jsonl'} and give `deadhead run` again"
    return [text for text in (damage(study.damaged), late if names else "") if text]


def progress(study: Study) -> dict[str, Any]:
    """How far it has come; `running` counts the trials under way."""
    states = Counter({cell.trial: cell.state for cell in study.cells}.values())
    live = place.read_json(study.home / "live.json") if place.is_running(study.home) else None
    running = len(as_dict(as_dict(live).get("running")))
    return {
        "total": states.total(),
        "done": states["done"],
        "failed": states["failed"],
        "left": states["left"],
        "running": running,
    }


def claims(study: Study) -> list[dict[str, Any]]:
    """The verdicts on what the papers claim; where the recipe names no claims, only those this study can judge.

    A very large study is judged only where its recipe names claims: it would take longer than a reader waits.
    """
    named = any(part.get("claims") for part in parts_of(study.recipe))
    if len(study.cells) > MOST_JUDGED and not named:
        return []
    from deadhead.claims import check  # many modules, which a large study does without

    found = [verdict for verdict in check(study) if named or verdict.judged]
    return [verdict.to_dict() for verdict in found]


def _versions(records: Mapping[str, Record]) -> dict[str, str]:
    """What the numbers were made with; several versions stand side by side."""
    found: dict[str, dict[str, None]] = {}
    for record in records.values():
        for name, version in record.versions.items():
            found.setdefault(name, {})[str(version)] = None
    return {name: " / ".join(several) for name, several in found.items()}


def trials(study: Study) -> dict[str, Any]:
    """One row for each trial: what it is, its mean score, its score in each language, and what it cost."""
    axes = [name for name in study.axes if name not in ("strategy", "amount")]
    languages = study.languages[:MOST_LANGUAGES]
    fields = ["id", "state", *axes, "score", *languages, "seconds", "parameters"]
    return {
        "fields": fields,
        "rows": [_row(cell, axes, languages) for cell in study.by_trial.values()],
    }


def _label(name: str, value: Any) -> Any:
    return removal_words(value) if name == "remove" and isinstance(value, str) else value


def _row(cell: Cell, axes: list[str], languages: tuple[str, ...]) -> list[Any]:
    scores = (
        cell.main_row
        if cell.languages == languages
        else [cell.scores.get(language) for language in languages]
    )
    known = [score for score in cell.main_row if score is not None]
    cost = cell.summary.cost if cell.summary else {}
    return [
        cell.trial,
        cell.state,
        *[_label(name, cell.axes.get(name)) for name in axes],
        round(fmean(known), 2) if known else None,
        *[None if score is None else round(score, 2) for score in scores],
        round(seconds(cell.summary), 1) if cell.summary else None,
        cost.get("parameters after", cost.get("parameters")),
    ]
