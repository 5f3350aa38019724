"""The studies that a server shows: looked up at each request, read again only after a change."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.results import Study
from deadhead.studies import read, status
from deadhead.studies.store.folder import StudyError
from deadhead.studies.study import described

from .html import embedded

DEPTH = 3  # levels of folders that are searched for studies
PATIENCE = 2.0  # seconds in which a study is not read twice
SHARE = 5  # after reading, wait this many times as long as reading took
CHANGES = ("study.json", "index.jsonl", "live.json", "records", "lock")


@dataclass
class Cached:
    """The content of one study as it was read last."""

    lock: Lock = field(default_factory=Lock)
    stamp: tuple[Any, ...] = ()
    content: dict[str, Any] | None = None
    times: int = 0  # that it was read
    not_before: float = 0.0  # when it may be read again


class Library:
    """One study (named ""), or all studies in a folder, by their path in it."""

    def __init__(self, folder: Path):
        if not folder.is_dir():
            raise StudyError(
                f"there is no folder {folder}.", "name a study, or a folder of studies"
            )
        self.folder = folder
        self._cached: dict[str, Cached] = {}
        self._bodies: dict[tuple[str, ...], tuple[list[int], bytes, str]] = {}
        self._lock = Lock()
        if (folder / "study.json").exists():
            described(folder)  # raises an error if the study is damaged
        elif not self.studies():
            raise StudyError(
                f"{folder} is not a study and contains none.",
                "name the folder that `deadhead run` wrote to (--out), or a folder of studies",
            )

    def studies(self) -> dict[str, Path]:
        """Name -> folder; links are not followed."""
        if (self.folder / "study.json").exists():
            return {"": self.folder}
        studies = {}
        for path, folders, names in os.walk(self.folder):
            here = Path(path).relative_to(self.folder)
            depth = len(here.parts)
            if "study.json" in names and depth:
                studies[here.as_posix()] = Path(path)
            deeper = depth < DEPTH and "study.json" not in names
            folders[:] = sorted(f for f in folders if deeper and not f.startswith("."))
        return studies

    def payload(self, names: Sequence[str]) -> dict[str, Any]:
        """What the page is drawn from: the studies with these names, or the list of all."""
        return self._payload(names)[1]

    def body(self, names: Sequence[str]) -> tuple[bytes, str]:
        """The payload as JSON and its ETag, cached because readers ask every few seconds."""
        times, payload = self._payload(names)
        with self._lock:
            cached = self._bodies.get(tuple(names))
        if cached is None or cached[0] != times or "list" in payload:
            body = as_json(payload)
            cached = (times, body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
            with self._lock:
                self._bodies[tuple(names)] = cached
        return cached[1:]

    def _payload(self, names: Sequence[str]) -> tuple[list[int], dict[str, Any]]:
        known = self.studies()
        if not names and "" not in known:
            return [], {"list": [row for name, home in known.items() if (row := _row(name, home))]}
        contents = [(name, *self._content(name, known[name])) for name in names or [""]]
        studies = [
            {**content, **({"folder": name} if name else {})} for name, _, content in contents
        ]
        return [times for _, times, _ in contents], {"studies": studies}

    def _content(self, name: str, home: Path) -> tuple[int, dict[str, Any]]:
        from .content import content

        with self._lock:
            cached = self._cached.setdefault(name, Cached())
        with cached.lock:
            stamp, start = _stamp(home), time.monotonic()
            changed = cached.stamp != stamp and start >= cached.not_before
            if cached.content is None or changed:
                cached.content, cached.stamp = content(home), stamp
                cached.times += 1
                end = time.monotonic()
                cached.not_before = end + max(PATIENCE, SHARE * (end - start))
            return cached.times, cached.content

    def record(self, name: str, trial: str) -> dict[str, Any]:
        """One record in full, as the page shows it."""
        from .records import Samples, full_record

        known = self.studies()
        if name not in known:
            raise StudyError("got no study.", "add study=NAME")
        study = Study.open(known[name])
        return full_record(read(known[name], trial), Samples(study), study.trials.get(trial))


def as_json(payload: Any) -> bytes:
    return embedded(payload).encode("utf-8", "replace")


def _stamp(home: Path) -> tuple[Any, ...]:
    """A value that differs as soon as anything in a study changes."""
    stamps = []
    for name in CHANGES:
        try:
            facts = (home / name).lstat()
        except OSError:
            stamps.append((0, 0))
        else:
            stamps.append((facts.st_mtime_ns, facts.st_size))
    return tuple(stamps)


def _row(name: str, home: Path) -> dict[str, Any] | None:
    """A line about a study; None for a folder that is not one."""
    try:
        now, about = status(home), described(home)["recipe"].get("about")
    except (DeadheadError, AttributeError, KeyError):
        return None
    counts = {field: getattr(now, field) for field in ("total", "done", "failed", "active")}
    return {"folder": name, "name": now.name, "about": str(about or ""), **counts}
