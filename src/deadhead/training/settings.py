"""How a training is run, as data: `Settings`, the papers' settings by name, and their grids.

No torch here. Everything in `Settings` changes the numbers that come out, and nothing else is in it:
the device, the progress line and the folder are arguments of `finetune`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from typing import Any

import numpy as np

from deadhead.errors import DeadheadError, unknown_name
from deadhead.papers import combined

SCHEDULES = ("linear", "constant", "inverse_sqrt")
SAMPLERS = ("shuffled", "sequential")
PRECISIONS = ("float32", "bf16")
OPTIONAL = ("tokens", "clip", "patience")
WHOLE = ("batch", "tokens", "epochs", "accumulate", "patience", "average")  # each at least 1
NUMBERS = (
    "batch",
    "rate",
    "epochs",
    "warmup",
    "decay",
    "accumulate",
    "smoothing",
    "epsilon",
    "average",
    *OPTIONAL,
)


class SettingsError(DeadheadError):
    """A setting that no training can be run with."""


@dataclass(frozen=True)
class Settings:
    """One training. A batch is what one update of the weights sees, in however many parts it is run."""

    batch: int = 32  # windows
    tokens: int | None = (
        None  # instead: as many windows as fit into so many positions, padding included; of pairs the longer text
    )
    rate: float = 3e-5  # the highest learning rate of the schedule
    epochs: int = 3
    warmup: float = 0.1  # below 1 a share of all updates, else a number of updates
    schedule: str = "linear"
    decay: float = 0.01  # of weights; never of biases and norms
    clip: float | None = 1.0  # of the norm of all gradients together
    accumulate: int = 1  # parts that a batch is run in
    smoothing: float = 0.0  # of labels
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    sampler: str = "shuffled"  # sequential: in the order of the file
    by_length: bool = True  # shuffled batches hold windows of like length
    precision: str = "float32"  # bf16: computed in bfloat16, weights and moments kept in float32
    patience: int | None = None  # epochs without a better score before it stops
    average: int = 1  # epochs at the end whose weights are averaged
    seed: int = 0

    def __post_init__(self) -> None:
        self._check_types()
        object.__setattr__(
            self, "betas", tuple(self.betas)
        )  # out of JSON and YAML it comes as a list
        for name, known in (
            ("schedule", SCHEDULES),
            ("sampler", SAMPLERS),
            ("precision", PRECISIONS),
        ):
            if getattr(self, name) not in known:
                raise unknown_name(name, getattr(self, name), known)
        for name in WHOLE:
            value = getattr(self, name)
            if value is not None and (not math.isfinite(value) or value != int(value) or value < 1):
                hint = (
                    "to score a model as it is, use deadhead.training.evaluation"
                    if name == "epochs"
                    else f"give {name} of at least 1"
                )
                raise SettingsError(f"{name} is {value}, so there is nothing to train.", hint)
            object.__setattr__(
                self, name, None if value is None else int(value)
            )  # 8.0 is meant as 8
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise SettingsError(
                f"a learning rate of {self.rate} trains nothing.",
                "give a rate above 0, such as 3e-5",
            )
        for name, low, high in (
            ("smoothing", 0, 1),
            ("warmup", 0, math.inf),
            ("decay", 0, math.inf),
            ("clip", 0, math.inf),
        ):
            value = getattr(self, name)
            if value is not None and not low <= value < high:
                raise SettingsError(
                    f"{name} is {value}.",
                    f"give a number from {low}" + (f" to below {high}" if high < math.inf else ""),
                )
        if self.clip == 0:
            raise SettingsError(
                "clip 0 would hold every weight where it is.", "give clip=None to clip nothing"
            )
        if len(self.betas) != 2 or not all(0 <= beta < 1 for beta in self.betas):
            raise SettingsError(
                f"betas is {self.betas}.",
                "give two numbers from 0 to below 1, such as (0.9, 0.999)",
            )
        if not 0 < self.epsilon < math.inf:
            raise SettingsError(
                f"epsilon is {self.epsilon}.", "give a number above 0, such as 1e-8"
            )

    def _check_types(self) -> None:
        """Numbers where numbers belong, before they are compared."""
        for name in NUMBERS:
            value = getattr(self, name)
            if not (_is_number(value) or (value is None and name in OPTIONAL)):
                raise SettingsError(f"{name} is {value!r}.", f"give {name} as a number")
        if not (isinstance(self.betas, list | tuple) and all(map(_is_number, self.betas))):
            raise SettingsError(
                f"betas is {self.betas!r}.",
                "give two numbers from 0 to below 1, such as (0.9, 0.999)",
            )
        if not isinstance(self.seed, int) or isinstance(self.seed, bool):
            raise SettingsError(f"seed is {self.seed!r}.", "give a whole number")
        if not -(2**63) <= self.seed < 2**64:
            raise SettingsError(
                f"seed is {self.seed}, which no generator takes.", "give a whole number below 2**64"
            )
        if not isinstance(self.by_length, bool):
            raise SettingsError(f"by_length is {self.by_length!r}.", "give True or False")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"betas": list(self.betas)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Settings:
        known = [f.name for f in fields(cls)]
        for name in values:
            if name not in known:
                raise unknown_name("setting", name, known)
        return cls(**values)

    def warmup_updates(self, total: int) -> int:
        return int(self.warmup) if self.warmup >= 1 else math.ceil(self.warmup * total)

    def rates(self, total: int) -> np.ndarray:
        """The learning rate of each of `total` updates."""
        done = np.arange(total, dtype=np.float64)
        warm = self.warmup_updates(total)
        rise = np.minimum(1.0, (done + 1) / max(1, warm))
        if self.schedule == "constant":
            return self.rate * rise
        if self.schedule == "inverse_sqrt":
            return self.rate * rise * np.sqrt(max(1, warm) / np.maximum(done + 1, max(1, warm)))
        fall = np.clip((total - done) / max(1, total - warm), 0.0, 1.0)
        return self.rate * np.where(done < warm, rise, fall)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _settings(stored: Mapping[str, Any]) -> Settings:
    """The settings of a preset; YAML has lists where they have tuples."""
    return Settings.from_dict(
        {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
    )


PRESETS: Mapping[str, Settings] = {k: _settings(stored) for k, stored in combined("presets").items()}
GRIDS: Mapping[str, Mapping[str, Sequence[float]]] = combined("grids")


def preset(name: str, task: str | None = None, **changes: Any) -> Settings:
    """The settings of a paper, those of one of its tasks where they differ, with what you would have otherwise.

    >>> preset("weak-link-bert", "sst2", epochs=3).rate
    2e-05
    """
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    task = "mnli" if task == "xnli" else task  # zero-shot: it is trained on MNLI
    found = PRESETS.get(f"{name}-{task}", PRESETS[name])
    return Settings.from_dict({**found.to_dict(), **changes})


def grid(name: str | Settings, task: str | None = None, **axes: Sequence[Any]) -> list[Settings]:
    """Every combination of the axes, the last one fastest; without axes, the paper's own rates and batches.

    >>> len(grid("mbert-prunability", "qqp"))
    12
    """
    if isinstance(name, Settings):
        base, own = name, {}
    else:
        base, own = preset(name, task), dict(GRIDS.get(name, {}))
    chosen: dict[str, Sequence[Any]] = dict(axes or own)
    if not chosen:
        raise SettingsError(
            f"{name} has no grid of its own.",
            "name the axes: grid(preset, rate=(2e-5, 5e-5), batch=(32, 64))",
        )
    return [
        Settings.from_dict({**base.to_dict(), **dict(zip(chosen, point, strict=True))})
        for point in product(*chosen.values())
    ]
