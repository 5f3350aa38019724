"""How far a study has come: counted from its records, and from what its run, if one is on, says of itself."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deadhead.studies.store.records import Summary

from .inputs import differing
from .store import folder as place
from .store import records
from .study import described

LARGEST = 1e15  # of the seconds and counts of a run


@dataclass(frozen=True)
class Running:
    """A trial under way."""

    id: str
    seconds: float
    note: str
    quiet: float = 0.0  # seconds without a sign of life from its process


@dataclass(frozen=True)
class Status:
    """The counts of a study; `left` includes what is running."""

    name: str
    total: int
    done: int
    failed: int
    left: int
    others: int  # records of trials that the recipe no longer asks for
    active: bool  # whether a run works on it now
    stopping: bool
    running: tuple[Running, ...]
    eta: float | None  # seconds until all is done, as far as one can tell
    failures: tuple[str, ...]  # ids
    reports: tuple[str, ...] = ()  # what went wrong in the last run and was put right
    damaged: tuple[str, ...] = ()  # ids of records that cannot be used; they count as left
    mixed: Mapping[str, int] = field(
        default_factory=dict
    )  # inputs that the records do not share -> number of versions

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def status(folder: str | Path) -> Status:
    """Look at a study, whether or not it is running."""
    home = place.inside(Path(folder))
    study = described(home)
    planned = list(dict.fromkeys(trial for _, trial in study["cells"]))
    known, damaged = records.checked_states(home)
    states = [known.get(trial, "left") for trial in planned]
    active = place.is_running(home)
    live = _live(home) if active else {}
    left = states.count("left")
    running = [_running(name, one, _age(live)) for name, one in live.get("running", {}).items()]
    return Status(
        name=study["name"],
        total=len(planned),
        done=states.count("done"),
        failed=states.count("failed"),
        left=left,
        others=len(known) - len(planned) + left,
        active=active,
        stopping=bool(live.get("stopping")),
        running=tuple(running),
        eta=_eta(left, live, home, running),
        failures=tuple(
            trial for trial, state in zip(planned, states, strict=True) if state == "failed"
        ),
        mixed=_mixed(home, planned) if study.get("earlier") else {},
        reports=_reports(home),
        damaged=tuple(damaged),
    )


def _reports(home: Path) -> tuple[str, ...]:
    live = place.read_json(home / "live.json")
    reports = live.get("reports") if isinstance(live, dict) else None
    return tuple(map(str, reports)) if isinstance(reports, list) else ()


def _mixed(home: Path, planned: list[str]) -> dict[str, int]:
    known = records.summaries(home)
    return differing(known[trial].trial for trial in planned if trial in known)


def _live(home: Path) -> dict[str, Any]:
    """What a run wrote about itself; nothing where that makes no sense."""
    live = place.read_json(home / "live.json")
    if not isinstance(live, dict) or not isinstance(live.get("running"), dict):
        return {}
    counts = [live.get(name) for name in ("started", "done", "failed", "workers")]
    times = [
        one.get("since") if isinstance(one, dict) else None for one in live["running"].values()
    ]
    return live if all(map(_is_number, (*counts, *times))) else {}


def _age(live: dict[str, Any]) -> float:
    """Seconds since the run wrote about itself. The clock may have been set back since."""
    return max(0.0, time.time() - _number(live.get("now")))


def _running(name: str, one: dict[str, Any], age: float) -> Running:
    since = max(0.0, time.time() - one["since"])  # what earlier versions wrote
    seconds = _number(one["seconds"]) + age if "seconds" in one else since
    quiet = _number(one["quiet"]) + age if "quiet" in one else 0.0
    return Running(name, seconds, str(one.get("note", "")), quiet)


def _number(value: Any) -> float:
    return max(0.0, float(value)) if _is_number(value) else 0.0


def _is_number(value: Any) -> bool:
    """Whether this is a number that a time can be computed from."""
    return isinstance(value, int | float) and abs(value) < LARGEST  # NaN is not


def _eta(left: int, live: dict[str, Any], folder: Path, running: Sequence[Running]) -> float | None:
    """Time to go, at the pace of this run; before its first trial is done, at the mean cost of those before.

    None where it cannot be told: nothing but trials is left that run longer than any did before.
    """
    if not left:
        return 0.0
    longest = _number(live.get("longest"))
    if live.get("done") and left <= len(running) and max(one.seconds for one in running) > longest:
        return None
    finished = live.get("done", 0) + live.get("failed", 0)
    if finished:
        elapsed = live["elapsed"] if "elapsed" in live else time.time() - live["started"]
        return left * (_number(elapsed) + _age(live)) / finished
    costs = [seconds(one) for one in records.summaries(folder).values() if one.state == "done"]
    return left * sum(costs) / len(costs) / max(1, live.get("workers", 1)) if costs else None


def seconds(record: Summary) -> float:
    """What the steps of a trial took together."""
    return float(
        sum(
            value
            for name, value in record.cost.items()
            if name.endswith(" s") and isinstance(value, int | float)
        )
    )
