"""Draw edges as lines between layers, which are stacked from bottom to top."""

from __future__ import annotations

import re
from collections.abc import Mapping
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np

from deadhead.ranking.heatmap import altair

WIDTH, ROW = 270, 34  # points: a phone is some 360 wide
HEADS, GAP = 0.78, 0.068  # shares of the width: that of heads, and between two nodes
LINES = (0.6, 7.0)  # the widths of the weakest and the strongest line
READS = {"q": "queries", "k": "keys", "v": "values"}
COLOURS = {"queries": "#4477aa", "keys": "#228833", "values": "#ee6677", "other": "#777777"}
Ends = Any  # an edge: its source and its target
Place = tuple[float, int]  # across and up, in rows


def drawn(edges: Mapping[Ends, float], title: str) -> Any:
    """An altair chart of these edges."""
    alt = altair("a drawing of edges")
    places, rows = _places(edges)
    strongest = max((abs(effect) for effect in edges.values()), default=0) or 1
    lines = []
    for edge, effect in edges.items():
        (x, y), (x2, y2) = places[edge[0]], places[_named(edge[1])]
        read = READS.get(edge[1].rpartition(".")[2], "other")
        sign = "metric falls" if effect < 0 else "metric rises"
        width = LINES[0] + (LINES[1] - LINES[0]) * abs(effect) / strongest
        lines.append(
            {"x": x, "y": y, "x2": x2, "y2": y2, "read": read, "sign": sign, "width": width}
            | {"edge": str(edge), "effect": effect}
        )
    nodes = [{"x": x, "y": y, "name": _node(name).label} for name, (x, y) in places.items()]
    levels = [{"x": -0.02, "y": number, "name": name} for number, name in enumerate(rows)]
    across = alt.X("x:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=None)
    heights = alt.Scale(domain=[-0.5, len(rows) - 0.5], nice=False)
    up = alt.Y("y:Q", scale=heights, axis=None)
    below = alt.Legend(orient="bottom", direction="horizontal")

    def chart(values: list[dict[str, Any]]) -> Any:
        return alt.Chart(alt.InlineData(values=values)).encode(x=across, y=up)

    rules = chart(lines).mark_rule(opacity=0.75, strokeCap="round")
    rules = rules.encode(
        x2="x2:Q",
        y2="y2:Q",
        strokeWidth=alt.StrokeWidth("width:Q", scale=None, legend=None),
        color=alt.Color(
            "read:N",
            title="goes into",
            legend=below,
            scale=alt.Scale(domain=[*COLOURS], range=[*COLOURS.values()]),
        ),
        strokeDash=alt.StrokeDash(
            "sign:N",
            title="if corrupted",
            legend=below,
            scale=alt.Scale(domain=["metric falls", "metric rises"], range=[[1, 0], [5, 4]]),
        ),
        tooltip=["edge:N", alt.Tooltip("effect:Q", format=".4g")],
    )
    circles = chart(nodes).mark_circle(size=300, color="white", stroke="#333333", opacity=1)
    labels = chart(nodes).mark_text(fontSize=9).encode(text="name:N")
    names = chart(levels).mark_text(align="right", fontSize=10).encode(text="name:N")
    heading = alt.TitleParams(wrap(title, 52), fontSize=12)
    layers = alt.layer(rules, circles, labels, names)
    return layers.properties(title=heading, width=WIDTH, height=ROW * len(rows))


class Node(NamedTuple):
    """What is drawn at an end of lines: a head, a group of heads, neurons, inputs or the output."""

    row: tuple[Any, ...]  # sorts rows from the bottom up; its last entry is the name
    number: int  # the head's, or that of the first head of a group
    label: str


def _named(target: str) -> str:
    """The node that reads: the head or the group of heads, without what it reads into."""
    return re.sub(r"\.[qkv]$", "", target)


def _node(name: str) -> Node:
    block, _, rest = name.partition(".")
    layer, _, unit = rest.partition(".")
    above = int(block in ("decoder", "cross", "text"))
    if not unit:
        return Node((above, -1, name), 0, "in") if rest else Node((2, 0, name), 0, "out")
    number = re.match(r"\d+", unit)
    row = (above, int(layer), block == "cross", number is None, f"{block} {layer}")
    return Node(row, int(number[0]), unit) if number else Node(row, 0, "ffn")


def _places(edges: Mapping[Ends, float]) -> tuple[dict[str, Place], list[str]]:
    """Where each node is drawn, and the names of the rows from the bottom up."""
    nodes = {name: _node(name) for edge in edges for name in (edge[0], _named(edge[1]))}
    highest = max(node.number for node in nodes.values())
    places: dict[str, Place] = {}
    rows = sorted({node.row for node in nodes.values()})
    for level, row in enumerate(rows):
        names = sorted((node.number, name) for name, node in nodes.items() if node.row == row)
        steps = min(GAP, 1 / len(names)) * np.arange(len(names))  # no node over another one
        across = np.array([_across(nodes[name], highest) for _, name in names])
        across = np.maximum.accumulate(across - steps) + steps
        across = np.minimum(across, 1 - steps[::-1])
        places.update(
            (name, (x, level)) for (_, name), x in zip(names, across.tolist(), strict=True)
        )
    return places, [row[-1] for row in rows]


def _across(node: Node, highest: int) -> float:
    """Where a node would be if it were alone in its row.

    Neurons are right of the heads, each layer a bit aside, so that lines between them part.
    """
    if node.label == "ffn":
        return HEADS + GAP + (1 - HEADS - GAP) * (node.row[1] * 0.618 % 1)
    if node.label in ("in", "out"):
        return HEADS / 2
    return HEADS * (node.number + 0.5) / (highest + 1)
