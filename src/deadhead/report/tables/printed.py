"""Tables as the papers print them: changes in brackets, prunings described in columns of their own.

The option `change` of a table adds the change from the unpruned model in brackets. `remove_as`
describes a pruning by its percentage (`percent`), or by that and the number of heads that each
component keeps (`components`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from deadhead.results import Mean, Study
from deadhead.translation import SIZES

from .published import ROUND, PublishedRow, average, number

PERCENT = "% pruned"
# Encoder-self, encoder-decoder (cross) and decoder-self attention, in the paper's order.
COMPONENTS = ("ES", "ED", "DS")
KEY = (
    "Heads kept in encoder-self (ES), encoder-decoder (ED) and decoder-self attention (DS); "
    "a string has one digit for each layer, from the input up."
)
KEPT = ("per_layer", "per_block")  # strategies whose amount says what each component keeps


class PrintedRemoval(NamedTuple):
    """The labels of a removal, and of the model."""

    strategy: str | None
    amount: Any
    model: Any

    @property
    def is_nothing(self) -> bool:
        return self.strategy in (None, "none")


def changes(mean: Mean, rows: Iterable[PublishedRow]) -> dict[str, float | None]:
    """The brackets of a pruned cell: our change from unpruned, and what the paper prints."""
    printed = average([value for row in rows if (value := number(row, "delta")) is not None])
    ours = mean.value - mean.base.value if mean.values and mean.base and mean.base.values else None
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
    removals = study.combinations("remove", "strategy", "amount", "model")
    by_label = {str(label): PrintedRemoval(*others) for label, *others in removals}
    printed = {r["remove"]: r["percent"] for r in file if r.get("remove") and r.get("percent")}
    strategies = {str(removal.strategy) for removal in by_label.values()} & {*KEPT}
    columns = {}
    for label in labels:
        removal = by_label.get(label)
        percent = _percent(removal, printed.get(label))
        kept = _kept(removal, strategies) if components else []
        if percent is None or len(kept) != components:
            return None
        columns[label] = [percent, *kept]
    distinct = len({tuple(column) for column in columns.values()}) == len(columns)
    return columns if distinct else None


def _percent(removal: PrintedRemoval | None, printed: str | None) -> str | None:
    """The percentage as the paper prints it, else as the recipe gives it, else worked out."""
    if printed is not None or removal is None:
        return printed
    if removal.is_nothing:
        return "0"
    if removal.strategy == "random":
        return str(removal.amount)
    size, kept = SIZES.get(str(removal.model)), _kept_heads(removal)
    if not size or not kept:
        return None
    return f"{100 - 100 * kept / (size.layers * size.heads * len(COMPONENTS)):.0f}"


def _kept_heads(removal: PrintedRemoval) -> int | None:
    parts = str(removal.amount).split("/")
    if removal.strategy not in KEPT or not all(part.isdecimal() for part in parts):
        return None
    per_layer = removal.strategy == "per_layer"
    return sum(sum(map(int, part)) if per_layer else int(part) for part in parts)


def _kept(removal: PrintedRemoval | None, strategies: set[str]) -> list[str]:
    """The heads that each component keeps; the unpruned model's are written like the others'."""
    if removal is None:
        return []
    if not removal.is_nothing:
        return str(removal.amount).split("/") if removal.strategy in KEPT else []
    size = SIZES.get(str(removal.model))
    if size is None or len(strategies) != 1:
        return ["all"] * len(COMPONENTS)
    per_layer = strategies == {"per_layer"}
    all_heads = str(size.heads) * size.layers if per_layer else str(size.heads * size.layers)
    return [all_heads] * len(COMPONENTS)


def bracketed(cell: Mapping[str, Any], name: str = "change") -> str:
    """The change in brackets with its sign, as the paper prints it; empty if there is none."""
    value = cell.get(name)
    return "" if value is None else f" ({value:+z.2f})"
