"""Tables as text: CSV for programs, LaTeX with booktabs for papers.

Labels may hold anything; they always come out as text.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from deadhead.report.labels import joined

from .cells import labelled_cells
from .printed import bracketed

Table = Mapping[str, Any]
Cell = Mapping[str, Any]
# Characters that LaTeX reads as commands, and how they are written.
SPECIAL = {
    **{sign: rf"\{sign}" for sign in "{}$&#%_"},
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}
COLUMNS = ("ours", "spread", "n", "published", "difference", "state", "p", "mark")
CHANGES = ("change", "published_change")  # further columns of a table with changes in brackets


def to_csv(table: Table) -> str:
    """One row for each cell of the table, with everything that is known about it."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    names = (*COLUMNS, *(CHANGES if _has_changes(table) else ()))
    rows.writerow([*table["row_names"], *table["column_names"], *names])
    for labels, cell in labelled_cells(table):
        values = {**cell, "difference": difference(cell)}
        numbers = ("" if values.get(name) is None else values[name] for name in names)
        rows.writerow([*map(_safe, labels), *numbers])
    return out.getvalue()


def _has_changes(table: Table) -> bool:
    return any(cell.get(n) is not None for row in table["cells"] for cell in row for n in CHANGES)


def _safe(label: Any) -> Any:
    """A label that no spreadsheet reads as a formula."""
    if isinstance(label, str) and label[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{label}"
    return "" if label is None else label


def difference(cell: Cell) -> float | None:
    """Our number minus the published one."""
    if cell["ours"] is None or cell["published"] is None:
        return None
    return float(round(cell["ours"] - cell["published"], 4))


def _published(cell: Cell, decimals: int) -> str:
    """The published number in brackets; square ones if round ones hold the change."""
    left, right = "[]" if "change" in cell else "()"
    return f"{left}{cell['published']:z.{decimals}f}{bracketed(cell, 'published_change')}{right}"


def to_latex(table: Table) -> str:
    """A table for a paper; it needs `\\usepackage{booktabs}`."""
    heads = [escape(" / ".join(map(joined, column))) for column in table["columns"]]
    caption = joined(f"{table['title']}.", table["note"], table["test"], *_signs(table), by=" ")
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{escape(caption)}}}",
        rf"\label{{tab:{table['id']}}}",
        rf"\begin{{tabular}}{{{'l' * len(table['row_names'])}{'r' * len(heads)}}}",
        r"\toprule",
        " & ".join([*map(escape, table["row_names"]), *heads]) + r" \\",
        r"\midrule",
    ]
    for row, cells in zip(table["rows"], table["cells"], strict=True):
        labels = [escape(joined(label)) for label in row]
        lines.append(" & ".join([*labels, *(_tex(c, table["decimals"]) for c in cells)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _signs(table: Table) -> Iterator[str]:
    """What the signs in the cells mean."""
    cells = [cell for row in table["cells"] for cell in row]
    if any(cell["published"] is not None for cell in cells):
        if _has_changes(table):
            yield (
                "In round brackets: the change from the unpruned model. "
                "In square brackets: published."
            )
        else:
            yield "In brackets: published."
    for mark in ("better", "best"):
        if any(cell["mark"] == mark for cell in cells):
            yield f"Bold: {mark}."
    if any(cell["state"] == "partial" for cell in cells):
        yield "*: some trials are not done."


def _tex(cell: Cell, decimals: int) -> str:
    """Our number and its spread, bold if better than unpruned or best; the published number."""
    if cell["ours"] is None:
        text = {"failed": r"\emph{failed}", "missing": "--"}.get(cell["state"], "")
    else:
        number = f"{cell['ours']:z.2f}"
        text = rf"\textbf{{{number}}}" if cell["mark"] in ("better", "best") else number
        text += bracketed(cell)
        text += "" if cell["spread"] is None else rf" {{\scriptsize$\pm${cell['spread']:.2f}}}"
        text += r"\textsuperscript{*}" if cell["state"] == "partial" else ""
    if cell["published"] is None:
        return text
    return rf"{text} {{\scriptsize{_published(cell, decimals)}}}".strip()


def escape(text: str) -> str:
    """Text as LaTeX prints it."""
    return " ".join("".join(SPECIAL.get(sign, sign) for sign in text).split())


WRITERS = {"csv": to_csv, "tex": to_latex}
