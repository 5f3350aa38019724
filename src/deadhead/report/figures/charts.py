"""What figures share, as vega-lite: encodings, colours, panels, and curves with bands.

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
WIDTH = 460
BOLD = {"labelFontWeight": "bold"}  # headers of panels
COLUMNS = 3  # panels in a row
MOST_TALL = 6  # panels; with more, each is lower
MOST_BANDS = 4  # lines with bands in one panel; more would hide each other
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
    """One chart for each panel if there are several; each has its own scales that are `free`.

    The name of a panel has a line for each of its labels: panels stay narrow, names whole.
    """
    if len(panels) < 2:
        return chart
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
    `order` is that of labels on the x axis; without it x are numbers.
    """
    lines = distinct(values, "line") if lines is None else lines
    panels = distinct(values, "panel") if panels is None else panels
    values, panels, behind = _separate(values, lines, panels)
    across = _across(values, x, order)
    colour = {"value": COLOURS[0]} if behind else _line_colours(lines, line, grey)
    tips = [tip("line", "N", line or "line"), tip("x", "N" if order else "Q", x)]
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


def _across(values: Sequence[Datum], x: str, order: Labels) -> Chart:
    """The x axis; integers have ticks at the points only, since there are no half layers."""
    if order:
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
