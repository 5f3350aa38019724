"""What a data folder holds: by its `manifest.json`, or by the names of its files.

Loading and checking both go through `survey`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from deadhead.errors import DataError, unknown_name
from deadhead.tasks.task import Task

from .from_manifest import MANIFEST, from_manifest
from .from_names import from_names
from .split_files import ON_REQUEST, Skipped, SplitFiles, mark_clashes


def survey(root: Path, task: Task | None = None) -> tuple[list[SplitFiles], list[Skipped]]:
    """Return the splits in a folder, and the files that are not read, with the reasons.

    task: which task it is, in a folder of one task without a manifest.
    """
    if not root.is_dir():
        raise DataError(
            f"{root}: there is no such folder.",
            "name a folder of data with --data DIR or DEADHEAD_DATA",
        )
    if not (root / MANIFEST).is_file():
        return from_names(root, task)
    entries = from_manifest(root)
    listed = [entry for entry in entries if entry.default]  # the manifest has chosen these
    return [*listed, *mark_clashes(entry for entry in entries if not entry.default)], []


def choose(
    entries: Iterable[SplitFiles], task: str, lang: str, source: str | None
) -> dict[str, SplitFiles]:
    """Return the entries of a task in a language, by split.

    source: the corpus (or variant) to read; without it, the default one.
    """
    mine = [e for e in entries if e.task == task or (source and e.task.startswith(f"{task}-"))]
    mine = [e for e in mine if e.lang == lang] or _paired(mine, lang)
    chosen = _of_source(mine, source.lower()) if source else [e for e in mine if e.default]
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


def _of_source(entries: list[SplitFiles], source: str) -> list[SplitFiles]:
    corpus = [e for e in entries if source in (e.source.lower(), e.task.lower())]
    return corpus or [e for e in entries if source == e.variant]


def _no_default(entries: list[SplitFiles], task: str, lang: str) -> DataError:
    """Say which corpora there are, and how to name one of them."""
    folders = {
        e.source: next((p for p in e.first.parents if p.name == e.source), None)
        for e in entries
        if e.source
    }
    hint = "list the files that are meant in manifest.json, under `tasks`"
    if folders:
        name = min(folders)
        hint = f"name one: --data {folders[name]}, or in a recipe data: {{source: {name}}}"
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
