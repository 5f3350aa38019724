"""The removals of a study: scores without some heads beside those of the unpruned model."""

from collections.abc import Iterable, Mapping
from typing import Any

from .cells import CHANCE, PRUNING, Cell
from .means import Labels, Mean, group_cells

Scored = Mapping[Labels, list[Cell]]  # cells by their labels without those of the pruning


def removals_of(cells: Iterable[Cell]) -> list[Mean]:
    """Every removal of the recipe, in its order, with the unpruned model as its base."""
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
    return [removal for removal in removals if removal.values]


def _removal(pruned: Mapping[Any, Scored], unpruned: Scored) -> Mean:
    """Means over what every repetition and the unpruned model were scored on.

    A seed and a draw are a repetition of the pruned model; the unpruned model is averaged first
    over the trials with the same labels.
    """
    sides = [*pruned.values(), *([unpruned] if unpruned else [])]
    shared = [labels for labels in sides[0] if all(labels in side for side in sides)]
    removal = Mean(base=Mean() if unpruned else None)
    for labels in shared:
        for language in sides[0][labels][0].scores:
            if all(language in cell.scores for side in sides for cell in side[labels]):
                for repetition, side in pruned.items():
                    _put(removal, repetition, side[labels], language)
                if removal.base is not None:
                    _put(removal.base, (labels, language), unpruned[labels], language)
    return removal


def _put(mean: Mean, repetition: Any, cells: Iterable[Cell], language: str) -> None:
    for cell in cells:
        mean.cells[cell.trial] = cell
        mean.put(repetition, cell.trial, language, cell.scores[language])
