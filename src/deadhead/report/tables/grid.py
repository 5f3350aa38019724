"""Tables of means: cells of a study gathered by row and column, averaged, tested and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deadhead.report.labels import measured_words
from deadhead.report.spec import Table
from deadhead.results import Mean, Study
from deadhead.results.cells import PRUNING, Key

from .cells import UNPRUNED, Entry, mark_cells
from .notes import remarks
from .published import Published, decimals

OTHER_SETTING = (
    "The published numbers are not shown, since they are of another model, task, source or number "
    "of heads."
)
Keyed = dict[Key, Mean]  # by the labels of rows, then of columns


@dataclass(frozen=True)
class Layout:
    """The axes of the rows and columns, the values that are shown, the axes of the means."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    where: Mapping[str, Any]
    mean_over: tuple[str, ...]

    @classmethod
    def of(cls, table: Table, rows: Sequence[str], columns: Sequence[str]) -> Layout:
        """The layout that a recipe asks for; these rows and columns unless it names others."""
        down = table.rows or tuple(name for name in rows if name not in table.columns)
        across = table.columns or tuple(name for name in columns if name not in down)
        where = {axis: v for axis, v in table.where.items() if axis not in ("split", "metric")}
        return cls(down, across, where, table.mean_over)

    @property
    def axes(self) -> tuple[str, ...]:
        return (*self.rows, *self.columns)

    @property
    def unpruned_where(self) -> dict[str, Any]:
        """`where` without the axes in which a pruned cell differs from its unpruned one."""
        return {axis: value for axis, value in self.where.items() if axis not in PRUNING}

    def without_pruning(self, key: Key) -> Key:
        """The labels that a pruned cell shares with its unpruned one."""
        labels = zip(self.axes, key, strict=True)
        return tuple(label for axis, label in labels if axis not in PRUNING)


class Means:
    """The means of a table, beside the unpruned model and the published numbers."""

    def __init__(self, study: Study, table: Table, kind: str):
        self.study, self.table = study, table
        self.layout = layout = Layout.of(table, ("remove",), ("language",))
        by_key = table.means(study, layout.axes, layout.where, layout.mean_over, kind=kind)
        unpruned = by_key
        if not any(mean.unpruned and mean.numbers for mean in by_key.values()):
            # `where` may exclude the unpruned cells
            where = {**layout.unpruned_where, "remove": "none"}
            unpruned = table.means(study, layout.axes, where, layout.mean_over, kind=kind)
        bases: Keyed = {}
        for key, mean in unpruned.items():
            if mean.unpruned:
                bases.setdefault(layout.without_pruning(key), mean)
        for key, mean in by_key.items():
            if not mean.unpruned:
                mean.base = bases.get(layout.without_pruning(key))
        self.by_key = by_key  # the base of a mean is the unpruned model
        rows = study.published_rows(table.published)
        self.published = Published(rows, (*layout.axes, *layout.where))

    def labels(self, key: Key) -> dict[str, Any]:
        where = self.layout.where.items()
        fixed = {axis: value for axis, value in where if not isinstance(value, list)}
        return fixed | dict(zip(self.layout.axes, key, strict=True))

    def build(self, cell: Callable[[Key], Entry], about: str) -> dict[str, Any]:
        """The whole table: `cell(key)` gives its cells, `about` says what its numbers are."""
        cells = {t: one for mean in self.by_key.values() for t, one in mean.cells.items()}
        notes = remarks(self.study, cells.values(), self.table.split)
        sentences = [about + self._means(), *notes]
        return build_table(self.study, self.table, self.layout, self.by_key, cell, sentences)

    def _means(self) -> str:
        """What the numbers are means over."""
        text, means = "", self.by_key.values()
        if any(len(mean.by_repetition()) > 1 for mean in means):
            over = " and ".join(self.layout.mean_over) or "trials"
            text += f" Means over {over}, with the standard deviation."
        groups = [g for mean in means if not mean.is_simple for g in mean.by_repetition().values()]
        most = max((len({language for _, language in group}) for group in groups), default=0)
        return text + (f" Each a mean over {most} languages." if most > 1 else "")


def measured(study: Study, table: Table) -> str:
    """The metric and the split of a table's numbers."""
    return measured_words(table.metrics(study), [table.split] if table.split else study.splits)


def build_table(
    study: Study,
    table: Table,
    layout: Layout,
    keys: Iterable[Key],
    cell: Callable[[Key], Entry],
    sentences: Sequence[str],
    *,
    order: Mapping[str, list[Any]] | None = None,
    against: str = UNPRUNED,
) -> dict[str, Any]:
    """The whole table: the cells of all rows and columns that occur in the keys."""
    rows, columns = keys_in_order(study, layout, keys, order or {})
    cells = [[cell((*row, *column)) for column in columns] for row in rows]
    published = study.published_rows(table.published)
    if study.published.get(table.published) and not published:
        sentences = [*sentences, OTHER_SETTING]
    return {
        "title": table.heading.replace("{k}", str(study.most_removed)),
        "note": " ".join(sentences),
        "test": mark_cells(cells, against),
        "row_names": list(layout.rows),
        "column_names": list(layout.columns),
        "rows": list(map(list, rows)),
        "columns": list(map(list, columns)),
        "cells": cells,
        "decimals": decimals(published),  # as many as the published numbers have
    }


def keys_in_order(
    study: Study, layout: Layout, keys: Iterable[Key], order: Mapping[str, list[Any]]
) -> tuple[list[Key], list[Key]]:
    """The rows and the columns that occur, each axis in the order of the recipe."""

    def sort(axes: Sequence[str], start: int) -> list[Key]:
        labels = [order.get(axis) or study.labels(axis) for axis in axes]
        positions = [{label: i for i, label in enumerate(of_axis)} for of_axis in labels]
        distinct = dict.fromkeys(key[start : start + len(axes)] for key in keys)
        return sorted(
            distinct,
            key=lambda key: [p.get(label, 0) for p, label in zip(positions, key, strict=True)],
        )

    return sort(layout.rows, 0), sort(layout.columns, len(layout.rows))
