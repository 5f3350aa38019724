"""The figures of a study: those its recipe names, or, where it names none, those its records have something for.

Each is {"id", "title", "note", "kind", "spec"}, and its spec is plain vega-lite: the page draws it, `export`
makes SVG, PNG and PDF of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deadhead.report.labels import counted_as, removal_words
from deadhead.report.tables.build import id_of, titled
from deadhead.report.tables.grid import alike, whose
from deadhead.results import Study
from deadhead.results.cells import CHANCE
from deadhead.results.from_record import by_stage, ranking_of
from deadhead.studies.store.records import Record

from .analyses import ends_figure, fitting, gains_figure, layers_figure, recovery_figure
from .charts import Spec
from .cost import cost_figure
from .curves import class_of, curve, place
from .heads import heads_figure, points_figure, similarity_figure
from .learning import epochs_figure

Records = Mapping[str, Record]
KINDS: Mapping[str, Callable[[Study, Records, Mapping[str, Any]], Spec | None]] = {
    "curve": curve,
    "heads": heads_figure,
    "similarity": similarity_figure,
    "points": points_figure,
    "cost": lambda study, records, asked: cost_figure(study, asked),
    "epochs": epochs_figure,
    "ends": lambda study, records, asked: ends_figure(study, asked),
    "recovery": lambda study, records, asked: recovery_figure(study, asked),
    "layers": layers_figure,
    "gains": gains_figure,
}
MOST_LINES = 8


def figures(folder: str | Path) -> list[dict[str, Any]]:
    """Every figure of a study for which there is something to draw."""
    study = Study.open(folder)
    return study_figures(study, study.records)


def study_figures(study: Study, records: Records) -> list[dict[str, Any]]:
    given = study.recipe.get("figures")
    asked = (
        [one for one in given if isinstance(one, dict) and one.get("kind") in KINDS]
        if isinstance(given, list)
        else []
    )
    found, removals = [], {str(one): removal_words(str(one)) for one in study.labels("remove")}
    for one in asked or default_figures(study, records):
        spec = KINDS[one["kind"]](study, records, titled(study, one))
        if spec is not None:
            note = " ".join(
                filter(None, [str(one.get("note") or _note(one, spec)), _theirs(study, spec)])
            )
            found.append(
                {
                    "title": spec["title"],
                    "note": note,
                    "kind": one["kind"],
                    "spec": _in_words(spec, removals),
                }
            )
    return [{"id": id_of("figure", i, one["title"]), **one} for i, one in enumerate(found)]


def _in_words(spec: Any, removals: Mapping[str, str]) -> Any:
    """A specification with its labels of removals as a reader takes them, alone or between commas."""
    if isinstance(spec, dict):
        return {name: _in_words(value, removals) for name, value in spec.items()}
    if isinstance(spec, list):
        return [_in_words(value, removals) for value in spec]
    return (
        ", ".join(removals.get(part, part) for part in spec.split(", "))
        if isinstance(spec, str)
        else spec
    )


def _theirs(study: Study, spec: Spec) -> str:
    """Whose the published numbers of a figure are, where they are not of the model studied."""
    if not _has_published(spec):
        return ""
    return whose(study, next(iter(study.published.values()), []))


def _has_published(spec: Spec) -> bool:
    return any("published" in row for row in spec["data"]["values"])


def _behind(spec: Spec) -> bool:
    return any("data" in layer for layer in spec.get("spec", {}).get("layer", ()))


def _note(asked: Mapping[str, Any], spec: Spec) -> str:
    """How to read a figure."""
    if asked["kind"] == "curve" and asked.get("x") in ("k", None):
        return ""
    return {
        "curve": "Points are means, bands one standard deviation over repetitions"
        + ("; the other lines in grey" if _behind(spec) else "")
        + (", hollow points published numbers." if _has_published(spec) else ".")
        + (
            " Removals of the same percent are one point."
            if any("removals" in row for row in spec["data"]["values"])
            else ""
        ),
        "epochs": "Loss on the training set after each epoch of the last training; bands one standard deviation over trials.",
        "ends": "Above 0 where the bottom layers matter more; the mean of the languages of a class.",
        "recovery": "The mean over trials of the score after one epoch, in % of the final score.",
        "layers": "Means over the heads of a layer that are left.",
        "gains": "A point for each pair of languages and search; the gain is that of the best pruning by test score. rho is Spearman's.",
        "similarity": "1: the same order of heads; 0: no relation.",
        "points": "t-SNE of sentence embeddings; distances between far points mean little, the silhouette is of the space itself.",
        "cost": "Dashed: the points that no other beats in both. deadhead bench measures latency.",
    }.get(str(asked["kind"]), "")


def default_figures(study: Study, records: Records) -> Iterator[dict[str, Any]]:
    """What fits a study whose recipe names no figures."""
    yield from _curves(study)
    rankings = {
        ranking.languages
        for record in records.values()
        if (ranking := ranking_of(record)) is not None
    }
    if rankings:
        yield {"kind": "heads", "title": "Ranking of heads", "show": "ranking"}
    if len({one for one in rankings if len(one) == 1}) > 1:
        yield {
            "kind": "similarity",
            "title": "How alike the rankings of languages are",
            "panels": _either(study, "task", "model"),
        }
    held = {
        name
        for record in records.values()
        for measure in by_stage(record).values()
        for name in measure
    }
    if "entropy" in held:
        yield {"kind": "heads", "title": "Attention entropy", "show": "entropy"}
    if "weights" in held:
        yield {"kind": "heads", "title": "Change of weights by training", "show": "weights"}
    if any(record.removed for record in records.values()):
        yield {
            "kind": "heads",
            "title": "Heads removed, share of trials",
            "show": "removed",
            "panels": _few(study, "remove", 9),
        }
    if "embeddings" in held:
        yield {"kind": "points", "title": "Sentences by language"}
    yield from fitting(study)
    yield {"kind": "epochs", "title": "Learning curves"}
    yield {"kind": "cost", "title": "Cost against score"}


def _curves(study: Study) -> Iterator[dict[str, Any]]:
    if any("arm" in cell.axes for cell in study.cells):
        apart: list[str] = [name for name in ("model", "task", "source") if name in study.axes]
        if len({cell.train for cell in study.cells}) > len(study.labels("source")):
            apart.append("train")
        pairs = {(*(cell.axes.get(name) for name in apart), cell.train) for cell in study.cells}
        names = [*apart, "language"] if len(pairs) * len(study.languages) <= 12 else apart
        yield {
            "kind": "curve",
            "title": "Score by heads removed, for each arm",
            "x": "k",
            "panels": names,
        }
        return
    yield from _by_removal(study)
    lines, panels = _lines_and_panels(study)
    for name in ("data.target_parts", "data.parts"):
        if name in study.axes:
            yield {
                "kind": "curve",
                "title": "Score by size of the training set",
                "x": name,
                "lines": "remove",
                "panels": panels or lines,
            }


def _by_removal(study: Study) -> Iterator[dict[str, Any]]:
    """A curve for each way to count what is removed: percent, heads and layers cannot share an axis."""
    lines, panels = _lines_and_panels(study)
    counted: dict[
        str, dict[str, set[Any]]
    ] = {}  # what is counted -> strategy -> where its removals stand
    for cell, *_ in alike(study.cells, ("remove", "strategy", "amount")):
        if not cell.unpruned:
            strategy = str(cell.axes.get("strategy"))
            counted.setdefault(counted_as(strategy), {}).setdefault(strategy, set()).add(
                place(cell)
            )
    ordered = (
        len({class_of(language, "word_order") for language in study.languages} - {""}) > 1
        and len(study.languages) > 3
    )
    for what, strategies in counted.items():
        places = set().union(*strategies.values())
        if len({at for _, at in places}) < 2:
            continue
        named = (
            {"lines": lines, "panels": panels}
            if len({line for line, _ in places}) < 2
            else {"panels": panels or lines}
        )
        where = {"where": {"strategy": list(strategies)}} if len(counted) > 1 else {}
        yield {"kind": "curve", "title": f"Score by {what}", "x": "remove", **named, **where}
        if ordered and any(cell.unpruned for cell in study.cells):
            asked = {
                "x": "remove",
                "value": "drop",
                "group": "word_order",
                "panels": None if panels == "language" else panels,
                **where,
            }
            yield {"kind": "curve", "title": f"Drop by {what} and word order", **asked}


def _lines_and_panels(study: Study) -> tuple[str | None, str | None]:
    """Languages are lines where they are few, else tasks are; what is left makes panels."""
    by = [name for name in ("task", "model", "source") if name in study.axes and name not in CHANCE]
    if 1 < len(study.languages) <= MOST_LINES:
        return "language", by[0] if by else None
    if len(study.languages) > MOST_LINES:
        return (by[0] if by else None), "language" if len(study.languages) <= 12 else None
    return (by[0] if by else None), by[1] if len(by) > 1 else None


def _either(study: Study, *names: str) -> str | None:
    return next((name for name in names if name in study.axes), None)


def _few(study: Study, name: str, most: int) -> str | None:
    return name if name in study.axes and len(study.labels(name)) <= most else None
