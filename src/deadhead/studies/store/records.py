"""Records: one JSON file per finished trial, and a quick way to read very many of them.

A record is everything the report needs about one trial. `write` renames it into place; `read`
returns one whole; `summaries` returns the trial, state, metrics and cost of all, from an index
that is only trusted for files whose size and time it knows. Records and lines of the index carry
a digest of their content. A file that is not as deadhead writes it (`validity`) is damaged: it
counts as absent, `scan` lists it, and `heal` moves it away. Loads no torch, and no pickle ever.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from deadhead.files import Syncer
from deadhead.studies.trial import Trial, digest

from . import folder as place
from .folder import DiskFull, StudyError
from .validity import STATES, is_summary, problem

FORMAT = 2  # 1 had no digest
SUMMARY = ("state", "trial", "metrics", "cost")
BULKY = ("steps", "finetune")  # fields of a trial that the index leaves out
ID = re.compile("[0-9a-f]{16}")  # of a trial; other files in the folder are somebody else's
MOST_NAMED = 5  # damaged records that a message names
INDEX = "index.jsonl"
DIGEST = len(', "0123456789abcdef"]')  # bytes at the end of a line of the index
NO_LINK = getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, kw_only=True)
class Record:
    """One trial and its results."""

    trial: Trial
    state: str  # one of STATES
    removed: tuple[str, ...] = ()  # heads in their printed form, encoder.3.7
    metrics: Mapping[str, float] = field(default_factory=dict)  # "de/test/accuracy" -> 0.64
    epochs: tuple[Mapping[str, Any], ...] = ()  # one row per epoch of training
    cost: Mapping[str, Any] = field(default_factory=dict)  # seconds per step, parameters, memory
    versions: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)  # "de/test" -> fingerprint
    shared: Mapping[str, str] = field(default_factory=dict)  # step -> key under STUDY/shared
    details: Mapping[str, Any] = field(default_factory=dict)  # further results of steps
    error: str | None = None  # the traceback, when failed

    def to_json(self) -> str:
        names = (name for name in self.__dataclass_fields__ if name != "trial")
        parts = {name: getattr(self, name) for name in names}  # asdict would copy all of it
        first = {"format": FORMAT, "id": self.trial.id, "trial": dict(self.trial.content)}
        content = json.loads(dumps({**first, **parts}))
        return json.dumps(content | {"digest": digest(content)}) + "\n"

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Record:
        parts = {name: stored[name] for name in cls.__dataclass_fields__}
        parts |= {"trial": Trial(stored["trial"])}
        parts |= {name: tuple(stored[name]) for name in ("removed", "epochs")}
        return cls(**parts)


def dumps(value: Any) -> str:
    """Plain JSON that any language can read: NaN is null, and numbers of numpy are numbers."""
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
        hint = f"deadhead status {folder} --failures shows some"
        raise StudyError(f"expected the id of a trial, got {name!r}.", hint)
    return folder / "records" / f"{name}.json"


def write(record: Record, folder: Path, syncer: Syncer | None = None) -> Path:
    """Write a record, and a line about it in the index.

    On a full disk the reserve is used for it, and DiskFull is raised: no more trials start.
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
    line = _line(file, record.state, lean(record.trial.content), record.metrics, record.cost)
    add(folder, [line])
    return file


def read(folder: str | Path, name: str) -> Record:
    """The record of a trial id."""
    return read_within(place.inside(Path(folder)), name)


def read_within(folder: Path, name: str) -> Record:
    """The same in a folder that `place.inside` has checked: to read very many."""
    file = target(folder, name)
    try:
        stored = json.loads(place.read(file))
    except FileNotFoundError:
        hint = f"deadhead status {folder} shows what is done"
        raise StudyError(f"there is no record {name} in {folder}.", hint) from None
    except (OSError, ValueError, RecursionError) as unreadable:
        raise _damaged(file, repr(unreadable)) from None
    if reason := problem(stored, name):
        raise _damaged(file, reason)
    return Record.from_dict(stored)


def _damaged(file: Path, reason: str) -> StudyError:
    hint = "repeat the command of the study: `deadhead run` runs the trial again"
    return StudyError(f"{file} is damaged: {reason}.", hint)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What the index has of a record."""

    id: str
    time: float  # when it was written, seconds since 1970
    state: str
    trial: Mapping[str, Any]  # its content, without steps and settings of training
    metrics: Mapping[str, float]
    cost: Mapping[str, Any]


def lean(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name not in BULKY}


@dataclass(frozen=True)
class Scan:
    """The content of the folder of records."""

    known: Mapping[str, Summary] = field(default_factory=dict)  # by trial id
    damaged: Mapping[str, str] = field(
        default_factory=dict
    )  # id, or INDEX -> what is wrong with it
    fresh: bool = False  # the index did not have some of them


def summaries(folder: Path) -> dict[str, Summary]:
    """All records by trial id, without those that are damaged."""
    return dict(scan(folder).known)


def scan(folder: Path) -> Scan:
    """All records by trial id, and what is damaged; other files and links are skipped."""
    home = place.inside(Path(folder))
    files = _files(home / "records")
    lines, damaged = _lines(home)
    known = _index(lines, files)
    fresh = bool(damaged)
    for name, (_, time) in files.items():
        if name not in known:
            stored, reason = _stored(home, name)
            if reason is None:
                parts = {part: stored[part] for part in SUMMARY}
                parts["trial"] = lean(stored["trial"])
                known[name] = Summary(id=name, time=time / 1e9, **parts)
                fresh = True
            elif reason and ID.fullmatch(name):
                damaged[name] = reason
    return Scan({name: known[name] for name in files if name in known}, damaged, fresh)


def _stored(home: Path, name: str) -> tuple[Any, str | None]:
    """The content of a record's file, and what is wrong with it."""
    try:
        stored = json.loads(place.read(target(home, name)))
    except FileNotFoundError:
        return None, ""  # moved away just now: not there, and not damaged
    except OSError as unreadable:
        return None, f"it cannot be read: {unreadable.strerror}"
    except (ValueError, RecursionError):
        return None, "it is not JSON"
    return stored, problem(stored, name)


def damage(names: Collection[str]) -> str:
    """A sentence about damaged records, and one about the index; empty if there are none."""
    records = sorted(set(names) - {INDEX})
    edited = f"{INDEX} was edited: the records are shown, and `deadhead run` writes it again"
    return "; ".join([_damage(records)] * bool(records) + [edited] * (INDEX in names))


def _damage(names: Sequence[str]) -> str:
    count, named = len(names), ", ".join(names[:MOST_NAMED])
    more = f" and {count - MOST_NAMED:,} more" if count > MOST_NAMED else ""
    start, it = ("1 record is", "it") if count == 1 else (f"{count:,} records are", "them")
    return f"{start} damaged and not shown: {named}{more}; `deadhead run` runs {it} again"


def heal(folder: Path) -> list[str]:
    """Move damaged records to STUDY/damaged and update the index; a sentence about each.

    Only for the process that has the lock.
    """
    content = scan(folder)
    reports = []
    for name, reason in content.damaged.items():
        if name == INDEX:
            reports.append(f"{INDEX} was edited: written again from the records")
        elif (moved := place.set_aside(target(folder, name), folder / "damaged")) is not None:
            reports.append(
                f"records/{name}.json was damaged ({reason}): "
                f"moved to {moved.relative_to(folder)}, and the trial runs again"
            )
    index, lines = folder / INDEX, 0
    if index.exists():
        with open(index, "rb") as file:
            lines = sum(1 for _ in file)
    if content.fresh or lines > 2 * len(content.known) + 100:
        known = content.known.values()
        text = (_line(target(folder, r.id), r.state, r.trial, r.metrics, r.cost) for r in known)
        place.write(index, "".join(text), durable=False)
    return reports


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """The record files with size and time."""
    files = {}
    try:
        for entry in os.scandir(folder):
            if entry.name.endswith(".json") and entry.is_file(follow_symlinks=False):
                stat = entry.stat(follow_symlinks=False)
                files[entry.name[:-5]] = (stat.st_size, stat.st_mtime_ns)
    except FileNotFoundError:
        hint = "name the folder that `deadhead run` was given"
        raise StudyError(f"{folder.parent} is not a study: it has no records.", hint) from None
    return files


def _index(lines: Sequence[bytes], files: Mapping[str, tuple[int, int]]) -> dict[str, Summary]:
    """What the index has about files that are as they were when it was written."""
    known = {}
    for name, size, time, *parts in _parsed(lines):
        if files.get(name) == (size, time):
            summary = dict(zip(SUMMARY, parts, strict=True))
            known[name] = Summary(id=name, time=time / 1e9, **summary)
    return known


def _text(file: Path) -> bytes:
    try:
        handle = os.open(file, os.O_RDONLY | NO_LINK)
    except OSError:
        return b""
    with open(handle, "rb") as index:
        return index.read()


def _lines(home: Path) -> tuple[list[bytes], dict[str, str]]:
    """The lines of the index that fit their digest, without it; and whether somebody edited others.

    A killed run may leave a part of a line, and an earlier version wrote no digests: neither is
    an edit.
    """
    lines, damaged = [], dict[str, str]()
    for line in _text(home / INDEX).split(b"\n"):
        content = line[:-DIGEST]
        if line == content + _digest(content):
            lines.append(content + b"]")
        elif line.endswith(b'"]') and isinstance(place.json_or_none(line), list):
            damaged[INDEX] = "it was edited"
    return lines, damaged


def _digest(content: bytes) -> bytes:
    return b', "%s"]' % hashlib.sha256(content).hexdigest()[:16].encode()


def _parsed(lines: Sequence[bytes]) -> Iterator[list[Any]]:
    """The lines as lists; all at once, which is quick."""
    rows = place.json_or_none(b"[" + b",".join(lines) + b"]") or ()
    rows = (row for row in rows if isinstance(row, list) and len(row) == 3 + len(SUMMARY))
    yield from (row for row in rows if isinstance(row[0], str) and is_summary(row[3:]))


def states(folder: Path) -> dict[str, str]:
    """The state of every record that is not damaged."""
    return checked_states(folder)[0]


def checked_states(folder: Path) -> tuple[dict[str, str], list[str]]:
    """The state of every record, and the ids of damaged ones (INDEX for an edited index).

    Reads only the beginnings of the lines of the index, for files that the index knows.
    """
    home = place.inside(Path(folder))
    files = _files(home / "records")
    known: dict[str, str] = {}
    lines, edited = _lines(home)
    for line in lines:
        parts = line[:200].split(b", ", 4)
        if len(parts) == 5:
            texts = (part.decode("utf-8", "replace") for part in (parts[0][2:-1], parts[3][1:-1]))
            name, state = texts
            if state in STATES and files.get(name) == (_number(parts[1]), _number(parts[2])):
                known[name] = state
    damaged = [*edited]
    for name in files.keys() - known.keys():
        stored, reason = _stored(home, name)
        if reason is None:
            known[name] = stored["state"]
        elif reason and ID.fullmatch(name):
            damaged.append(name)
    return known, sorted(damaged)


def _number(text: bytes) -> int:
    return int(text) if text.isdigit() else -1


def _line(file: Path, *parts: Any) -> str:
    stat = file.stat(follow_symlinks=False)
    content = dumps([file.stem, stat.st_size, stat.st_mtime_ns, *parts])[:-1]
    return content + _digest(content.encode()).decode() + "\n"


def add(folder: Path, lines: Iterable[str]) -> None:
    """Append lines to the index. A failure is harmless: the index is rebuilt from the records."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_LINK
    try:
        handle = os.open(folder / INDEX, flags, 0o666)
    except OSError:
        return
    try:
        os.write(handle, "".join(lines).encode())
    except OSError:
        pass
    finally:
        os.close(handle)
