"""The shapes figures are drawn in, as plain vega-lite: curves with bands, maps of heads, squares, scatters.

A specification has no colours of ink or paper: the page sets those for dark and light, `export` for print.
Categories are in the colours of Okabe and Ito and four more, amounts in viridis, which all readers can tell apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
COLOURS = [
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#B8A900",
    "#8265C9",
    "#9C6A3C",
    "#E0246B",
    "#6E8F2B",
    "#8C8C8C",
]
MIDDLE = "#888888"  # a grey that is seen on white and on black
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]
COLUMNS = 3  # panels in a row
MOST_TALL = 6  # panels; more of them are lower
MOST_BANDS = 4  # lines with bands in one picture; more of them would hide each other
MOST_TICKS = 10  # of an axis that is marked where its points are
Row = dict[str, Any]
Spec = dict[str, Any]


def field(name: str, kind: str, title: str | None = None, **more: Any) -> Spec:
    """An encoding of a field; kind is Q, O or N."""
    words = {"Q": "quantitative", "O": "ordinal", "N": "nominal"}
    return {
        "field": name,
        "type": words[kind],
        **({"title": title} if title is not None else {}),
        **more,
    }


def tip(name: str, kind: str, title: str, form: str | None = None) -> Spec:
    return field(name, kind, title, **({"format": form} if form else {}))


def categories(labels: Sequence[Any], grey: Sequence[Any] = ()) -> Spec:
    """A scale of colours in the order of the labels; those to compare with are grey."""
    return {
        "domain": list(labels),
        "range": [
            MIDDLE if label in grey else COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)
        ],
    }


def whole(spec: Spec, values: Sequence[Row], title: str) -> Spec:
    return {"$schema": SCHEMA, "title": title, "data": {"values": list(values)}, **spec}


def panelled(
    layers: Spec, panels: Sequence[Any], width: int, height: int, *, free: bool = False
) -> Spec:
    """One picture, or one for each panel."""
    if len(panels) < 2:
        return {**layers, "width": width, "height": height}
    small, low = (
        max(150, int(width * (0.62 if len(panels) == 2 else 0.45))),
        0.6 if len(panels) <= MOST_TALL else 0.42,
    )
    return {
        "facet": {
            "field": "panel",
            "type": "nominal",
            "title": None,
            "sort": list(panels),
            "header": {"labelFontWeight": "bold"},
        },
        "columns": 2 if len(panels) == 4 else min(COLUMNS, len(panels)),
        "spec": {**layers, "width": small, "height": int(height * low)},
        **({"resolve": {"scale": {"y": "independent"}}} if free else {}),
    }


def curves(
    values: Sequence[Row],
    title: str,
    *,
    x: str,
    y: str,
    numbers: bool,
    order: Sequence[Any],
    lines: Sequence[Any],
    panels: Sequence[Any],
    line: str = "",
    band: tuple[str, str] = ("mean - sd", "mean + sd"),
    grey: Sequence[Any] = (),
    form: str = ".1f",
) -> Spec:
    """Lines with points, a band where there is a spread, hollow points for published numbers.

    Rows: x, y, line, panel; where known low and high, n, published. Many lines with bands get a panel each.
    """
    values, panels, behind = _apart(values, lines, panels)
    across = field(
        "x",
        "Q" if numbers else "O",
        x,
        **(
            {} if numbers else {"sort": list(order), "axis": {"labelAngle": -40, "labelLimit": 140}}
        ),
    )
    if numbers:
        across |= {"scale": {"nice": False, "zero": False}}
        marks = sorted({float(row["x"]) for row in values})
        if len(marks) <= MOST_TICKS and all(
            map(float.is_integer, marks)
        ):  # there are no half layers
            across |= {"axis": {"values": marks}}
    legend = (
        None
        if len(lines) < 2 or behind
        else {
            "title": line or None,
            "symbolOpacity": 1,
            "symbolType": "circle",
            "symbolStrokeWidth": 0,
        }
    )
    colour: Spec = (
        {"value": COLOURS[0]}
        if behind
        else field("line", "N", line or None, scale=categories(lines, grey), legend=legend)
    )
    tips = [
        tip("line", "N", line or "line"),
        tip("x", "Q" if numbers else "N", x),
        tip("y", "Q", y, form),
        tip("n", "Q", "repetitions"),
    ]
    if any(row.get("low") is not None for row in values):
        tips += [tip("low", "Q", band[0], form), tip("high", "Q", band[1], form)]
    layers: list[Spec] = []
    if behind:
        places = {
            "x": across,
            "y": field("y", "Q", y, scale={"zero": False}),
            "detail": field("line", "N"),
        }
        layers.append(
            {
                "data": {"values": behind},
                "mark": {"type": "line", "color": MIDDLE, "strokeWidth": 1, "opacity": 0.35},
                "encoding": places,
            }
        )
    if any(row.get("low") is not None for row in values):
        bands = {
            "y": field("low", "Q", y, scale={"zero": False}),
            "y2": {"field": "high"},
            "x": across,
            "color": colour,
        }
        layers.append(
            {
                "mark": {"type": "area", "opacity": 0.16},
                "encoding": bands,
                "transform": [{"filter": "isValid(datum.low)"}],
            }
        )
    places = {"x": across, "y": field("y", "Q", y, scale={"zero": False}), "color": colour}
    layers.append(
        {
            "mark": {"type": "line", "strokeWidth": 2},
            "encoding": places,
            "transform": [{"filter": "isValid(datum.y)"}],
        }
    )
    layers.append(
        {
            "mark": {"type": "point", "filled": True, "size": 46, "opacity": 1},
            "encoding": {**places, "tooltip": tips},
        }
    )
    if any(row.get("published") is not None for row in values):
        theirs = {
            **places,
            "y": field("published", "Q", y, scale={"zero": False}),
            "tooltip": [
                *tips,
                tip("published", "Q", "published", ".4~f"),
            ],  # not rounded as ours are
        }
        mark = {"type": "point", "filled": False, "size": 70, "strokeWidth": 1.6, "opacity": 1}
        layers.append(
            {
                "mark": mark,
                "encoding": theirs,
                "transform": [{"filter": "isValid(datum.published)"}],
            }
        )
    return whole(panelled({"layer": layers}, panels, 460, 280), values, title)


def _apart(
    values: Sequence[Row], lines: Sequence[Any], panels: Sequence[Any]
) -> tuple[Sequence[Row], Sequence[Any], list[Row]]:
    """Lines whose bands would hide each other: a panel for each, with all others in grey behind it, or, in panels already, no bands."""
    if len(lines) <= MOST_BANDS or not any(row.get("low") is not None for row in values):
        return values, panels, []
    if len(panels) > 1:
        return (
            [
                {name: value for name, value in row.items() if name not in ("low", "high")}
                for row in values
            ],
            panels,
            [],
        )
    behind = [
        {"x": row["x"], "y": row["y"], "line": row["line"]}
        for row in values
        if row.get("y") is not None
    ]
    return [{**row, "panel": row["line"]} for row in values], lines, behind


def head_maps(
    values: Sequence[Row],
    title: str,
    *,
    panels: Sequence[Any],
    legend: str,
    scheme: str = "viridis",
) -> Spec:
    """Layer x head squares, the input at the bottom. Rows: layer, index, head, value, panel."""
    layers, sizes = (
        sorted({row["layer"] for row in values}),
        sorted({row["index"] for row in values}),
    )
    side = 22 if len(panels) < 2 else 12 if len(sizes) > 8 else 15
    squares = {
        "mark": {"type": "rect", "tooltip": True},
        "width": side * len(sizes),
        "height": side * len(layers),
        "encoding": {
            "x": field("index", "O", "head", axis={"labelAngle": 0, "labelOverlap": True}),
            "y": field("layer", "O", "layer", sort="descending"),
            "color": field("value", "Q", legend, scale={"scheme": scheme}),
            "tooltip": [
                tip("head", "N", "head"),
                tip("value", "Q", legend, ".4~g"),
                tip("panel", "N", "of"),
            ],
        },
    }
    if len(panels) < 2:
        return whole(squares, values, title)
    facet = {
        "field": "panel",
        "type": "nominal",
        "title": None,
        "sort": list(panels),
        "header": {"labelFontWeight": "bold", "labelLimit": 220},
    }
    return whole({"facet": facet, "columns": 4, "spec": squares}, values, title)


def squares(
    values: Sequence[Row], title: str, *, order: Sequence[Any], panels: Sequence[Any], legend: str
) -> Spec:
    """A square of every pair, with its number in it. Rows: a, b, value, panel."""
    side = 34 if len(order) <= 12 else 22
    places = {
        "x": field("a", "N", "", sort=list(order), axis={"labelAngle": 0}),
        "y": field("b", "N", "", sort=list(order)),
    }
    colour = field("value", "Q", legend, scale={"scheme": "cividis", "domain": [-1, 1]})
    ink = {
        "condition": {"test": "datum.value > 0.1", "value": "#1a1a1a"},
        "value": "#f5f5f5",
    }  # on the square, not on the page
    layers = [
        {
            "mark": "rect",
            "encoding": {
                **places,
                "color": colour,
                "tooltip": [
                    tip("a", "N", "one"),
                    tip("b", "N", "other"),
                    tip("value", "Q", legend, ".3f"),
                ],
            },
        },
        {
            "mark": {"type": "text", "fontSize": 10},
            "encoding": {**places, "text": field("value", "Q", format=".2f"), "color": ink},
        },
    ]
    spec: Spec = {"layer": layers, "width": side * len(order), "height": side * len(order)}
    if len(panels) > 1:
        spec = {
            "facet": {"field": "panel", "type": "nominal", "title": None, "sort": list(panels)},
            "columns": 2,
            "spec": spec,
        }
    return whole(spec, values, title)


def scatter(
    values: Sequence[Row], title: str, *, groups: Sequence[Any], panels: Sequence[Any], group: str
) -> Spec:
    """Points without axes, as t-SNE gives them. Rows: x, y, group, panel."""
    bare = {"axis": None, "scale": {"zero": False}}
    shapes = {
        "domain": list(groups),
        "range": [SHAPES[i // len(COLOURS) % len(SHAPES)] for i in range(len(groups))],
    }
    encoding = {
        "x": field("x", "Q", None, **bare),
        "y": field("y", "Q", None, **bare),
        "color": field("group", "N", group, scale=categories(groups)),
        "shape": field("group", "N", group, scale=shapes),
        "tooltip": [tip("group", "N", group)],
    }
    layers = {
        "mark": {"type": "point", "filled": True, "size": 14, "opacity": 0.7},
        "encoding": encoding,
    }
    spec = panelled(layers, panels, 460, 400)
    return whole(
        {
            **spec,
            **(
                {"resolve": {"scale": {"x": "independent", "y": "independent"}}}
                if len(panels) > 1
                else {}
            ),
        },
        values,
        title,
    )


def trade(
    values: Sequence[Row],
    title: str,
    *,
    cost: str,
    groups: Sequence[Any],
    panels: Sequence[Any],
    y: str,
) -> Spec:
    """Score against cost, with the points that no other beats joined by a line. Rows: y, cost, front, group, panel, label, n."""
    places = {
        "x": field("cost", "Q", cost, scale={"zero": False}),
        "y": field("y", "Q", y, scale={"zero": False}),
    }
    dash = {"type": "line", "interpolate": "step-after", "strokeDash": [4, 3], "color": MIDDLE}
    tips = [
        tip("label", "N", "removed"),
        tip("y", "Q", y, ".2f"),
        tip("cost", "Q", cost, ".4~g"),
        tip("n", "Q", "trials"),
    ]
    dots = {
        "mark": {"type": "point", "filled": True, "size": 60, "opacity": 0.85},
        "encoding": {
            **places,
            "color": field("group", "N", "removed by", scale=categories(groups)),
            "tooltip": tips,
        },
    }
    layers = {
        "layer": [
            {"mark": dash, "encoding": places, "transform": [{"filter": "datum.front"}]},
            dots,
        ]
    }
    return whole(panelled(layers, panels, 460, 280, free=True), values, title)
