"""Records: one JSON file per finished trial.

A record is everything the report needs about one trial. `write` renames it into place; `read`
returns one whole; `summaries` returns the trial, state, metrics and cost of all. A record carries
a digest of its content: whoever changed it, a disk or a person, shows. A changed record is
damaged: it counts as absent, `scan` lists it, and `heal` moves it away. Loads no torch, and no
pickle ever.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from deadhead.studies.trial import Trial, digest

from . import folder as place
from .folder import StudyError

FORMAT = 2  # 1 had no digest
SUMMARY = ("state", "trial", "metrics", "cost")
ID = re.compile("[0-9a-f]{16}")  # of a trial; other files in the folder are somebody else's
MOST_NAMED = 5  # damaged records that a message names


@dataclass(frozen=True, kw_only=True)
class Record:
    """One trial and its results."""

    trial: Trial
    state: str  # done or failed
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
        parts = {**vars(self), "trial": dict(self.trial.content)}  # asdict would copy all of it
        content = json.loads(dumps({"format": FORMAT, "id": self.trial.id, **parts}))
        return json.dumps(content | {"digest": digest(content)}) + "\n"

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Record:
        parts = {name: stored[name] for name in cls.__dataclass_fields__}
        parts |= {"trial": Trial(stored["trial"])}
        parts |= {name: tuple(stored[name]) for name in ("removed", "epochs")}
        return cls(**parts)


def problem(stored: Any, name: str) -> str | None:
    """What makes this no record of the trial with this id; None if it is one."""
    if not isinstance(stored, dict):
        return "it is not a JSON object"
    if stored.get("id") != name:
        return f"its id is {stored.get('id')!r:.40}"
    for part in Record.__dataclass_fields__:
        if part not in stored:
            return f"{part} is missing"
    if not is_unedited(stored):
        return "it was edited: its content does not fit its digest"
    own = isinstance(stored["trial"], dict) and Trial(stored["trial"]).id == name
    return None if own else "its trial is not the one of its id"


def is_unedited(stored: Mapping[str, Any]) -> bool:
    """Whether this fits its digest. What an earlier version wrote has format 1 and no digest."""
    content = {name: value for name, value in stored.items() if name != "digest"}
    try:
        own = digest(content)
    except (ValueError, TypeError, RecursionError):  # NaN, for instance
        return False
    return stored.get("digest", own if stored.get("format") == 1 else None) == own


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


def write(record: Record, folder: Path) -> Path:
    """Write a record."""
    file = target(folder, record.trial.id)
    place.write(file, record.to_json())
    return file


def read(folder: str | Path, name: str) -> Record:
    """The record of a trial id."""
    return read_within(place.inside(Path(folder)), name)


def read_within(folder: Path, name: str) -> Record:
    """The same in a folder that `place.inside` has checked: to read very many."""
    stored, reason = _stored(folder, name)
    if reason is None:
        return Record.from_dict(stored)
    if not reason:
        hint = f"deadhead status {folder} shows what is done"
        raise StudyError(f"there is no record {name} in {folder}.", hint)
    hint = "repeat the command of the study: `deadhead run` runs the trial again"
    raise StudyError(f"{target(folder, name)} is damaged: {reason}.", hint)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The parts of a record that tables and counts need."""

    id: str
    state: str
    trial: Mapping[str, Any]  # its content
    metrics: Mapping[str, float]
    cost: Mapping[str, Any]

    @property
    def seconds(self) -> float:
        """The time of all steps."""
        times = (value for name, value in self.cost.items() if name.endswith(" s"))
        return float(sum(value for value in times if isinstance(value, int | float)))


@dataclass(frozen=True)
class Scan:
    """The content of the folder of records."""

    known: Mapping[str, Summary] = field(default_factory=dict)  # by trial id
    damaged: Mapping[str, str] = field(default_factory=dict)  # id -> what is wrong with it


def summaries(folder: Path) -> dict[str, Summary]:
    """All records by trial id, without those that are damaged."""
    return dict(scan(folder).known)


def scan(folder: Path) -> Scan:
    """All records by trial id, and what is damaged; other files and links are skipped."""
    home = place.inside(Path(folder))
    known, damaged = dict[str, Summary](), dict[str, str]()
    for name in _names(home / "records"):
        stored, reason = _stored(home, name)
        if reason is None:
            known[name] = Summary(id=name, **{part: stored[part] for part in SUMMARY})
        elif reason and ID.fullmatch(name):
            damaged[name] = reason
    return Scan(known, damaged)


def _stored(home: Path, name: str) -> tuple[Any, str | None]:
    """The content of a record's file, and what is wrong with it: empty if it is not there."""
    try:
        stored = json.loads(place.read(target(home, name)))
    except FileNotFoundError:
        return None, ""
    except OSError as unreadable:
        return None, f"it cannot be read: {unreadable.strerror}"
    except (ValueError, RecursionError):
        return None, "it is not JSON"
    return stored, problem(stored, name)


def damage(names: Collection[str]) -> str:
    """A sentence about damaged records; empty if there are none."""
    if not names:
        return ""
    count, named = len(names), ", ".join(sorted(names)[:MOST_NAMED])
    more = f" and {count - MOST_NAMED:,} more" if count > MOST_NAMED else ""
    start, it = ("1 record is", "it") if count == 1 else (f"{count:,} records are", "them")
    return f"{start} damaged and not shown: {named}{more}; `deadhead run` runs {it} again"


def heal(folder: Path) -> list[str]:
    """Move damaged records to STUDY/damaged; a sentence about each.

    Only for the process that has the lock.
    """
    reports = []
    for name, reason in scan(folder).damaged.items():
        if (moved := place.set_aside(target(folder, name), folder / "damaged")) is not None:
            reports.append(
                f"records/{name}.json was damaged ({reason}): "
                f"moved to {moved.relative_to(folder)}, and the trial runs again"
            )
    return reports


def _names(folder: Path) -> list[str]:
    """The names of the record files."""
    try:
        files = [entry for entry in os.scandir(folder) if entry.name.endswith(".json")]
    except FileNotFoundError:
        hint = "name the folder that `deadhead run` was given"
        raise StudyError(f"{folder.parent} is not a study: it has no records.", hint) from None
    return [file.name[:-5] for file in files if file.is_file(follow_symlinks=False)]


def states(folder: Path) -> dict[str, str]:
    """The state of every record that is not damaged."""
    return {name: record.state for name, record in summaries(folder).items()}
