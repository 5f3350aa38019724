"""The report of `shrink`: the removed units, their cost, and what the model saves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import nan
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from deadhead.layout import Head, HeadLayout
    from deadhead.rankers.embedding_loss import EmbeddingChange

    from .allocate import Budget
    from .choose import Choice
    from .distances import TextDistance

MISSED = 0.1  # share of a speed-up that may be missing
STAGES = ("whole", "cut", "refitted")


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Times of one run on inputs of `shape`, whole and small in turns."""

    shape: tuple[int, int]
    target: float  # times as fast
    predicted: float
    seconds: tuple[float, float] | None  # whole, small; None if they were not measured

    @property
    def measured(self) -> float:
        """How many times as fast the model is."""
        return nan if self.seconds is None else self.seconds[0] / self.seconds[1]

    @property
    def next_target(self) -> float | None:
        """The target to try next if this one was missed by more than a tenth, or None."""
        if not self.measured < (1 - MISSED) * self.target:
            return None
        return round(self.target * self.target / self.measured, 2)

    def __str__(self) -> str:
        measured = "not" if self.seconds is None else f"{self.measured:.2f}"
        return (
            f"{self.target:.2f} is the target, {self.predicted:.2f} predicted, {measured} measured"
        )

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "measured": None if self.seconds is None else self.measured}


@dataclass(frozen=True, kw_only=True)
class ShrunkLayer:
    """One layer's heads or neurons, or the outputs of the task layer, all of which stay."""

    kind: str
    block: str
    layer: int
    before: int  # heads, neurons or outputs
    left: int
    candidate: str  # what repairs the layer
    errors: tuple[float, float] | None  # cut, repaired: its output on held-out tokens


@dataclass(frozen=True, kw_only=True)
class Shrunk:
    """A model that became smaller, and all that is known about it."""

    model: nn.Module = field(repr=False)  # the same object as before, smaller
    choice: Choice = field(repr=False)
    loss: str  # what the losses are: of labels, self, or the name of a function
    removed_layers: tuple[str, ...] = ()  # by their names in the whole model, such as "encoder.3"
    losses: Mapping[str, float]  # whole, cut, refitted: on the held-out part
    tried: Mapping[str, float]  # method -> this loss after a quick refit, if several were tried
    tried_layers: Mapping[int, float] = field(default_factory=dict)  # number removed -> the same
    scores: Mapping[str, Any]  # what `score` gave for each of these, if there is one
    sizes: Mapping[str, tuple[int, int]]  # layers, heads, neurons, parameters, macs: before, after
    shape: tuple[int, int]  # examples and tokens of the inputs that MACs are counted for
    seconds: Mapping[str, float]  # for each stage
    speed: Speed | None  # for a target `speedup`
    layers: tuple[ShrunkLayer, ...]
    examples: tuple[int, int]  # to choose and fit, and held out
    guard: tuple[int, int] = (0, 0)  # general texts to fit, and only measured
    distances: tuple[TextDistance, ...] = ()  # from the whole model, of texts by length
    embeddings: EmbeddingChange | None = None  # of a sentence encoder: on the held-out part
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join(f"{name}: {value}" for name, value in self.summary().items())

    @property
    def warning(self) -> str | None:
        """A sentence if some texts changed much more than those like the calibration data."""
        from .distances import warning_of

        outputs = "outputs" if self.embeddings is None else "embeddings"
        return warning_of(self.distances, outputs, fitted=self.guard[0] > 0)

    def summary(self) -> dict[str, str]:
        """The main facts as text."""
        kind = "loss" if self.loss == "labels" else f"loss ({self.loss})"
        rows = {
            name: f"{before:,} -> {after:,} ({after / before:.1%})"
            for name, (before, after) in self.sizes.items()
            if before
        }
        rows[f"held-out {kind}"] = ", ".join(
            f"{stage} {value:z.4f}" for stage, value in self.losses.items()
        )
        if self.embeddings is not None:
            rows["embeddings"] = str(self.embeddings)
        for texts in dict.fromkeys(row.texts for row in self.distances):
            rows[f"distances of texts ({texts})"] = ", ".join(
                f"{row.name} {row.distance:.4f}" for row in self.distances if row.texts == texts
            )
        if self.tried:
            rows["methods tried"] = ", ".join(f"{n} {v:z.4f}" for n, v in self.tried.items())
        if self.tried_layers:
            rows["layers tried"] = ", ".join(
                f"{count} removed {loss:z.4f}" for count, loss in self.tried_layers.items()
            )
        if self.speed is not None:
            rows["speed-up"] = str(self.speed)
        rows["seconds"] = ", ".join(f"{name} {value:.1f}" for name, value in self.seconds.items())
        return rows

    def to_dict(self) -> dict[str, Any]:
        """All but the model, as plain data."""
        facts = {name: value for name, value in vars(self).items() if name != "model"}
        return facts | {
            "choice": choice_to_dict(self.choice),
            "speed": self.speed and self.speed.to_dict(),
            "distances": [vars(row) for row in self.distances],
            "warning": self.warning,
            "embeddings": self.embeddings and vars(self.embeddings),
            "layers": [vars(layer) for layer in self.layers],
        }


def choice_to_dict(choice: Choice) -> dict[str, Any]:
    """A choice as plain data; neurons as spans of numbers, one text for each layer."""
    from deadhead.layout import spans

    neurons: dict[str, dict[str, str]] = {}
    for (block, layer), numbers in choice.neurons.items():
        neurons.setdefault(block, {})[str(layer)] = spans(numbers)
    return {
        "heads": [str(head) for head in choice.heads],
        "neurons": neurons,
        "predicted": choice.predicted,
        "method": choice.method,
    }


def speed_notes(targets: Collection[str], sizes: Mapping[str, tuple[int, int]]) -> list[str]:
    """Note that only heads were removed from a model whose neurons take most of the time."""
    if set(targets) != {"heads"} or not sizes["neurons"][1]:
        return []
    before, after = sizes["macs"]
    return [
        "heads alone save little time "
        f"(multiply-accumulates: {after / before - 1:+.0%}): for speed, "
        "add --remove-neurons 50%, or give --keep-macs 50% or --speedup 1.5 instead"
    ]


def group_notes(
    layout: HeadLayout, removed: Collection[Head], budgets: Collection[Budget] = ()
) -> list[str]:
    """Note that heads of shared key/value heads were removed, and if more than requested."""
    size = max((len(group) for a in layout.attentions for group in a.groups), default=1)
    if not removed or size == 1:
        return []
    note = f"up to {size} heads share a key/value head: whole groups of them were removed"
    target = next((round(b.total) for b in budgets if b.name == "heads"), len(removed))
    if len(removed) > target and not any(budget.quotas for budget in budgets):
        note += f", {len(removed)} heads where {target} were asked for"
    return [note]


def quota_notes(choice: Choice, budgets: Iterable[Budget]) -> list[str]:
    """Note that even layers, or multiples, lose more than was asked for."""
    removed = {"heads": len(choice.heads), "neurons": sum(map(len, choice.neurons.values()))}
    return [
        f"{removed[budget.name]:,} {budget.name} were removed where {round(budget.total):,} were "
        "asked for: fewer is no number that even layers or the multiple allow"
        for budget in budgets
        if budget.quotas and removed.get(budget.name, 0) > round(budget.total)
    ]


def ordinary_note(cls: str, fields: Mapping[str, int]) -> str:
    """Say whether an even model is an ordinary one of its class; fields: those of its config."""
    if fields:
        sizes = ", ".join(f"{name} {size:,}" for name, size in fields.items())
        return f"an ordinary {cls} ({sizes}): its folder loads anywhere, without deadhead"
    return (
        f"even, but no ordinary model: no config of {cls} gives layers of these sizes, so its "
        "folder needs deadhead or its load_pruned.py (many classes have one for fewer neurons "
        "alone)"
    )
