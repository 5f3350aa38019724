"""What the opened trials of a study say about heads: rankings, maps of measures, removals."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TypeVar

from deadhead.errors import DeadheadError
from deadhead.layout import BLOCKS, Head
from deadhead.measures import MEASURES, Measure

from .cells import Cell
from .model import RankedHeads
from .records import Opened

Group = TypeVar("Group")


@dataclass(frozen=True, kw_only=True, eq=False)
class Heads:
    """The heads of a study: everything is counted over its opened trials."""

    opened: Iterable[Opened]
    axes: tuple[str, ...]  # the axes of the study

    @cached_property
    def layout(self) -> dict[str, list[int]]:
        """Heads of each layer by block, as far as records name them; layers count as equal."""
        names = {*self.removed, *chain.from_iterable(r.scores for r in self.rankings.values())}
        maps = (of for trial in self.opened for of in trial.maps.values())
        names.update(head for of_stage in maps for values in of_stage.values() for head in values)
        sizes: dict[str, tuple[int, int]] = {}
        for name in names:
            with suppress(DeadheadError):
                head = Head.parse(name)
                layers, heads = sizes.get(head.block, (0, 0))
                sizes[head.block] = (max(layers, head.layer + 1), max(heads, head.index + 1))
        order = sorted(sizes, key=lambda b: (BLOCKS.index(b) if b in BLOCKS else len(BLOCKS), b))
        return {block: [sizes[block][1]] * sizes[block][0] for block in order}

    @cached_property
    def names(self) -> list[str]:
        """Every head of the layout."""
        return [
            f"{block}.{layer}.{index}"
            for block, sizes in self.layout.items()
            for layer, size in enumerate(sizes)
            for index in range(size)
        ]

    @cached_property
    def rankings(self) -> dict[str, RankedHeads]:
        """The distinct rankings, by name."""
        distinct: dict[str, RankedHeads] = {}
        for trial in self.opened:
            if trial.ranking is not None:
                distinct.setdefault(self.ranking_name(trial), trial.ranking)
        return distinct

    def ranking_name(self, trial: Opened) -> str:
        """The labels that distinguish the ranking of a trial from the others of the study."""
        ranking, labels = trial.ranking, trial.cell.field
        if ranking is None:
            return ""
        method = f"{ranking.ranker} {ranking.merge}".strip()
        varied = (str(labels(axis)) for axis in ("task", "model") if axis in self.axes)
        seed = f"seed {labels('seed')}" if "seed" in self.axes else ""
        return ", ".join(filter(None, (method, ranking.language, *varied, seed)))

    @cached_property
    def by_method(self) -> dict[tuple[str, ...], dict[str, Mapping[str, float]]]:
        """The rankings of single languages by ranker, model and task."""
        names = ("model", "task")
        return by_language(
            self.opened, lambda cell, one: (one.ranker, *(str(cell.field(n)) for n in names))
        )

    @cached_property
    def removed(self) -> Counter[str]:
        """How many trials removed each head."""
        return Counter(chain.from_iterable(trial.removed for trial in self.opened))

    @cached_property
    def measures(self) -> dict[str, type[Measure]]:
        """The measures that some trial has."""
        stages = (measured for trial in self.opened for measured in trial.measures.values())
        names = set().union(*stages)
        return {name: measure for name, measure in MEASURES.items() if name in names}


def by_language(
    trials: Iterable[Opened], group_of: Callable[[Cell, RankedHeads], Group]
) -> dict[Group, dict[str, Mapping[str, float]]]:
    """The first ranking of each single language in each group of trials."""
    groups: dict[Group, dict[str, Mapping[str, float]]] = {}
    for trial in trials:
        ranking = trial.ranking
        if ranking is not None and len(ranking.languages) == 1:
            rankings = groups.setdefault(group_of(trial.cell, ranking), {})
            rankings.setdefault(ranking.language, ranking.scores)
    return groups
