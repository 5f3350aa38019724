"""Records: one JSON file per finished trial, and a quick way to read very many of them.

A record is everything the report needs about one trial. `write` renames it into place; `read` gives
one back whole; `summaries` gives the trial, state, metrics and cost of all of them, out of an index
that is only trusted for files whose size and time it knows. Loads no torch, and no pickle ever.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from ..files import Syncer
from . import folder as place
from .folder import DiskFull, StudyError
from .trial import Trial

FORMAT = 1
STATES = ("done", "failed")
SUMMARY = ("state", "trial", "metrics", "cost")
NUMBERS = frozenset((float, int, type(None)))  # types a metric may have; what was no number is null
TEXTS, NAMES = frozenset((str,)), frozenset((str, list))
TYPES: Mapping[str, frozenset[type]] = {  # those that fields of a trial may have; lists are of texts
    "model": TEXTS,
    "task": TEXTS,
    "source": NAMES,
    "train": NAMES,
    "targets": frozenset((list,)),
    "splits": NAMES,
    "data": frozenset((dict,)),
    "inputs": frozenset((dict,)),
    "rank": frozenset((dict,)),
    "remove": frozenset((dict, str)),
    "seed": frozenset((int,)),
    "draw": frozenset((int,)),
}
BULKY = ("steps", "finetune")  # fields of a trial that the index leaves out


@dataclass(frozen=True)
class Record:
    """One trial and what came of it."""

    trial: Trial
    state: str  # of STATES
    removed: tuple[str, ...] = ()  # heads in their printed form, encoder.3.7
    metrics: Mapping[str, float] = field(default_factory=dict)  # "de/test/accuracy" -> 0.64
    epochs: tuple[Mapping[str, Any], ...] = ()  # one row per epoch of training
    cost: Mapping[str, Any] = field(default_factory=dict)  # seconds per step, parameters before and after, memory
    versions: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)  # "de/test" -> fingerprint
    shared: Mapping[str, str] = field(default_factory=dict)  # step -> key of the work under STUDY/shared
    details: Mapping[str, Any] = field(default_factory=dict)  # what else a step found
    error: str | None = None  # the traceback, when failed

    def to_json(self) -> str:
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "trial"}  # asdict would copy all of it
        return dumps({"format": FORMAT, "id": self.trial.id, "trial": dict(self.trial.content), **parts}) + "\n"

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Record:
        parts = {name: stored[name] for name in cls.__dataclass_fields__ if name not in ("trial", "removed", "epochs")}
        return cls(Trial(stored["trial"]), removed=tuple(stored["removed"]), epochs=tuple(stored["epochs"]), **parts)


def dumps(value: Any) -> str:
    """Plain JSON that any language can read: what is no number (NaN) is null, and what numpy made becomes a number."""
    try:
        return json.dumps(value, default=_simple, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), default=_simple)


def _simple(value: Any) -> Any:
    try:
        return value.item() if hasattr(value, "item") else float(value)
    except (TypeError, ValueError):
        return str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value if not isinstance(value, float) or isfinite(value) else None


def target(folder: Path, name: str) -> Path:
    if os.path.basename(name) != name or name.startswith("."):
        raise StudyError(f"{name!r} is not the id of a trial.", f"deadhead status {folder} --failures shows some")
    return folder / "records" / f"{name}.json"


def write(record: Record, folder: Path, syncer: Syncer | None = None) -> Path:
    """Put a record in its place, and a line about it into the index.

    On a full disk the reserve is spent on it; DiskFull is raised all the same, so that no more is begun.
    syncer: syncs it to the disk while the caller continues; without one it is synced at once.
    """
    file = target(folder, record.trial.id)
    try:
        place.write(file, record.to_json(), durable=syncer is None)
    except DiskFull:
        if place.spend_reserve(folder):
            place.write(file, record.to_json())
        raise
    if syncer is not None:
        syncer.add(file)
    add(folder, [_line(file, record.state, lean(record.trial.content), record.metrics, record.cost)])
    return file


def read(folder: str | Path, name: str) -> Record:
    """The record of a trial id."""
    return read_within(place.inside(Path(folder)), name)


def read_within(folder: Path, name: str) -> Record:
    """The same, in a folder that `place.inside` has looked at: for whoever reads very many."""
    file = target(folder, name)
    try:
        stored = json.loads(place.read(file))
        if not _is_record(stored, name):
            raise ValueError("this is no record of that trial")
        return Record.from_dict(stored)
    except FileNotFoundError:
        raise StudyError(f"there is no record {name} in {folder}.", f"deadhead status {folder} tells what is done") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        raise StudyError(f"{file} is damaged: {problem!r}.", "delete it and run the study again") from None


@dataclass(frozen=True)
class Summary:
    """What the index keeps of a record."""

    id: str
    time: float  # when it was written, seconds since 1970
    state: str
    trial: Mapping[str, Any]  # its content, without steps and settings of training
    metrics: Mapping[str, float]
    cost: Mapping[str, Any]


def lean(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name not in BULKY}


def summaries(folder: Path) -> dict[str, Summary]:
    """All records by trial id; files that are no records (half, foreign, links) are passed over."""
    found, _ = _summaries(place.inside(Path(folder)))
    return found


def heal(folder: Path) -> dict[str, Summary]:
    """The summaries, after bringing the index up to the records. Only for the one who holds the lock."""
    found, fresh = _summaries(folder)
    index, lines = folder / "index.jsonl", 0
    if index.exists():
        with open(index, "rb") as file:
            lines = sum(1 for _ in file)
    if fresh or lines > 2 * len(found) + 100:
        whole = (_line(target(folder, one.id), one.state, one.trial, one.metrics, one.cost) for one in found.values())
        place.write(index, "".join(whole), durable=False)  # made again from the records
    return found


def _summaries(folder: Path) -> tuple[dict[str, Summary], bool]:
    """The summaries, and whether the index did not know some of them."""
    files = _files(folder / "records")
    known = _index(folder / "index.jsonl", files)
    fresh = False
    for name, stamp in files.items():
        if name not in known:
            stored = place.read_json(target(folder, name))
            if _is_record(stored, name):
                known[name] = Summary(name, stamp[1] / 1e9, stored["state"], lean(stored["trial"]), stored["metrics"], stored["cost"])
                fresh = True
    return {name: known[name] for name in files if name in known}, fresh


def _is_record(stored: Any, name: str) -> bool:
    return isinstance(stored, dict) and stored.get("id") == name and _is_summary([stored.get(part) for part in SUMMARY])


def _is_summary(parts: list[Any]) -> bool:
    """Whether these are state, trial, metrics and cost as deadhead writes them, so that whoever reads on may rely on it."""
    state, trial, metrics, cost = parts
    if state not in STATES or not (isinstance(trial, dict) and isinstance(metrics, dict) and isinstance(cost, dict)):
        return False
    for name, value in trial.items():
        kind = type(value)
        if name in TYPES and (kind not in TYPES[name] or (kind is list and not TEXTS.issuperset(map(type, value)))):
            return False
    return NUMBERS.issuperset(map(type, metrics.values()))


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """The record files with size and time."""
    found = {}
    try:
        for entry in os.scandir(folder):
            if entry.name.endswith(".json") and entry.is_file(follow_symlinks=False):
                stat = entry.stat(follow_symlinks=False)
                found[entry.name[:-5]] = (stat.st_size, stat.st_mtime_ns)
    except FileNotFoundError:
        raise StudyError(f"{folder.parent} is not a study: it has no records.", "name the folder that `deadhead run` was given") from None
    return found


def _index(file: Path, files: Mapping[str, tuple[int, int]]) -> dict[str, Summary]:
    """What the index knows about files that are as they were when it was written."""
    known = {}
    for name, size, time, *parts in _parsed(_text(file)):
        if files.get(name) == (size, time):
            known[name] = Summary(name, time / 1e9, *parts)
    return known


def _text(file: Path) -> bytes:
    try:
        handle = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return b""
    with open(handle, "rb") as index:
        return index.read()


def _lines(text: bytes) -> list[bytes]:
    """The whole lines of an index; the beginning of one that a killed run could not finish is left out."""
    return [line for line in text.split(b"\n") if line[:2] == b'["' and line[-2:] == b"}]"]


def _parsed(text: bytes) -> Iterator[list[Any]]:
    """The lines as lists; all at once, which is quick, unless one of them is damaged."""
    try:
        found = json.loads(b"[" + text.rstrip(b"\n").replace(b"\n", b",") + b"]")
    except (ValueError, RecursionError):
        found = [place.json_or_none(line) for line in _lines(text)]
    rows = (row for row in found if isinstance(row, list) and len(row) == 3 + len(SUMMARY))
    yield from (row for row in rows if isinstance(row[0], str) and _is_summary(row[3:]))


def states(folder: Path) -> dict[str, str]:
    """The state of every record, read from the beginnings of the index's lines where it knows the file."""
    home = place.inside(Path(folder))
    files = _files(home / "records")
    known: dict[str, str] = {}
    for line in _lines(_text(home / "index.jsonl")):
        parts = line[:200].split(b", ", 4)
        name, state = parts[0][2:-1].decode("utf-8", "replace"), parts[3][1:-1].decode("utf-8", "replace") if len(parts) == 5 else ""
        if state in STATES and files.get(name) == (_number(parts[1]), _number(parts[2])):
            known[name] = state
    for name in files.keys() - known.keys():
        stored = place.read_json(target(home, name))
        if _is_record(stored, name):
            known[name] = stored["state"]
    return known


def _number(text: bytes) -> int:
    return int(text) if text.isdigit() else -1


def _line(file: Path, *parts: Any) -> str:
    stat = file.stat(follow_symlinks=False)
    return dumps([file.stem, stat.st_size, stat.st_mtime_ns, *parts]) + "\n"


def add(folder: Path, lines: Iterable[str]) -> None:
    """Append lines to the index. That it fails is no loss: the index is made again from the records."""
    try:
        handle = os.open(folder / "index.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError:
        return
    try:
        os.write(handle, "".join(lines).encode())
    except OSError:
        pass
    finally:
        os.close(handle)
