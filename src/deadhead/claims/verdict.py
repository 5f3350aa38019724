"""What a claim is, and what is said of it.

A claim is a statement and a pure function from evidence to a finding. A finding is made by one of two
words: `judged` (what the numbers show of it, by so much; `shown.py`) or `missing` (what is not there to judge it by).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

from deadhead.results import Measure, Merged, RankedHeads, Score, Search

from .evidence import Evidence

HOLDS, UNSHOWN, FAILS = "holds", "compatible, not shown", "does not hold"  # what was judged
UNTESTED, OPEN = (
    "not tested here",
    "not enough data",
)  # it is about other models or tasks; there is too little of its own
VERDICTS = (HOLDS, UNSHOWN, FAILS, UNTESTED, OPEN)
NO, IN_PART, LUCKY = (
    "does not follow",
    "follows in part",
    "no more than luck",
)  # how a claim fails on the papers' own tables

MOST_TRIALS = 300  # ids that a verdict names as plain data


@dataclass(frozen=True)
class Verdict:
    """A claim and what the evidence says of it."""

    id: str
    paper: str
    statement: str
    verdict: str  # of VERDICTS
    margin: (
        float | None
    )  # how far within the border (below 0: beyond it), in the units of the claim
    numbers: str  # what it rests on; for OPEN, what is missing; for UNTESTED, what it is about and what there is
    strength: str  # how much chance there is in it
    trials: tuple[str, ...] = ()  # ids of the records behind it
    unit: str = ""  # of the margin
    follows: str = ""  # of NO, IN_PART, LUCKY, where it does not hold on the papers' own tables; LUCKY also where a study has it by luck alone

    @property
    def judged(self) -> bool:
        """Whether the evidence is of what the claim is about, and enough to say something of it."""
        return self.verdict in (HOLDS, UNSHOWN, FAILS)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, with the first of its trials and the number of all: a large study has ten thousands behind one verdict."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**told, "trials": list(self.trials[:MOST_TRIALS]), "records": len(self.trials)}


@dataclass(frozen=True)
class Shown:
    """What some numbers say of a statement; made in `shown.py`."""

    verdict: str  # of HOLDS, UNSHOWN, FAILS
    margin: float  # how far within the border (below 0: beyond it)
    how: str = ""  # in words, what makes it uncertain


@dataclass(frozen=True)
class Finding:
    """What the function of a claim found."""

    verdict: str
    margin: float | None
    numbers: str
    strength: str
    trials: tuple[str, ...] = ()
    on: tuple[tuple[str, str], ...] = ()  # the models and tasks it rests on
    lucky: bool = False  # whether the best of as many equally good trials would do it as well


@dataclass(frozen=True)
class Claim:
    """One checkable statement of a paper, in our words."""

    id: str
    paper: str  # the folder of its recipes; "luck" for those no paper makes
    statement: str
    judge: Callable[[Evidence], Finding]
    unit: str = "points"  # what the margin is measured in

    def on(self, evidence: Evidence) -> Verdict:
        found = self.judge(evidence)
        return Verdict(
            self.id,
            self.paper,
            self.statement,
            found.verdict,
            found.margin,
            found.numbers,
            found.strength,
            found.trials,
            self.unit,
            LUCKY
            if found.lucky and found.verdict in (HOLDS, UNSHOWN) and not evidence.printed
            else "",
        )


def judged(
    shown: Shown,
    numbers: str,
    strength: str = "",
    rests_on: Iterable[Score | Search | Merged | Measure | RankedHeads] = (),
    lucky: bool = False,
) -> Finding:
    """What is shown of it. `rests_on`: what was looked at. `lucky`: luck alone would do it as well."""
    looked_at = list(rests_on)
    several = dict.fromkeys(
        one.trials if isinstance(one, Search | Merged) else (one.trial,) for one in looked_at
    )  # targets share them
    trials = dict.fromkeys(trial for some in several for trial in some if trial)
    on = dict.fromkeys((one.model, one.task) for one in looked_at)
    failed = {one.trial for one in looked_at if isinstance(one, Score) and one.one_label}
    parts = [shown.how, strength]
    if failed:
        parts.append(f"{len(failed)} of {len(trials)} trainings failed: one label for everything")
    strength = "; ".join(part for part in parts if part)
    return Finding(
        shown.verdict,
        round(shown.margin, 4) + 0.0,
        numbers,
        strength,
        tuple(trials),
        tuple(on),
        lucky,
    )


def missing(what: str) -> Finding:
    """There is not enough to judge by."""
    return Finding(OPEN, None, f"missing: {what}", "")
