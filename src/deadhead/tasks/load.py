"""From a task, a language and a split to its rows.

`load_data("ner", "de", "train")` finds the files (a local folder first, the hub second), reads
them, and cuts what has no official split the way the papers' data demand: a missing dev set is the
last tenth of train, a corpus without any split is cut 80/10/10 in file order.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from deadhead.errors import DataError, DeadheadError, unknown_name

from .dataset import Dataset, concatenate, distinct, first_parts
from .registry import name_of, task_of
from .split_reader import SplitReader
from .task import SPLITS, TEXT, Task

Root = str | Path | None
FILES = "files"  # a source that is no corpus: what the folder has, and nothing from the hub
WORDS = {
    "split": SPLITS,
    "cut": ("auto", "given", "pooled"),
    "value of malformed": ("error", "drop"),
}


def load_data(
    task: str | Task,
    lang: str | Sequence[str] | None = None,
    split: str = "dev",
    *,
    root: Root = None,
    source: str | None = None,
    cut: str = "auto",
    deduplicate: bool = False,
    parts: int | None = None,
    seed: int = 42,
    merge: bool = True,
    document_starts: str = "drop",
    malformed: str | None = None,
) -> Dataset:
    """Load the data of a task in a language; several languages are concatenated.

    lang: left out for lm, whose text has no language; a task file whose paths contain no {lang}
        needs none.
    root: a folder of data (or the environment variable DEADHEAD_DATA); `world` for the embedded
        one; for lm, choice, qa and similarity also a file, which is the split that is read. What no
        folder has comes from the hub.
    source: a corpus other than the default one, such as `wikiann`, which the hub has; `files` reads
        the default one, and never from the hub.
    cut: `auto` cuts missing splits of tagged corpora out of train, `given` takes only the splits
        that exist, `pooled` pools all files and cuts 80/10/10.
    deduplicate: drop repeated rows, and from train those of dev and test, from dev those of test.
    parts: only the first N of ten disjoint random parts (seeded), for low-resource curves.
    merge: entity types to PER, ORG, LOC and MISC.
    document_starts: `keep` counts them as sentences.
    malformed: `drop` skips lines of tables that cannot be read and counts them, `error` refuses
        them. The default is `error`, and `drop` for qqp, whose official file has such lines.
    """
    words = (split, cut, malformed or "error")
    for word, (kind, allowed) in zip(words, WORDS.items(), strict=True):
        if word not in allowed:
            raise unknown_name(kind, word, allowed)
    options = {"document_starts": document_starts, "malformed": malformed}
    known = task_of(task)
    if not merge and known.types is not None:
        known = replace(known, types={}, labels=())

    lang = _languages(known, lang)
    if known.traits.label_unit == "token" and (deduplicate or parts is not None or cut == "pooled"):
        message = f"{known.name} reads a text as a whole, without `deduplicate`, `parts` or a cut."
        raise DataError(message, "leave them out; the number of examples draws windows at random")

    def load(lang: str) -> Dataset:
        if known.traits.language_pair and not all(lang.partition("-")):
            message = f"{name_of(task)} is a translation, and {lang!r} names one language."
            raise DataError(message, "name the source and the target, such as en-de")
        reader = _reader(task, lang, root=root, source=source, cut=cut)
        reader = replace(reader, task=known, options=options)
        data = reader.read(split)
        if deduplicate:
            data = distinct(data, *map(reader.read, _later(split, reader)))
        return data if parts is None else first_parts(data, parts, seed=seed)

    return load(lang) if isinstance(lang, str) else concatenate([load(code) for code in lang])


def _languages(task: Task, lang: str | Sequence[str] | None) -> str | Sequence[str]:
    """Return the languages to load; an error where they are missing, or make no sense."""
    if task.traits.has_language:
        if lang is None:
            lang = task.default_language
        if lang is None:
            why = f": {task.why_language}" if task.why_language else ""
            hint = f"name one, such as {task.example_language}"
            raise DataError(f"{task.title} needs a language{why}.", hint)
        if task.files and task.languages:  # a task file that lists what it has
            for code in [lang] if isinstance(lang, str) else lang:
                if code not in task.languages:
                    raise unknown_name(f"language of {task.title}", code, task.languages)
        return lang
    if lang not in (None, TEXT, [TEXT]):
        name = lang if isinstance(lang, str) else ", ".join(lang or ())
        message = f"the data of {task.name} has no language; got {name!r}."
        raise DataError(message, "leave the language out (--lang; source, train and targets)")
    return TEXT


def find_data(
    task: str | Task,
    lang: str,
    splits: Sequence[str],
    *,
    beside: str | None = None,
    root: Root = None,
    source: str | None = None,
    cut: str = "auto",
) -> dict[str, DataError | str]:
    """Return where `load_data` would read each split, or its error, without reading a row.

    beside: the split that is read already. A single file serves one split: that one, or the first.
    """
    reader = _reader(task, lang, root=root, source=source, cut=cut)
    places: dict[str, DataError | str] = {}
    served = beside or next(iter(splits), None)
    for split in splits:
        try:
            if reader.is_file and split != served:
                message = f"{reader.root} is one file, and serves as {served} data only."
                hint = "put files named train, valid and test into a folder and name that"
                raise DataError(message, hint)
            places[split] = reader.places(split)[0]
        except DeadheadError as problem:
            places[split] = DataError(problem.message, problem.hint)
    return places


def data_files(
    task: str | Task,
    lang: str,
    split: str,
    *,
    root: Root = None,
    source: str | None = None,
    cut: str = "auto",
    deduplicate: bool = False,
) -> tuple[str, ...]:
    """Return all files that `load_data` would read; `hub:...` or `world` for other sources."""
    reader = _reader(task, lang, root=root, source=source, cut=cut)
    splits = [split, *(_later(split, reader) if deduplicate else ())]
    return tuple(dict.fromkeys(place for name in splits for place in reader.places(name)))


def _reader(
    task: str | Task, lang: str, *, root: Root, source: str | None, cut: str
) -> SplitReader:
    folder = root if root is not None else os.environ.get("DEADHEAD_DATA") or None
    return SplitReader(
        task=task_of(task),
        name=name_of(task),
        lang=lang,
        root=None if folder is None else Path(folder),
        source=None if source == FILES else source,
        cut=cut,
        hub=source != FILES,
    )


def _later(split: str, reader: SplitReader) -> list[str]:
    """Return the splits whose rows deduplication drops from this one."""
    return [later for later in SPLITS[SPLITS.index(split) + 1 :] if later in reader.splits]
