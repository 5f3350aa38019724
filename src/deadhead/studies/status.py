"""How far a study has come: counted from its records, and from what its run reports."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .store import folder as place
from .store.records import scan
from .study import described


@dataclass(frozen=True)
class Running:
    """A running trial."""

    id: str
    seconds: float
    note: str


@dataclass(frozen=True, kw_only=True)
class Status:
    """The counts of a study; `left` includes what is running."""

    name: str
    total: int
    done: int
    failed: int
    left: int
    active: bool  # a run works on it now
    stopping: bool
    running: tuple[Running, ...]
    eta: float | None  # seconds until all is done, if they can be estimated
    failures: tuple[str, ...]  # ids
    reports: tuple[str, ...] = ()  # what went wrong in the last run and was repaired
    damaged: tuple[str, ...] = ()  # ids of records that cannot be used; they count as left

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def status(folder: str | Path) -> Status:
    """The status of a study, whether or not it is running."""
    home = place.inside(Path(folder))
    study = described(home)
    planned = list(dict.fromkeys(trial for _, trial in study["cells"]))
    stored = scan(home)
    known = stored.known
    states = {trial: known[trial].state if trial in known else "left" for trial in planned}
    counts = Counter(states.values())
    active = place.is_running(home)
    last_run = place.read_json(home / "live.json")
    live = last_run if active else {}
    age = max(0.0, time.time() - live.get("now", 0.0))  # the clock may have been set back
    running = [
        Running(trial, facts["seconds"] + age, facts["note"])
        for trial, facts in live.get("running", {}).items()
    ]
    return Status(
        name=study["name"],
        total=len(planned),
        done=counts["done"],
        failed=counts["failed"],
        left=counts["left"],
        active=active,
        stopping=bool(live.get("stopping")),
        running=tuple(running),
        eta=_eta(counts["left"], live, age),
        failures=tuple(trial for trial, state in states.items() if state == "failed"),
        reports=tuple(last_run.get("reports", ())),
        damaged=tuple(sorted(stored.damaged)),
    )


def _eta(left: int, live: Mapping[str, Any], age: float) -> float | None:
    """Seconds left at the pace of this run."""
    if not left:
        return 0.0
    finished = live.get("done", 0) + live.get("failed", 0)
    return float(left * (live["elapsed"] + age) / finished) if finished else None
