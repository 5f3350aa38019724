"""Draw a ranking: squares of colour, layers from the input upwards, in a terminal or a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from deadhead.errors import MissingExtra
from deadhead.layout import Head, HeadLayout

from .scores import matrix

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

# Dark for low, light for high; readers who see no red or green can distinguish them too.
RAMP = ("#2b1055", "#3f2f83", "#41568f", "#3c7a8e", "#3b9c87", "#62bd6f", "#a8d84f", "#f4e61e")


def printed(scores: Mapping[Head, float], layout: HeadLayout, title: str) -> Group:
    """For rich: a square per head with its score between the lowest (0) and the highest (99)."""
    from rich.console import Group
    from rich.text import Text

    low, high = min(scores.values()), max(scores.values())
    lines = [Text(f"{title}: {len(scores)} heads, {low:.4g} (00) to {high:.4g} (99)")]
    for block in layout.blocks:
        table = matrix(scores, layout, block)
        share = (table - low) / (high - low) if high > low else table * 0
        numbers = "".join(f"{h:>3} " for h in range(table.shape[1]))
        lines.append(Text(f"{block:>10} {numbers}", style="dim"))
        for attention, row in zip(layout.of(block), share, strict=True):
            line = Text(f"{attention.layer:>10} ", style="dim")
            for value in row:
                line.append_text(_square(value))
            lines.append(line)
    return Group(*lines)


def _square(share: float) -> Text:
    from rich.text import Text

    if np.isnan(share):
        return Text("  . ", style="dim")
    shade = min(int(share * len(RAMP)), len(RAMP) - 1)
    ink = "black" if shade >= len(RAMP) // 2 else "white"
    return Text(f" {min(round(share * 99), 99):02d} ", style=f"{ink} on {RAMP[shade]}")


def chart(scores: Mapping[Head, float], layout: HeadLayout, title: str) -> Any:
    """For altair: one panel for each block."""
    try:
        import altair as alt
    except ImportError:
        raise MissingExtra("altair", "report", "a plot of a ranking") from None
    panels = []
    for block in layout.blocks:
        rows = [
            {"layer": head.layer, "head": head.index, "name": str(head), "score": score}
            for head, score in scores.items()
            if head.block == block
        ]
        layers, size = [a.layer for a in layout.of(block)], layout.size(block)
        squares = alt.Chart(alt.InlineData(values=rows)).mark_rect(stroke="white", strokeWidth=1)
        heads = alt.Scale(domain=list(range(size)))
        levels = alt.Scale(domain=sorted(layers, reverse=True))
        panel = squares.encode(
            x=alt.X("head:O", title="head", scale=heads, axis=alt.Axis(labelAngle=0)),
            y=alt.Y("layer:O", title="layer", scale=levels),
            color=alt.Color("score:Q", title="score", scale=alt.Scale(scheme="viridis")),
            tooltip=["name:N", alt.Tooltip("score:Q", format=".4f")],
        )
        panels.append(panel.properties(title=block, width=24 * size, height=24 * len(layers)))
    return alt.hconcat(*panels).properties(title=title)
