"""Draw numbers of heads as squares of colour: in a terminal, in a notebook or as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from deadhead.display.notebook import Square, tables
from deadhead.errors import optional
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

    lines = [Text(_caption(scores, title))]
    for block, shares in _shares(scores, layout):
        numbers = "".join(f"{h:>3} " for h in range(shares.shape[1]))
        lines.append(Text(f"{block:>10} {numbers}", style="dim"))
        for attention, row in zip(layout.of(block), shares, strict=True):
            line = Text(f"{attention.layer:>10} ", style="dim")
            for share in row:
                line.append_text(_printed_square(share))
            lines.append(line)
    return Group(*lines)


def html(scores: Mapping[Head, float], layout: HeadLayout, title: str) -> str:
    """For a notebook: as `printed`, with the head and its score as the tooltip of each square."""
    blocks = {}
    for block, shares in _shares(scores, layout):
        blocks[block] = {
            attention.layer: [
                _html_square(Head(block, attention.layer, number), scores, share)
                for number, share in enumerate(row[: attention.size])
            ]
            for attention, row in zip(layout.of(block), shares, strict=True)
        }
    return tables(_caption(scores, title), blocks)


def _caption(scores: Mapping[Head, float], title: str) -> str:
    low, high = _range(scores)
    return f"{title}: {len(scores)} heads, {low:.4g} (00) to {high:.4g} (99)"


def _range(scores: Mapping[Head, float]) -> tuple[float, float]:
    """The lowest and the highest of the finite scores."""
    finite = [score for score in scores.values() if np.isfinite(score)]
    return min(finite, default=np.nan), max(finite, default=np.nan)


def _shares(scores: Mapping[Head, float], layout: HeadLayout) -> Iterator[tuple[str, np.ndarray]]:
    """For each block, layers x heads between 0 and 1; nan for a head without a finite score."""
    low, high = _range(scores)
    for block in layout.blocks:
        table = matrix(scores, layout, block)
        table[~np.isfinite(table)] = np.nan
        yield block, (table - low) / (high - low) if high > low else table * 0


def _text_and_colours(share: float) -> tuple[str, str, str]:
    """What a square says, its colour, and the colour of its text."""
    shade = min(int(share * len(RAMP)), len(RAMP) - 1)
    ink = "#000000" if shade >= len(RAMP) // 2 else "#ffffff"
    return f"{min(round(share * 99), 99):02d}", RAMP[shade], ink


def _printed_square(share: float) -> Text:
    from rich.text import Text

    if np.isnan(share):
        return Text("  . ", style="dim")
    text, colour, ink = _text_and_colours(share)
    return Text(f" {text} ", style=f"{ink} on {colour}")


def _html_square(head: Head, scores: Mapping[Head, float], share: float) -> Square:
    if np.isnan(share):
        state = f"{scores[head]:.4g}" if head in scores else "no score"
        return Square("·", f"{head}: {state}")
    text, colour, ink = _text_and_colours(share)
    return Square(text, f"{head}: {scores[head]:.4g}", colour, ink)


def altair(purpose: str) -> Any:
    """Return the package that draws charts; raise an error that says how to install it."""
    return optional("altair", "report", purpose)


def chart(scores: Mapping[Head, float], layout: HeadLayout, title: str) -> Any:
    """For altair: one panel for each block."""
    alt, panels = altair("a plot of a ranking"), []
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
