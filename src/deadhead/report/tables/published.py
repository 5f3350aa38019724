"""Numbers that papers printed, to stand beside ours: read from the CSV files that recipes name.

A row belongs to a cell of a table when it agrees with it in every column that is an axis of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deadhead.results.cells import LANGUAGE, plain_text

Row = Mapping[str, str]
ROUND = 4  # decimals of points that are kept
NOT_AXES = ("value", "delta", "note")


def number(row: Row, name: str = "value") -> float | None:
    try:
        return float(row.get(name) or "")
    except ValueError:
        return None


def decimals(rows: Sequence[Row]) -> int:
    """How many decimals the numbers of a file were printed with."""
    printed = (row["value"].strip().partition(".")[2] for row in rows if number(row) is not None)
    return min(ROUND, max(map(len, printed), default=0))


class Published:
    """The rows of one file, found by the labels of a table's axes."""

    def __init__(self, rows: Sequence[Row], axes: Sequence[str]):
        self.rows = rows
        columns = set(rows[0]) - set(NOT_AXES) if rows else set()
        self.axes = tuple(name for name in axes if _column(name, columns) is not None)
        self.columns = {name: str(_column(name, columns)) for name in self.axes}
        self.spare = columns - set(self.columns.values())
        self._found: dict[tuple[str, ...], list[Row]] = {}
        for row in rows:
            self._found.setdefault(
                tuple(_text(name, row[self.columns[name]]) for name in self.axes), []
            ).append(row)

    def of(self, labels: Mapping[str, Any], also: Mapping[str, Any] | None = None) -> list[Row]:
        """The rows of a cell; of several, those that agree with what else is known of it."""
        if not self.axes:
            return []
        rows = self._found.get(tuple(_text(name, labels.get(name)) for name in self.axes), [])
        for name, value in (also or {}).items():
            column = _column(name, self.spare)
            if len(rows) > 1 and column is not None:
                rows = [
                    row for row in rows if _text(name, row[column]) == _text(name, value)
                ] or rows
        mixed = any(
            len({row[name] for row in rows}) > 1 for name in ("model", "task") if name in self.spare
        )
        return [] if mixed else rows  # a mean over models or tasks is nobody's number

    def value(
        self, labels: Mapping[str, Any], also: Mapping[str, Any] | None = None
    ) -> float | None:
        """The number of a cell, the mean where it takes in several rows."""
        return mean([value for row in self.of(labels, also) if (value := number(row)) is not None])


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _column(axis: str, columns: set[str]) -> str | None:
    if axis in LANGUAGE:
        return next((name for name in ("target", "language") if name in columns), None)
    return axis if axis in columns else None


def _text(axis: str, value: Any) -> str:
    """Labels in one spelling: what removes nothing is `none`, however it is written, and languages joined by + have no order."""
    text = plain_text("" if value is None else value)
    if axis == "remove":
        return "none" if text in ("", "random 0", "lowest 0", "highest 0", "random_k 0") else text
    return "+".join(sorted(text.split("+"))) if axis in ("source", "train") else text
