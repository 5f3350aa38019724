"""Verdicts as a Markdown table, for a page or a paper."""

from __future__ import annotations

from collections.abc import Iterable

from .verdict import FAILS, Verdict

HEADER = ("claim", "statement", "verdict", "margin", "numbers", "how sure")


def markdown(verdicts: Iterable[Verdict]) -> str:
    """One row for each verdict, in bold where a claim does not hold."""
    rows = [HEADER, ("---",) * len(HEADER), *map(_row, verdicts)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(verdict: Verdict) -> tuple[str, ...]:
    margin = "" if verdict.margin is None else f"{verdict.margin:+.3g} {verdict.unit}"
    word = f"**{verdict.verdict}**" if verdict.verdict == FAILS else verdict.verdict
    word += f": {verdict.follows}" if verdict.follows else ""
    cells = (verdict.id, verdict.statement, word, margin, verdict.numbers, verdict.strength)
    return tuple(text.replace("|", "\\|") for text in cells)
