"""What is lost when heads are drawn out at random: by task, language and share of the heads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from ..analyses import drop
from .evidence import DRAWN, GLUE, Evidence, Fact, Mean, means
from .strength import spread
from .verdict import Finding, judged, missing

NEAR = 2.5  # percent: how far a share of heads may be from the one named
SLACK = 1e-9  # for differences of printed decimals


def final(evidence: Evidence) -> list[Fact]:
    """Scores after all epochs."""
    return [f for f in evidence.facts if f.epoch is None]


def drawn(facts: Iterable[Fact]) -> list[Fact]:
    return [f for f in facts if f.strategy in DRAWN and f.share is not None]


def near(facts: Iterable[Fact], share: float) -> list[Fact]:
    """The facts at a share of heads drawn: those nearest to it, if any is near."""
    found = [f for f in drawn(facts) if abs((f.share or 0) - share) <= NEAR]
    nearest = min((abs((f.share or 0) - share) for f in found), default=0.0)
    return [f for f in found if abs((f.share or 0) - share) <= nearest + SLACK]


def lost(facts: Sequence[Fact], some: Sequence[Fact]) -> dict[tuple[str, str, float], tuple[float, Mean]]:
    """By (task, target, share): how many points the pruned ones of a task and language lost, where the unpruned score is known."""
    full = means([f for f in facts if f.remove == "none"], "task", "target")
    cells = means(some, "task", "target", "share")
    return {key: (full[key[:2]].value - cell.value, cell) for key, cell in cells.items() if key[:2] in full}


def rest(found: dict[tuple[str, str, float], tuple[float, Mean]]) -> list[Fact]:
    return [fact for _, cell in found.values() for fact in cell.facts]


def told(found: dict[tuple[str, str, float], tuple[float, Mean]]) -> str:
    return ", ".join(
        f"{target if cell.facts[0].translated else at(task, target)} {share:g} %: {points:+.2f}"
        for (task, target, share), (points, cell) in found.items()
    )


def at(task: str, target: str) -> str:
    """A task and its language; there is only one for those of GLUE."""
    return task if task in GLUE else f"{task} {target}"


def sharper(evidence: Evidence, bend: float) -> Finding:
    """Whether the mean loss grows faster beyond a share of heads than up to it."""
    facts = final(evidence)
    found = lost(facts, drawn(facts))
    by_share: dict[float, list[float]] = {}
    for (*_, share), (points, cell) in found.items():
        full = points + cell.value
        by_share.setdefault(share, []).append(points if cell.facts[0].translated else drop(full, cell.value))
    most = max((len(values) for values in by_share.values()), default=0)
    curve = {share: fmean(values) for share, values in sorted(by_share.items()) if len(values) == most}
    at = min(curve, key=lambda share: abs(share - bend), default=0.0)
    last = max(curve, default=0.0)
    if abs(at - bend) > 10 or last <= at or at <= 0:
        return missing(f"scores without pruning, near {bend:g} % and beyond")
    before, beyond = 10 * curve[at] / at, 10 * (curve[last] - curve[at]) / (last - at)
    unit = "BLEU" if facts[0].translated else "% of the score"
    numbers = f"loss per tenth of the heads: {before:.2f} {unit} up to {at:g} %, {beyond:.2f} from there to {last:g} %"
    return judged(beyond > before, beyond - before, numbers, spread([c for _, c in found.values()], evidence.printed), rest(found))
