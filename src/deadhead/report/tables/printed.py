"""Tables as the papers print them: changes in brackets, prunings described in columns of their own.

The option `change` of a table adds the change from the unpruned model in brackets. `remove_as`
describes a pruning by its percentage (`percent`), or by that and the number of heads that each
component keeps (`components`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deadhead.results import Mean, Study
from deadhead.results.cells import Cell
from deadhead.translation import SIZES

from .published import ROUND, PublishedRow, average

PERCENT = "% pruned"
# Encoder-self, encoder-decoder (cross) and decoder-self attention, in the paper's order.
COMPONENTS = ("ES", "ED", "DS")
KEY = (
    "Heads kept in encoder-self (ES), encoder-decoder (ED) and decoder-self attention (DS); "
    "a string has one digit for each layer, from the input up."
)
KEPT = ("per_layer", "per_block")  # strategies whose amount says what each component keeps


def changes(mean: Mean, rows: Iterable[PublishedRow]) -> dict[str, float | None]:
    """The brackets of a pruned cell: our change from unpruned, and what the paper prints."""
    printed = average(rows, "delta")
    ours = (
        mean.value - mean.base.value if mean.numbers and mean.base and mean.base.numbers else None
    )
    return {
        "change": None if ours is None else round(ours, ROUND),
        "published_change": None if printed is None else round(printed, ROUND),
    }


def with_removal_columns(
    table: dict[str, Any], remove_as: str, study: Study, file: Sequence[PublishedRow]
) -> dict[str, Any]:
    """The table with columns that describe the pruning of each row.

    The table stays as it is if one of its prunings cannot be described like that.
    """
    if not remove_as or "remove" not in table["row_names"]:
        return table
    at = table["row_names"].index("remove")
    names = [PERCENT] if remove_as == "percent" else [PERCENT, *COMPONENTS]
    labels = {str(row[at]) for row in table["rows"]}
    columns = _descriptions(labels, len(names) - 1, study, file)
    if columns is None:
        return table
    return {
        **table,
        "note": table["note"] if remove_as == "percent" else f"{KEY} {table['note']}",
        "row_names": [*table["row_names"][:at], *names, *table["row_names"][at + 1 :]],
        "rows": [[*row[:at], *columns[str(row[at])], *row[at + 1 :]] for row in table["rows"]],
    }


def _descriptions(
    labels: Iterable[str], components: int, study: Study, file: Sequence[PublishedRow]
) -> dict[str, list[str]] | None:
    """The percentage and kept heads of each pruning; None if unknown or not distinct."""
    trials = sorted(study.trials.values(), key=lambda cell: cell.state == "done")
    cells = {str(cell.axes.get("remove")): cell for cell in trials}  # one that is done, if any
    printed = {r["remove"]: r["percent"] for r in file if r.get("remove") and r.get("percent")}
    strategies = {str(cell.axes.get("strategy")) for cell in cells.values()} & {*KEPT}
    columns = {}
    for label in labels:
        share = study.share(cells[label])  # as the recipe says it, or as a record counts it
        percent = printed.get(label) or (None if share is None else f"{share:.0f}")
        kept = _kept(cells[label], strategies) if components else []
        if percent is None or len(kept) != components:
            return None
        columns[label] = [percent, *kept]
    distinct = len({tuple(column) for column in columns.values()}) == len(columns)
    return columns if distinct else None


def _kept(cell: Cell, strategies: set[str]) -> list[str]:
    """The heads that each component keeps; the unpruned model's are written like the others'."""
    if not cell.unpruned:
        return str(cell.axes["amount"]).split("/") if cell.axes["strategy"] in KEPT else []
    size = SIZES.get(str(cell.axes.get("model")))
    if size is None or len(strategies) != 1:
        return ["all"] * len(COMPONENTS)
    per_layer = strategies == {"per_layer"}
    all_heads = str(size.heads) * size.layers if per_layer else str(size.heads * size.layers)
    return [all_heads] * len(COMPONENTS)


def bracketed(cell: Mapping[str, Any], name: str = "change") -> str:
    """The change in brackets with its sign, as the paper prints it; empty if there is none."""
    value = cell.get(name)
    return "" if value is None else f" ({value:+z.2f})"
