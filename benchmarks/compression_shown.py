"""What `compression.py` measured, shown: tables, a figure and the tables of a page, beside the scores of a study. Loads no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from rich.console import Console
from rich.table import Table

from deadhead.errors import DeadheadError

WHOLE = "none"
LIMIT = (
    "all but one"  # head: what no pruning can go beyond, as every other attention layer is empty
)
BARE = "taken out"  # an empty attention layer taken out by hand: what it should cost
GRAPH = "graph"
BATCHES, LENGTHS = (
    {"cpu": (1, 32), "cuda": (1, 32, 512)},
    (32, 128),
)  # a GPU is idle most of the time at what keeps a core busy
SHOWN = "batch 32 on a CPU and 512 on a GPU, length 128"
SIDES = {  # of a dot, where its name stands: random heads are a curve that falls to the right, sets of layers lie around it
    "above": {"align": "center", "dy": -12},
    "left": {"align": "right", "dx": -8},
    "right": {"align": "left", "dx": 8},
}
MARKS = ("<!-- made by benchmarks/compression.py -->", "<!-- end -->")
Document = dict[str, Any]


def scores(folder: Path, model: str) -> dict[str, dict[str, Any]]:
    """Of each pruning of a study of this model the mean score where it was trained and over the other languages, in points."""
    from deadhead.results import Study
    from deadhead.results.cells import PRUNING

    study = Study.open(folder)
    others = sorted(set(study.axes) - {*PRUNING, "seed"})
    if others:
        raise DeadheadError(
            f"{folder} varies {', '.join(others)} too, so a pruning has no one score.",
            "name a study of one model and task",
        )
    studied = str(study.cells[0].axes.get("model"))
    if Path(studied).name != model:
        raise DeadheadError(
            f"{folder} is a study of {studied}, and what was measured is {model}.",
            f"name a study of {model}",
        )
    found: dict[str, dict[str, tuple[float, float | None]]] = {}
    for cell in study.cells:
        own = [value for language, value in cell.scores.items() if language in cell.train]
        far = [value for language, value in cell.scores.items() if language not in cell.train]
        if own:
            found.setdefault(str(cell.axes.get("remove", WHOLE)), {})[cell.trial] = (
                fmean(own),
                fmean(far) if far else None,
            )
    if not found:
        raise DeadheadError(
            f"{folder} has no finished trial that is scored in its source language.",
            f"deadhead status {folder}",
        )
    learnt = next(cell.train for cell in study.cells)
    made = {}
    for pruning, trials in found.items():
        made[pruning] = {
            "trials": len(trials),
            "source": "+".join(learnt),
            "languages": len(set(study.languages) - set(learnt)),
        }
        for i, name in enumerate(("own", "others")):
            values = [pair[i] for pair in trials.values() if pair[i] is not None]
            made[pruning][name] = fmean(values) if values else None
            made[pruning][f"{name} sd"] = stdev(values) if len(values) > 1 else None
    return made


def checked(document: Any, file: Path) -> Document:
    if (
        not isinstance(document, dict)
        or not {"sizes", "times", "layer", "heads"} <= document.keys()
    ):
        raise DeadheadError(
            f"{file} was not written by this script.", "name a file that --json wrote"
        )
    return document


def share(document: Document, length: str) -> float:
    """The part of the arithmetic that all heads are; every head is the same, so all but one tell of all."""
    whole, limit = (
        document["sizes"][WHOLE]["flops"][length],
        document["sizes"][LIMIT]["flops"][length],
    )
    return (1 - limit / whole) * document["heads"] / (document["heads"] - 1)


def bound(document: Document, pruning: str, length: int) -> float:
    """How many times as fast it can be if time goes with arithmetic."""
    flops_of = {name: size["flops"][str(length)] for name, size in document["sizes"].items()}
    return flops_of[WHOLE] / flops_of[pruning]


def table_of(
    documents: Sequence[Document], joined: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str], list[list[str]]]:
    """A row for each pruning: heads, scores, sizes, and at the shape shown the bound beside the speed in every runtime."""
    first, length = documents[0], LENGTHS[-1]
    runtimes = list(
        dict.fromkeys(
            row["where"] for document in documents for row in document["times"] if shown(row)
        )
    )
    speeds = {
        (row["where"], row["pruning"]): row["speed"]
        for document in documents
        for row in document["times"]
        if shown(row)
    }
    scored = next(iter(joined.values()), None)
    titles = ["heads cut", "of " + str(first["heads"])]
    titles += [scored["source"], f"mean of {scored['languages']} others"] if scored else []
    titles += ["parameters", "disk", "FLOPs", "bound", *runtimes]
    rows = []
    for name, size in first["sizes"].items():
        whole, score = first["sizes"][WHOLE], joined.get(name, {})
        cells = [named(name), str(size["heads cut"])]
        cells += [points(score, "own"), points(score, "others")] if scored else []
        cells += [f"{size[what] / whole[what]:.2f}" for what in ("parameters", "disk bytes")]
        cells += [f"{1 / bound(first, name, length):.2f}", f"{bound(first, name, length):.2f}"]
        rows.append(
            [
                *cells,
                *(
                    f"{speeds[where, name]:.2f}" if (where, name) in speeds else "–"
                    for where in runtimes
                ),
            ]
        )
    return titles, rows


def shown(row: Mapping[str, Any]) -> bool:
    """Whether it is of the shape that stands in the first table and the figure: the largest of its device.

    Such a call keeps a GPU busy as it is; graphs are for smaller ones.
    """
    return not row["where"].endswith(GRAPH) and (row["batch"], row["length"]) == (
        BATCHES["cuda" if " cuda " in row["where"] else "cpu"][-1],
        LENGTHS[-1],
    )


def named(pruning: str) -> str:
    strategy, _, amount = pruning.partition(" ")
    return (
        f"random {amount} %"
        if strategy == "random"
        else f"{amount} layers"
        if strategy == "layers"
        else pruning
    )


def points(score: Mapping[str, Any], name: str) -> str:
    if score.get(name) is None:
        return "–"
    spread = score[f"{name} sd"]
    return f"{score[name]:.1f}" + (f" ±{spread:.1f}" if spread is not None else "")


def by_shape(document: Document) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """For each runtime: the speed of every pruning at every batch size and length, with its bound beside it."""
    for where in dict.fromkeys(row["where"] for row in document["times"]):
        speeds = {
            (row["pruning"], row["batch"], row["length"]): row
            for row in document["times"]
            if row["where"] == where
        }
        places = sorted({(batch, length) for _, batch, length in speeds})
        rows = []
        for name in (name for name in document["sizes"] if (name, *places[0]) in speeds):
            told = [
                f"{speeds[name, b, n]['speed']:.2f}{beside(document, where, name, n)}"
                for b, n in places
            ]
            rows.append([named(name), *told])
        milliseconds = [f"{1000 * speeds[WHOLE, b, n]['seconds']:,.1f}" for b, n in places]
        rows[0][1:] = [
            f"{one} = {ms} ms"
            for one, ms in zip((r.split(" ")[0] for r in rows[0][1:]), milliseconds, strict=True)
        ]
        yield where, ["heads cut", *(f"{b} x {n}" for b, n in places)], rows


def beside(document: Document, where: str, pruning: str, length: int) -> str:
    """The bound, in brackets; int8 is compared with float32, so counting its products bounds nothing."""
    return "" if "int8" in where else f" ({bound(document, pruning, length):.2f})"


def shares_table(document: Document) -> tuple[list[str], list[list[str]]]:
    told = {length: share(document, length) for length in document["sizes"][WHOLE]["flops"]}
    return ["length", "heads' share of FLOPs", "no head left: at most"], [
        [n, f"{s:.0%}", f"{1 / (1 - s):.2f} x"] for n, s in told.items()
    ]


def empties(document: Document) -> list[list[str]]:
    """How much of what an empty layer could save is saved: against the same layer taken out by hand."""
    rows = []
    for row in document["layer"]:
        whole, empty, bare = row[WHOLE], row[LIMIT], row[BARE]
        told = [f"{1000 * seconds:.3f}" for seconds in (whole, empty, bare)]
        rows.append(
            [f"{row['batch']} x {row['length']}", *told, f"{(whole - empty) / (whole - bare):.0%}"]
        )
    return rows


EMPTIES = [
    "batch x length",
    "whole, ms",
    "no head left, ms",
    "taken out by hand, ms",
    "saving reached",
]


def heads_share(document: Document) -> str:
    sizes, heads = document["sizes"], document["heads"]
    part = (1 - sizes[LIMIT]["parameters"] / sizes[WHOLE]["parameters"]) * heads / (heads - 1)
    return f"{document['model']}: {heads} heads hold {part:.0%} of its {sizes[WHOLE]['parameters'] / 1e6:.1f} million parameters."


def noise(document: Document, where: str) -> str:
    """How far the ratios of single rounds are apart."""
    spread = median(
        (row["high"] - row["low"]) / row["speed"] / 2
        for row in document["times"]
        if row["where"] == where
    )
    return f"half of the ratios of single rounds lie within ±{spread:.1%} of those shown"


def files_table(document: Document) -> tuple[list[str], list[list[str]]] | None:
    """Megabytes of the three kinds of file, where there are any ONNX files."""
    kinds = ("disk bytes", "onnx fp32 bytes", "onnx int8 bytes")
    if kinds[1] not in document["sizes"][WHOLE]:
        return None
    rows = [
        [named(name), *(f"{size[kind] / 1e6:.1f}" if kind in size else "–" for kind in kinds)]
        for name, size in document["sizes"].items()
    ]
    return ["heads cut", "safetensors, MB", "ONNX, MB", "ONNX int8, MB"], rows


def show(documents: Sequence[Document], joined: Mapping[str, Mapping[str, Any]]) -> None:
    console = Console(width=160)
    for document in documents:
        console.print(
            heads_share(document),
            document["machine"],
            *document["notes"],
            sep="\n",
            highlight=False,
            markup=False,
        )
    put(
        console,
        f"Speed-ups at {SHOWN}; size and FLOPs are what is left",
        *table_of(documents, joined),
    )
    put(console, "The bound", *shares_table(documents[0]))
    for document in documents:
        for where, titles, rows in by_shape(document):
            put(
                console,
                f"{where}: speed-up{'' if 'int8' in where else ' (bound)'}; {noise(document, where)}",
                titles,
                rows,
            )
        put(
            console,
            "Does the attention of an empty layer cost nothing? torch, fp32",
            EMPTIES,
            empties(document),
        )
    if made := files_table(documents[0]):
        put(console, "Files", *made)


def put(console: Console, title: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        table = Table(*titles, title=title)
        for row in rows:
            table.add_row(*row)
        console.print(table)


def markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(
        f"| {' | '.join(row)} |" for row in (titles, ["---", *["---:"] * (len(titles) - 1)], *rows)
    )


def fill(
    page: Path, documents: Sequence[Document], joined: Mapping[str, Mapping[str, Any]]
) -> None:
    """Put the tables between the marks of a page, and leave the rest as it is."""
    try:
        before, _, rest = page.read_text(encoding="utf-8").partition(MARKS[0])
    except OSError as problem:
        raise DeadheadError(
            f"{page} cannot be read: {problem.strerror}.",
            f"make it, with {MARKS[0]} and {MARKS[1]} in it",
        ) from None
    if MARKS[1] not in rest:
        raise DeadheadError(
            f"{page} has no place for the tables.",
            f"write {MARKS[0]} and, lines below it, {MARKS[1]}",
        )
    parts = [heads_share(documents[0]), markdown(*shares_table(documents[0]))]
    parts += [f"Speed-ups at {SHOWN}:", markdown(*table_of(documents, joined))]
    for document in documents:
        parts += [
            f"### On {document['machine'].partition(';')[0]}",
            f"{document['machine'].partition('; ')[2]}. Speed-up (bound):",
        ]
        for where, titles, rows in by_shape(document):
            parts += [f"**{where}**; {noise(document, where)}:", markdown(titles, rows)]
        if rows := empties(document):
            parts += ["The attention of one layer, torch in float32:", markdown(EMPTIES, rows)]
    if made := files_table(documents[0]):
        parts += ["### Files", markdown(*made)]
    page.write_text(
        f"{before}{MARKS[0]}\n\n"
        + "\n\n".join(parts)
        + f"\n\n{MARKS[1]}{rest.partition(MARKS[1])[2]}",
        encoding="utf-8",
    )


def draw(
    file: Path, documents: Sequence[Document], joined: Mapping[str, Mapping[str, Any]]
) -> None:
    """Speed beside its bound, and score against speed where there are scores: SVG or PNG, by the file's name."""
    from deadhead.report.export import PRINT, _drawers
    from deadhead.report.figures.charts import MIDDLE, categories, field, whole

    ending = file.suffix.removeprefix(".")
    if ending not in ("svg", "png"):
        raise DeadheadError(f"{file} is neither .svg nor .png.", "name a file that ends so")
    timed = [
        {
            "label": named(row["pruning"]),
            "where": row["where"],
            "speed": row["speed"],
            "bound": bound(document, row["pruning"], LENGTHS[-1]),
        }
        for document in documents
        for row in document["times"]
        if shown(row) and row["pruning"] != WHOLE and "int8" not in row["where"]
    ]
    order = [named(name) for name in documents[0]["sizes"] if name != WHOLE]
    runtimes = list(dict.fromkeys(row["where"] for row in timed))
    across = field("label", "O", "", sort=order, axis={"labelAngle": -40})
    up = {"title": "times as fast", "scale": {"zero": False}}
    speed = {
        "width": 420,
        "height": 260,
        "data": {"values": timed},
        "layer": [
            {
                "mark": {
                    "type": "tick",
                    "orient": "horizontal",
                    "width": 26,
                    "thickness": 2,
                    "color": MIDDLE,
                },
                "encoding": {"y": {"field": "bound", "type": "quantitative", **up}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {
                    "y": {"field": "speed", "type": "quantitative", **up},
                    "color": field(
                        "where", "N", "measured (bars: bound)", scale=categories(runtimes)
                    ),
                },
            },
        ],
        "encoding": {"x": across},
    }
    pictures = [speed]
    scored = [
        {**row, **score}
        for row in timed
        if row["where"] == runtimes[0] and (score := _scored(joined, row["label"]))
    ]
    if scored and (none := _scored(joined, named(WHOLE))):
        scored.append({"label": named(WHOLE), "speed": 1.0, **none})
    for row in scored:
        row["side"] = (
            "above"
            if row["label"] == named(WHOLE)
            else "left"
            if row["label"].startswith("random")
            else "right"
        )
        row["name"] = row["label"].removeprefix("random ")
    for name, title in (
        (("own", "score in the source language"), ("others", "mean score in the other languages"))
        if scored
        else ()
    ):
        places = {
            "x": field(
                "speed", "Q", f"times as fast, {runtimes[0]}", scale={"zero": False, "padding": 40}
            ),
            "y": field(name, "Q", title, scale={"zero": False, "padding": 20}),
        }
        texts = [
            {
                "transform": [{"filter": f"datum.side == '{side}'"}],
                "mark": {"type": "text", "fontSize": 10, **where},
                "encoding": {**places, "text": field("name", "N")},
            }
            for side, where in SIDES.items()
        ]
        dots = {
            "mark": {"type": "point", "filled": True, "size": 50, "opacity": 1},
            "encoding": places,
        }
        pictures.append(
            {"width": 330, "height": 260, "data": {"values": scored}, "layer": [dots, *texts]}
        )
    drawers = _drawers()
    made = drawers[ending](
        {**whole({"hconcat": pictures}, [], documents[0]["model"]), "config": PRINT}
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(made.encode("utf-8") if isinstance(made, str) else made)


def _scored(joined: Mapping[str, Mapping[str, Any]], label: str) -> dict[str, Any] | None:
    return next(
        (
            {"own": s["own"], "others": s["others"]}
            for name, s in joined.items()
            if named(name) == label
        ),
        None,
    )
