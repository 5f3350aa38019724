"""What a trial has come to: handed from step to step, and kept for other trials to go on from. Loads no torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deadhead.errors import FolderError
from deadhead.studies.store import folder as place
from deadhead.studies.store.records import Record, dumps


@dataclass
class State:
    """What a trial has come to after some of its steps."""

    run: Callable[..., Record]  # runs another trial, for a step that needs one
    folder: Path | None = None  # of the study
    at: int = 0  # the place of the step that runs, counted from 0
    model: Any = None  # as it is now; None until a step asks for it
    weights: Path | None = (
        None  # where the model lies when it is not loaded; None means that the trial begins
    )
    tokenizer: Any = None  # that of a model trained from scratch, which has one of its own
    ranking: Any = None
    kept: dict[str, Any] = field(
        default_factory=dict
    )  # further weights or their files: of heads when it `began`, of all after the `first` epoch
    removed: list[str] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    cost: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    tell: Callable[[str], None] = lambda text: None  # a word on how it goes, for whoever watches

    def save(self, home: Path) -> None:
        """Write what later steps of another trial can go on from."""
        kept = {
            name: getattr(self, name)
            for name in ("removed", "epochs", "data", "versions", "details")
        }
        if self.ranking is not None:
            self.ranking.save(home / "ranking.json")
        elif (
            self.model is not None
        ):  # after a ranking comes a restart, or the same model that lies there already
            from deadhead.heads import save

            save(self.model, home / "model", self.tokenizer)
            for name, weights in self.kept.items():
                from deadhead.training.history import read, write

                write(
                    home / f"{name}.safetensors",
                    read(weights) if isinstance(weights, Path) else weights,
                )
        place.write(
            home / "state.json", dumps(kept), durable=False
        )  # the whole folder is synced before it gets its name

    def restore(self, home: Path) -> None:
        """Become the state another trial saved."""
        kept = place.read_json(home / "state.json")
        if not isinstance(kept, dict):
            raise FolderError(
                f"{home / 'state.json'} is damaged.", f"delete {home}; it will be made again"
            )
        for name, value in kept.items():
            setattr(self, name, value)
        if (home / "ranking.json").is_file():
            from deadhead.ranking import Ranking

            self.ranking = Ranking.load(home / "ranking.json")
        else:
            self.kept = {file.stem: file for file in home.glob("*.safetensors")}
