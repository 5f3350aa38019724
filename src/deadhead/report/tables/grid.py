"""Means in a grid: cells are gathered by row and column, summed up, marked, and set beside published numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import fmean
from typing import Any

from deadhead.report.labels import measured_words, sentence
from deadhead.results import Study
from deadhead.results.cells import APART, LANGUAGE, PRUNING, Cell, as_dict, as_names, matches
from deadhead.results.statistics import deviation

from .details import numbers_behind
from .notes import remarks
from .printed import changes, spelled
from .published import ROUND, Published, decimals
from .significance import UNPRUNED, compared, marked

Row = Sequence[float | None]  # a value for each language of a cell
Value = Callable[
    [Cell, str | None, str | None], Row
]  # of a cell, a metric and a split, if not the usual ones
Part = tuple[str, str, float | None]  # a trial, a language and the score in it
MOST_TRIALS = 100  # ids a cell of a table names
BY_LANGUAGE = {*LANGUAGE, "setting", "parts"}  # axes in which languages of one cell may differ
CONTEXT = (
    "model",
    "task",
    "source",
    "train",
    "remove",
)  # told to the search for published numbers, where a cell has just one


@dataclass(frozen=True)
class Layout:
    """What goes down the side and across, and what is left out."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    where: Mapping[str, Any]
    mean_over: tuple[str, ...]

    @classmethod
    def of(
        cls, study: Study, asked: Mapping[str, Any], rows: Sequence[str], columns: Sequence[str]
    ) -> Layout:
        down, across = as_names(asked.get("rows")), as_names(asked.get("columns"))
        if not down:
            down = tuple(name for name in rows if name not in across)
        if not across:
            across = tuple(name for name in columns if name not in down)
        return cls(
            down,
            across,
            {
                name: wanted
                for name, wanted in as_dict(asked.get("where")).items()
                if name not in ("split", "metric")
            },
            as_names(asked.get("mean_over")),
        )

    @property
    def axes(self) -> tuple[str, ...]:
        return (*self.rows, *self.columns)


@dataclass
class Unit:
    """What one cell of a table takes in: scores, where each is from and what it is a repetition of, and the cells of the study behind them."""

    scores: list[float] = field(default_factory=list)
    trials: list[str] = field(
        default_factory=list
    )  # of each score; lists side by side hold very many in little room
    languages: list[str] = field(default_factory=list)
    repeats: list[Any] = field(default_factory=list)  # what each score is a repetition of
    cells: dict[str, Cell] = field(default_factory=dict)  # by trial
    lacking: int = 0  # done trials without this score
    parts: dict[tuple[str, str], Callable[[], list[Part]]] = field(
        default_factory=dict
    )  # what a score that is no trial's own came from
    full: bool | None = None  # whether it is of the unpruned model, where its cells do not tell

    def put(self, over: Any, trial: str, language: str, score: float) -> None:
        """A single score."""
        self.scores.append(score)
        self.trials.append(trial)
        self.languages.append(language)
        self.repeats.append(over)

    def add(
        self, cells: Sequence[Cell], language: str, repeats: Sequence[Any], scores: Row
    ) -> None:
        """The scores of some cells in a language; None where there is none."""
        trials = [cell.trial for cell in cells]
        self.cells.update(zip(trials, cells, strict=True))
        if None not in scores:
            self.scores += scores  # type: ignore[arg-type]
            self.trials += trials
            self.languages += [language] * len(trials)
            self.repeats += repeats
            return
        for cell, over, score in zip(cells, repeats, scores, strict=True):
            if score is not None:
                self.put(over, cell.trial, language, score)
            elif cell.state == "done":
                self.lacking += 1

    @property
    def unpruned(self) -> bool:
        return (
            all(cell.unpruned for cell in self.cells.values()) if self.full is None else self.full
        )

    @property
    def plain(self) -> bool:
        """Whether every score is a repetition of its own: most units, and those of very many trials."""
        return len(set(self.repeats)) == len(self.repeats)

    def by_repeat(self) -> dict[Any, dict[tuple[str, str], float]]:
        """Scores by what they are a repetition of, then by trial and language."""
        found: dict[Any, dict[tuple[str, str], float]] = {}
        for over, trial, language, score in zip(
            self.repeats, self.trials, self.languages, self.scores, strict=True
        ):
            found.setdefault(over, {})[trial, language] = score
        return found

    def numbers(self) -> list[float]:
        """One number for each repetition; trials that several repetitions share count once."""
        if self.plain and len(set(self.trials)) == len(self.trials):
            return self.scores
        return [
            fmean(scores.values()) if len(scores) > 1 else next(iter(scores.values()))
            for _, scores in self.repetitions()
        ]

    def repetitions(self) -> list[tuple[Any, dict[tuple[str, str], float]]]:
        """What stands behind each of `numbers`, in the same order: the repetition, and its scores by trial and language."""
        distinct = {tuple(scores): (over, scores) for over, scores in self.by_repeat().items()}
        return list(distinct.values())

    def state(self) -> str:
        """Of done, partial, failed, missing, none."""
        found = {cell.state for cell in self.cells.values()}
        if self.scores:
            return "done" if found == {"done"} and not self.lacking else "partial"
        return "missing" if "left" in found else "failed" if "failed" in found else "none"

    def known(self) -> dict[str, Any]:
        """What all its cells agree in, of what published numbers are told apart by."""
        found = {name: {cell.axes.get(name) for cell in self.cells.values()} for name in CONTEXT}
        return {name: next(iter(labels)) for name, labels in found.items() if len(labels) == 1}


def gathered(study: Study, layout: Layout, value: Value) -> dict[tuple[Any, ...], Unit]:
    """All cells of the study under the labels of the layout's axes."""
    found: dict[tuple[Any, ...], Unit] = {}
    for cells in alike(study.cells, (*layout.axes, *layout.where)):
        for chosen in cells[0].variants(layout.axes):
            rows = [value(cell, chosen.get("metric"), chosen.get("split")) for cell in cells]
            for language, scores in zip(cells[0].languages, zip(*rows, strict=True), strict=True):
                if matches(cells[0], language, layout.where):
                    key = tuple(
                        chosen[name] if name in chosen else cells[0].axis(name, language)
                        for name in layout.axes
                    )
                    found.setdefault(key, Unit()).add(
                        cells, language, repeats(cells, language, layout.mean_over), scores
                    )
    return found


def alike(cells: Iterable[Cell], axes: Iterable[str]) -> Iterable[list[Cell]]:
    """Cells that agree in their languages and in all labels on these axes: where they belong is asked once for all of them."""
    asked = {*axes}
    plain = [name for name in asked if name not in BY_LANGUAGE]
    by_setting, by_parts, by_variant = (
        "setting" in asked,
        "parts" in asked,
        bool({"split", "metric"} & asked),
    )
    found: dict[Any, list[Cell]] = {}
    for cell in cells:
        key: tuple[Any, ...] = (cell.languages, *[cell.axes.get(name) for name in plain])
        if by_setting:
            key += (cell.train,)
        if by_parts:
            key += tuple(cell.parts(language) for language in cell.languages)
        if by_variant:
            key += tuple(tuple(one.items()) for one in cell.variants(asked))
        found.setdefault(key, []).append(cell)
    return found.values()


def repeats(cells: Sequence[Cell], language: str, over: Sequence[str]) -> list[Any]:
    """What the scores of cells in a language are repetitions of: each its own where a mean is over trials.

    Seeds repeat what is not drawn, though its cells may name draws, and what has no label on any of these axes.
    """
    if not over:
        return [cell.trial for cell in cells]
    if "draw" in over and not any(
        cell.summary is not None and "draw" in cell.summary.trial for cell in cells
    ):
        over = tuple(dict.fromkeys("seed" if name == "draw" else name for name in over))
    labels = (tuple([cell.axis(name, language) for name in over]) for cell in cells)
    return [
        one if one.count(None) < len(one) else ("seed", cell.axes.get("seed"))
        for cell, one in zip(cells, labels, strict=True)
    ]


def summed(
    study: Study,
    asked: Mapping[str, Any],
    layout: Layout,
    value: Value,
    lower_is_better: bool = False,
) -> dict[str, Any]:
    """A table of means."""
    units = gathered(study, layout, value)
    rows, columns = (
        keys_in_order(study, names, units, start)
        for names, start in ((layout.rows, 0), (layout.columns, len(layout.rows)))
    )
    base = _unpruned(study, layout, units, value)
    file = study.published.get(str(asked.get("published")), [])
    published = Published(
        file, (*layout.axes, *(name for name in layout.where if name not in layout.axes))
    )
    fixed = {name: wanted for name, wanted in layout.where.items() if not isinstance(wanted, list)}

    def cell(row: tuple[Any, ...], column: tuple[Any, ...]) -> dict[str, Any]:
        unit = units.get((*row, *column))
        labels = {**fixed, **dict(zip(layout.axes, (*row, *column), strict=True))}
        if not file:
            theirs = None
        elif lower_is_better:
            theirs = _published_drop(published, labels, unit)
        else:
            theirs = published.value(labels, unit.known() if unit else None)
        unpruned = base.get(_base_key(layout, (*row, *column)))
        made = entry(unit, theirs, unpruned, lower_is_better)
        if asked.get("change") and unit is not None:
            numbers = [] if unit.unpruned else unit.numbers()
            made |= changes(
                numbers, unpruned or [], published.of(labels, unit.known()) if file else []
            )
        return made

    shown = [cell for unit in units.values() for cell in unit.cells.values()]
    said = [
        _told(study, layout, units, asked, lower_is_better),
        *remarks(study, shown, asked, file),
        whose(study, file),
    ]
    note = " ".join(filter(None, said))
    made = grid(
        str(asked.get("title") or "Scores"),
        note,
        layout,
        rows,
        columns,
        [[cell(r, c) for c in columns] for r in rows],
        file,
    )
    return spelled(made, asked.get("remove_as"), study.cells, file)


def grid(
    title: str,
    note: str,
    layout: Layout,
    rows: list[Any],
    columns: list[Any],
    cells: list[list[dict[str, Any]]],
    file: Sequence[Mapping[str, str]],
    against: str = UNPRUNED,
) -> dict[str, Any]:
    return {
        "title": title,
        "note": note,
        "test": marked(cells, against),
        "row_names": list(layout.rows),
        "column_names": list(layout.columns),
        "rows": [list(row) for row in rows],
        "columns": [list(column) for column in columns],
        "cells": cells,
        "decimals": decimals(file),  # of published numbers
    }


def entry(
    unit: Unit | None,
    published: float | None,
    base: list[float] | None = None,
    lower_is_better: bool = False,
) -> dict[str, Any]:
    """One cell of a table; whether it is marked is decided over the whole table, by `grid`."""
    numbers = unit.numbers() if unit else []
    against = base or [] if unit and not unit.unpruned else []
    return {
        "ours": round(fmean(numbers), ROUND) if numbers else None,
        "spread": round(deviation(numbers), ROUND) if len(numbers) > 1 else None,
        "n": len(numbers),
        "published": None if published is None else round(published, ROUND),
        "state": unit.state() if unit else "none",
        "mark": None,
        **compared(numbers, against, lower_is_better),
        "numbers": numbers_behind(unit) if unit else [],
        "trials": list(islice(unit.cells, MOST_TRIALS)) if unit else [],
        "records": len(unit.cells) if unit else 0,
    }


def _unpruned(
    study: Study, layout: Layout, units: Mapping[Any, Unit], value: Value
) -> dict[Any, list[float]]:
    """The numbers of the unpruned cells, by the labels that pruning leaves alone."""
    gathered_there = units if any(unit.unpruned and unit.scores for unit in units.values()) else {}
    if not gathered_there:  # `where` may have left the unpruned cells out
        wider = {name: wanted for name, wanted in layout.where.items() if name not in PRUNING}
        bare = [cell for cell in study.cells if cell.unpruned]
        only = replace(study, cells=tuple(bare))
        gathered_there = gathered(
            only, Layout(layout.rows, layout.columns, wider, layout.mean_over), value
        )
    found: dict[Any, list[float]] = {}
    for key, unit in gathered_there.items():
        if unit.unpruned:
            found.setdefault(_base_key(layout, key), unit.numbers())
    return found


def _base_key(layout: Layout, key: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(label for name, label in zip(layout.axes, key, strict=True) if name not in PRUNING)


def keys_in_order(
    study: Study,
    names: Sequence[str],
    units: Mapping[Any, Unit],
    start: int,
    given: Mapping[str, list[Any]] | None = None,
) -> list[tuple[Any, ...]]:
    """The rows or columns that occur, each axis in the order of the recipe."""
    order = [
        {label: i for i, label in enumerate((given or {}).get(name) or study.labels(name))}
        for name in names
    ]
    found = dict.fromkeys(key[start : start + len(names)] for key in units)
    return sorted(
        found,
        key=lambda key: [places.get(label, 0) for places, label in zip(order, key, strict=True)],
    )


def _published_drop(
    published: Published, labels: Mapping[str, Any], unit: Unit | None
) -> float | None:
    also = unit.known() if unit else None
    here = published.value(labels, also)
    full = (
        published.value({**labels, "remove": "none"}, also) if "remove" in published.axes else None
    )
    return None if here is None or not full else 100 * (full - here) / full


def _told(
    study: Study, layout: Layout, units: Mapping[Any, Unit], asked: Mapping[str, Any], drop: bool
) -> str:
    """What the numbers are, in a line or two."""
    metrics = [str(asked["metric"])] if asked.get("metric") else filter(None, study.metrics)
    what = measured_words(metrics, [str(asked["split"])] if asked.get("split") else study.splits)
    text = (
        f"Relative drop of {what} against the unpruned model, in %."
        if drop
        else f"{sentence(what)}, in points."
    )
    most = max((len(set(unit.repeats)) for unit in units.values()), default=0)
    over = " and ".join(layout.mean_over) or "trials"
    if most > 1:
        text += f" Means over {over}, with the standard deviation."
    mixed = [
        scores for unit in units.values() if not unit.plain for scores in unit.by_repeat().values()
    ]
    several = max((len({language for _, language in scores}) for scores in mixed), default=0)
    if several > 1:
        text += f" Each a mean over {several} languages."
    return text


def whose(study: Study, file: Sequence[Mapping[str, str]]) -> str:
    """A word where the published numbers are of another model, task or source than any of ours."""
    theirs = {name: sorted({row[name] for row in file if row.get(name)}) for name in APART}
    other = [
        name
        for name in APART
        if theirs[name] and not {*theirs[name]} & {cell.axes.get(name) for cell in study.cells}
    ]
    if not other:
        return ""
    kinds = " and ".join(filter(None, [", ".join(other[:-1]), other[-1]]))
    return f"Published numbers are of another {kinds} than here: {', '.join(label for name in other for label in theirs[name])}."
