"""The settings of a training as data: `Settings`, and the presets of the papers.

No torch here. `Settings` has everything that changes the numbers of a training, and nothing else:
the device, the progress line and the folder are arguments of `finetune`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from deadhead.errors import DeadheadError, unknown_name
from deadhead.papers.catalogue import combined

SCHEDULES = ("linear", "constant", "inverse_sqrt")
SAMPLERS = ("shuffled", "sequential")
PRECISIONS = ("float32", "bf16")
OPTIONAL = ("tokens", "clip", "patience")  # None is allowed


class SettingsError(DeadheadError):
    """A setting that no training can be run with."""


def _is_number(value: Any) -> bool:  # nan and inf are none
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def _is_whole(value: Any) -> bool:
    return _is_number(value) and value == int(value)


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value < 1


MOST = 10**9  # for anything that is counted; the steps of a training are a product of such
COUNT = (
    f"a whole number from 1 to {MOST:,}",
    lambda value: _is_whole(value) and 1 <= value <= MOST,
)
POSITIVE = ("a number above 0", lambda value: _is_number(value) and value > 0)
NOT_NEGATIVE = ("a number of at least 0", lambda value: _is_number(value) and value >= 0)
RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {  # what a setting expects
    **dict.fromkeys(("batch", "tokens", "epochs", "accumulate", "patience", "average"), COUNT),
    **dict.fromkeys(("rate", "epsilon", "clip"), POSITIVE),
    **dict.fromkeys(("warmup", "decay"), NOT_NEGATIVE),
    "smoothing": ("a number from 0 to below 1", _is_share),
    "betas": (
        "two numbers from 0 to below 1",
        lambda betas: isinstance(betas, list | tuple) and [*map(_is_share, betas)] == [True, True],
    ),
    "seed": (
        "a whole number from -2**63 to below 2**64",
        lambda seed: type(seed) is int and -(2**63) <= seed < 2**64,
    ),
    "by_length": ("True or False", lambda value: isinstance(value, bool)),
}
HINTS = {
    "epochs": "to score a model without training, use deadhead.evaluate",
    "rate": "give rate=3e-5, for instance",
    "clip": "give clip=None to turn clipping off",
    "betas": "give betas=(0.9, 0.999), for instance",
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One training. A batch is what one update of the weights uses, in one part or in several."""

    batch: int = 32  # windows
    # instead of `batch`: windows up to this many positions with padding (of pairs, the longer text)
    tokens: int | None = None
    rate: float = 3e-5  # the highest learning rate of the schedule
    epochs: int = 3
    warmup: float = 0.1  # below 1 a share of all updates, else a number of updates
    schedule: str = "linear"
    decay: float = 0.01  # weight decay, but not for biases and norms
    clip: float | None = 1.0  # the largest norm of all gradients together
    accumulate: int = 1  # parts that a batch is run in
    smoothing: float = 0.0  # label smoothing
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    sampler: str = "shuffled"  # sequential: in the order of the file
    by_length: bool = True  # shuffled batches have windows of similar length
    precision: str = "float32"  # bf16: compute in bfloat16, keep weights and moments in float32
    patience: int | None = None  # epochs without a better score before it stops
    average: int = 1  # epochs at the end, not of an early stop, whose weights are averaged
    seed: int = 0

    def __post_init__(self) -> None:
        words = {"schedule": SCHEDULES, "sampler": SAMPLERS, "precision": PRECISIONS}
        for name, known in words.items():
            if getattr(self, name) not in known:
                raise unknown_name(name, getattr(self, name), known)
        for name, (expected, accepts) in RULES.items():
            value = getattr(self, name)
            if not (accepts(value) or (value is None and name in OPTIONAL)):
                hint = HINTS.get(name, f"set {name} to {expected}")
                raise SettingsError(f"`{name}` expects {expected}, got {value!r}.", hint)
            if RULES[name] is COUNT and value is not None:
                object.__setattr__(self, name, int(value))  # 8.0 means 8
        object.__setattr__(self, "betas", tuple(self.betas))  # JSON and YAML have lists

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


PRESETS = {name: Settings.from_dict(stored) for name, stored in combined("presets").items()}


def preset(name: str, task: str | None = None, **changes: Any) -> Settings:
    """The settings of a paper, for one of its tasks if they differ, with your changes.

    >>> preset("weak-link-bert", "sst2", epochs=3).rate
    2e-05
    """
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    task = "mnli" if task == "xnli" else task  # zero-shot: it is trained on MNLI
    settings = PRESETS.get(f"{name}-{task}", PRESETS[name])
    return Settings.from_dict({**settings.to_dict(), **changes})
