"""What is lost when heads are drawn out at random: by task, language and share of the heads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from deadhead.results import Score
from deadhead.results.statistics import drop

from .cases import all_of_glue, all_of_wmt
from .evidence import DRAWN, GLUE, Evidence, Mean, means
from .rule import ABOUT, above, as_stated, by_repeats, over_repeats
from .strength import FEWEST, spread_words
from .verdict import Finding, judged, missing

NEAR = 2.5  # percent: how far a share of heads may be from the one named
SAMPLED = (
    *DRAWN,
    "per_layer",
    "per_block",
)  # removals that draw at least which heads of a layer or block go
SLACK = 1e-9  # for differences of printed decimals


def final(evidence: Evidence) -> list[Score]:
    """Scores after all epochs."""
    return [f for f in evidence.scores if f.epoch is None]


def drawn(facts: Iterable[Score]) -> list[Score]:
    return [f for f in facts if f.strategy in DRAWN and f.share is not None]


def near(facts: Iterable[Score], share: float) -> list[Score]:
    """The facts at a share of heads drawn: those nearest to it, if any is near."""
    found = [f for f in drawn(facts) if abs((f.share or 0) - share) <= NEAR]
    nearest = min((abs((f.share or 0) - share) for f in found), default=0.0)
    return [f for f in found if abs((f.share or 0) - share) <= nearest + SLACK]


def lost(
    facts: Sequence[Score], some: Sequence[Score]
) -> dict[tuple[str, str, float], tuple[float, Mean]]:
    """By (task, target, share): how many points the pruned ones of a task and language lost, where the unpruned score is known."""
    full = means([f for f in facts if f.remove == "none"], "task", "target")
    cells = means(some, "task", "target", "share")
    return {
        key: (full[key[:2]].value - cell.value, cell)
        for key, cell in cells.items()
        if key[:2] in full
    }


def rest(found: dict[tuple[str, str, float], tuple[float, Mean]]) -> list[Score]:
    return [fact for _, cell in found.values() for fact in cell.scores]


def told(found: dict[tuple[str, str, float], tuple[float, Mean]]) -> str:
    return ", ".join(
        f"{target if cell.scores[0].translated else at(task, target)} {share:g} %: {points:+.2f}"
        for (task, target, share), (points, cell) in found.items()
    )


def at(task: str, target: str) -> str:
    """A task and its language; there is only one for those of GLUE."""
    return task if task in GLUE else f"{task} {target}"


def noise(found: dict[tuple[str, str, float], tuple[float, Mean]]) -> float | None:
    """Half the interval that repeats of the pruned models give the mean loss."""
    return over_repeats([fact.value for fact in cell.scores] for _, cell in found.values())


def each_noise(
    facts: Sequence[Score], found: dict[tuple[str, str, float], tuple[float, Mean]]
) -> list[float | None]:
    """Half the interval that repeats give each of the losses."""
    full = means([f for f in facts if f.remove == "none"], "task", "target")
    return [by_repeats([full[key[:2]].repeats, cell.repeats]) for key, (_, cell) in found.items()]


def scatter(evidence: Evidence, wanted: float) -> Finding:
    """Whether repeated draws of a condition differ as stated: their standard deviation in percent of their mean, over conditions.

    One training scored in many languages is one condition, whose deviation is the mean over them.
    """
    cells = means(
        [f for f in final(evidence) if f.strategy in SAMPLED], "task", "source", "remove", "target"
    )
    conditions: dict[tuple[str, ...], list[Mean]] = {}
    for (*condition, _), cell in cells.items():
        if len(cell.scores) >= FEWEST and cell.value:
            conditions.setdefault(tuple(condition), []).append(cell)
    if len(conditions) < FEWEST:
        return missing("three draws or more of each of three conditions with random heads gone")
    values = [
        fmean(100 * stdev(f.value for f in cell.scores) / cell.value for cell in several)
        for several in conditions.values()
    ]
    numbers = (
        f"sd {fmean(values):.3f} % of the mean over {len(values)} conditions (stated: {wanted:g} %)"
    )
    used = [fact for several in conditions.values() for cell in several for fact in cell.scores]
    return judged(as_stated(values, wanted, ABOUT * wanted), numbers, "", used)


def sharper(evidence: Evidence, bend: float) -> Finding:
    """Whether the mean loss grows faster beyond a share of heads than up to it."""
    facts = final(evidence)
    found = lost(facts, drawn(facts))
    by_share: dict[float, dict[tuple[str, str], float]] = {}
    for (task, target, share), (points, cell) in found.items():
        full = points + cell.value
        by_share.setdefault(share, {})[task, target] = (
            points if cell.scores[0].translated else drop(full, cell.value)
        )
    most = max((len(values) for values in by_share.values()), default=0)
    known = {share: values for share, values in sorted(by_share.items()) if len(values) == most}
    curve = {share: fmean(values.values()) for share, values in known.items()}
    at = min(curve, key=lambda share: abs(share - bend), default=0.0)
    last = max(curve, default=0.0)
    if abs(at - bend) > 10 or last <= at or at <= 0:
        return missing(f"scores without pruning, near {bend:g} % and beyond")
    before, beyond = 10 * curve[at] / at, 10 * (curve[last] - curve[at]) / (last - at)
    unit = "BLEU" if facts[0].translated else "% of the score"
    numbers = f"loss per tenth of the heads: {before:.2f} {unit} up to {at:g} %, {beyond:.2f} from there to {last:g} %"
    places = known[at]
    leads = [
        10 * (known[last][place] - places[place]) / (last - at) - 10 * places[place] / at
        for place in places
    ]
    whole = all_of_wmt(target for _, target in places) or all_of_glue(task for task, _ in places)
    cells = [cell for _, cell in found.values()]
    return judged(
        above(leads, 0.0, whole), numbers, spread_words(cells, evidence.printed), rest(found)
    )
