"""Tables as the papers print them: the change from the unpruned model in brackets, prunings in columns of their own.

A recipe asks for it: `change: true` adds the bracketed differences, and `remove_as` writes the label of a
pruning as its percentage (`percent`), or as that and the heads kept in each component (`components`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from deadhead.results.cells import Cell
from deadhead.translation.sizes import SIZES

from .published import ROUND, Row, mean, number

PERCENT = "% pruned"
COMPONENTS = (
    "ES",
    "ED",
    "DS",
)  # encoder-self, encoder-decoder (cross) and decoder-self attention, in the paper's order
KEY = "Heads kept in encoder-self (ES), encoder-decoder (ED) and decoder-self attention (DS), in strings layer by layer from the input up."
KEPT = ("per_layer", "per_block")  # strategies whose amount says what each component keeps


def changes(
    numbers: Sequence[float], base: Sequence[float], rows: Iterable[Row]
) -> dict[str, float | None]:
    """What the brackets of a pruned cell hold: ours less our unpruned model, and what the paper prints."""
    printed = mean([value for row in rows if (value := number(row, "delta")) is not None])
    return {
        "change": round(fmean(numbers) - fmean(base), ROUND) if numbers and base else None,
        "published_change": None if printed is None else round(printed, ROUND),
    }


def spelled(
    table: dict[str, Any], how: Any, cells: Iterable[Cell], file: Sequence[Row]
) -> dict[str, Any]:
    """The table with its prunings in columns of their own; as it was where one of them cannot be spelled so."""
    if how is None or "remove" not in table["row_names"]:
        return table
    place = table["row_names"].index("remove")
    known = {str(cell.axes.get("remove")): cell for cell in cells}
    percents = {
        row["remove"]: row["percent"] for row in file if row.get("remove") and row.get("percent")
    }
    names = [PERCENT] if how == "percent" else [PERCENT, *COMPONENTS]
    kinds = {str(cell.axes.get("strategy")) for cell in known.values()} & {*KEPT}
    parts = {}
    for label in {str(row[place]) for row in table["rows"]}:
        percent = _percent(known.get(label), percents.get(label))
        kept = [] if how == "percent" else _kept(known.get(label), kinds)
        if percent is None or len(kept) != len(names) - 1:
            return table
        parts[label] = [percent, *kept]
    if len({tuple(part) for part in parts.values()}) < len(
        parts
    ):  # two prunings would have one name
        return table
    rows = [[*row[:place], *parts[str(row[place])], *row[place + 1 :]] for row in table["rows"]]
    note = table["note"] if how == "percent" else f"{KEY} {table['note']}"
    return {
        **table,
        "note": note,
        "row_names": [*table["row_names"][:place], *names, *table["row_names"][place + 1 :]],
        "rows": rows,
    }


def _percent(cell: Cell | None, printed: str | None) -> str | None:
    """The percentage as the paper prints it, else as the recipe asks for it, else as it comes out."""
    if printed is not None or cell is None:
        return printed
    if cell.unpruned:
        return "0"
    if cell.axes.get("strategy") == "random":
        return str(cell.axes["amount"])
    size, kept = SIZES.get(str(cell.axes.get("model"))), _counts(cell)
    return (
        f"{100 - 100 * kept / (size.layers * size.heads * len(COMPONENTS)):.0f}"
        if size and kept
        else None
    )


def _counts(cell: Cell) -> int | None:
    parts = str(cell.axes.get("amount")).split("/")
    if cell.axes.get("strategy") not in KEPT or not all(part.isdecimal() for part in parts):
        return None
    return sum(
        sum(map(int, part)) if cell.axes["strategy"] == "per_layer" else int(part) for part in parts
    )


def _kept(cell: Cell | None, kinds: set[str]) -> list[str]:
    """What each component keeps; of the unpruned model all its heads, written like those of the others."""
    if cell is None:
        return []
    if not cell.unpruned:
        return str(cell.axes.get("amount")).split("/") if cell.axes.get("strategy") in KEPT else []
    size = SIZES.get(str(cell.axes.get("model")))
    if size is None or len(kinds) != 1:
        return ["all"] * len(COMPONENTS)
    whole = (
        str(size.heads) * size.layers if kinds == {"per_layer"} else str(size.heads * size.layers)
    )
    return [whole] * len(COMPONENTS)


def bracketed(cell: Mapping[str, Any], name: str = "change") -> str:
    """The change in brackets as the paper prints it, with its sign; nothing where there is none."""
    value = cell.get(name)
    return "" if value is None else f" ({value:+.2f})"
