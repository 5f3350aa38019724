"""Tables as text: CSV for programs, Markdown for pages, LaTeX with booktabs for papers. Whatever a label holds, it comes out as text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from deadhead.report.labels import joined

from .printed import bracketed

Table = Mapping[str, Any]
STATES = {"failed": "failed", "missing": "not run", "none": ""}
# What LaTeX would take for a command, and how it is written.
SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}
COLUMNS = ("ours", "spread", "n", "published", "difference", "state", "p", "mark")
CHANGES = (
    "change",
    "published_change",
)  # further columns where a table shows changes from the unpruned model


def to_csv(table: Table) -> str:
    """One row for each cell of the table, with everything that is known of it."""
    out = io.StringIO()
    written = csv.writer(out, lineterminator="\n")
    names = (*COLUMNS, *(CHANGES if _with_changes(table) else ()))
    written.writerow([*table["row_names"], *table["column_names"], *names])
    for row, cells in zip(table["rows"], table["cells"], strict=True):
        for column, cell in zip(table["columns"], cells, strict=True):
            values = {**cell, "difference": difference(cell)}
            written.writerow(
                [_safe(label) for label in (*row, *column)]
                + ["" if values.get(name) is None else values[name] for name in names]
            )
    return out.getvalue()


def _with_changes(table: Table) -> bool:
    return any(
        cell.get(name) is not None for row in table["cells"] for cell in row for name in CHANGES
    )


def _safe(label: Any) -> Any:
    """A label that a spreadsheet will not take for a formula."""
    return (
        f"'{label}"
        if isinstance(label, str) and label[:1] in ("=", "+", "-", "@", "\t", "\r")
        else ""
        if label is None
        else label
    )


def difference(cell: Mapping[str, Any]) -> float | None:
    """Ours less published."""
    return (
        None
        if cell["ours"] is None or cell["published"] is None
        else round(cell["ours"] - cell["published"], 4)
    )


def to_markdown(table: Table) -> str:
    """A table for a page of text: ours, the spread, and in brackets the published number."""
    heads = [
        *(_cell(name) for name in table["row_names"]),
        *(_cell(" / ".join(map(_label, column))) for column in table["columns"]),
    ]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row, cells in zip(table["rows"], table["cells"], strict=True):
        shown = [
            *(_cell(_label(label)) for label in row),
            *(_plain(cell, table["decimals"]) for cell in cells),
        ]
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(
        [
            f"### {_cell(table['title'])}",
            "",
            *lines,
            "",
            _cell(joined(table["note"], table["test"], by=" ")),
            "",
        ]
    )


def _label(value: Any) -> str:
    return "" if value is None else str(value)


def _cell(text: str) -> str:
    """Text that Markdown leaves as it is, on one line."""
    for sign in "\\`*_[]<>|#$":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.replace("&", "&amp;").split())


def _plain(cell: Mapping[str, Any], decimals: int) -> str:
    if cell["ours"] is None:
        text = STATES.get(cell["state"], "")
    else:
        text = f"{cell['ours']:.2f}{bracketed(cell)}" + (
            "" if cell["spread"] is None else f" ± {cell['spread']:.2f}"
        )
        text += " (partial)" if cell["state"] == "partial" else ""
    return f"{text} {_theirs(cell, decimals)}".strip() if cell["published"] is not None else text


def _theirs(cell: Mapping[str, Any], decimals: int) -> str:
    """The published number in brackets; in square ones where round ones hold the change from the unpruned model."""
    left, right = "[]" if "change" in cell else "()"
    return f"{left}{cell['published']:.{decimals}f}{bracketed(cell, 'published_change')}{right}"


def to_latex(table: Table) -> str:
    """A table for a paper; needs `\\usepackage{booktabs}`, and `xcolor` is not needed."""
    side, across = len(table["row_names"]), len(table["columns"])
    told = joined(f"{table['title']}.", table["note"], table["test"], *_signs(table), by=" ")
    lines = [r"\begin{table}[t]", r"\centering", rf"\caption{{{escape(told)}}}"]
    lines += [
        rf"\label{{tab:{table['id']}}}",
        rf"\begin{{tabular}}{{{'l' * side}{'r' * across}}}",
        r"\toprule",
        *_heads(table),
        r"\midrule",
    ]
    for row, cells in zip(table["rows"], table["cells"], strict=True):
        lines.append(
            " & ".join(
                [
                    *(escape(_label(label)) for label in row),
                    *(_tex(cell, table["decimals"]) for cell in cells),
                ]
            )
            + r" \\"
        )
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _signs(table: Table) -> Iterator[str]:
    """What the signs of the cells mean, those that occur."""
    cells = [cell for row in table["cells"] for cell in row]
    if any(cell["published"] is not None for cell in cells):
        if _with_changes(table):
            yield "In round brackets: the change from the unpruned model. In square brackets: published."
        else:
            yield "In brackets: published."
    if any(cell["mark"] == "better" for cell in cells):
        yield "Bold: better."
    if any(cell["state"] == "partial" for cell in cells):
        yield "*: some trials are not done."


def _heads(table: Table) -> Iterator[str]:
    """The lines above the rule, with labels that several columns share set once over all of them."""
    side, levels = len(table["row_names"]), len(table["column_names"])
    for level in range(levels):
        last = level == levels - 1
        first = [escape(name) if last else "" for name in table["row_names"]]
        shared = [
            (labels[-1], len(list(several)))
            for labels, several in groupby(
                table["columns"], key=lambda column: tuple(column[: level + 1])
            )
        ]
        cells = [
            escape(_label(label))
            if width == 1
            else rf"\multicolumn{{{width}}}{{c}}{{{escape(_label(label))}}}"
            for label, width in shared
        ]
        yield " & ".join([*first, *cells]) + r" \\"
        if not last:
            yield "".join(_rules(side, [width for _, width in shared]))
    if not levels:
        yield " & ".join(escape(name) for name in table["row_names"]) + r" \\"


def _rules(start: int, widths: Sequence[int]) -> Iterator[str]:
    at = start + 1
    for width in widths:
        yield rf"\cmidrule(lr){{{at}-{at + width - 1}}}"
        at += width


def _tex(cell: Mapping[str, Any], decimals: int) -> str:
    """Ours with the spread small beside it, bold where better than the unpruned model, the published number in brackets."""
    if cell["ours"] is None:
        text = {"failed": r"\emph{failed}", "missing": "--"}.get(cell["state"], "")
    else:
        text = (
            rf"\textbf{{{cell['ours']:.2f}}}" if cell["mark"] == "better" else f"{cell['ours']:.2f}"
        )
        text += bracketed(cell)
        text += "" if cell["spread"] is None else rf" {{\scriptsize$\pm${cell['spread']:.2f}}}"
        text += r"\textsuperscript{*}" if cell["state"] == "partial" else ""
    return (
        rf"{text} {{\scriptsize{_theirs(cell, decimals)}}}".strip()
        if cell["published"] is not None
        else text
    )


def escape(text: str) -> str:
    """Text as LaTeX prints it."""
    return " ".join("".join(SPECIAL.get(sign, sign) for sign in text).split())


WRITERS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}
