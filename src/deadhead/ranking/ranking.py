"""A ranking: one score per head, with everything needed to know later where it came from.

Plain data and numpy: a ranking can be read, compared, merged and drawn on a machine without torch.
Higher means more important; heads without a score (closed, removed) are in the layout but not here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deadhead.errors import DataError, HeadError
from deadhead.files.writing import write_json
from deadhead.layout import Head, HeadLayout

from .compare import Correlation, Overlap, overlap, spearman
from .heatmap import chart, html, printed
from .scores import matrix

if TYPE_CHECKING:
    from rich.console import Group

FORMAT = 1
PLAIN = ("model", "method", "options", "seed", "data", "versions", "details")  # written as they are
SAME_BUILD = "compare rankings of models built with the same layers and heads"
AGAIN = "rank again with: deadhead rank MODEL --task T --lang L --out FILE"
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, OverflowError, HeadError)


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Scores per head; iterate `order` for the heads from the lowest to the highest."""

    scores: Mapping[Head, float] = field(repr=False)
    layout: HeadLayout
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    model: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    versions: Mapping[str, str] = field(default_factory=dict, repr=False)
    raw: Mapping[Head, float] | None = field(default=None, repr=False)  # before scaling
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)  # further results

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, head: Head | str) -> float:
        named = Head.parse(head) if isinstance(head, str) else head
        if named not in self.scores:
            hint = f"this ranking scores {len(self)} heads of {', '.join(self.layout.blocks)}"
            raise HeadError(f"head {named} has no score in this ranking.", hint)
        return self.scores[named]

    @property
    def order(self) -> tuple[Head, ...]:
        """The heads from the lowest to the highest score; ties by layer, then head."""
        return tuple(sorted(self.scores, key=lambda head: (self.scores[head], *self._place(head))))

    def _place(self, head: Head) -> tuple[int, int, int]:
        return head.layer, head.index, self.layout.blocks.index(head.block)

    def lowest(self, k: int) -> tuple[Head, ...]:
        """The k least important heads, the least important first."""
        return self.order[: self._count(k)]

    def highest(self, k: int) -> tuple[Head, ...]:
        """The k most important heads, the most important first; ties as in `order`."""
        heads = sorted(self.scores, key=lambda head: (-self.scores[head], *self._place(head)))
        return tuple(heads[: self._count(k)])

    def _count(self, k: int) -> int:
        if not 0 <= k <= len(self):
            message = f"expected 0 to {len(self)} heads, got {k}: {len(self)} have a score."
            raise HeadError(message, f"choose 0 to {len(self)}")
        return k

    def scores_for(self, layout: HeadLayout) -> Mapping[Head, float]:
        """The scores, for a model of this layout.

        An error unless it was built with the same heads; some may have been removed since.
        """
        if not _same_build(self.layout, layout):
            builds = f"a model with {built(self.layout)}, this one was built with {built(layout)}"
            hint = AGAIN.replace("rank again with", "rank this model")
            raise HeadError(f"the ranking is of {builds}.", hint)
        return self.scores

    def matrix(self, block: str | None = None, *, raw: bool = False) -> np.ndarray:
        """Layers x heads, nan for heads without a score; omit the block if there is one."""
        blocks = self.layout.blocks
        if block is None and len(blocks) > 1:
            hint = f"name one: ranking.matrix({blocks[0]!r})"
            raise HeadError(f"this ranking covers {', '.join(blocks)}.", hint)
        values = (self.raw or {}) if raw else self.scores
        return matrix(values, self.layout, blocks[0] if block is None else block)

    def spearman(self, other: Ranking) -> Correlation:
        """How similar the order of the heads is in another ranking (average ranks for ties)."""
        both = self._shared(other)
        sides = ([scores[head] for head in both] for scores in (self.scores, other.scores))
        return spearman(*sides, exact=False)

    def overlap(self, other: Ranking, m: int = 12) -> Overlap:
        """How many of the m highest and lowest heads in both rankings are the same."""
        both = sorted(self._shared(other), key=self._place)  # equal scores: lower layer first
        return overlap({head: self.scores[head] for head in both}, other.scores, m)

    def _shared(self, other: Ranking) -> list[Head]:
        """The heads in both rankings."""
        check_same_build([self, other], [self.name, other.name])
        both = [head for head in self.scores if head in other.scores]
        if len(both) < 3:
            names = f"{self.name}; {other.name}"
            message = f"a comparison needs 3 heads in common, these rankings ({names}) have "
            raise HeadError(f"{message}{len(both)}.", SAME_BUILD)
        return both

    @property
    def name(self) -> str:
        """A few words to distinguish this ranking from others."""
        words = [self.method, self.data.get("task"), self.data.get("lang"), self.model]
        return " ".join(str(word) for word in words if word)

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in PLAIN},
            "layout": self.layout.to_dict(),
            "scores": _written(self.scores),
            "raw": None if self.raw is None else _written(self.raw),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Ranking:
        rest = {name: stored[name] for name in PLAIN}
        scores, layout = _read(stored["scores"]), HeadLayout.from_dict(stored["layout"])
        if unknown := {head.block for head in scores} - {*layout.blocks}:
            blocks = ", ".join(sorted(unknown))
            raise ValueError(f"scores of {blocks}, which the layout does not have")
        raw = None if stored["raw"] is None else _read(stored["raw"])
        return cls(scores=scores, layout=layout, raw=raw, **rest)

    def save(self, path: str | Path) -> Path:
        """Write the ranking as JSON; the file is whole or absent."""
        return write_json(self.to_dict(), path, "ranking.json", indent=1)

    @classmethod
    def load(cls, path: str | Path) -> Ranking:
        """Read a ranking from its JSON file."""
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(f"there is no ranking at {path}.", AGAIN) from None
        except IsADirectoryError:
            raise DataError(f"{path} is a folder, not the file of a ranking.", AGAIN) from None
        except (OSError, ValueError, RecursionError) as problem:
            raise DataError(f"{path} cannot be read as a ranking: {problem}.", AGAIN) from None
        form = stored.get("format") if isinstance(stored, dict) else type(stored).__name__
        if form != FORMAT:
            message = f"{path} is not a ranking: expected format {FORMAT}, got {form}."
            raise DataError(message, AGAIN)
        try:
            return cls.from_dict(stored)
        except DAMAGE as problem:
            raise DataError(f"{path} is damaged: {problem!r}.", AGAIN) from None

    def plot(self, title: str | None = None) -> Any:
        """A heat map (an altair chart): `ranking.plot().save("heads.svg")`, or `.png`, `.html`."""
        return chart(self.scores, self.layout, title or self.name)

    def __rich__(self) -> Group:
        return printed(self.scores, self.layout, self.name)

    def _repr_html_(self) -> str:
        return html(self.scores, self.layout, self.name)


def _same_build(first: HeadLayout, second: HeadLayout) -> bool:
    """Whether two models were built with the same layers and heads, removed heads included."""
    sizes = [{a.layer_key: a.size for a in layout.attentions} for layout in (first, second)]
    return sizes[0] == sizes[1]


def built(layout: HeadLayout) -> str:
    """The layers and heads a model was built with: `encoder 12 x 12`, or `encoder 8+4`."""
    sizes = {block: [a.size for a in layout.of(block)] for block in layout.blocks}
    even = {b: f"{len(s)} x {s[0]}" for b, s in sizes.items() if len(set(s)) == 1}
    return ", ".join(f"{b} {even.get(b) or '+'.join(map(str, s))}" for b, s in sizes.items())


def _written(scores: Mapping[Head, float]) -> dict[str, float]:
    return {str(head): float(score) for head, score in scores.items()}


def _read(scores: Mapping[str, float]) -> dict[Head, float]:
    return {Head.parse(head): float(score) for head, score in scores.items()}


def correlations(rankings: Sequence[Ranking]) -> np.ndarray:
    """Spearman's rho of each ranking with each."""
    table = np.eye(len(rankings))
    for i, ranking in enumerate(rankings):
        for j in range(i):
            table[i, j] = table[j, i] = ranking.spearman(rankings[j]).rho
    return table


def check_same_build(rankings: Sequence[Ranking], names: Sequence[str]) -> None:
    """An error unless all are of models with the same layers and heads.

    In another model the same name means another head.
    """
    for name, other in zip(names, rankings, strict=True):
        if not _same_build(rankings[0].layout, other.layout):
            builds = f"{names[0]} has {built(rankings[0].layout)}, {name} has {built(other.layout)}"
            raise HeadError(f"these rankings are of different models: {builds}.", SAME_BUILD)


def check_same_heads(rankings: Iterable[Ranking]) -> None:
    """An error unless there are rankings and all score the same heads."""
    rankings = list(rankings)
    if not rankings:
        raise DataError("there is no ranking.", "give at least one")
    first = rankings[0]
    for other in rankings[1:]:
        if odd := set(first.scores) ^ set(other.scores):
            message = f"head {min(odd)} has a score in only one of these rankings: {first.name}; "
            hint = "merge rankings of models with the same heads"
            raise HeadError(f"{message}{other.name}.", hint)
