"""Tables of kind `scores` and `drop`: means over what the rows and columns leave open."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from deadhead.report.labels import capitalized, unit_of
from deadhead.report.spec import Problem, Table, axes, flag, word
from deadhead.results import Study
from deadhead.results.cells import CHANCE, Key
from deadhead.tasks.metrics import sign

from .best import mark_best
from .grid import Entry, Means, entry, measured
from .printed import changes, with_removal_columns

NOT_ROWS = (*CHANCE, "strategy", "amount", "targets", "splits")


@dataclass(frozen=True, kw_only=True)
class ScoreTable(Table):
    """Mean scores, in points."""

    kind: ClassVar[str] = "scores"

    change: bool = flag()  # adds the change from the unpruned model in brackets
    remove_as: str = word("percent", "components", default="")  # columns that describe a pruning
    best: tuple[str, ...] = axes()  # mark the best cell over these axes

    def conflicts(self) -> Iterator[Problem]:
        for name in self.best:
            if name not in (*self.rows, *self.columns):
                yield ("best",), f"expected axes of rows or columns, got {name!r}."

    def build(self, study: Study) -> dict[str, Any]:
        means = Means.of(study, self, "score")

        def cell(key: Key) -> Entry:
            mean, labels = means.by_key.get(key), means.labels(key)
            published = means.published.value(labels, mean) if means.file else None
            metric = labels.get("metric") or self.metric or (mean.metric if mean else "")
            entry_data = entry(mean, published, lower_is_better=sign(str(metric)) < 0)
            if self.change and mean is not None:
                rows = means.published.of(labels, mean) if means.file else []
                entry_data |= changes(mean, rows)
            return entry_data

        unit_words = unit_of(filter(None, self.metrics(study)), ", in ")
        note = f"{capitalized(measured(study, self))}{unit_words}."
        table = means.table(study, self, cell, note)
        if self.best:
            mark_best(
                table, self.best, min(map(sign, filter(None, self.metrics(study))), default=1)
            )
        return with_removal_columns(table, self.remove_as, study, means.file)

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


@dataclass(frozen=True, kw_only=True)
class Drop(Table):
    """The relative drop against the unpruned cell with the same other labels."""

    kind: ClassVar[str] = "drop"
    default_title: ClassVar[str] = "Scores"

    def build(self, study: Study) -> dict[str, Any]:
        means = Means.of(study, self, "drop")

        def cell(key: Key) -> Entry:
            mean = means.by_key.get(key)
            published = means.published_drop(means.labels(key), mean) if means.file else None
            return entry(mean, published, lower_is_better=True)

        what = measured(study, self)
        about = f"Relative drop of {what} against the unpruned model, in %."
        return means.table(study, self, cell, about)
