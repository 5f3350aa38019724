"""Tables and figures of a benchmark for the documentation, and how its scripts end."""

from __future__ import annotations

import csv
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deadhead.errors import DeadheadError

END = "<!-- end -->"


def markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (titles, ["---", *["---:"] * (len(titles) - 1)], *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cells(text: str) -> list[list[str]]:
    """Return the titles and the rows of the one Markdown table in the text."""
    lines = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [lines[0], *lines[2:]]


def write_csv(file: Path, tables: Sequence[tuple[dict[str, str], str]]) -> None:
    """Write Markdown tables below each other, with columns for the labels of each table."""
    rows = []
    for labels, text in tables:
        titles, *lines = cells(text)
        rows += [{**labels, **dict(zip(titles, line, strict=True))} for line in lines]
    names = list(dict.fromkeys(name for row in rows for name in row))
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def fill(page: Path, script: str, parts: Sequence[str]) -> None:
    """Put the parts between the marks of the script; write the table alone to a .csv file."""
    if page.suffix == ".csv":
        return write_csv(page, [({}, "\n".join(parts))])
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
    return None


def write_figure(file: Path, chart: Mapping[str, Any]) -> None:
    """Write a chart as SVG or PNG, by the name of the file."""
    from deadhead.report.export import PRINT, _drawers

    ending = file.suffix.removeprefix(".")
    if ending not in ("svg", "png"):
        raise DeadheadError(f"expected a file .svg or .png, got {file}.", "name such a file")
    image = _drawers()[ending]({**chart, "config": PRINT})
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(image.encode("utf-8") if isinstance(image, str) else image)


def measure_or_write(
    parser: ArgumentParser,
    script: str,
    measure: Callable[[Namespace], None],
    table: Callable[[Sequence[Path]], str],
) -> None:
    """Measure --model, or write the table of --from, earlier results, into --page."""
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--from", dest="results", type=Path, nargs="+", help="measured before")
    parser.add_argument(
        "--page", type=Path, help="write the table of --from into this page, or to this .csv file"
    )
    options = parser.parse_args()
    if options.results and options.page:
        fill(options.page, script, [table(options.results)])
    elif options.model:
        measure(options)
    else:
        parser.error("name --model to measure, or --from and --page to write a table")


def run(main: Callable[[], None]) -> None:
    """Run a script: a user's mistake ends it with a message instead of a traceback."""
    try:
        main()
    except DeadheadError as problem:
        raise SystemExit(str(problem)) from None
