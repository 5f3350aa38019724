"""The best cell of a grid search: the best score over some axes, for each label on the others."""

from collections.abc import Collection, Iterator
from typing import Any

Labels = dict[str, Any]


def mark_best(table: dict[str, Any], axes: Collection[str], sign: int) -> None:
    """Mark the best cell of each group, and name them in `best` and in the note of the table.

    axes: those that were searched; cells with the same labels on the others form a group.
    sign: -1 if lower scores are better.
    """
    groups: dict[tuple[Any, ...], list[tuple[Labels, dict[str, Any]]]] = {}
    for labels, cell in _cells(table):
        if cell["ours"] is not None:
            group = tuple(label for axis, label in labels.items() if axis not in axes)
            groups.setdefault(group, []).append((labels, cell))
    texts = []
    for group, cells in groups.items():
        labels, best = max(cells, key=lambda pair: sign * pair[1]["ours"])
        best["mark"] = "best"
        equal = sum(cell["ours"] == best["ours"] for _, cell in cells)
        chosen = " and ".join(f"{axis.rpartition('.')[2]} {labels[axis]}" for axis in axes)
        tie = f", the first of {equal} equal ones" if equal > 1 else ""
        texts.append(f"{' '.join([*map(str, group), ''])}{best['ours']:.2f} with {chosen}{tie}")
    if texts:
        table["best"] = f"The best of the grid: {'; '.join(texts)}."
        table["note"] += f" {table['best']} It is chosen by the scores shown."


def _cells(table: dict[str, Any]) -> Iterator[tuple[Labels, dict[str, Any]]]:
    names = (*table["row_names"], *table["column_names"])
    for row, cells in zip(table["rows"], table["cells"], strict=True):
        for column, cell in zip(table["columns"], cells, strict=True):
            yield dict(zip(names, (*row, *column), strict=True)), cell
