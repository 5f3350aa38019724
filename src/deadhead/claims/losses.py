"""What is lost when heads are removed at random: by task, language and share of the heads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from deadhead.results import Score
from deadhead.results.statistics import drop

from .cases import all_of_glue, all_of_wmt
from .evidence import DRAWN, GLUE, Evidence, Mean, means
from .layer_sets import scores_in
from .rule import ABOUT, above, as_stated, by_repeats, over_repeats
from .strength import FEWEST, SLACK, spread_words
from .verdict import Finding, judged, missing

Losses = dict[tuple[str, str, float], tuple[float, Mean]]  # (task, target, share) -> points, cell
NEAR = 2.5  # percent: how far a share of heads may be from the one named
SAMPLED = (*DRAWN, "per_layer", "per_block")  # removals with some random choice of heads


def final(evidence: Evidence) -> list[Score]:
    """Scores after all epochs."""
    return [score for score in evidence.scores if score.epoch is None]


def at_random(scores: Iterable[Score]) -> list[Score]:
    return [score for score in scores if score.strategy in DRAWN and score.share is not None]


def near(scores: Iterable[Score], share: float) -> list[Score]:
    """The scores with a share of heads removed at random: those nearest to it, if any is near."""
    distances = [(abs((score.share or 0) - share), score) for score in at_random(scores)]
    nearest = min((distance for distance, _ in distances), default=0.0)
    return [s for distance, s in distances if distance <= min(nearest + SLACK, NEAR)]


def find_losses(scores: Sequence[Score], pruned: Sequence[Score]) -> Losses:
    """The points that pruned models lose where the unpruned score is known."""
    full = means([score for score in scores if score.remove == "none"], "task", "target")
    cells = means(pruned, "task", "target", "share")
    return {
        key: (full[key[:2]].value - cell.value, cell)
        for key, cell in cells.items()
        if key[:2] in full
    }


def cells_of(losses: Losses) -> list[Mean]:
    return [cell for _, cell in losses.values()]


def points_of(losses: Losses) -> list[float]:
    return [points for points, _ in losses.values()]


def scores_of(losses: Losses) -> list[Score]:
    return scores_in(cells_of(losses))


def loss_list(losses: Losses) -> str:
    return ", ".join(
        f"{target if cell.scores[0].translated else place(task, target)} {share:g} %: {points:+.2f}"
        for (task, target, share), (points, cell) in losses.items()
    )


def place(task: str, target: str) -> str:
    """A task and its language; those of GLUE have only one."""
    return task if task in GLUE else f"{task} {target}"


def noise(losses: Losses) -> float | None:
    """Half the interval that repeats of the pruned models give the mean loss."""
    return over_repeats(cell.repeats for cell in cells_of(losses))


def noise_of_each(scores: Sequence[Score], losses: Losses) -> list[float | None]:
    """Half the interval that repeats give each of the losses."""
    full = means([score for score in scores if score.remove == "none"], "task", "target")
    return [by_repeats([full[key[:2]].repeats, cell.repeats]) for key, (_, cell) in losses.items()]


def spread_of_draws(evidence: Evidence, deviation: float) -> Finding:
    """Whether repeated draws differ as stated: their standard deviation in percent of their mean.

    One training scored in many languages is one condition, with the mean deviation over them.
    """
    sampled = [score for score in final(evidence) if score.strategy in SAMPLED]
    conditions: dict[tuple[str, ...], list[Mean]] = {}
    for (*condition, _), cell in means(sampled, "task", "source", "remove", "target").items():
        if len(cell.scores) >= FEWEST and cell.value:
            conditions.setdefault(tuple(condition), []).append(cell)
    if len(conditions) < FEWEST:
        return missing("three draws or more of each of three conditions with random heads removed")
    values = [
        fmean(100 * stdev(cell.repeats) / cell.value for cell in cells)
        for cells in conditions.values()
    ]
    numbers = (
        f"sd {fmean(values):.3f} % of the mean over {len(values)} conditions "
        f"(stated: {deviation:g} %)"
    )
    outcome = as_stated(values, deviation, ABOUT * deviation)
    return judged(
        outcome, numbers, "", scores_in(c for cells in conditions.values() for c in cells)
    )


def falls_faster(evidence: Evidence, bend: float) -> Finding:
    """Whether the mean loss grows faster beyond a share of heads than up to it."""
    scores = final(evidence)
    losses = find_losses(scores, at_random(scores))
    by_share: dict[float, dict[tuple[str, str], float]] = {}
    for (task, target, share), (points, cell) in losses.items():
        translated = cell.scores[0].translated
        value = points if translated else drop(points + cell.value, cell.value)
        by_share.setdefault(share, {})[task, target] = value
    most = max((len(values) for values in by_share.values()), default=0)
    known = {share: values for share, values in sorted(by_share.items()) if len(values) == most}
    curve = {share: fmean(values.values()) for share, values in known.items()}
    at = min(curve, key=lambda share: abs(share - bend), default=0.0)
    last = max(curve, default=0.0)
    if abs(at - bend) > 10 or last <= at or at <= 0:
        return missing(f"scores without pruning, near {bend:g} % and beyond")
    before, beyond = 10 * curve[at] / at, 10 * (curve[last] - curve[at]) / (last - at)
    unit = "BLEU" if scores[0].translated else "% of the score"
    numbers = (
        f"loss per tenth of the heads: {before:.2f} {unit} up to {at:g} %, "
        f"{beyond:.2f} from there to {last:g} %"
    )
    places = known[at]
    leads = [
        10 * (known[last][where] - places[where]) / (last - at) - 10 * places[where] / at
        for where in places
    ]
    whole = all_of_wmt(target for _, target in places) or all_of_glue(task for task, _ in places)
    strength = spread_words(cells_of(losses), evidence.printed)
    return judged(above(leads, 0.0, whole), numbers, strength, scores_of(losses))
