"""The removals of a study: scores without some heads beside those of the unpruned model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from deadhead.tasks.metrics import sign

from .cells import CHANCE, PRUNING, Cell
from .means import Labels, Mean, group_cells

Key = tuple[Labels, str]  # the labels without those of the pruning, and a language
Scored = Mapping[Labels, list[Cell]]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The mean without some heads beside the unpruned one, over what both were scored on."""

    cell: Cell  # one of its cells
    on: tuple[Key, ...]
    pruned: Mean  # a repetition for each seed and draw
    unpruned: Mean | None  # a repetition for each of `on`; None if there is no unpruned model
    seeds: tuple[float, ...] = ()  # unpruned; empty if seeds were not scored on the same
    gains: Mapping[Key, float] = field(default_factory=dict)  # over the unpruned model

    @property
    def tasks(self) -> int:
        return len({dict(labels).get("task") for labels, _ in self.on})

    @property
    def loss(self) -> float:
        if self.unpruned is None:
            return 0.0
        return sign(self.cell.metric) * (self.unpruned.value - self.pruned.value)

    @property
    def by_language(self) -> dict[str, float]:
        """The gain in each language."""
        return _means((language, gain) for (_, language), gain in self.gains.items())

    @property
    def by_task(self) -> dict[str, float]:
        """The gain in each task."""
        return _means((str(dict(k).get("task")), gain) for (k, _), gain in self.gains.items())


def _means(gains: Iterable[tuple[str, float]]) -> dict[str, float]:
    groups: dict[str, list[float]] = {}
    for name, gain in gains:
        groups.setdefault(name, []).append(gain)
    return {name: fmean(values) for name, values in groups.items()}


def removals_of(cells: Iterable[Cell]) -> list[Compared]:
    """Every removal of the recipe, beside the unpruned model, in the recipe's order."""
    unpruned: dict[Labels, list[Cell]] = {}
    pruned: dict[str, dict[Any, dict[Labels, list[Cell]]]] = {}  # label -> repetition -> labels
    done = [cell for cell in cells if cell.state == "done"]
    axes = set[str]().union(*(cell.axes for cell in done)).difference(CHANCE)
    for group in group_cells(done, axes):
        for cell in {cell.trial: cell for cell in group}.values():  # draws may share a trial
            labels = cell.without(*PRUNING, "seed")
            if cell.unpruned:
                unpruned.setdefault(labels, []).append(cell)
            else:
                repetition = cell.axes.get("seed"), cell.axes.get("draw")
                by_repetition = pruned.setdefault(str(cell.axes.get("remove")), {})
                by_repetition.setdefault(repetition, {})[labels] = [cell]
    removals = (_removal(by_repetition, unpruned) for by_repetition in pruned.values())
    return [removal for removal in removals if removal is not None]


def _removal(pruned: Mapping[Any, Scored], unpruned: Scored) -> Compared | None:
    """Means over what every repetition and the unpruned model were scored on."""
    sides = [*pruned.values(), *([unpruned] if unpruned else [])]
    shared = [labels for labels in sides[0] if all(labels in side for side in sides)]
    scores = {c.trial: c.scores for side in sides for labels in shared for c in side[labels]}
    on = [
        (labels, language)
        for labels in shared
        for language in scores[sides[0][labels][0].trial]
        if all(language in scores[cell.trial] for side in sides for cell in side[labels])
    ]
    if not on:
        return None
    without, full = Mean(), Mean()
    gains: dict[Key, float] = {}
    for labels, language in on:
        cells = [(repetition, side[labels][0].trial) for repetition, side in pruned.items()]
        for repetition, trial in cells:
            without.put(repetition, trial, language, scores[trial][language])
        starts = [scores[cell.trial][language] for cell in unpruned.get(labels, ())]
        for cell in unpruned.get(labels, ()):
            full.put((labels, language), cell.trial, language, scores[cell.trial][language])
        if starts:
            mean = fmean(scores[trial][language] for _, trial in cells)
            gains[labels, language] = mean - fmean(starts)
    counts = {len(unpruned.get(labels, ())) for labels, _ in on}
    return Compared(
        cell=next(iter(sides[0].values()))[0],
        on=tuple(on),
        pruned=without,
        unpruned=full if unpruned else None,
        seeds=tuple(
            fmean(scores[unpruned[labels][seed].trial][language] for labels, language in on)
            for seed in range(counts.pop() if len(counts) == 1 else 0)
        ),
        gains=gains,
    )
