"""Figures of the analyses: top against bottom layers, recovery after one epoch, means of layers, and what gains go with.

The numbers are those of `deadhead.results.statistics`; what is drawn here is what its functions that end in `_rows` give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from statistics import fmean
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.report.tables.values import scores_of
from deadhead.results import Search, Study
from deadhead.results.cells import as_dict, matches
from deadhead.results.from_record import ranking_of
from deadhead.results.statistics import (
    LayerDifference,
    bottom_minus_top,
    correlation_rows,
    group_means,
    layer_difference_rows,
    layer_rows,
    recovery,
    recovery_rows,
    similarity,
    spearman,
)
from deadhead.studies.store.records import Record
from deadhead.tasks.distances import distances

from .charts import COLOURS, Row, Spec, categories, curves, field, panelled, tip, whole
from .curves import place
from .heads import chosen, maps_of

ENDS = ("top", "bottom")
DISTANCE = "syntactic"  # of URIEL's
FEWEST_HEADS = 3  # that two rankings must share to be compared
FEWEST = 3  # pairs of languages for a picture of them


def ends_figure(study: Study, asked: Mapping[str, Any]) -> Spec | None:
    """How much more is lost without the k bottom layers than without the k top ones: a line for each language or class of them."""
    scores_in, where = scores_of(asked), as_dict(asked.get("where"))
    held: dict[
        str, dict[str, dict[float, dict[str, float]]]
    ] = {}  # language -> top, bottom or nothing -> layers gone -> trial -> score
    for cell in study.cells:
        end, k = place(cell)
        if end not in ("", *ENDS) or not isinstance(k, float):
            continue
        for language, value in zip(cell.languages, scores_in(cell, None, None), strict=True):
            if value is not None and matches(cell, language, where):
                held.setdefault(language, {}).setdefault(end, {}).setdefault(k, {})[cell.trial] = (
                    value
                )
    found = {language: one for language, scores in held.items() if (one := _d(scores))}
    group = str(asked.get("group") or "")
    rows = layer_difference_rows(_classes(found, group) if group else found)
    if not rows:
        return None
    values = [
        {"x": row["k"], "y": round(row["difference"], 4), "line": row["line"], "panel": "", "n": 1}
        for row in rows
    ]
    lines = list(dict.fromkeys(row["line"] for row in rows))
    title, y = (
        str(asked.get("title") or "Bottom against top layers"),
        "drop without bottom - without top, %",
    )
    return curves(
        values,
        title,
        x="layers pruned",
        y=y,
        numbers=True,
        order=(),
        lines=lines,
        panels=[""],
        line=group.replace("_", " "),
    )


def _d(scores: Mapping[str, Mapping[float, Mapping[str, float]]]) -> LayerDifference | None:
    full = [value for several in scores.get("", {}).values() for value in several.values()]
    top, bottom = (
        {k: list(several.values()) for k, several in scores.get(end, {}).items()} for end in ENDS
    )
    return (
        bottom_minus_top(full, top, bottom)
        if full and fmean(full) and top.keys() & bottom.keys()
        else None
    )


def _classes(found: Mapping[str, LayerDifference], group: str) -> dict[str, LayerDifference]:
    """The mean of each class of languages at every number of layers."""
    by_class: dict[str, dict[float, float]] = {}
    for k in sorted({k for one in found.values() for k in one.by_k}):
        means = group_means(
            {language: one.by_k[k] for language, one in found.items() if k in one.by_k}, group
        )
        for name, value in means.items():
            by_class.setdefault(name, {})[k] = value
    return {name: LayerDifference(by_k, fmean(by_k.values())) for name, by_k in by_class.items()}


def recovery_figure(study: Study, asked: Mapping[str, Any]) -> Spec | None:
    """Bars: what share of the final score each language has after one epoch, the mean over trials."""
    where = as_dict(asked.get("where"))
    both: dict[str, list[tuple[float, float]]] = {}
    for cell in {cell.trial: cell for cell in study.cells if not cell.unpruned}.values():
        for language, first, final in zip(
            cell.languages, cell.row(split=f"{cell.split}@1"), cell.main_row, strict=True
        ):
            if first is not None and final and matches(cell, language, where):
                both.setdefault(language, []).append((first, final))
    if not both:
        return None
    means = [
        {language: fmean(pair[at] for pair in several) for language, several in both.items()}
        for at in (0, 1)
    ]
    shares = {
        language: 100 * recovery(*zip(*several, strict=True)) for language, several in both.items()
    }
    rows = [
        {**row, "share": round(shares[row["language"]], 2), "n": len(both[row["language"]])}
        for row in recovery_rows(*means)
    ]
    form, tips = ".1f", [tip("language", "N", "language"), tip("n", "Q", "trials")]
    encoding = {
        "x": field("language", "N", "", sort=list(both), axis={"labelAngle": 0}),
        "y": field("share", "Q", "% of the final score after one epoch"),
        "tooltip": [
            *tips,
            tip("share", "Q", "share, %", form),
            tip("first", "Q", "after one epoch", form),
            tip("final", "Q", "final", form),
        ],
    }
    bars = {"mark": {"type": "bar", "color": COLOURS[0]}, "encoding": encoding}
    return whole(
        panelled(bars, [], 460, 260), rows, str(asked.get("title") or "Recovery after one epoch")
    )


def layers_figure(
    study: Study, records: Mapping[str, Record], asked: Mapping[str, Any]
) -> Spec | None:
    """Means over the heads of each layer, of what a map of heads would show; a line for each label of an axis."""
    found: dict[tuple[str, str, int], list[float]] = {}
    show = str(asked.get("show") or "weights")
    for cell, record in chosen(study, records, asked):
        for line, scores in maps_of(study, cell, record, show, asked.get("lines")):
            for row in layer_rows(
                {head: value for head, value in scores.items() if value is not None}
            ):
                found.setdefault((row["block"], line, row["layer"]), []).append(row["value"])
    values: list[Row] = [
        {"x": layer, "y": fmean(several), "line": line, "panel": block, "n": len(several)}
        for (block, line, layer), several in found.items()
    ]
    if not values:
        return None
    lines, panels = (list(dict.fromkeys(row[name] for row in values)) for name in ("line", "panel"))
    title = str(asked.get("title") or f"Layers: {show}")
    return curves(
        values,
        title,
        x="layer",
        y=show.replace("_", " "),
        numbers=True,
        order=(),
        lines=lines,
        panels=panels,
        line="",
        form=".4~g",
    )


def gains_figure(
    study: Study, records: Mapping[str, Record], asked: Mapping[str, Any]
) -> Spec | None:
    """What pruning gains between two languages against their distance, and against how alike their heads are ranked."""
    where = as_dict(asked.get("where"))
    rankings: dict[tuple[Any, Any], dict[str, Mapping[str, float]]] = {}
    for _, record in chosen(study, records, {}):
        ranking = ranking_of(record)
        if ranking is not None and len(ranking.languages) == 1:
            key = (ranking.model, ranking.task)
            rankings.setdefault(key, {})[ranking.language] = ranking.scores
    panels: dict[str, list[Row]] = {}
    several = {
        name
        for name in ("model", "task")
        if len({getattr(pair, name) for pair in study.searches}) > 1
    }
    for what, x in (("URIEL distance", _apart), ("likeness of rankings", _alike)):
        for pair in study.searches:
            if pair.lowest is None or pair.source == pair.target or not _matches(pair, where):
                continue
            at = x(pair, rankings.get((pair.model, pair.task), {}))
            if at is not None and isfinite(at):
                panel = ", ".join(
                    [
                        what,
                        pair.setting,
                        *(
                            str(getattr(pair, name))
                            for name in ("task", "model")
                            if name in several
                        ),
                    ]
                )
                row = {
                    "x": round(at, 4),
                    "y": round(_gain(pair), 3),
                    "pair": f"{pair.source} to {pair.target}",
                    "group": pair.source,
                }
                panels.setdefault(panel, []).append(row)
    values = [
        {**row, "panel": f"{name}: {_told(rows)}"}
        for name, rows in panels.items()
        if len(rows) >= FEWEST
        for row in rows
    ]
    return _scattered(values, str(asked.get("title") or "What gains go with")) if values else None


def _matches(pair: Search, where: Mapping[str, Any]) -> bool:
    return all(
        getattr(pair, name, None) in (wanted if isinstance(wanted, list) else [wanted])
        for name, wanted in where.items()
    )


def _gain(pair: Search) -> float:
    return pair.lowest.gain if pair.lowest else 0.0


def _apart(pair: Search, rankings: Mapping[str, Mapping[str, float]]) -> float | None:
    try:
        return distances(pair.source, pair.target, [DISTANCE])[DISTANCE]
    except DeadheadError:  # unknown to URIEL, or its package is not there
        return None


def _alike(pair: Search, rankings: Mapping[str, Mapping[str, float]]) -> float | None:
    both = {name: rankings[name] for name in (pair.source, pair.target) if name in rankings}
    if len(both) < 2 or len(both[pair.source].keys() & both[pair.target].keys()) < FEWEST_HEADS:
        return None
    return similarity(both)[pair.source, pair.target].rho


def _told(panel: Sequence[Row]) -> str:
    (row,) = correlation_rows(
        {"": spearman([one["x"] for one in panel], [one["y"] for one in panel])}
    )
    return f"rho {row['rho']:+.2f}, p {row['p']:.2g}, n {row['n']}"


def _scattered(values: Sequence[Row], title: str) -> Spec:
    groups, panels = (
        list(dict.fromkeys(row[name] for row in values)) for name in ("group", "panel")
    )
    encoding = {
        "x": field("x", "Q", panels[0] if len(panels) == 1 else "", scale={"zero": False}),
        "y": field("y", "Q", "gain, points"),
        "color": field("group", "N", "source", scale=categories(groups)),
        "tooltip": [
            tip("pair", "N", "pair"),
            tip("x", "Q", "x", ".3f"),
            tip("y", "Q", "gain", ".2f"),
        ],
    }
    spec = panelled(
        {"mark": {"type": "point", "filled": True, "size": 46}, "encoding": encoding},
        panels,
        460,
        300,
    )
    return whole(
        {**spec, **({"resolve": {"scale": {"x": "independent"}}} if len(panels) > 1 else {})},
        values,
        title,
    )


def fitting(study: Study) -> Iterator[dict[str, Any]]:
    """Those of a study whose recipe names no figures."""
    if any(
        cell.summary is not None and "@1/" in " ".join(cell.summary.metrics) for cell in study.cells
    ):
        yield {"kind": "recovery", "title": "Recovery after one epoch"}
