"""What a data folder holds: by its `manifest.json`, or by the names of its files.

Loading and checking both go through `survey`.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from deadhead.errors import DataError, unknown_name
from deadhead.tasks.hub_sets import names_of
from deadhead.tasks.task import SPLIT_NAMES, Task

from .file_name import variant_of
from .from_names import from_names
from .split_files import ON_REQUEST, Skipped, SplitFiles, mark_clashes

Facts = Mapping[str, Any]
MANIFEST = "manifest.json"
# What damaged manifests raise while they are read.
DAMAGE = (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError, OSError)
# The folder that the archive of a release of Universal Dependencies unpacks to.
RELEASE_FOLDER = re.compile(r"ud-treebanks-v([0-9]+\.[0-9]+)", re.IGNORECASE)
# By folder and task: the version of the files, the task itself, the result.
_surveys: dict[tuple[Path, str], tuple[Any, Task | None, Any]] = {}


def survey(root: Path, task: Task | None = None) -> tuple[list[SplitFiles], list[Skipped]]:
    """Return the splits in a folder, and the files that are not read, with the reasons.

    task: which task it is, in a folder of one task without a manifest.
    """
    if not root.is_dir():
        raise _no_folder(root, task)
    if not (root / MANIFEST).is_file():
        return _by_names(root, task)
    entries = from_manifest(root)
    listed = [entry for entry in entries if entry.default]  # the manifest has chosen these
    return [*listed, *mark_clashes(entry for entry in entries if not entry.default)], []


def _by_names(root: Path, task: Task | None) -> tuple[list[SplitFiles], list[Skipped]]:
    """The same as `from_names`; a folder whose files are as they were is not read again."""
    files = (os.path.join(home, name) for home, _, names in os.walk(root) for name in names)
    stats = ((file, os.stat(file)) for file in files if os.path.isfile(file))
    version = sorted((file, s.st_size, s.st_mtime_ns, s.st_ino) for file, s in stats)
    key = root, task.name if task else ""
    known = _surveys.get(key)
    if known is None or known[:2] != (version, task):
        known = _surveys[key] = (version, task, from_names(root, task))
    entries, skipped = known[2]
    return [*entries], [*skipped]


def _no_folder(root: Path, task: Task | None) -> DataError:
    """The error for what is no folder; it may be the name of a corpus on the hub."""
    missing = "this is a file" if root.is_file() else "there is no such folder or file"
    hint = "name a folder of data with --data DIR or DEADHEAD_DATA"
    if task is not None and task.hub and not root.exists():
        names = " or ".join(f"--source {name}" for name in names_of(task.hub))
        hint += f"; for data of the hub leave both out and write {names}"
    return DataError(f"{root}: {missing}; expected a folder of data.", hint)


def from_manifest(root: Path) -> list[SplitFiles]:
    """Return the splits that `tasks` lists, as the defaults, and then all other `files`."""
    path = root / MANIFEST
    try:
        manifest = json.loads(path.read_text("utf-8"))
        return list(_manifest_entries(root, manifest))
    except DAMAGE as error:
        problem = f"not a manifest this version understands ({type(error).__name__}: {error})"
        hint = "it needs `tasks` (task, language, split, file) and `files` (path, with its format)"
        raise DataError(f"{path}: {problem}.", hint) from error


def _manifest_entries(root: Path, manifest: Facts) -> Iterator[SplitFiles]:
    listed: set[str] = set()
    for task, languages in manifest["tasks"].items():
        for lang, splits in languages.items():
            for split, names in splits.items():
                place = {"task": task, "language": lang, "split": split}
                fields = names if isinstance(names, dict) else {"": names}
                listed.update(fields.values())
                yield _entry(root, manifest["files"], place, fields, default=True)
    for name, about in manifest["files"].items():
        if name not in listed:
            yield _entry(root, manifest["files"], about, {"": name}, default=False)


def _entry(root: Path, about: Facts, place: Facts, fields: Facts, *, default: bool) -> SplitFiles:
    first = next(iter(fields.values()))
    folder = Path(first).parent
    if folder.name in SPLIT_NAMES:  # atis-en/train/seq.in
        folder = folder.parent
    split: str = place["split"]
    return SplitFiles(
        task=_text(place["task"]),
        lang=_text(place["language"]),
        # a corpus without splits is cut like a training file
        split="train" if split == "all" else SPLIT_NAMES.get(split, split),
        source=folder.name,
        format=_text(about[first]["format"]),
        files={field: _inside(root, name) for field, name in fields.items()},
        default=default,
        variant=variant_of(Path(first).name),
    )


def _inside(root: Path, name: Any) -> Path:
    """Return the path of a file that a manifest names; refuse paths outside of the folder."""
    path = Path(_text(name))
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{name!r} is outside of the folder")
    return root / path


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"expected a text, got {value!r}")
    return value


def choose(
    entries: Iterable[SplitFiles], task: str, lang: str, source: str | None
) -> dict[str, SplitFiles]:
    """Return the entries of a task in a language, by split.

    source: the corpus (or variant) to read; without it, the default one.
    """
    mine = [e for e in entries if e.task == task or (source and e.task.startswith(f"{task}-"))]
    mine = [e for e in mine if e.lang == lang] or _paired(mine, lang)
    chosen = [e for e in mine if e.default]
    if source:
        name = source.lower()
        chosen = [e for e in mine if name in (e.source.lower(), e.task.lower())]
        chosen = chosen or [e for e in mine if name == e.variant]
    if mine and not chosen and source:
        names = {name for e in mine for name in (e.source, e.variant) if name}
        raise unknown_name(f"corpus of {task} in {lang}", source, names)
    if mine and not chosen:
        raise _no_default(mine, task, lang)
    by_split: dict[str, SplitFiles] = {}
    # the main file goes first, then fold 1
    for e in sorted(chosen, key=lambda e: (not e.default, e.variant)):
        if e.variant not in ON_REQUEST or (source or "").lower() == e.variant:
            by_split.setdefault(e.split, e)
    return by_split


def _no_default(entries: list[SplitFiles], task: str, lang: str) -> DataError:
    """Say which corpora there are, and how to name one of them."""
    named = [(e.source, e.first.parents) for e in entries if e.source]
    folders = {name: next((p for p in up if p.name == name), None) for name, up in named}
    hint = "list the files that are meant, of all languages, in manifest.json, under `tasks`"
    if folders:
        name = min(folders)
        hint = f"name one: --data {folders[name]}, or --source {name}; " + hint
    is_repeated = len({e.source for e in entries}) > 1
    how = "more than once" if is_repeated else "in a corpus that is not the default"
    names = ", ".join(sorted(folders)) or entries[0].first
    return DataError(f"{task} in {lang} is here {how}: {names}.", hint)


def _paired(entries: list[SplitFiles], lang: str) -> list[SplitFiles]:
    """Build a pair from the other direction, or from two languages with line-parallel files."""
    source, _, target = lang.partition("-")
    turned = [replace(e, lang=lang) for e in entries if target and e.lang == f"{target}-{source}"]
    sides = {(e.lang, e.split): e for e in reversed(entries) if "-" not in e.lang}
    return turned or [
        replace(e, lang=lang, files={source: e.first, target: sides[target, split].first})
        for (code, split), e in sides.items()
        if code == source and (target, split) in sides
    ]


def release_of(file: Path) -> str:
    """Return `2.7, by its folder`, or nothing."""
    releases = [match[1] for part in file.resolve().parts if (match := RELEASE_FOLDER.search(part))]
    return f"{releases[-1]}, by its folder" if releases else ""
