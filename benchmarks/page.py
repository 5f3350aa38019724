"""Tables of a benchmark in a page of the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deadhead.errors import DeadheadError

END = "<!-- end -->"


def markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (titles, ["---", *["---:"] * (len(titles) - 1)], *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fill(page: Path, script: str, parts: Sequence[str]) -> None:
    """Put the parts between the marks that name the script, and leave the rest of the page."""
    start = f"<!-- made by benchmarks/{script} -->"
    try:
        before, _, rest = page.read_text(encoding="utf-8").partition(start)
    except OSError as problem:
        hint = f"create it, with {start} and {END} in it"
        raise DeadheadError(f"{page} cannot be read: {problem.strerror}.", hint) from None
    if END not in rest:
        hint = f"write {start} and, lines below it, {END}"
        raise DeadheadError(f"{page} has no place for the tables.", hint)
    text = "\n\n".join([start, *parts, END])
    page.write_text(f"{before}{text}{rest.partition(END)[2]}", encoding="utf-8")
