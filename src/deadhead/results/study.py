"""A study as claims and the report read it: `Study.open(folder)`.

The records are scanned once for their scores. They are opened one by one, only for what the scan
does not keep: the share of heads that a removal takes (one for each), rankings, and measures.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from deadhead.studies.store import folder as study_folder
from deadhead.studies.store.folder import StudyError
from deadhead.studies.store.records import Record, Summary, damage, read_within, scan
from deadhead.studies.study import described

from .cells import Cell, Key, as_dict, fixed_of, make_cell, matches, parts_of, task_info
from .heads import Heads
from .means import BY_LANGUAGE, Mean, group_cells, means_of, removals_of, values_by
from .model import Measurement, Merged, RankedHeads, Score, Search
from .published import Rows, of_same_setting, published_by
from .records import Opened, by_use, measures_of, ranking_of
from .searches import finished, merged_among, over_seeds, pairs_among, searches_among

MOST_RECORDS = 800  # opened for the page
TRIES = 8  # records without a ranking, after which no more are opened for it
NOWHERE: Mapping[str, Any] = {}  # selects everything
FIRST = "@1"  # behind a split: the weights after the first epoch
OUTSIDE = ("", "full")  # arms of cells that are not the pruned trials of a search


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Pause garbage collection, which would check the numbers of a large study again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True, kw_only=True, eq=False)
class Study:
    """A study: its recipe, its cells, and all numbers of its records."""

    home: Path
    description: Mapping[str, Any]  # what `run` stored: name, recipe, cells
    summaries: Mapping[str, Summary]  # by trial id
    cells: tuple[Cell, ...]
    damaged: tuple[str, ...] = ()  # ids of records that cannot be used
    published: Mapping[str, Rows] = field(default_factory=dict)  # file -> its rows

    @classmethod
    def open(cls, folder: str | Path | Study) -> Study:
        """Read the study in a folder; a study that is open already is returned as it is."""
        if isinstance(folder, Study):
            return folder
        home = study_folder.inside(Path(folder))
        description, records = described(home), scan(home)
        recipes = parts_of(as_dict(description.get("recipe")))
        cells = tuple(
            make_cell(fixed_of(recipes, labels), labels, trial, records.known.get(trial))
            for labels, trial in description["cells"]
        )
        return cls(
            home=home,
            description=description,
            summaries=records.known,
            cells=cells,
            damaged=tuple(records.damaged),
            published=published_by(description),
        )

    @cached_property
    def _same_setting(self) -> dict[str, Rows]:
        files = self.published.items()
        return {name: of_same_setting(self.cells, rows) for name, rows in files}

    def published_rows(self, name: str) -> Rows:
        """The numbers of a published file that are of the same setting as the study's."""
        return self._same_setting.get(name, [])

    @property
    def name(self) -> str:
        return str(self.description.get("name", self.home.name))

    @property
    def recipe(self) -> Mapping[str, Any]:
        return as_dict(self.description.get("recipe"))

    @property
    def recipes(self) -> list[Mapping[str, Any]]:
        """The recipes that are drawn together: those included, and the recipe itself."""
        return parts_of(self.recipe)

    @cached_property
    def languages(self) -> tuple[str, ...]:
        distinct = dict.fromkeys(cell.languages for cell in self.cells)
        return tuple(dict.fromkeys(language for languages in distinct for language in languages))

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The axes of the recipe that have more than one label."""
        groups: dict[tuple[str, ...], list[Iterable[Any]]] = {}
        for cell in self.cells:
            groups.setdefault(tuple(cell.axes), []).append(cell.axes.values())
        values: dict[str, set[Any]] = {}
        for names, rows in groups.items():
            for name, column in zip(names, zip(*rows, strict=True), strict=True):
                values.setdefault(name, set()).update(column)
        return tuple(name for name, labels in values.items() if len(labels) > 1)

    @cached_property
    def _combinations(self) -> dict[tuple[str, ...], list[Key]]:
        return {}

    def combinations(self, *axes: str) -> list[Key]:
        """The labels that occur together on some axes, in the recipe's order."""
        if axes not in self._combinations:
            by_language = bool(BY_LANGUAGE & {*axes})
            keys = (
                group[0].key(axes, language, variant)
                for group in group_cells(self.cells, axes)
                for variant in group[0].variants(axes)
                for language in (group[0].languages if by_language else ("",))
            )
            self._combinations[axes] = list(dict.fromkeys(keys))
        return self._combinations[axes]

    def labels(self, axis: str) -> list[Any]:
        """The labels of an axis in the recipe's order."""
        return [label for (label,) in self.combinations(axis)]

    def means(
        self,
        axes: Sequence[str],
        where: Mapping[str, Any] = NOWHERE,
        mean_over: Sequence[str] = (),
        *,
        kind: str = "score",
        metric: str | None = None,
        split: str | None = None,
        searches: bool = False,
    ) -> dict[Key, Mean]:
        """The means by the labels on some axes: of scores, or of what pruning loses or gains.

        kind: `score`, `drop` or `gain`. where: axes -> the labels to include. mean_over: axes whose
        labels are repetitions, by default each trial is one. searches: as in `means_of`.
        """
        values = values_by(self.cells, kind)
        return means_of(
            self.cells,
            axes,
            where,
            mean_over,
            values,
            metric=metric,
            split=split,
            searches=searches,
        )

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The main metric of each of its tasks, as far as these are known."""
        metrics = (task_info(str(task)).metric for task in self.labels("task"))
        return tuple(dict.fromkeys(filter(None, metrics)))

    @cached_property
    def splits(self) -> tuple[str, ...]:
        """The splits that are reported unless the recipe names others."""
        return tuple(dict.fromkeys(cell.split for cell in self.cells))

    @cached_property
    def trials(self) -> dict[str, Cell]:
        """What was run, by id: the first cell of each trial."""
        cells: dict[str, Cell] = {}
        for cell in self.cells:
            cells.setdefault(cell.trial, cell)
        return cells

    @cached_property
    def states(self) -> Counter[str]:
        """How many trials are done, failed and left."""
        return Counter(cell.state for cell in self.trials.values())

    @property
    def progress(self) -> dict[str, int]:
        """How many trials there are, done, failed, left, and running at this moment."""
        live = study_folder.read_json(self.home / "live.json")
        running = as_dict(live).get("running") if study_folder.is_running(self.home) else None
        counts = {state: self.states[state] for state in ("done", "failed", "left")}
        return {"total": self.states.total(), **counts, "running": len(as_dict(running))}

    @property
    def damage(self) -> list[str]:
        """Sentences about records that cannot be used."""
        return [damage(self.damaged)] if self.damaged else []

    @cached_property
    def is_search(self) -> bool:
        """Whether some trials belong to searches."""
        return self.labels("arm") not in ([], [None])

    @property
    def most_removed(self) -> int:
        """The largest number of heads that a search removes."""
        return max(filter(None, self.labels("k")), default=0)

    @cached_property
    def _opened(self) -> dict[str, Record | None]:
        return {}

    def record(self, trial: str) -> Record | None:
        """A record; None where the file is damaged or missing."""
        if trial not in self._opened:
            try:
                self._opened[trial] = read_within(self.home, trial)
            except StudyError:
                self._opened[trial] = None
        return self._opened[trial]

    def details(self, trial: str) -> Mapping[str, Any]:
        """What a record says beside its scores; nothing where it cannot be read."""
        record = self.record(trial)
        return {} if record is None else record.details

    @cached_property
    def opened(self) -> dict[str, Opened]:
        """What the page shows of records, by id: all of a small study, else the most useful."""
        records = ((trial, self.record(trial)) for trial in by_use(self.cells))
        opened = (
            (trial, Opened(cell=self.trials[trial], record=record))
            for trial, record in records
            if record is not None
        )
        return dict(islice(opened, MOST_RECORDS))

    @cached_property
    def heads(self) -> Heads:
        """What the opened trials say about heads."""
        return Heads(opened=self.opened.values(), axes=self.axes)

    def chosen(self, where: Mapping[str, Any] = NOWHERE) -> Iterator[Opened]:
        """The opened trials that are done and have these labels."""
        for trial in self.opened.values():
            language = next(iter(trial.cell.languages), "")
            if trial.done and matches(trial.cell, language, where):
                yield trial

    @property
    def versions(self) -> dict[str, str]:
        """The versions that the opened records were made with."""
        versions: dict[str, dict[str, None]] = {}
        for trial in self.opened.values():
            for name, version in trial.record.versions.items():
                versions.setdefault(name, {})[str(version)] = None
        return {name: " / ".join(distinct) for name, distinct in versions.items()}

    @property
    def data(self) -> dict[str, Any]:
        """The data that the opened records read, by name."""
        records = (trial.record for trial in self.opened.values())
        return {name: value for record in records for name, value in record.data.items()}

    @cached_property
    def scores(self) -> tuple[Score, ...]:
        """Every score in the main metric of its task, each once.

        The pruned trials of searches are in `searches`.
        """
        outside = (cell for cell in self.cells if cell.labels.get("arm", "") in OUTSIDE)
        return tuple(
            dict.fromkeys(
                score
                for cell in outside
                if cell.metric
                for score in cell.all_scores(self.share(cell), cell.metric)
            )
        )

    @cached_property
    def usable_scores(self) -> tuple[Score, ...]:
        """The scores that claims are judged by: on test, or on dev if test was not scored.

        A training of one epoch says nothing about what later epochs change.
        """
        tested = {score.trial for score in self.scores if score.split == "test"}
        early = {score.trial for score in self.scores if score.epoch is not None}
        short = {trial for trial in early if self._one_epoch(trial)}
        return tuple(
            score
            for score in self.scores
            if score.split.partition("@")[0] == ("test" if score.trial in tested else "dev")
            and (score.epoch is None or score.trial not in short)
        )

    def _one_epoch(self, trial: str) -> bool:
        """Whether a trial was trained for one epoch only.

        Its record is opened only if no score changed after the first epoch.
        """
        metrics = self.summaries[trial].metrics
        early = {name: value for name, value in metrics.items() if FIRST in name}
        if any(value != metrics.get(name.replace(FIRST, "")) for name, value in early.items()):
            return False
        record = self.record(trial)
        return record is not None and (record.trial.get("finetune") or {}).get("epochs") == 1

    def all_scores(self) -> list[Score]:
        """Every number of every done trial in all metrics, those of searches included."""
        each = (cell.all_scores(self.share(cell)) for cell in self.cells)
        return list(dict.fromkeys(score for scores in each for score in scores))

    @cached_property
    def _shares(self) -> dict[tuple[Any, str], float | None]:
        return {}

    def share(self, cell: Cell) -> float | None:
        """The percentage of heads removed: from the recipe, or counted in one record."""
        if cell.unpruned:
            return 0.0
        if cell.axes.get("strategy") == "random":
            return float(cell.axes["amount"])
        if cell.summary is None or cell.state != "done":
            return None
        key = (cell.axes.get("model"), str(cell.axes.get("remove")))
        if key not in self._shares:
            total, record = cell.summary.cost.get("heads before"), self.record(cell.trial)
            share = 100 * len(record.removed) / total if total and record is not None else None
            self._shares[key] = share
        return self._shares[key]

    @cached_property
    def removals(self) -> list[Mean]:
        """The mean of each removal over what all were scored on, with the unpruned one as base."""
        return removals_of(self.cells)

    @cached_property
    def searches(self) -> tuple[Search, ...]:
        """Every search in every language it is for, if its unpruned model has a score."""
        return tuple(searches_among(self.cells))

    @cached_property
    def pairs(self) -> tuple[Search, ...]:
        """The searches from languages to another one, repeats with other seeds as one."""
        return pairs_among(self.searches)

    @cached_property
    def cases(self) -> tuple[Search, ...]:
        """The pairs, or without any the searches in languages that they learn."""
        return self.pairs or over_seeds(finished(self.searches))

    @cached_property
    def merged(self) -> tuple[Merged, ...]:
        """Trainings on several languages scored in another one."""
        return tuple(merged_among(self.searches))

    @cached_property
    def _done(self) -> list[Summary]:
        """In the order of trial ids: a folder lists its files in any order."""
        return [summary for _, summary in sorted(self.summaries.items()) if summary.state == "done"]

    @cached_property
    def rankings(self) -> tuple[RankedHeads, ...]:
        """One ranking of each model, task, language and method."""
        rankings: dict[tuple[str, ...], RankedHeads] = {}
        tries: Counter[tuple[str, ...]] = Counter()  # records without a ranking
        for summary in self._done:
            trial = summary.trial
            rank, source, task = (trial.get(name) for name in ("rank", "source", "task"))
            name = task_info(str(task)).name
            key = (str(trial.get("model")), name, str(source), str(rank))
            if not rank or not source or key in rankings or tries[key] == TRIES:
                continue
            record = self.record(summary.id)
            ranking = ranking_of(record) if record is not None else None
            if ranking is None:
                tries[key] += 1
            else:
                rankings[key] = ranking
        return tuple(rankings.values())

    @cached_property
    def measures(self) -> tuple[Measurement, ...]:
        """Everything that was measured on trained models."""
        trials = (summary.id for summary in self._done if summary.trial.get("measure"))
        records = (record for trial in trials if (record := self.record(trial)) is not None)
        return tuple(measure for record in records for measure in measures_of(record))
