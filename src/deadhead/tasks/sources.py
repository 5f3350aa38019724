"""Where the files are: what a data folder holds, as entries of task, language, split, corpus and format.

A folder with a `manifest.json` says it itself; in any other, names are read the way corpora write
them: `ner/en/train.txt`, `de_gsd-ud-test.conllu`, `eng.testa`, `train_FR.tsv`, `valid.en` beside
`valid.de`, `atis/train/seq.in`, `en-US.jsonl`. Loading and checking both go through `index`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError, unknown_name
from .dataset import SPLITS
from .languages import code_of
from .table import TASKS, Task
from .tags import split_tag
from .text import lines

SPLIT_NAMES = {
    "train": "train",
    "dev": "dev",
    "valid": "dev",
    "validation": "dev",
    "val": "dev",
    "testa": "dev",
    "test": "test",
    "testb": "test",
}
PARALLEL_FIELDS = ("seq.in", "seq.out", "label", "text")
NOT_DATA = {".md", ".json", ".yaml", ".yml", ".py", ".html", ".pdf", ".zip", ".log"}


@dataclass(frozen=True)
class Entry:
    """The files of one split of one corpus."""

    task: str  # as the folder calls it: `slots`, `slots-atis`
    lang: str
    split: str
    source: str  # the corpus
    format: str
    files: Mapping[str, Path]
    default: bool = True  # the one that is meant when no source is named
    partition: str | None = None  # the part of a file that holds all splits (MASSIVE)


def index(root: Path, task: Task | None = None) -> list[Entry]:
    """Everything a folder holds; in a folder of one task without a manifest, `task` says which."""
    if not root.is_dir():
        raise DataError(f"{root}: there is no such folder.", "name a folder of data with --data DIR or DEADHEAD_DATA")
    if (root / "manifest.json").is_file():
        return list(_from_manifest(root))
    return list(_from_names(root, task))


# --- a folder with a manifest -------------------------------------------------------------------


def _from_manifest(root: Path) -> Iterator[Entry]:
    path = root / "manifest.json"
    try:
        manifest = json.loads(path.read_text("utf-8"))
        about = manifest["files"]
        listed = [(t, la, s, f) for t, langs in manifest["tasks"].items() for la, splits in langs.items() for s, f in splits.items()]
        used: set[str] = set()
        for task, lang, split, names in listed:
            fields = names if isinstance(names, dict) else {"": names}
            used |= set(fields.values())
            yield _entry(root, about, task, lang, split, fields, default=True)
        for name, item in about.items():
            if name not in used:
                yield _entry(root, about, item["task"], item["language"], item["split"], {"": name}, default=False)
    except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise DataError(
            f"{path}: not a manifest this version understands ({type(error).__name__}: {error}).",
            "it needs `tasks` (task, language, split, file) and `files` (path, with its format)",
        ) from error


def _entry(root: Path, about: Mapping[str, Any], task: str, lang: str, split: str, fields: Mapping[str, str], default: bool) -> Entry:
    first = next(iter(fields.values()))
    place = Path(first).parent
    source = place.parent.name if place.name in SPLIT_NAMES else place.name  # atis-en/train/seq.in
    files = {field: root / name for field, name in fields.items()}
    return Entry(task, lang, SPLIT_NAMES.get(split, split), source, about[first]["format"], files, default)


# --- a folder whose names say it ----------------------------------------------------------------


def _from_names(root: Path, task: Task | None) -> Iterator[Entry]:
    groups: dict[tuple[str, str, str, str], dict[str, Path]] = {}
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        place = None if _passed_over(path.relative_to(root)) else _place(path, root, task)
        if place is not None:
            field, *key = place
            groups.setdefault((key[0], key[1], key[2], key[3]), {}).setdefault(field, path)
    for (name, lang, split, source), files in groups.items():
        known = task if task and task.name == name else TASKS[name.partition("-")[0]]
        if known.kind == "translate" and len(files) == 1 and "" not in files:
            lang = next(iter(files))
        elif known.kind == "translate" and "" not in files:
            lang = "-".join(sorted(files, key=lambda code: (code != "en", code)))
        form = guess(next(iter(files.values())), known, lang, tuple(files))
        for part in [split] if split else SPLITS:
            yield Entry(name, lang, part, source, form, files, partition=None if split else part)


def _passed_over(path: Path) -> bool:
    name = path.name.removesuffix(".gz")
    return name.startswith((".", "README", "LICENSE")) or Path(name).suffix in NOT_DATA


def _place(path: Path, root: Path, task: Task | None) -> tuple[str, str, str, str, str] | None:
    """Field, task, language, split and corpus of a file, if its name says what it is."""
    parts = [*path.relative_to(root).parts[:-1], path.name.removesuffix(".gz")]
    name = next((p for p in parts[:-1] if p.partition("-")[0] in TASKS), task.name if task else root.name)
    if name.partition("-")[0] not in TASKS and not (task and name == task.name):
        return None
    kind = (task if task and task.name == name else TASKS[name.partition("-")[0]]).kind
    words = [re.split(r"[._\-]", part) for part in reversed(parts)]  # the file's own name first
    split = _first(words, lambda word: SPLIT_NAMES.get(word.lower()))
    lang = _first(words, code_of)
    field = parts[-1] if parts[-1] in PARALLEL_FIELDS else ""
    if kind == "translate" and path.suffix not in (".tsv", ".jsonl", ".csv") and lang:
        field, lang = code_of(words[0][-1]) or lang, ""
    elif kind == "translate":
        codes = [code for part in words for word in part if (code := code_of(word))]
        lang = "-".join(codes[:2]) if len(codes) > 1 else None
    if lang is None and kind != "translate":
        lang = "en"  # GLUE, ATIS and SNIPS do not say
    if lang is None or (split is None and not path.name.removesuffix(".gz").endswith(".jsonl")):
        return None
    return field, name, lang, split or "", parts[-2] if len(parts) > 1 and parts[-2] != name else ""


def _first(words: list[list[str]], known: Any) -> str | None:
    return next((found for part in words for word in part if (found := known(word))), None)


def guess(path: Path, task: Task, lang: str, fields: tuple[str, ...] = ("",)) -> str:
    """The format of a file, by its name and its first line of data."""
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if fields[0]:
        return "lines" if task.kind == "translate" else "lines-seq.in"
    if suffix in (".conllu", ".jsonl", ".csv"):
        return suffix[1:]
    if task.kind != "tag":
        return "tsv"
    return _guess_columns(path, task, lang)


def _guess_columns(path: Path, task: Task, lang: str) -> str:
    line = next((line for _, line in lines(path) if line.strip() and not re.match(r"#[ \t]", line)), "")
    cells = line.split("\t") if "\t" in line else line.split(" ")
    if any(name in cells for name in task.label.split("|")):
        return "tsv"
    if cells[0] == "1" and len(cells) == 10:
        return "conllu"
    if cells[0] == "1" and len(cells) > 2:
        return "germeval" if split_tag(cells[2]) else "xsid-conll"
    return "wikiann" if cells[0].startswith(f"{lang}:") else "columns"


# --- choosing -----------------------------------------------------------------------------------


def choose(entries: list[Entry], task: str, lang: str, source: str | None) -> dict[str, Entry]:
    """The entries of a task in a language, by split: of the corpus named, or the default ones."""
    mine = [entry for entry in entries if entry.task == task or (source and entry.task.startswith(f"{task}-"))]
    found = [entry for entry in mine if entry.lang == lang]
    if not found and "-" in lang:
        found = _paired(mine, lang)
    if source is not None:
        near = [entry for entry in found if source.lower() in (entry.source.lower(), entry.task.lower())]
        if not near and found:
            raise unknown_name(f"corpus of {task} in {lang}", source, {entry.source for entry in found})
        return {entry.split: entry for entry in near}
    chosen: dict[str, Entry] = {}
    for entry in found:
        if entry.default:
            chosen.setdefault(entry.split, entry)
    return chosen


def _paired(entries: list[Entry], lang: str) -> list[Entry]:
    """A pair out of two single languages whose files are line-parallel (or out of a pair the other way round)."""
    source, _, target = lang.partition("-")
    turned = [entry for entry in entries if entry.lang == f"{target}-{source}"]
    if turned:
        return [Entry(**{**vars(entry), "lang": lang}) for entry in turned]
    sides = {(entry.lang, entry.split): entry for entry in reversed(entries) if "-" not in entry.lang}
    return [
        Entry(**{**vars(entry), "lang": lang, "files": {source: only(entry.files), target: only(sides[target, split].files)}})
        for (code, split), entry in sides.items()
        if code == source and (target, split) in sides
    ]


def only(files: Mapping[str, Path]) -> Path:
    return next(iter(files.values()))
