"""Effects as plain data: tables, and heat maps of heads. Imports no torch."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from deadhead.errors import optional
from deadhead.layout import Head, HeadLayout
from deadhead.ranking.heatmap import altair, chart, html, printed

if TYPE_CHECKING:
    import pandas
    from rich.console import Group

HeadAt = tuple[Head, int | None]  # a head at one position, or at all positions (None)


class Table(ABC):
    """A result that is a table."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]: ...

    def frame(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""
        return optional("pandas", "report", "a data frame").DataFrame(self.rows())


class HeadTable(Table):
    """A table with a number for each head, which is printed as a heat map."""

    layout: HeadLayout

    @abstractmethod
    def by_head(self) -> dict[Head, float]: ...

    @property
    @abstractmethod
    def title(self) -> str:
        """What the heat map shows, in words."""

    def plot(self, title: str | None = None) -> Any:
        """A heat map (an altair chart) of layers x heads."""
        return chart(self.by_head(), self.layout, title or self.title)

    def __rich__(self) -> Group:
        return printed(self.by_head(), self.layout, self.title)

    def _repr_html_(self) -> str:
        return html(self.by_head(), self.layout, self.title)


@dataclass(frozen=True, kw_only=True)
class Effects(HeadTable):
    """The mean of a metric with each head patched, and without any patch.

    values: the metric of the patched run, for each head, or for each head and position.
    clean, corrupt: the metric of both runs without a patch.
    into: the run that was patched; the other run gave the outputs of the heads.
    """

    values: Mapping[HeadAt, float] = field(repr=False)
    clean: float
    corrupt: float
    into: Literal["corrupt", "clean"]
    examples: int
    layout: HeadLayout

    @property
    def effect(self) -> dict[HeadAt, float]:
        """How much each patch changes the metric of the run that it is patched into."""
        before = self.corrupt if self.into == "corrupt" else self.clean
        return {place: value - before for place, value in self.values.items()}

    @property
    def normalised(self) -> dict[HeadAt, float]:
        """The metric of the patched run on a scale from 0, as corrupt, to 1, as clean.

        All nan where clean and corrupt have the same metric.
        """
        span = self.clean - self.corrupt
        return {
            place: (value - self.corrupt) / span if span else math.nan
            for place, value in self.values.items()
        }

    def rows(self) -> list[dict[str, Any]]:
        """One dict for each head, or for each head and position."""
        effect, normalised = self.effect, self.normalised
        return [
            {"head": str(head), **head._asdict(), "position": position, "metric": value}
            | {"effect": effect[head, position], "normalised": normalised[head, position]}
            for (head, position), value in self.values.items()
        ]

    def by_head(self) -> dict[Head, float]:
        """The effect of each head; of several positions, the effect that is furthest from 0."""
        strongest: dict[Head, float] = {}
        for (head, _), effect in self.effect.items():
            strongest[head] = max(strongest.get(head, effect), effect, key=abs)
        return strongest

    @property
    def title(self) -> str:
        source = "clean" if self.into == "corrupt" else "corrupt"
        where = "" if all(p is None for _, p in self.values) else " at its strongest position"
        return (
            f"effect of patching each head{where} from {source} into {self.into} "
            f"(clean {self.clean:.4g}, corrupt {self.corrupt:.4g})"
        )

    def plot(self, title: str | None = None) -> Any:
        """A heat map (an altair chart) of layers x heads, or of heads x positions."""
        if all(position is None for _, position in self.values):
            return super().plot(title)
        alt, rows = altair("a plot of effects"), self.rows()
        squares = alt.Chart(height=alt.Step(12)).mark_rect()
        squares = squares.encode(
            x=alt.X("position:O", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("head:N", sort=None),
            color=alt.Color("effect:Q", scale=alt.Scale(scheme="viridis")),
            tooltip=["head:N", "position:O", alt.Tooltip("effect:Q", format=".4f")],
        )
        panels = []
        for block in dict.fromkeys(row["block"] for row in rows):
            values = [row for row in rows if row["block"] == block]
            panels.append(squares.properties(data=alt.InlineData(values=values), title=block))
        return alt.hconcat(*panels).properties(title=title or self.title)
