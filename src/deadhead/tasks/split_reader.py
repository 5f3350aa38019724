"""The splits of a task in a language: from a folder, a task file, the small world or the hub."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from deadhead.errors import DataError, UnknownName
from deadhead.tasks.locating.file_format import guess_format
from deadhead.tasks.locating.file_name import UNKNOWN
from deadhead.tasks.locating.folder import choose, survey
from deadhead.tasks.locating.hub import on_hub, place_of, read_hub
from deadhead.tasks.locating.small_world import in_world, is_world, read_world
from deadhead.tasks.locating.split_files import Skipped, SplitFiles
from deadhead.tasks.reading.formats import reader_of
from deadhead.tasks.reading.retrieval import ROLES, read_retrieval

from .dataset import Dataset, concatenate, dataset, share
from .hub_sets import hub_set, other_names
from .registry import TASKS
from .task import SPLITS, TEXT, Task

JOINED = "files read as one split"
MAX_NAMED = 3  # skipped files that an error names
TENTHS = (0.8, 0.9, 1.0)  # where train, dev and test end in a corpus without splits
LAST_TENTH = (0.9, 1.0, 1.0)  # the same where the corpus has a test set


@dataclass(frozen=True, kw_only=True)
class SplitReader:
    """Finds and reads the splits of one task in one language."""

    task: Task
    name: str  # the task with its corpus: `slots-atis`
    lang: str
    root: Path | None
    source: str | None
    cut: str
    hub: bool = True  # whether the hub may have what no file has
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _folder(self) -> tuple[list[SplitFiles], list[Skipped]]:
        return ([], []) if self.root is None or self.is_file else survey(self.root, self.task)

    @property
    def is_file(self) -> bool:
        """Whether the data is one file in place of a folder."""
        reads_one = self.task.traits.reads_one_file and not self.task.files
        return reads_one and self.root is not None and self.root.is_file()

    @cached_property
    def entries(self) -> dict[str, SplitFiles]:
        """The files of each split."""
        if self.task.files:
            return {split: split_of_task(self.task, self.lang, split) for split in self.task.files}
        if self.is_file:
            return {split: self._only_file(split) for split in SPLITS}
        try:
            return choose(self._folder[0], self.name, self.lang, self.source)
        except UnknownName:
            if hub_set(self.task.hub, self.lang, self.source) is None:
                raise
            return {}  # the folder has other corpora, and the hub has this one

    def _only_file(self, split: str) -> SplitFiles:
        assert self.root is not None
        return SplitFiles(
            task=self.name,
            lang=self.lang,
            split=split,
            source="",
            format=guess_format(self.root, self.task, self.lang),
            files={"": self.root},
        )

    @property
    def _cuts(self) -> bool:
        """Whether missing splits are cut out of train."""
        has_no_dev = "train" in self.entries and "dev" not in self.entries
        return self.cut == "auto" and self.task.traits.cut_from_train and has_no_dev

    @cached_property
    def splits(self) -> tuple[str, ...]:
        """The splits there are, or that are cut out of train."""
        if is_world(self.root):
            return SPLITS
        return tuple(split for split in SPLITS if split in self.entries or self._cuts)

    def read(self, split: str) -> Dataset:
        """Read a split."""
        return self._source(split)[1]()

    def places(self, split: str) -> tuple[str, ...]:
        """Say where `read` would find the split, without reading it."""
        return self._source(split)[0]

    def _source(self, split: str) -> tuple[tuple[str, ...], Callable[[], Dataset]]:
        """Return the places of a split, and what reads it there."""
        if is_world(self.root):
            return (in_world(self.task, self.lang),), lambda: read_world(
                self.task, self.lang, split
            )
        if self.cut == "pooled" and self.entries:
            places = paths_of(self.task, *self.entries.values())
            return places, lambda: self._share(self._pool, split, TENTHS)
        if self._cuts and not (split == "test" and "test" in self.entries):
            ends, train = LAST_TENTH if "test" in self.entries else TENTHS, self.entries["train"]
            return paths_of(self.task, train), lambda: self._share([train], split, ends)
        if (entry := self.entries.get(split)) is not None:
            return paths_of(self.task, entry), lambda: read_files(self.task, entry, self.options)
        lender = TASKS.get(self.task.train_on)  # whose training set this task borrows
        if split == "train" and lender is not None and self.lang in lender.languages:
            return replace(self, task=lender, name=lender.name, source=None)._source(split)
        hub = hub_set(self.task.hub, self.lang, self.source) if self.hub else None
        # any text would do for a task without languages, so another one must not take its place
        needs_own = self.root is not None and not self.task.traits.has_language and not self.source
        if hub is None or self.entries or self.task.files or needs_own:
            raise self._missing(split)
        requested = (hub, self.task, self.lang, split, self._tried)
        return (on_hub(*requested),), lambda: read_hub(*requested)

    def _share(
        self, entries: list[SplitFiles], split: str, ends: tuple[float, float, float]
    ) -> Dataset:
        parts = [read_files(self.task, entry, self.options) for entry in entries]
        return share(concatenate(parts), split, ends)

    @property
    def _pool(self) -> list[SplitFiles]:
        """All files of the corpus: all folds, but of other variants only the chosen one."""
        if self.root is None:
            hint = "name their folder with --data DIR or DEADHEAD_DATA"
            raise DataError("pooling needs the files of a corpus.", hint)
        corpus = self.name, self.lang, next(iter(self.entries.values())).source
        variants = {e.variant for e in self.entries.values()}
        entries = [e for e in self._folder[0] if (e.task, e.lang, e.source) == corpus]
        return [e for e in entries if e.variant in variants or e.variant.startswith("fold")]

    def _missing(self, split: str) -> DataError:
        if self.task.files:  # a folder of data is not read then
            own = self.task.file
            message = f"{own} names no {split} data. There is: {', '.join(self.splits)}."
            return DataError(message, f"add {split}: FILE under `files` in {own}")
        where = f"in {self.root}" if self.root else "without a folder of data"
        there = f" There is: {', '.join(self.splits)}." if self.entries else self._languages()
        option = "--data DIR"
        option += "" if self.root else ", or set DEADHEAD_DATA, which is not set"
        hint = f"put {place_of(self.task, self.lang)} into a folder and name it with {option}"
        hint += "; deadhead data check DIR lists what it holds"
        if self.task.traits.label_unit == "query" and "test" in self.splits:
            hint = f"read the test data with --split test, or {hint}"
        if others := other_names(self.task.hub, self.lang, self.source):
            hint += f"; the hub has other sets: --source {' or '.join(others)}"
        name = self.name + f" in {self.lang}" * (self.lang != TEXT)
        message = f"no {split} data of {name} {where}.{there}"
        skipped = self._folder[1]  # the missing file may be among them
        if skipped and self.root is not None:
            files = [f"{s.path.relative_to(self.root)} ({s.reason})" for s in skipped[:MAX_NAMED]]
            more = f"; and {len(skipped) - MAX_NAMED} more" if len(skipped) > MAX_NAMED else ""
            message += f" Skipped: {'; '.join(files)}{more}."
        return DataError(message, hint)

    @cached_property
    def _local_languages(self) -> str:
        """The languages that the folder has the task in."""
        codes = sorted({entry.lang for entry in self._folder[0] if entry.task == self.name})
        return ", ".join("files that name no language" if c == UNKNOWN else c for c in codes)

    @property
    def _tried(self) -> str:
        """Say that the folder does not have the data, and in which languages it has the task."""
        others = f", which has {self._local_languages}" if self._local_languages else ""
        return "" if self.root is None else f" (nothing of it is in {self.root}{others})"

    def _languages(self) -> str:
        """Name the languages of the folder, or those of the task."""
        if self._local_languages:
            return f" There it is in: {self._local_languages}."
        if self.lang in self.task.languages:
            return ""
        return f" Its languages: {', '.join(sorted(self.task.languages))}."


def read_files(task: Task, entry: SplitFiles, options: Mapping[str, Any] | None = None) -> Dataset:
    """Read the files of a split."""
    files = paths_of(task, entry)
    notes: Counter[str] = Counter()
    settings = {**(options or {}), **task.columns, "lang": entry.lang, "partition": entry.partition}
    settings["malformed"] = settings.get("malformed") or task.malformed
    if task.traits.label_unit == "query":
        rows, documents = read_retrieval(entry.files, notes)
        return dataset(
            task, entry.lang, entry.split, rows, notes=notes, files=files, documents=documents
        )
    read = reader_of(entry.format)
    rows = [row for part in entry.parts for row in read(part, task, notes, **settings)]
    notes[JOINED] += len(entry.parts) if entry.more else 0
    if not rows:
        units = {"text": "pair", "token": "text", "option": "row", "span": "question"}
        unit = {**units, "pair": "pair"}.get(task.traits.label_unit, "sentence")
        hint = "fetch the file again, or name another one"
        raise DataError(f"{files[0]}:1: no {unit} in the file.", hint)
    return dataset(task, entry.lang, entry.split, rows, notes=notes, files=files)


def paths_of(task: Task, *entries: SplitFiles) -> tuple[str, ...]:
    """Return the files of entries; all must exist."""
    for entry in entries:
        entry.check()
        for path in entry.paths:
            if not path.is_file():
                hint = "fetch it, or correct the list that names it"
                if task.files:
                    place = f"`{entry.split}` under `files` in {task.file}"
                    hint = f"correct {place}; paths there start at the folder of that file"
                raise DataError(f"{path}: there is no such file.", hint)
    return tuple(str(path) for entry in entries for path in entry.paths)


def paths_of_task(task: Task, lang: str, split: str) -> dict[str, Path]:
    """Return the paths that a task file names for a split, by the language of parallel files."""
    sides = {"": task.files[split]}
    if "|" in task.files[split]:
        names = ROLES if task.traits.label_unit == "query" else lang.split("-")
        sides = dict(zip(names, task.files[split].split("|"), strict=False))
    return {code: Path(text.format(lang=code or lang)) for code, text in sides.items()}


def split_of_task(task: Task, lang: str, split: str) -> SplitFiles:
    """Return the files that a task file names for a split."""
    files = paths_of_task(task, lang, split)
    form = task.format or guess_format(next(iter(files.values())), task, lang, tuple(files))
    return SplitFiles(task=task.name, lang=lang, split=split, source="", format=form, files=files)
