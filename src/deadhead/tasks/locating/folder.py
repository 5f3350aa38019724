"""Where the files are: what a data folder holds, as entries of task, language, split, corpus and format.

A folder with a `manifest.json` says it itself; in any other, names are read (`names.py`). Loading
and checking both go through `index`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from deadhead.errors import DataError, unknown_name
from deadhead.tasks.splits import SPLIT_NAMES
from deadhead.tasks.task import Task

from .file_names import VARIANT, clashes, from_names
from .split_files import ON_REQUEST, Entry, Skipped


def index(root: Path, task: Task | None = None) -> list[Entry]:
    """Everything a folder holds; in a folder of one task without a manifest, `task` says which."""
    return survey(root, task)[0]


def survey(root: Path, task: Task | None = None) -> tuple[list[Entry], list[Skipped]]:
    """Everything a folder holds, and the files in it that are not read, with the reasons."""
    if not root.is_dir():
        raise DataError(
            f"{root}: there is no such folder.",
            "name a folder of data with --data DIR or DEADHEAD_DATA",
        )
    if (root / "manifest.json").is_file():
        entries = list(_from_manifest(root))
        others = clashes(
            [entry for entry in entries if not entry.default]
        )  # what `tasks` lists is chosen already
        return [*(entry for entry in entries if entry.default), *others], []
    return from_names(root, task)


def _from_manifest(root: Path) -> Iterator[Entry]:
    path = root / "manifest.json"
    try:
        manifest = json.loads(path.read_text("utf-8"))
        about = manifest["files"]
        listed = [
            (t, la, s, f)
            for t, langs in manifest["tasks"].items()
            for la, splits in langs.items()
            for s, f in splits.items()
        ]
        used: set[str] = set()
        for task, lang, split, names in listed:
            fields = names if isinstance(names, dict) else {"": names}
            used |= set(fields.values())
            yield _entry(root, about, task, lang, split, fields, default=True)
        for name, item in about.items():
            if name not in used:
                yield _entry(
                    root,
                    about,
                    item["task"],
                    item["language"],
                    item["split"],
                    {"": name},
                    default=False,
                )
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        StopIteration,
        RecursionError,
        OSError,
    ) as error:
        raise DataError(
            f"{path}: not a manifest this version understands ({type(error).__name__}: {error}).",
            "it needs `tasks` (task, language, split, file) and `files` (path, with its format)",
        ) from error


def _inside(root: Path, name: Any) -> Path:
    """The path of a file that a manifest names: always inside of its folder."""
    path = Path(_text(name))
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{name!r} is outside of the folder")
    return root / path


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError(f"expected a text, got {value!r}")
    return value


def _entry(
    root: Path,
    about: Mapping[str, Any],
    task: str,
    lang: str,
    split: str,
    fields: Mapping[str, str],
    default: bool,
) -> Entry:
    first = next(iter(fields.values()))
    place = Path(first).parent
    source = place.parent.name if place.name in SPLIT_NAMES else place.name  # atis-en/train/seq.in
    files = {field: _inside(root, name) for field, name in fields.items()}
    variant = VARIANT.search(Path(first).name.lower())
    return Entry(
        task=_text(task),
        lang=_text(lang),
        split="train"
        if split == "all"
        else SPLIT_NAMES.get(split, split),  # a corpus without splits is cut like a training file
        source=source,
        format=_text(about[first]["format"]),
        files=files,
        default=default,
        variant=variant[0] if variant else "",
    )


def choose(entries: list[Entry], task: str, lang: str, source: str | None) -> dict[str, Entry]:
    """The entries of a task in a language, by split: of the corpus (or variant) named, or the default ones."""
    mine = [
        entry
        for entry in entries
        if entry.task == task or (source and entry.task.startswith(f"{task}-"))
    ]
    found = [entry for entry in mine if entry.lang == lang] or _paired(mine, lang)
    if source is not None:
        names = source.lower()
        chosen = [entry for entry in found if names in (entry.source.lower(), entry.task.lower())]
        chosen = chosen or [entry for entry in found if names == entry.variant]
        if found and not chosen:
            raise unknown_name(
                f"corpus of {task} in {lang}",
                source,
                {name for e in found for name in (e.source, e.variant) if name},
            )
    else:
        chosen = [entry for entry in found if entry.default]
        if found and not chosen:
            raise _several(found, task, lang)
    by_split: dict[str, Entry] = {}
    for entry in sorted(
        chosen, key=lambda entry: (not entry.default, entry.variant)
    ):  # the main file goes first, then fold 1
        if entry.variant not in ON_REQUEST or (source or "").lower() == entry.variant:
            by_split.setdefault(entry.split, entry)
    return by_split


def _several(found: list[Entry], task: str, lang: str) -> DataError:
    """None of the corpora found is the default one: which there are, and how to name one."""
    folders = {
        e.source: next((p for p in e.first.parents if p.name == e.source), None)
        for e in found
        if e.source
    }
    met = (
        "more than once"
        if len({e.source for e in found}) > 1
        else "in a corpus that is not the default"
    )
    hint = "list the files that are meant in manifest.json, under `tasks`"
    if folders:
        name = min(folders)
        hint = f"name one: --data {folders[name]}, or in a recipe data: {{source: {name}}}"
    return DataError(
        f"{task} in {lang} is here {met}: {', '.join(sorted(folders)) or found[0].first}.", hint
    )


def _paired(entries: list[Entry], lang: str) -> list[Entry]:
    """A pair out of two single languages whose files are line-parallel (or out of a pair the other way round)."""
    source, _, target = lang.partition("-")
    turned = [
        replace(entry, lang=lang)
        for entry in entries
        if target and entry.lang == f"{target}-{source}"
    ]
    sides = {
        (entry.lang, entry.split): entry for entry in reversed(entries) if "-" not in entry.lang
    }
    return turned or [
        replace(entry, lang=lang, files={source: entry.first, target: sides[target, split].first})
        for (code, split), entry in sides.items()
        if code == source and (target, split) in sides
    ]
