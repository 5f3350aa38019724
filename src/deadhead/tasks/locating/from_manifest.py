"""The splits in a data folder that lists its files in `manifest.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deadhead.errors import DataError
from deadhead.tasks.splits import SPLIT_NAMES

from .file_name import variant_of
from .split_files import SplitFiles

MANIFEST = "manifest.json"
# What damaged manifests raise while they are read.
DAMAGE = (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError, OSError)


def from_manifest(root: Path) -> list[SplitFiles]:
    """Return the splits that `tasks` lists, as the defaults, and then all other `files`."""
    path = root / MANIFEST
    try:
        manifest = json.loads(path.read_text("utf-8"))
        return [*_listed(root, manifest), *_others(root, manifest)]
    except DAMAGE as error:
        raise DataError(
            f"{path}: not a manifest this version understands ({type(error).__name__}: {error}).",
            "it needs `tasks` (task, language, split, file) and `files` (path, with its format)",
        ) from error


def _listed(root: Path, manifest: Mapping[str, Any]) -> Iterator[SplitFiles]:
    for task, languages in manifest["tasks"].items():
        for lang, splits in languages.items():
            for split, names in splits.items():
                place = {"task": task, "language": lang, "split": split}
                yield _entry(root, manifest["files"], place, _by_field(names), default=True)


def _others(root: Path, manifest: Mapping[str, Any]) -> Iterator[SplitFiles]:
    listed = {
        name
        for languages in manifest["tasks"].values()
        for splits in languages.values()
        for names in splits.values()
        for name in _by_field(names).values()
    }
    for name, about in manifest["files"].items():
        if name not in listed:
            yield _entry(root, manifest["files"], about, {"": name}, default=False)


def _by_field(names: Any) -> dict[str, Any]:
    return names if isinstance(names, dict) else {"": names}


def _entry(
    root: Path,
    about: Mapping[str, Any],
    place: Mapping[str, Any],
    fields: Mapping[str, str],
    *,
    default: bool,
) -> SplitFiles:
    first = next(iter(fields.values()))
    folder = Path(first).parent
    if folder.name in SPLIT_NAMES:  # atis-en/train/seq.in
        folder = folder.parent
    split = place["split"]
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
