"""Numbers that papers printed, read from the CSV files that recipes name.

A row belongs to a cell of a table if it has the cell's label in every column that is an axis.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deadhead.results import Mean
from deadhead.results.cells import LANGUAGE, label_text, removes_nothing

PublishedRow = Mapping[str, str]
ROUND = 4  # decimals of points that are kept
NOT_AXES = ("value", "delta", "note", "tried")


def number(row: PublishedRow, column: str = "value") -> float | None:
    try:
        return float(row.get(column) or "")
    except ValueError:
        return None


def decimals(rows: Sequence[PublishedRow]) -> int:
    """The number of decimals that a file's numbers were printed with."""
    printed = (row["value"].strip().partition(".")[2] for row in rows if number(row) is not None)
    return min(ROUND, max(map(len, printed), default=0))


class Published:
    """The rows of one file, by the labels of a table's axes."""

    def __init__(self, rows: Sequence[PublishedRow], axes: Iterable[str]):
        self.rows = rows
        columns = set(rows[0]) - set(NOT_AXES) if rows else set()
        by_axis = ((axis, _column(axis, columns)) for axis in axes)
        self.columns = {axis: column for axis, column in by_axis if column is not None}
        self.other_columns = columns - set(self.columns.values())
        self._rows: dict[tuple[str, ...], list[PublishedRow]] = {}
        for row in rows:
            key = tuple(_text(axis, row[column]) for axis, column in self.columns.items())
            self._rows.setdefault(key, []).append(row)

    def of(self, labels: Mapping[str, Any], mean: Mean | None = None) -> list[PublishedRow]:
        """The rows of a cell; if several, those that agree with the labels of its mean."""
        if not self.columns:
            return []
        rows = self._rows.get(tuple(_text(axis, labels.get(axis)) for axis in self.columns), [])
        if len(rows) < 2:
            return list(rows)
        for axis, value in (mean.shared_labels() if mean else {}).items():
            column = _column(axis, self.other_columns)
            if column is not None:
                rows = [r for r in rows if _text(axis, r[column]) == _text(axis, value)] or rows
        for column in self.other_columns & {"model", "task"}:
            if len({row[column] for row in rows}) > 1:
                return []  # nobody published a mean over models or tasks
        return rows

    def value(self, labels: Mapping[str, Any], mean: Mean | None = None) -> float | None:
        """The number of a cell, the mean if it has several rows."""
        return average(self.of(labels, mean))


def average(rows: Iterable[PublishedRow], column: str = "value") -> float | None:
    """The mean of the numbers in a column; None where there is none."""
    numbers = [value for row in rows if (value := number(row, column)) is not None]
    return sum(numbers) / len(numbers) if numbers else None


def _column(axis: str, columns: set[str]) -> str | None:
    if axis in LANGUAGE:
        return next((name for name in ("target", "language") if name in columns), None)
    return axis if axis in columns else None


def _text(axis: str, value: Any) -> str:
    """A label in one spelling: removing nothing is `none`, languages joined by + have no order."""
    text = label_text(value)
    if axis == "remove":
        return "none" if not text or removes_nothing(text) else text
    return "+".join(sorted(text.split("+"))) if axis in ("source", "train") else text
