"""Verdicts on claims, and the answers that the function of a claim may give.

`judged` is the outcome of a rule (`rule.py`) with the numbers behind it, `missing` says which
evidence is not there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deadhead.results import Measurement, Merged, RankedHeads, Score, Search
from deadhead.results.statistics import spread

from .evidence import Mean

HOLDS, UNSHOWN, FAILS = "holds", "compatible, not shown", "does not hold"
UNTESTED = "not tested here"  # the claim is about other models or tasks
OPEN = "not enough data"
VERDICTS = (HOLDS, UNSHOWN, FAILS, UNTESTED, OPEN)
# How a claim fails on the papers' own tables.
NO, IN_PART, LUCKY = "does not follow", "follows in part", "no more than luck"

MOST_TRIALS = 300  # ids that `to_dict` lists
COLUMNS = ("claim", "statement", "verdict", "margin", "numbers", "how sure")  # of `markdown`
Result = Score | Search | Merged | Measurement | RankedHeads


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim and what the evidence says about it."""

    id: str
    paper: str
    statement: str
    verdict: str  # one of VERDICTS
    margin: float | None  # distance from the border, in units of the claim; negative beyond it
    numbers: str  # the numbers behind it; for OPEN what is missing, for UNTESTED what there is
    strength: str  # how much of it may be chance
    trials: tuple[str, ...] = ()  # ids of the records behind it
    unit: str = ""  # in which the margin is given
    # NO, IN_PART or LUCKY if it fails on the papers' own tables; LUCKY also if luck alone would
    # give a study the same.
    follows: str = ""

    @property
    def judged(self) -> bool:
        """Whether there was enough evidence on the models and tasks of the claim."""
        return self.verdict in (HOLDS, UNSHOWN, FAILS)

    def to_dict(self) -> dict[str, Any]:
        """Plain data with the first trials and their number: a verdict may rest on thousands."""
        return {
            **vars(self),
            "trials": list(self.trials[:MOST_TRIALS]),
            "records": len(self.trials),
        }


@dataclass(frozen=True)
class Outcome:
    """What numbers say about a statement, by one of the rules of `rule.py`."""

    verdict: str  # HOLDS, UNSHOWN or FAILS
    margin: float  # distance from the border, negative beyond it
    basis: str = ""  # the cases and the interval it rests on


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The answer of a claim's function."""

    verdict: str
    numbers: str
    margin: float | None = None
    strength: str = ""
    trials: tuple[str, ...] = ()
    on: tuple[tuple[str, str], ...] = ()  # the models and tasks it rests on
    lucky: bool = False  # whether the best of the same number of equal trials would do it too


def judged(
    outcome: Outcome,
    numbers: str,
    rests_on: Iterable[Result | Mean | Sequence[Result | Mean]] = (),
    strength: str = "",
    lucky: bool = False,
) -> Finding:
    """An outcome with the numbers behind it.

    rests_on: the results that were read, singly or in groups; the strength of means ends with
        their spread.
    lucky: luck alone would give the same.
    """
    used: list[Result | Mean] = []
    for one in rests_on:
        used += one if isinstance(one, Sequence) else [one]
    groups = [one.scores if isinstance(one, Mean) else (one,) for one in used]
    results: list[Result] = [result for group in groups for result in group]
    ids = dict.fromkeys(
        result.trials if isinstance(result, Search | Merged) else (result.trial,)
        for result in results
    )  # targets share them
    trials = dict.fromkeys(trial for group in ids for trial in group if trial)
    failed = {one.trial for one in results if isinstance(one, Score) and one.one_label}
    parts = [outcome.basis, strength]
    if cells := [one for one in used if isinstance(one, Mean)]:
        parts.append(spread_words(cells))
    if failed:
        parts.append(f"{len(failed)} of {len(trials)} trainings failed: one label for everything")
    return Finding(
        verdict=outcome.verdict,
        margin=round(outcome.margin, 4) + 0.0,
        numbers=numbers,
        strength="; ".join(filter(None, parts)),
        trials=tuple(trials),
        on=tuple(dict.fromkeys((result.model, result.task) for result in results)),
        lucky=lucky,
    )


def spread_words(cells: Sequence[Mean]) -> str:
    """How much repeats of one condition differ, in words. Only printed scores have no trial."""
    if not cells[0].scores[0].trial:
        return "as printed: no spread given for a cell"
    repeated = [cell.repeats for cell in cells if len(cell.scores) > 1 and cell.value]
    if not repeated:
        return "one seed: no spread"
    most = max(map(len, repeated))
    return f"up to {most} repeats a cell, sd {spread(repeated):.2f} % of the mean"


def missing(evidence: str) -> Finding:
    """The evidence that would be needed and is not there."""
    return Finding(verdict=OPEN, numbers=f"missing: {evidence}")


def listed(values: Mapping[Any, float], form: str = "{} {:+.2f}") -> str:
    """Numbers with their names, in words."""
    return ", ".join(form.format(name, value) for name, value in values.items())


def markdown(verdicts: Iterable[Verdict]) -> str:
    """A Markdown table with a row for each verdict, in bold where a claim does not hold."""
    rows: list[tuple[str, ...]] = [COLUMNS, ("---",) * len(COLUMNS)]
    for one in verdicts:
        margin = "" if one.margin is None else f"{one.margin:+.3g} {one.unit}"
        word = f"**{one.verdict}**" if one.verdict == FAILS else one.verdict
        word += f": {one.follows}" if one.follows else ""
        texts = (one.id, one.statement, word, margin, one.numbers, one.strength)
        rows.append(tuple(text.replace("|", "\\|") for text in texts))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
