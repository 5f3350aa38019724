"""The shapes of figures, as vega-lite: curves with bands, head maps, squares, scatters.

A chart has no colours for text or background: the page sets those for dark and light, `export` for
print. Categories have the colours of Okabe and Ito and four more, amounts have viridis: all readers
can distinguish these.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from deadhead.report.spec import Chart
from deadhead.results.statistics import deviation

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"]
COLOURS += ["#B8A900", "#8265C9", "#9C6A3C", "#E0246B", "#6E8F2B", "#8C8C8C"]
MIDDLE = "#888888"  # a grey that is visible on white and on black
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]
WIDTH = 460
BOLD = {"labelFontWeight": "bold"}  # headers of panels
COLUMNS = 3  # panels in a row
MOST_TALL = 6  # panels; with more, each is lower
MOST_BANDS = 4  # lines with bands in one panel; more would hide each other
NUMBER = 30  # pixels of a square that has room for its number
MOST_TICKS = 10  # of an axis with ticks at its points only
FAINT = {"type": "line", "strokeWidth": 1, "opacity": 0.35}  # lines behind the one of a panel
DOT = {"type": "point", "filled": True, "size": 46, "opacity": 1}
HOLLOW = {"type": "point", "filled": False, "size": 70, "strokeWidth": 1.6, "opacity": 1}
Datum = dict[str, Any]
Labels = Sequence[Any]
TYPES = {"Q": "quantitative", "O": "ordinal", "N": "nominal"}


def field(name: str, kind: str, title: str | None = None, **more: Any) -> Chart:
    """An encoding of a field; kind is Q, O or N."""
    named = {"title": title} if title is not None else {}
    return {"field": name, "type": TYPES[kind], **named, **more}


def tip(name: str, kind: str, title: str, form: str | None = None) -> Chart:
    return field(name, kind, title, **({"format": form} if form else {}))


def categories(labels: Labels, grey: Labels = ()) -> Chart:
    """A scale of colours in the order of the labels; those in `grey` are only for comparison."""
    colours = [COLOURS[i % len(COLOURS)] for i in range(len(labels))]
    return {
        "domain": list(labels),
        "range": [MIDDLE if a in grey else c for a, c in zip(labels, colours, strict=True)],
    }


def distinct(rows: Sequence[Datum], name: str) -> list[Any]:
    """The values of a column, each once, in the order of the rows."""
    return list(dict.fromkeys(row[name] for row in rows))


def point(values: Sequence[float], digits: int = 3) -> Datum:
    """The mean of values as y, how many there are, and a band of one standard deviation."""
    row: Datum = {"n": len(values), "y": round(fmean(values), digits) if values else None}
    if len(values) > 1:
        mean, sd = fmean(values), deviation(values)
        row |= {"low": round(mean - sd, digits), "high": round(mean + sd, digits)}
    return row


def whole(chart: Chart, values: Sequence[Datum], title: str) -> Chart:
    return {"$schema": SCHEMA, "title": title, "data": {"values": list(values)}, **chart}


def has_published(chart: Chart) -> bool:
    return any("published" in row for row in chart["data"]["values"])


def facets(
    chart: Chart, panels: Labels, columns: int, header: Chart | None = None, free: Labels = ()
) -> Chart:
    """One chart for each panel; `free` names the scales that each panel has for itself.

    The name of a panel has a line for each of its labels: panels stay narrow, names whole.
    """
    facet = {**field("panel", "N"), "title": None, "sort": list(panels)}
    facet["header"] = {**(header or {}), "labelExpr": "split(datum.label, ', ')"}
    resolve = {"resolve": {"scale": dict.fromkeys(free, "independent")}} if free else {}
    return {"facet": facet, "columns": columns, "spec": chart, **resolve}


def panelled(layers: Chart, panels: Labels, height: int, *free: str) -> Chart:
    """One chart, or one for each panel."""
    if len(panels) < 2:
        return {**layers, "width": WIDTH, "height": height}
    small = {
        "width": max(150, int(WIDTH * (0.62 if len(panels) == 2 else 0.45))),
        "height": int(height * (0.6 if len(panels) <= MOST_TALL else 0.42)),
    }
    columns = 2 if len(panels) == 4 else min(COLUMNS, len(panels))
    return facets({**layers, **small}, panels, columns, BOLD, free)


def curves(
    values: Sequence[Datum],
    title: str,
    *,
    x: str,
    y: str,
    numbers: bool = True,
    lines: Labels | None = None,
    panels: Labels | None = None,
    order: Labels = (),
    line: str = "",
    band: tuple[str, str] = ("mean - sd", "mean + sd"),
    grey: Labels = (),
    form: str = ".1f",
) -> Chart:
    """Lines with points, a band where there is a spread, hollow points for published numbers.

    Rows: x, y, line, panel; if known low and high, n, published. If many lines have bands, each
    line gets its own panel. `lines` and `panels` give their order; by default that of the rows.
    """
    lines = distinct(values, "line") if lines is None else lines
    panels = distinct(values, "panel") if panels is None else panels
    values, panels, behind = _separate(values, lines, panels)
    across = _across(values, x, numbers, order)
    colour = {"value": COLOURS[0]} if behind else _line_colours(lines, line, grey)
    tips = [tip("line", "N", line or "line"), tip("x", "Q" if numbers else "N", x)]
    tips += [tip("y", "Q", y, form), tip("n", "Q", "repetitions")]

    def layer(name: str, mark: Chart, **more: Any) -> Chart:
        up = field(name, "Q", y, scale={"zero": False})
        valid = [{"filter": f"isValid(datum.{name})"}]
        encoding = {"x": across, "y": up, "color": colour, **more}
        return {"mark": mark, "encoding": encoding, "transform": valid}

    layers: list[Chart] = []
    if behind:
        faint = layer("y", FAINT, color={"value": MIDDLE}, detail=field("line", "N"))
        layers.append({"data": {"values": behind}, **faint})
    if any(row.get("low") is not None for row in values):
        tips += [tip("low", "Q", band[0], form), tip("high", "Q", band[1], form)]
        layers.append(layer("low", {"type": "area", "opacity": 0.16}, y2={"field": "high"}))
    layers.append(layer("y", {"type": "line", "strokeWidth": 2}))
    layers.append(layer("y", DOT, tooltip=tips))
    if any(row.get("published") is not None for row in values):
        tips = [*tips, tip("published", "Q", "published", ".4~f")]  # not rounded as ours are
        layers.append(layer("published", HOLLOW, tooltip=tips))
    return whole(panelled({"layer": layers}, panels, 280), values, title)


def _line_colours(lines: Labels, title: str, grey: Labels) -> Chart:
    legend = {"symbolOpacity": 1, "symbolType": "circle", "symbolStrokeWidth": 0}
    titled = {"title": title or None, **legend} if len(lines) > 1 else None
    return field("line", "N", title or None, scale=categories(lines, grey), legend=titled)


def _across(values: Sequence[Datum], x: str, numbers: bool, order: Labels) -> Chart:
    """The x axis; integers have ticks at the points only, since there are no half layers."""
    if not numbers:
        axis = {"labelAngle": -40, "labelLimit": 140}
        return field("x", "O", x, sort=list(order), axis=axis)
    across = field("x", "Q", x, scale={"nice": False, "zero": False})
    ticks = sorted({float(row["x"]) for row in values})
    if len(ticks) <= MOST_TICKS and all(map(float.is_integer, ticks)):
        across["axis"] = {"values": ticks}
    return across


def _separate(
    values: Sequence[Datum], lines: Labels, panels: Labels
) -> tuple[Sequence[Datum], Labels, list[Datum]]:
    """Keep bands from hiding each other: a panel for each line with the others in grey behind it.

    A figure that has panels already loses its bands instead.
    """
    if len(lines) <= MOST_BANDS or not any(row.get("low") is not None for row in values):
        return values, panels, []
    if len(panels) > 1:
        bands = ("low", "high")
        return [{k: v for k, v in row.items() if k not in bands} for row in values], panels, []
    drawn = [row for row in values if row.get("y") is not None]
    behind = [{name: row[name] for name in ("x", "y", "line")} for row in drawn]
    return [{**row, "panel": row["line"]} for row in values], lines, behind


def head_maps(
    values: Sequence[Datum], title: str, *, panels: Labels, legend: str, scheme: str, columns: int
) -> Chart:
    """Layer x head squares, the input at the bottom. Rows: layer, index, head, value, panel."""
    layers, indices = ({row[name] for row in values} for name in ("layer", "index"))
    side = 22 if len(panels) < 2 else 12 if len(indices) > 8 else 15
    chart = {
        "mark": {"type": "rect", "tooltip": True},
        "width": side * len(indices),
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
    if len(panels) > 1:
        chart = facets(chart, panels, columns, {**BOLD, "labelLimit": 220})
    return whole(chart, values, title)


def squares(
    values: Sequence[Datum], title: str, *, order: Labels, panels: Labels, legend: str
) -> Chart:
    """A square for every pair, with its number in it. Rows: a, b, value, panel."""
    side = (34 if len(order) <= 12 else NUMBER) * len(order)
    positions = {
        "x": field("a", "N", "", sort=list(order), axis={"labelAngle": 0, "labelOverlap": True}),
        "y": field("b", "N", "", sort=list(order), axis={"labelOverlap": True}),
    }
    dark_is_high = {"scheme": "cividis", "domain": [-1, 1], "reverse": True}
    colour = field("value", "Q", legend, scale=dark_is_high)
    # The ink is for the square, not for the page.
    ink = {"condition": {"test": "datum.value < 0", "value": "#1a1a1a"}, "value": "#f5f5f5"}
    tips = [tip("a", "N", "one"), tip("b", "N", "other"), tip("value", "Q", legend, ".3f")]
    number = {"text": field("value", "Q", format=".2f"), "color": ink}
    layers = [
        {"mark": "rect", "encoding": {**positions, "color": colour, "tooltip": tips}},
        {"mark": {"type": "text", "fontSize": 10}, "encoding": {**positions, **number}},
    ]
    chart: Chart = {"layer": layers, "width": side, "height": side}
    chart = facets(chart, panels, 2) if len(panels) > 1 else chart
    return {**whole(chart, values, title), "usermeta": {"least": NUMBER * len(order)}}


def clouds(
    values: Sequence[Datum], title: str, *, groups: Labels, panels: Labels, group: str
) -> Chart:
    """Points without axes, as t-SNE gives them. Rows: x, y, group, panel."""
    shapes = [SHAPES[i // len(COLOURS) % len(SHAPES)] for i in range(len(groups))]
    encoding = {
        **{name: field(name, "Q", None, axis=None, scale={"zero": False}) for name in ("x", "y")},
        "color": field("group", "N", group, scale=categories(groups)),
        "shape": field("group", "N", group, scale={"domain": list(groups), "range": shapes}),
        "tooltip": [tip("group", "N", group)],
    }
    mark = {"type": "point", "filled": True, "size": 14, "opacity": 0.7}
    layers = {"mark": mark, "encoding": encoding}
    return whole(panelled(layers, panels, 400, "x", "y"), values, title)


def trade(
    values: Sequence[Datum], title: str, *, cost: str, groups: Labels, panels: Labels, y: str
) -> Chart:
    """Score against cost; a dashed line joins the points that no other beats in both.

    Rows: y, cost, front, group, panel, label, n.
    """
    positions = {
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
    colour = field("group", "N", "removed by", scale=categories(groups))
    layers = [
        {"mark": dash, "encoding": positions, "transform": [{"filter": "datum.front"}]},
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 0.85},
            "encoding": {**positions, "color": colour, "tooltip": tips},
        },
    ]
    return whole(panelled({"layer": layers}, panels, 280, "y"), values, title)
