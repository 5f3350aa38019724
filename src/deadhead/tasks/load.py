"""From a task, a language and a split to its rows.

`load_data("ner", "de", "train")` finds the files (a local folder first, the hub second), reads
them, and cuts what has no official split the way the papers' data demand: a missing dev set is the
last tenth of train, a corpus without any split is cut 80/10/10 in file order.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from deadhead.errors import DataError, DeadheadError, unknown_name
from deadhead.tasks.locating.file_format import guess
from deadhead.tasks.locating.folder import choose, index, survey
from deadhead.tasks.locating.places import place_of
from deadhead.tasks.locating.small_world import in_world, is_world, read_world
from deadhead.tasks.locating.split_files import Entry
from deadhead.tasks.reading.formats import reader_of

from .dataset import Dataset, concatenate, dataset, distinct, first_parts, share
from .hub_sets import hub_set, other_names
from .languages import code_of
from .registry import TASKS, task_of
from .splits import SPLITS
from .task import Task

CUTS = ("auto", "given", "pooled")
MALFORMED = ("error", "drop")
SHOWN = 3  # skipped files that an error names


def load_data(
    task: str | Task,
    lang: str | Sequence[str],
    split: str,
    *,
    root: str | Path | None = None,
    source: str | None = None,
    cut: str = "auto",
    deduplicate: bool = False,
    parts: int | None = None,
    seed: int = 42,
    merge: bool = True,
    document_starts: str = "drop",
    malformed: str | None = None,
) -> Dataset:
    """The data of a task in a language; several languages are put one after the other.

    root: a folder of data (or the environment variable DEADHEAD_DATA); `world` for the embedded one; without one, the hub is asked.
    source: a corpus other than the default one, such as `wikiann`, which the hub has.
    cut: `auto` cuts the missing splits of tagged corpora out of train; `given` takes only what is there; `pooled` pools all files and cuts 80/10/10.
    deduplicate: drop repeated rows, and from train those of dev and test, from dev those of test.
    parts: only the first so many of ten disjoint random parts (seeded), for low-resource curves.
    merge: entity types to PER, ORG, LOC and MISC. document_starts: `keep` counts them as sentences.
    malformed: `drop` skips lines of tables that cannot be read and counts them, `error` refuses them; by default `error`, and
        `drop` for qqp, whose official file has such lines.
    """
    name = (
        task
        if isinstance(task, str) and not task.endswith((".yaml", ".yml"))
        else task_of(task).name
    )
    _check(split, SPLITS, "split")
    _check(cut, CUTS, "cut")
    _check(malformed or "error", MALFORMED, "way with malformed lines")
    if not isinstance(lang, str):
        several = [
            load_data(task, one, split, root=root, source=source, cut=cut, deduplicate=deduplicate, parts=parts, seed=seed,
                      merge=merge, document_starts=document_starts, malformed=malformed) for one in lang
        ]  # fmt: skip
        return concatenate(several)
    known = task_of(task)
    if known.kind == "translate" and not all(lang.partition("-")):
        raise DataError(
            f"{name} is a translation, and {lang!r} names one language.",
            "name the source and the target, such as en-de",
        )
    if not merge and known.types is not None:
        known = replace(known, types={}, labels=())
    options = {"document_starts": document_starts, "malformed": malformed}
    read = _Splits(known, name, lang, _folder(root), source, cut, options)
    data = read(split)
    if deduplicate:
        data = distinct(
            data,
            *(read(later) for later in SPLITS[SPLITS.index(split) + 1 :] if later in read.splits),
        )
    return data if parts is None else first_parts(data, parts, seed=seed)


def find_data(
    task: str | Task,
    lang: str,
    splits: Sequence[str],
    *,
    root: str | Path | None = None,
    source: str | None = None,
    cut: str = "auto",
) -> dict[str, DataError | str]:
    """Where `load_data` would take each split from, found without reading a row; an error for what is nowhere."""
    name = (
        task
        if isinstance(task, str) and not task.endswith((".yaml", ".yml"))
        else task_of(task).name
    )
    read = _Splits(task_of(task), name, lang, _folder(root), source, cut, {})
    found: dict[str, DataError | str] = {}
    for split in splits:
        try:
            found[split] = read.places(split)[0]
        except DeadheadError as problem:
            found[split] = DataError(problem.message, problem.hint)
    return found


def data_files(
    task: str | Task,
    lang: str,
    split: str,
    *,
    root: str | Path | None = None,
    source: str | None = None,
    cut: str = "auto",
    deduplicate: bool = False,
) -> tuple[str, ...]:
    """All files that `load_data` would read for a split; `hub:...` or `world` for what is no file."""
    name = (
        task
        if isinstance(task, str) and not task.endswith((".yaml", ".yml"))
        else task_of(task).name
    )
    read = _Splits(task_of(task), name, lang, _folder(root), source, cut, {})
    splits = [split]
    if deduplicate:  # rows of later splits are dropped from earlier ones, so they are read too
        splits += [later for later in SPLITS[SPLITS.index(split) + 1 :] if later in read.splits]
    return tuple(dict.fromkeys(place for one in splits for place in read.places(one)))


def _check(value: str, known: Sequence[str], kind: str) -> None:
    if value not in known:
        raise unknown_name(kind, value, known)


def _folder(root: str | Path | None) -> Path | None:
    folder = root if root is not None else os.environ.get("DEADHEAD_DATA") or None
    return None if folder is None else Path(folder)


@dataclass
class _Splits:
    """The splits of one task in one language, wherever they come from."""

    task: Task
    name: str
    lang: str
    root: Path | None
    source: str | None
    cut: str
    options: Mapping[str, Any]

    @cached_property
    def entries(self) -> dict[str, Entry]:
        if self.task.files:
            return _own_files(self.task, self.lang)
        if self.root is None:
            return {}
        return choose(index(self.root, self.task), self.name, self.lang, self.source)

    @property
    def cuts(self) -> bool:
        """Whether what is missing is cut out of train: only for tagged corpora, many of which have no official splits."""
        return (
            self.cut == "auto"
            and self.task.kind == "tag"
            and "train" in self.entries
            and "dev" not in self.entries
        )

    @cached_property
    def splits(self) -> tuple[str, ...]:
        return (
            SPLITS
            if is_world(self.root)
            else tuple(split for split in SPLITS if split in self.entries or self.cuts)
        )

    def __call__(self, split: str) -> Dataset:
        if is_world(self.root):
            return read_world(self.task, self.lang, split)
        if self.cut == "pooled" and self.entries:
            return self._pooled(split)
        if self.cuts and not (split == "test" and "test" in self.entries):
            return self._cut(split)
        return (
            read_entry(self.task, self.entries[split], self.options)
            if split in self.entries
            else self._elsewhere(split)
        )

    def places(self, split: str) -> tuple[str, ...]:
        """Where the split would come from: the way of `__call__`, without the reading."""
        if is_world(self.root):
            return (in_world(self.task, self.lang),)
        if self.cut == "pooled" and self.entries:
            return _files(*self.entries.values())
        if self.cuts and not (split == "test" and "test" in self.entries):
            return _files(self.entries["train"])
        if split in self.entries:
            return _files(self.entries[split])
        borrowed = self._borrowed(split)
        if borrowed is not None:
            return borrowed.places(split)
        self._refuse(split)
        from deadhead.tasks.locating.hub import on_hub

        return (on_hub(self.task, self.lang, split, self.source, self.root),)

    def _cut(self, split: str) -> Dataset:
        """A split cut out of the training file: dev is its last tenth, or without a test set 80/10/10."""
        whole = read_entry(self.task, self.entries["train"], self.options)
        if "test" in self.entries:
            return share(whole, split, (0.9, 1.0, 1.0))
        return share(whole, split, (0.8, 0.9, 1.0))

    def _pooled(self, split: str) -> Dataset:
        """80/10/10 of all files of the corpus, one after the other."""
        if self.root is None:
            raise DataError(
                "pooling needs the files of a corpus.",
                "name their folder with --data DIR or DEADHEAD_DATA",
            )
        corpus = next(iter(self.entries.values())).source
        same = [
            e
            for e in index(self.root, self.task)
            if (e.task, e.lang, e.source) == (self.name, self.lang, corpus)
        ]
        main = {
            e.variant for e in self.entries.values()
        }  # of the folds all are pooled, of other variants the one that is read
        same = [e for e in same if e.variant in main or e.variant.startswith("fold")]
        pool = concatenate([read_entry(self.task, entry, self.options) for entry in same])
        return share(pool, split, (0.8, 0.9, 1.0))

    def _elsewhere(self, split: str) -> Dataset:
        borrowed = self._borrowed(split)
        if borrowed is not None:
            return borrowed(split)
        self._refuse(split)
        from deadhead.tasks.locating.hub import read_hub

        return read_hub(self.task, self.lang, split, self.source, self.root)

    def _borrowed(self, split: str) -> _Splits | None:
        """The data of the task whose training set this one uses."""
        lender = TASKS.get(self.task.train_on)
        if split != "train" or lender is None or self.lang not in lender.languages:
            return None
        return _Splits(lender, lender.name, self.lang, self.root, None, self.cut, self.options)

    def _refuse(self, split: str) -> None:
        """No file has the split: say so, unless the hub can be asked. Another corpus than the papers' is not taken unasked."""
        asked = hub_set(self.task.hub, self.lang, self.source)
        alien = (
            any(one.unasked for one in self.task.hub)
            and asked is None
            and not self.source
            and self.task.kind != "tag"
        )
        if self.entries or self.task.files or not (asked or alien) or self._no_language:
            there = f" There is: {', '.join(self.splits)}." if self.entries else self._instead()
            where = f"in {self.root}" if self.root else "without a folder of data"
            named = (
                "with --data DIR"
                if self.root
                else "with --data DIR, or set DEADHEAD_DATA, which is not set"
            )
            put = (
                ""
                if self.task.files
                else f"put {place_of(self.task, self.lang)} into a folder and name it {named}; "
            )
            others = other_names(self.task.hub, self.lang, self.source)
            hub = "".join(
                f"; the hub has {name}, other data than the papers': --source {name}, or in a recipe data: {{source: {name}}}"
                for name in others
            )
            raise DataError(
                f"no {split} data of {self.name} in {self.lang} {where}.{there}{self._skipped()}",
                f"{put}deadhead data check DIR lists what it holds{hub}",
            )

    @property
    def _no_language(self) -> bool:
        """Whether this is no code of a language, so that the hub need not be asked; WikiANN has more than are known here."""
        asked = hub_set(self.task.hub, self.lang, self.source)
        odd = any(code_of(part) != part for part in self.lang.split("-"))
        return (
            odd and self.lang not in self.task.languages and not (asked and asked.languages is None)
        )

    def _skipped(self) -> str:
        """Files of the folder that were not read and may be the ones that are missed."""
        files = survey(self.root, self.task)[1] if self.root else []
        several = "; ".join(
            f"{path.relative_to(self.root)} ({reason})"
            for path, reason in files[:SHOWN]
            if self.root
        )
        return (
            f" Skipped: {several}{f'; and {len(files) - SHOWN} more' if len(files) > SHOWN else ''}."
            if files
            else ""
        )

    def _instead(self) -> str:
        """The languages there are, where this one is not among them."""
        found = (
            {entry.lang for entry in index(self.root, self.task) if entry.task == self.name}
            if self.root
            else set()
        )
        if found:
            return f" There it is in: {', '.join(sorted(found))}."
        return (
            ""
            if self.lang in self.task.languages
            else f" Its languages: {', '.join(sorted(self.task.languages))}."
        )


def _files(*entries: Entry) -> tuple[str, ...]:
    """The files of entries, all of which must be there."""
    for entry in entries:
        entry.check()
    files = [path for entry in entries for path in entry.files.values()]
    gone = next((path for path in files if not path.is_file()), None)
    if gone is not None:
        raise DataError(
            f"{gone}: there is no such file.", "fetch it, or hint the list that names it"
        )
    return tuple(map(str, files))


def read_entry(task: Task, entry: Entry, options: Mapping[str, Any] | None = None) -> Dataset:
    """The rows of an entry of a data folder."""
    entry.check()
    notes: Counter[str] = Counter()
    settings = {**(options or {}), **task.columns, "lang": entry.lang, "partition": entry.partition}
    settings["malformed"] = settings.get("malformed") or task.malformed
    rows = reader_of(entry.format)(entry.files, task, notes, **settings)
    files = tuple(str(path) for path in entry.files.values())
    if not rows:
        raise DataError(
            f"{files[0]}:1: no {'pair' if task.kind == 'translate' else 'sentence'} in the file.",
            "fetch the file again",
        )
    return dataset(task, entry.lang, entry.split, rows, notes, files)


def _own_files(task: Task, lang: str) -> dict[str, Entry]:
    entries = {}
    for split, pattern in task.files.items():
        fields = (
            dict(zip(lang.split("-"), pattern.split("|"), strict=False))
            if "|" in pattern
            else {"": pattern}
        )
        files = {name: Path(text.format(lang=name or lang)) for name, text in fields.items()}
        form = task.format or guess(next(iter(files.values())), task, lang, tuple(files))
        entries[split] = Entry(
            task=task.name, lang=lang, split=split, source="", format=form, files=files
        )
    return entries
