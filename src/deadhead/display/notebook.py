"""What a notebook shows of heads: a table of squares for each block, as static HTML.

All styles are inside the tags, since some viewers of notebooks remove style sheets. Text outside
the squares has the colour of the page, so it can be read in light and in dark themes.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import NamedTuple

CELL = "width:2em;min-width:2em;text-align:center;padding:2px 0;border:1px solid rgba(128,128,128,"
PLAIN = f"{CELL}.35);background-color:transparent;color:inherit"
LABEL = "text-align:right;padding:2px 6px;font-weight:normal;background-color:transparent"
BLOCK = "display:inline-block;vertical-align:top;margin:4px 16px 4px 0"
TABLE = "border-collapse:collapse;color:inherit;font-size:85%;font-variant-numeric:tabular-nums"


class Square(NamedTuple):
    """One head: a short text inside, a tooltip, and its colour (None: that of the page)."""

    text: str
    tooltip: str
    colour: str | None = None
    ink: str = "#000000"


Squares = Mapping[
    int, Sequence[Square | None]
]  # layer -> a square per head, None where there is none


def tables(title: str, blocks: Mapping[str, Squares], notes: Iterable[str] = ()) -> str:
    """A title, one table of layers x heads for each block, and notes below them."""
    lines = "".join(f"<div>{escape(note)}</div>" for note in notes)
    body = "".join(_table(block, rows) for block, rows in blocks.items())
    return f"<div><div>{escape(title)}</div>{body}{lines}</div>"


def _table(block: str, rows: Squares) -> str:
    size = max(map(len, rows.values()), default=0)
    numbers = "".join(
        f'<th scope="col" style="{LABEL};text-align:center">{n}</th>' for n in range(size)
    )
    lines = "".join(
        f'<tr><th scope="row" style="{LABEL}">{layer}</th>{"".join(map(_cell, squares))}</tr>'
        for layer, squares in rows.items()
    )
    corner = f'<th scope="col" style="{LABEL}">{escape(block)}</th>'
    table = f'<table style="{TABLE}"><tr>{corner}{numbers}</tr>{lines}</table>'
    return f'<div style="{BLOCK}">{table}</div>'


def _cell(square: Square | None) -> str:
    if square is None:
        return "<td></td>"
    style = PLAIN
    if square.colour is not None:
        style = f"{CELL}0);background-color:{square.colour};color:{square.ink}"
    return f'<td style="{style}" title="{escape(square.tooltip)}">{escape(square.text)}</td>'
