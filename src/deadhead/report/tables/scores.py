"""Tables of kind `scores` and `drop`: means over what the rows and columns leave open."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from deadhead.report.labels import capitalized, unit_of
from deadhead.report.spec import Problem, Table, axes, flag, word
from deadhead.results import Study
from deadhead.results.cells import CHANCE, Key
from deadhead.tasks.metrics import sign

from .cells import Entry, entry, labelled_cells
from .grid import Means, measured
from .printed import changes, with_removal_columns

NOT_ROWS = (*CHANCE, "strategy", "amount", "targets", "splits")


@dataclass(frozen=True, kw_only=True)
class ScoreTable(Table):
    """Mean scores, in points."""

    kind = "scores"

    change: bool = flag()  # adds the change from the unpruned model in brackets
    remove_as: str = word("percent", "components", default="")  # columns that describe a pruning
    best: tuple[str, ...] = axes()  # mark the best cell over these axes

    def conflicts(self) -> Iterator[Problem]:
        for name in self.best:
            if name not in (*self.rows, *self.columns):
                yield ("best",), f"expected axes of rows or columns, got {name!r}."

    def build(self, study: Study) -> dict[str, Any]:
        means = Means(study, self, "score")

        def cell(key: Key) -> Entry:
            mean, labels = means.by_key.get(key), means.labels(key)
            published = means.published.value(labels, mean)
            metric = labels.get("metric") or self.metric or (mean.metric if mean else "")
            entry_data = entry(mean, published, lower_is_better=sign(str(metric)) < 0)
            if self.change and mean is not None:
                entry_data |= changes(mean, means.published.of(labels, mean))
            return entry_data

        metrics = self.metrics(study)
        note = f"{capitalized(measured(study, self))}{unit_of(metrics, ', in ')}."
        table = means.build(cell, note)
        if self.best:
            _mark_best(table, self.best, min(map(sign, metrics), default=1))
        return with_removal_columns(table, self.remove_as, study, means.published.rows)

    @classmethod
    def suggest(cls, study: Study) -> Iterator[Table]:
        """What was varied as rows, languages as columns."""
        evaluated = any("evaluate" in (part.get("steps") or ()) for part in study.recipes)
        if not evaluated or study.recipe.get("search"):
            return
        varied = [axis for axis in study.axes if axis not in NOT_ROWS]
        by_task = len(study.languages) < 2 and "task" in varied and len(varied) > 1
        across = "task" if by_task else "language"
        rows = tuple(axis for axis in varied if axis != across)
        yield cls(title="Scores", rows=rows or ("model",), columns=(across,))


class Drop(Table):
    """The relative drop against the unpruned cell with the same other labels."""

    kind = "drop"
    default_title = "Scores"

    def build(self, study: Study) -> dict[str, Any]:
        means = Means(study, self, "drop")

        def cell(key: Key) -> Entry:
            mean, labels, published = means.by_key.get(key), means.labels(key), means.published
            score = published.value(labels, mean)
            has_base = "remove" in published.columns
            full = published.value({**labels, "remove": "none"}, mean) if has_base else None
            drop = None if score is None or not full else 100 * (full - score) / full
            return entry(mean, drop, lower_is_better=True)

        what = measured(study, self)
        about = f"Relative drop of {what} against the unpruned model, in %."
        return means.build(cell, about)


def _mark_best(table: dict[str, Any], axes: Sequence[str], sign: int) -> None:
    """Mark the best cell of each group, and name them in `best` and in the note of the table.

    axes: those that were searched; cells with the same labels on the others form a group.
    sign: -1 if lower scores are better.
    """
    groups: dict[tuple[Any, ...], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    names = (*table["row_names"], *table["column_names"])
    for values, cell in labelled_cells(table):
        if cell["ours"] is not None:
            labels = dict(zip(names, values, strict=True))
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
