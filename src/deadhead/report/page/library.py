"""The studies that a server shows: found once more at each look, read again only when something changed."""

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
from deadhead.studies import read, status
from deadhead.studies.store.folder import StudyError
from deadhead.studies.study import described

from .html import embedded

DEEP = 3  # folders below the one named in which studies are looked for
PATIENCE = 2.0  # seconds in which a study is not read twice
SHARE = 5  # a study that takes long to read is read at most this share of the time
CHANGES = ("study.json", "index.jsonl", "live.json", "records", "lock")


@dataclass
class Held:
    """The content of one study as it was read last."""

    lock: Lock = field(default_factory=Lock)
    stamp: tuple[Any, ...] = ()
    content: dict[str, Any] | None = None
    times: int = 0  # that it was read
    again: float = 0.0  # not to be read before this time


class Shelf:
    """One study (named ""), or all studies in a folder, by their path within it."""

    def __init__(self, folder: Path):
        if not folder.is_dir():
            raise StudyError(
                f"there is no folder {folder}.", "name a study, or a folder of studies"
            )
        self.folder = folder
        self._held: dict[str, Held] = {}
        self._bodies: dict[tuple[str, ...], tuple[list[int], bytes, str]] = {}
        self._lock = Lock()
        if (folder / "study.json").exists():
            described(folder)  # says what is wrong with it
        elif not self.studies():
            raise StudyError(
                f"{folder} is not a study, and holds none.",
                "name the folder that `deadhead run` was given with --out, or one of several",
            )

    def studies(self) -> dict[str, Path]:
        """Name -> folder; no link is followed."""
        if (self.folder / "study.json").exists():
            return {"": self.folder}
        found = {}
        for at, folders, names in os.walk(self.folder):
            here = Path(at)
            deep = len(here.relative_to(self.folder).parts)
            if "study.json" in names and deep:
                found[here.relative_to(self.folder).as_posix()] = here
            folders[:] = (
                sorted(one for one in folders if deep < DEEP and not one.startswith("."))
                if "study.json" not in names
                else []
            )
        return found

    def payload(self, names: Sequence[str]) -> dict[str, Any]:
        """What the page is drawn from: the studies named, or the list of all."""
        return self._gathered(names)[1]

    def body(self, names: Sequence[str]) -> tuple[bytes, str]:
        """The payload as JSON and a mark (ETag) of it; made anew only when a study was read anew, since readers ask every few seconds."""
        times, payload = self._gathered(names)
        with self._lock:
            kept = self._bodies.get(tuple(names))
        if kept is None or kept[0] != times or "list" in payload:
            body = as_json(payload)
            kept = (times, body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
            with self._lock:
                self._bodies[tuple(names)] = kept
        return kept[1:]

    def _gathered(self, names: Sequence[str]) -> tuple[list[int], dict[str, Any]]:
        known = self.studies()
        if not names and "" not in known:
            return [], {"list": [row for name, home in known.items() if (row := _row(name, home))]}
        found = [(name, *self._content(name, known[name])) for name in names or [""]]
        studies = [{**content, **({"folder": name} if name else {})} for name, _, content in found]
        return [times for _, times, _ in found], {"studies": studies}

    def _content(self, name: str, home: Path) -> tuple[int, dict[str, Any]]:
        from .content import content

        with self._lock:
            held = self._held.setdefault(name, Held())
        with held.lock:
            now = _stamp(home)
            if held.content is None or (held.stamp != now and time.monotonic() >= held.again):
                began = time.monotonic()
                held.content, held.stamp, held.times = content(home), now, held.times + 1
                held.again = time.monotonic() + max(PATIENCE, SHARE * (time.monotonic() - began))
            return held.times, held.content

    def record(self, name: str, trial: str) -> dict[str, Any]:
        """One record in full, as the page shows it."""
        from deadhead.results import Study

        from .trial_details import shown

        known = self.studies()
        if name not in known:
            raise StudyError("no study was named.", "add study=NAME")
        return shown(Study.open(known[name]), {trial: read(known[name], trial)})[trial]


def as_json(payload: Any) -> bytes:
    return embedded(payload).encode("utf-8", "replace")


def _stamp(home: Path) -> tuple[Any, ...]:
    """Differs once anything in a study has changed."""
    found = []
    for name in CHANGES:
        try:
            facts = (home / name).lstat()
        except OSError:
            found.append((0, 0))
        else:
            found.append((facts.st_mtime_ns, facts.st_size))
    return tuple(found)


def _row(name: str, home: Path) -> dict[str, Any] | None:
    """A line about a study; none about a folder that only looks like one."""
    try:
        now, about = status(home), described(home)["recipe"].get("about")
    except (DeadheadError, AttributeError, KeyError):
        return None
    return {
        "folder": name,
        "name": now.name,
        "about": str(about or ""),
        "total": now.total,
        "done": now.done,
        "failed": now.failed,
        "active": now.active,
    }
