"""Curves of searches: a line for each arm, over k or over another axis."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

from deadhead.report.labels import joined, score_axis
from deadhead.report.spec import Chart
from deadhead.report.tables.pairs import best, pair_label, selected
from deadhead.results import Mean, Study
from deadhead.results.searches import ARMS

from .charts import Datum, curves
from .curve_chart import PARTS, CurveOptions, Points, curve_chart, number_or_label, panels_in_order

ARM_WORDS = {
    "full": "unpruned",
    "seeds": "other seeds, best of k",
    **{arm: f"{arm}, best of k" for arm in ("lowest", "random", "highest")},
}
SEEDS = "unpruned seeds"
LINES = ("lowest", "random", "highest", "unpruned", SEEDS)


def search_curve(study: Study, spec: CurveOptions) -> Chart | None:
    """Score or gain against k, a line for each arm; unpruned seeds, which have no k, are a band."""
    axes = (*spec.panels, "learnt", "language", "arm", "k")
    means = spec.means(study, axes, spec.where, spec.mean_over, kind=spec.value, searches=True)
    points: Points = {}
    for key, mean in means.items():
        if mean.numbers:
            labels = dict(zip(axes, key, strict=True))
            panel = panel_of(labels, spec.panels)
            its_points = points.setdefault((panel, labels["arm"], float(labels["k"] or 0)), Mean())
            its_points.extend(mean)
    if not points:
        return None
    drawn = sorted(_rows(points), key=lambda row: row["x"])
    lines = {row["line"] for row in drawn}
    score = score_axis(spec.metrics(study))
    return curves(
        drawn,
        spec.heading,
        x="heads removed (k)",
        y=f"gain in {score}" if spec.value == "gain" else score,
        lines=[line for line in LINES if line in lines],
        panels=panels_in_order(study, spec, drawn),
        line="arm",
        band=("worst seed", "best seed"),
        grey=(SEEDS,),
    )


def panel_of(all_labels: Mapping[str, Any], axes: tuple[str, ...]) -> str:
    """The panel of a score. A trial that names no languages to train on learns its source."""
    labels = {axis: all_labels[axis] for axis in axes}
    if "train" not in labels:
        return joined(*labels.values())
    learnt, language = all_labels["learnt"], all_labels["language"]
    labels["train"] = learnt
    if {"language", "target"} & {*labels}:  # from the languages it learns to the scored language
        in_arrow = ("source", "train", "language", "target")
        others = [label for axis, label in labels.items() if axis not in in_arrow]
        return joined(*others, f"{learnt} \u2192 {language}")
    if labels.get("source") == learnt:
        del labels["source"]
    return joined(*labels.values())


def _rows(points: Points) -> Iterator[Datum]:
    for (panel, arm, k), mean in points.items():
        if arm == "seeds":
            continue
        numbers = mean.repeats
        point = {"y": round(fmean(numbers), 3), "panel": panel, "n": len(numbers)}
        if arm == "full":  # every line of the panel starts at the unpruned model
            arms = {other for its_panel, other, _ in points if its_panel == panel} - {
                "seeds",
                "full",
            }
            yield from ({"x": 0.0, "line": other, **point} for other in sorted(arms))
        else:
            yield {"x": k, "line": arm, **point}
    most = max(k for _, _, k in points)
    for panel, by_search in _unpruned(points).items():
        # From the worst to the best unpruned trial of a search, averaged over searches: differences
        # between searches are not luck.
        repeated = [scores for scores in by_search.values() if len(scores) > 1]
        if repeated:
            low, middle, high = (fmean(map(of, repeated)) for of in (min, fmean, max))
            band: Datum = {"y": round(middle, 3), "low": round(low, 3), "high": round(high, 3)}
            band |= {"line": SEEDS, "panel": panel, "n": sum(map(len, repeated))}
            yield from ({"x": x, **band} for x in (0.0, most))


def _unpruned(points: Points) -> dict[Any, dict[Any, list[float]]]:
    """The scores of the unpruned trials of each search, by panel."""
    panels: dict[Any, dict[Any, list[float]]] = {}
    for (panel, arm, _), mean in points.items():
        if arm not in ("seeds", "full"):
            continue
        for search, scores in mean.by_repetition().items():
            by_trial: dict[str, list[float]] = {}
            for (trial, _), score in scores.items():
                by_trial.setdefault(trial, []).append(score)
            by_search = panels.setdefault(panel, {})
            by_search.setdefault(search, []).extend(map(fmean, by_trial.values()))
    return panels


def best_curve(study: Study, spec: CurveOptions) -> Chart | None:
    """Arms over another axis, such as the size of the training set: the best of each arm."""
    points: Points = {}
    for pair in selected(study.searches, spec.where):
        label = pair.parts if spec.x in PARTS else pair_label(pair, spec.x)
        x = number_or_label(spec.x, label)
        panel = joined(*(pair_label(pair, axis) for axis in spec.panels))
        for arm in ARMS:
            if (score := best(arm)(pair)) is not None:
                mean = points.setdefault((panel, arm, x), Mean())
                mean.put(pair.group, str(pair.group), pair.target, score)
    return curve_chart(study, replace(spec, lines=""), points, ARM_WORDS) if points else None
