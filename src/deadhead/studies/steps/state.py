"""The state of a trial, passed from step to step and saved for other trials. Loads no torch."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deadhead.errors import FolderError
from deadhead.studies.store import folder as place
from deadhead.studies.store.records import Record, dumps

EVERY = 1.0  # seconds between two messages that `throttled` passes on
SAVED = ("removed", "epochs", "data", "versions", "details")


@dataclass(kw_only=True)
class State:
    """What a trial has come to after some of its steps."""

    run: Callable[..., Record]  # runs another trial, for a step that needs one
    folder: Path | None = None  # the study
    at: int = 0  # the place of the running step, counted from 0
    model: Any = None  # as it is now; None until a step needs it
    weights: Path | None = None  # of a model that is not loaded yet; None at the start of the trial
    tokenizer: Any = None  # that of a model trained from scratch, which has its own
    ranking: Any = None
    # Further weights or their files: of heads when it `began`, of all after the `first` epoch.
    kept: dict[str, Any] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    cost: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    tell: Callable[[str], None] = lambda text: None  # reports progress

    def note(self, part: str, facts: Mapping[str, Any]) -> None:
        """Add facts, if there are any, to a part of the details."""
        if facts:
            self.details.setdefault(part, {}).update(facts)

    def kept_weights(self, name: str) -> Any:
        """Further weights, read if they are in a file; None if they were not kept."""
        from deadhead.training.history import read

        weights = self.kept.get(name)
        return read(weights) if isinstance(weights, Path) else weights

    def save(self, home: Path) -> None:
        """Write what later steps of another trial can continue from."""
        if self.ranking is not None:  # the model is in the work before, or a restart follows
            self.ranking.save(home / "ranking.json")
        elif self.model is not None:
            from deadhead.heads import save
            from deadhead.training.history import write

            save(self.model, home / "model", self.tokenizer)
            for name in self.kept:
                write(home / f"{name}.safetensors", self.kept_weights(name))
        values = {name: getattr(self, name) for name in SAVED}
        place.write(home / "state.json", dumps(values), durable=False)  # the folder is synced later

    def restore(self, home: Path) -> None:
        """Become the state that another trial saved."""
        values = place.read_json(home / "state.json")
        if not values:
            hint = f"delete {home}; it will be made again"
            raise FolderError(f"{home / 'state.json'} is damaged.", hint)
        for name, value in values.items():
            setattr(self, name, value)
        if (home / "ranking.json").is_file():
            from deadhead.ranking import Ranking

            self.ranking = Ranking.load(home / "ranking.json")
        else:
            self.kept = {file.stem: file for file in home.glob("*.safetensors")}


def throttled(tell: Callable[[str], None]) -> Callable[[Any], None]:
    """The same function, which skips messages that come sooner than anyone reads them."""
    last = 0.0

    def say(message: Any) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            tell(str(message))

    return say


def counting(tell: Callable[[str], None], what: str) -> Callable[..., None]:
    """The progress of a step, for functions that count what they have done."""
    say = throttled(tell)
    return lambda done, total, note="": say(f"{what} {done}/{total} {note}".strip())
