"""Verdicts as a Markdown table, for a page or a paper."""

from __future__ import annotations

from collections.abc import Iterable

from .verdict import FAILS, Verdict

HEADER = ("claim", "statement", "verdict", "margin", "numbers", "how sure")


def markdown(verdicts: Iterable[Verdict]) -> str:
    """One row for each verdict; what does not hold is in bold."""
    rows = [HEADER, ("---",) * len(HEADER), *map(_row, verdicts)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(one: Verdict) -> tuple[str, ...]:
    margin = "" if one.margin is None else f"{one.margin:+.3g} {one.unit}"
    verdict = f"**{one.verdict}**" if one.verdict == FAILS else one.verdict
    verdict += f": {one.follows}" if one.follows else ""
    return tuple(
        text.replace("|", "\\|")
        for text in (one.id, one.statement, verdict, margin, one.numbers, one.strength)
    )
