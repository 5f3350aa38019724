"""Draw edges as lines between layers, which are stacked from bottom to top."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from deadhead.errors import MissingExtra

WIDTH, ROW = 270, 34  # points: a phone is some 360 wide
HEADS, GAP = 0.78, 0.068  # shares of the width: that of heads, and between two nodes
LINES = (0.6, 7.0)  # the widths of the weakest and the strongest line
READS = {"q": "queries", "k": "keys", "v": "values"}
COLOURS = {"queries": "#4477aa", "keys": "#228833", "values": "#ee6677", "other": "#777777"}
Ends = Any  # an edge: its source and its target
Place = tuple[float, int]  # across and up, in rows


def drawn(edges: Mapping[Ends, float], title: str) -> Any:
    """An altair chart of these edges."""
    try:
        import altair as alt
    except ImportError:
        raise MissingExtra("altair", "report", "a drawing of edges") from None
    places, rows = _places(edges)
    strongest = max((abs(effect) for effect in edges.values()), default=0) or 1
    lines = []
    for edge, effect in edges.items():
        (x, y), (x2, y2) = places[edge[0]], places[_node(edge[1])]
        read = READS.get(edge[1].rpartition(".")[2], "other")
        sign = "metric falls" if effect < 0 else "metric rises"
        width = LINES[0] + (LINES[1] - LINES[0]) * abs(effect) / strongest
        lines.append(
            {"x": x, "y": y, "x2": x2, "y2": y2, "read": read, "sign": sign, "width": width}
            | {"edge": str(edge), "effect": effect}
        )
    nodes = [{"x": x, "y": y, "name": _label(name)} for name, (x, y) in places.items()]
    levels = [{"x": -0.02, "y": number, "name": name} for number, name in enumerate(rows)]
    across = alt.X("x:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=None)
    heights = alt.Scale(domain=[-0.5, len(rows) - 0.5], nice=False)
    up = alt.Y("y:Q", scale=heights, axis=None)
    below = alt.Legend(orient="bottom", direction="horizontal")
    rules = alt.Chart(alt.InlineData(values=lines)).mark_rule(opacity=0.75, strokeCap="round")
    rules = rules.encode(
        x=across,
        y=up,
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
    dots = alt.Chart(alt.InlineData(values=nodes)).encode(x="x:Q", y="y:Q")
    circles = dots.mark_circle(size=300, color="white", stroke="#333333", opacity=1)
    labels = dots.mark_text(fontSize=9).encode(text="name:N")
    names = alt.Chart(alt.InlineData(values=levels)).mark_text(align="right", fontSize=10)
    names = names.encode(x="x:Q", y="y:Q", text="name:N")
    heading = alt.TitleParams(_wrapped(title), fontSize=12)
    chart = alt.layer(rules, circles, labels, names)
    return chart.properties(title=heading, width=WIDTH, height=ROW * len(rows))


def _node(target: str) -> str:
    """The node that reads: the head or the group of heads, without what it reads into."""
    return re.sub(r"\.[qkv]$", "", target)


def _places(edges: Mapping[Ends, float]) -> tuple[dict[str, Place], list[str]]:
    """Where each node is drawn, and the names of the rows from the bottom up."""
    names = {name for edge in edges for name in (edge[0], _node(edge[1]))}
    rows: dict[tuple[Any, ...], list[str]] = {}
    for name in names:
        rows.setdefault(_row(name), []).append(name)
    highest = max(map(_first, names))
    places: dict[str, Place] = {}
    for number, row in enumerate(sorted(rows)):
        ordered = sorted(rows[row], key=lambda name: (_first(name), name))
        across = [_across(name, row, highest) for name in ordered]
        gap = min(GAP, 1 / len(across))
        for place in range(1, len(across)):  # no node over another one
            across[place] = max(across[place], across[place - 1] + gap)
        for place in range(len(across)):
            across[-1 - place] = min(across[-1 - place], 1 - gap * place)
        places.update((name, (x, number)) for name, x in zip(ordered, across, strict=True))
    return places, [row[-1] for row in sorted(rows)]


def _across(name: str, row: tuple[Any, ...], highest: int) -> float:
    """Where a node would be if it were alone in its row.

    Neurons are right of the heads, each layer a bit aside, so that lines between them part.
    """
    if name.endswith(".neurons"):
        return HEADS + GAP + (1 - HEADS - GAP) * (row[1] * 0.618 % 1)
    if name.endswith(".input") or "." not in name:
        return HEADS / 2
    return HEADS * (_first(name) + 0.5) / (highest + 1)


def _row(name: str) -> tuple[Any, ...]:
    """What sorts a row upwards, and its name."""
    block, _, rest = name.partition(".")
    if not rest:
        return (2, 0, 0, 0, name)
    above = int(block in ("decoder", "cross", "text"))
    if rest == "input":
        return (above, -1, 0, 0, name)
    layer, _, unit = rest.partition(".")
    neurons = unit == "neurons"
    return (above, int(layer), int(block == "cross"), neurons, f"{block} {layer}")


def _first(name: str) -> int:
    """The number of a head, or of the first of a group."""
    number = re.match(r"\d+", name.rpartition(".")[2])
    return int(number[0]) if number else 0


def _label(name: str) -> str:
    last = name.rpartition(".")[2]
    return {"neurons": "ffn", "input": "in", "output": "out"}.get(last, last)


def _wrapped(title: str) -> list[str]:
    import textwrap

    return textwrap.wrap(title, 52)
