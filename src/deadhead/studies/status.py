"""How far a study has come: counted from its records, and from what its run reports."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .inputs import differing
from .store import folder as place
from .store import records
from .store.records import Summary
from .study import described

LARGEST = 1e15  # seconds or counts of a run


@dataclass(frozen=True)
class Running:
    """A running trial."""

    id: str
    seconds: float
    note: str
    quiet: float = 0.0  # seconds without a sign of life from its process


@dataclass(frozen=True, kw_only=True)
class Status:
    """The counts of a study; `left` includes what is running."""

    name: str
    total: int
    done: int
    failed: int
    left: int
    others: int  # records of trials that the recipe no longer has
    active: bool  # a run works on it now
    stopping: bool
    running: tuple[Running, ...]
    eta: float | None  # seconds until all is done, if they can be estimated
    failures: tuple[str, ...]  # ids
    reports: tuple[str, ...] = ()  # what went wrong in the last run and was repaired
    damaged: tuple[str, ...] = ()  # ids of records that cannot be used; they count as left
    # inputs that differ between the records -> number of versions
    mixed: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def status(folder: str | Path) -> Status:
    """The status of a study, whether or not it is running."""
    home = place.inside(Path(folder))
    study = described(home)
    planned = list(dict.fromkeys(trial for _, trial in study["cells"]))
    known, damaged = records.checked_states(home)
    states = {trial: known.get(trial, "left") for trial in planned}
    counts = Counter(states.values())
    active = place.is_running(home)
    stored = place.read_json(home / "live.json")
    reports = stored.get("reports") if isinstance(stored, dict) else None
    live = stored if active and _is_live(stored) else {}
    running = [_running(name, facts, _age(live)) for name, facts in live.get("running", {}).items()]
    mixed: dict[str, int] = {}
    if study.get("earlier"):
        summaries = records.summaries(home)
        mixed = differing(summaries[trial].trial for trial in planned if trial in summaries)
    return Status(
        name=study["name"],
        total=len(planned),
        done=counts["done"],
        failed=counts["failed"],
        left=counts["left"],
        others=len(known) - len(planned) + counts["left"],
        active=active,
        stopping=bool(live.get("stopping")),
        running=tuple(running),
        eta=_eta(counts["left"], live, home, running),
        failures=tuple(trial for trial, state in states.items() if state == "failed"),
        mixed=mixed,
        reports=tuple(map(str, reports)) if isinstance(reports, list) else (),
        damaged=tuple(damaged),
    )


def _is_live(stored: Any) -> bool:
    """Whether this is what a run writes about itself."""
    if not isinstance(stored, dict) or not isinstance(stored.get("running"), dict):
        return False
    running = [facts if isinstance(facts, dict) else {} for facts in stored["running"].values()]
    numbers = [stored.get(name) for name in ("started", "done", "failed", "workers")]
    return all(map(_is_number, [*numbers, *(facts.get("since") for facts in running)]))


def _age(live: dict[str, Any]) -> float:
    """Seconds since the run wrote about itself. The clock may have been set back since."""
    return max(0.0, time.time() - _number(live.get("now")))


def _running(name: str, facts: dict[str, Any], age: float) -> Running:
    since = max(0.0, time.time() - facts["since"])  # earlier versions wrote only this
    seconds = _number(facts["seconds"]) + age if "seconds" in facts else since
    quiet = _number(facts["quiet"]) + age if "quiet" in facts else 0.0
    return Running(name, seconds, str(facts.get("note", "")), quiet)


def _number(value: Any) -> float:
    return max(0.0, float(value)) if _is_number(value) else 0.0


def _is_number(value: Any) -> bool:
    """Whether this is a number that a time can be computed from."""
    return isinstance(value, int | float) and abs(value) < LARGEST  # NaN is not


def _eta(left: int, live: dict[str, Any], folder: Path, running: Sequence[Running]) -> float | None:
    """Seconds left: at the pace of this run, or before its first trial at the mean cost.

    None if only trials are left that have run longer than any other.
    """
    if not left:
        return 0.0
    longest = max((trial.seconds for trial in running), default=0.0)
    if live.get("done") and left <= len(running) and longest > _number(live.get("longest")):
        return None
    if finished := live.get("done", 0) + live.get("failed", 0):
        elapsed = live["elapsed"] if "elapsed" in live else time.time() - live["started"]
        return left * (_number(elapsed) + _age(live)) / finished
    known = records.summaries(folder).values()
    costs = [seconds(record) for record in known if record.state == "done"]
    return left * sum(costs) / len(costs) / max(1, live.get("workers", 1)) if costs else None


def seconds(record: Summary) -> float:
    """The time of all steps of a trial."""
    times = (value for name, value in record.cost.items() if name.endswith(" s"))
    return float(sum(value for value in times if isinstance(value, int | float)))
