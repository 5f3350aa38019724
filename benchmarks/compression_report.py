"""Tables of what `compression.py` measured, beside the scores of a study. Loads no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from page import fill, markdown, write_csv
from rich.console import Console
from rich.table import Table

from deadhead.errors import DeadheadError

WHOLE = "none"
LIMIT = "all but one"  # head: the most that pruning can do, as all other attention layers are empty
BARE = "taken out"  # an empty attention layer that is removed by hand: what it should cost
GRAPH = "graph"
# Batch sizes by device (a GPU is mostly idle at what keeps a core busy), and lengths.
BATCHES, LENGTHS = {"cpu": (1, 32), "cuda": (1, 32, 512)}, (32, 128)
MAIN = "batch 32 on a CPU and 512 on a GPU, length 128"
EMPTY_TITLES = ["batch x length", "whole, ms", "no head left, ms"]
EMPTY_TITLES += ["taken out by hand, ms", "saving reached"]
Document = dict[str, Any]
Rows = list[list[str]]
Scores = Mapping[str, Mapping[str, Any]]  # by pruning


def study_scores(folder: Path, model: str) -> dict[str, dict[str, Any]]:
    """The mean scores of each pruning in a study of this model, in points.

    `own` is the score in the languages of the training, `others` the mean of the other languages.
    """
    from deadhead.results import Study
    from deadhead.results.cells import PRUNING

    study = Study.open(folder)
    if others := sorted(set(study.axes) - {*PRUNING, "seed"}):
        hint = "name a study of one model and task"
        message = f"{folder} also varies {', '.join(others)}: a pruning has more than one score."
        raise DeadheadError(message, hint)
    name = str(study.cells[0].axes.get("model"))
    if Path(name).name != model:
        message = f"expected a study of {model}, which was measured, got {folder}, one of {name}."
        raise DeadheadError(message, f"name a study of {model}")
    trials: dict[str, dict[str, tuple[float, float | None]]] = {}
    for cell in study.cells:
        own = [value for language, value in cell.scores.items() if language in cell.train]
        far = [value for language, value in cell.scores.items() if language not in cell.train]
        if own:
            means = fmean(own), fmean(far) if far else None
            trials.setdefault(str(cell.axes.get("remove", WHOLE)), {})[cell.trial] = means
    if not trials:
        message = f"{folder} has no finished trial that is scored in its source language."
        raise DeadheadError(message, f"deadhead status {folder}")
    train = study.cells[0].train
    facts = {"source": "+".join(train), "languages": len(set(study.languages) - set(train))}
    scores = {name: {"trials": len(pairs), **facts} for name, pairs in trials.items()}
    for name, pairs in trials.items():
        for i, part in enumerate(("own", "others")):
            values = [pair[i] for pair in pairs.values() if pair[i] is not None]
            scores[name][part] = fmean(values) if values else None
            scores[name][f"{part} sd"] = stdev(values) if len(values) > 1 else None
    return scores


def check_document(document: Any, file: Path) -> Document:
    parts = {"sizes", "times", "layer", "heads"}
    if not isinstance(document, dict) or not parts <= document.keys():
        hint = "name a file that --json wrote"
        raise DeadheadError(f"{file} was not written by this script.", hint)
    return document


def share(document: Document, length: str) -> float:
    """The share of all heads in the arithmetic, computed from all but one: all are the same."""
    whole, limit = (document["sizes"][name]["flops"][length] for name in (WHOLE, LIMIT))
    return (1 - limit / whole) * document["heads"] / (document["heads"] - 1)


def bound(document: Document, pruning: str, length: int) -> float:
    """How many times as fast it can be if the time is proportional to the arithmetic."""
    whole, own = (document["sizes"][name]["flops"][str(length)] for name in (WHOLE, pruning))
    return whole / own


def is_main(row: Mapping[str, Any]) -> bool:
    """Whether it has the shape of the first table and the figure: the largest of its device.

    Such a call keeps a GPU busy without a graph; graphs are for smaller ones.
    """
    batch = BATCHES["cuda" if " cuda " in row["where"] else "cpu"][-1]
    largest = (row["batch"], row["length"]) == (batch, LENGTHS[-1])
    return largest and not row["where"].endswith(GRAPH)


def label(pruning: str) -> str:
    strategy, _, amount = pruning.partition(" ")
    return {"random": f"random {amount} %", "layers": f"{amount} layers"}.get(strategy, pruning)


def points(score: Mapping[str, Any], name: str) -> str:
    if score.get(name) is None:
        return "–"
    spread = score[f"{name} sd"]
    return f"{score[name]:.1f}" + (f" ±{spread:.1f}" if spread is not None else "")


def main_table(documents: Sequence[Document], scores: Scores) -> tuple[list[str], Rows]:
    """A row for each pruning: heads, scores, sizes, the bound, and its speed in every runtime."""
    first, length = documents[0], LENGTHS[-1]
    times = [row for document in documents for row in document["times"] if is_main(row)]
    runtimes = list(dict.fromkeys(row["where"] for row in times))
    speeds = {(row["where"], row["pruning"]): f"{row['speed']:.2f}" for row in times}
    facts = next(iter(scores.values()), None)
    titles = ["heads cut", "of " + str(first["heads"])]
    titles += [facts["source"], f"mean of {facts['languages']} others"] if facts else []
    titles += ["parameters", "disk", "FLOPs", "bound", *runtimes]
    rows = []
    for name, size in first["sizes"].items():
        whole, score = first["sizes"][WHOLE], scores.get(name, {})
        cells = [label(name), str(size["heads cut"])]
        cells += [points(score, "own"), points(score, "others")] if facts else []
        cells += [f"{size[part] / whole[part]:.2f}" for part in ("parameters", "disk bytes")]
        most = bound(first, name, length)
        cells += [f"{1 / most:.2f}", f"{most:.2f}"]
        rows.append([*cells, *(speeds.get((where, name), "–") for where in runtimes)])
    return titles, rows


def shape_tables(document: Document) -> Iterator[tuple[str, list[str], Rows]]:
    """For each runtime: the speed and bound of every pruning at every batch size and length."""
    for where in dict.fromkeys(row["where"] for row in document["times"]):
        times = [row for row in document["times"] if row["where"] == where]
        by_place = {(row["pruning"], row["batch"], row["length"]): row for row in times}
        places = sorted({(batch, length) for _, batch, length in by_place})
        rows = []
        for name in (name for name in document["sizes"] if (name, *places[0]) in by_place):
            cells = []
            for place in places:
                row = by_place[name, *place]
                # int8 is compared with float32, so its arithmetic bounds nothing
                most = "" if "int8" in where else f" ({bound(document, name, place[1]):.2f})"
                if name == WHOLE:
                    most = f" = {1000 * row['seconds']:,.1f} ms"
                cells.append(f"{row['speed']:.2f}{most}")
            rows.append([label(name), *cells])
        yield where, ["heads cut", *(f"{b} x {n}" for b, n in places)], rows


def share_table(document: Document) -> tuple[list[str], Rows]:
    shares = {length: share(document, length) for length in document["sizes"][WHOLE]["flops"]}
    titles = ["length", "heads' share of FLOPs", "no head left: at most"]
    return titles, [[n, f"{s:.0%}", f"{1 / (1 - s):.2f} x"] for n, s in shares.items()]


def empty_rows(document: Document) -> Rows:
    """How much of what an empty layer could save is saved: a layer removed by hand saves all."""
    rows = []
    for row in document["layer"]:
        whole, empty, bare = row[WHOLE], row[LIMIT], row[BARE]
        times = [f"{1000 * seconds:.3f}" for seconds in (whole, empty, bare)]
        saved = f"{(whole - empty) / (whole - bare):.0%}"
        rows.append([f"{row['batch']} x {row['length']}", *times, saved])
    return rows


def heads_share(document: Document) -> str:
    sizes, heads = document["sizes"], document["heads"]
    whole = sizes[WHOLE]["parameters"]
    part = (1 - sizes[LIMIT]["parameters"] / whole) * heads / (heads - 1)
    size = f"{whole / 1e6:.1f} million parameters"
    return f"{document['model']}: {heads} heads hold {part:.0%} of its {size}."


def noise(document: Document, where: str) -> str:
    """How far the ratios of single rounds are apart."""
    times = [row for row in document["times"] if row["where"] == where]
    spread = median((row["high"] - row["low"]) / row["speed"] / 2 for row in times)
    return f"half of the ratios of single rounds are within ±{spread:.1%} of these"


def file_table(document: Document) -> tuple[list[str], Rows] | None:
    """Megabytes of the three kinds of file, where there are ONNX files."""
    kinds = ("disk bytes", "onnx fp32 bytes", "onnx int8 bytes")
    if kinds[1] not in document["sizes"][WHOLE]:
        return None
    rows = [
        [label(name), *(f"{size[kind] / 1e6:.1f}" if kind in size else "–" for kind in kinds)]
        for name, size in document["sizes"].items()
    ]
    return ["heads cut", "safetensors, MB", "ONNX, MB", "ONNX int8, MB"], rows


def print_tables(documents: Sequence[Document], scores: Scores) -> None:
    console = Console(width=160, highlight=False)

    def put(title: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        table = Table(*titles, title=title)
        for row in rows:
            table.add_row(*row)
        if rows:
            console.print(table)

    for document in documents:
        lines = [heads_share(document), document["machine"], *document["notes"]]
        console.print(*lines, sep="\n", markup=False)
    put(f"Speed-ups at {MAIN}; size and FLOPs that are left", *main_table(documents, scores))
    put("The bound", *share_table(documents[0]))
    for document in documents:
        for where, titles, rows in shape_tables(document):
            bounds = "" if "int8" in where else " (bound)"
            put(f"{where}: speed-up{bounds}; {noise(document, where)}", titles, rows)
        title = "Does the attention of an empty layer cost nothing? torch, fp32"
        put(title, EMPTY_TITLES, empty_rows(document))
    if files := file_table(documents[0]):
        put("Files", *files)


def fill_page(page: Path, documents: Sequence[Document], scores: Scores) -> None:
    """Put the main table between the marks of a page, and leave the rest as it is."""
    parts = [heads_share(documents[0]), markdown(*main_table(documents, scores))]
    fill(page, "compression.py", parts)


def write_appendix(folder: Path, documents: Sequence[Document]) -> None:
    """Write the other tables to CSV files, those of all machines in one file."""
    shapes, empty = [], []
    for document in documents:
        machine = document["machine"]
        for where, titles, rows in shape_tables(document):
            labels = {"machine": machine, "where": where, "noise": noise(document, where)}
            shapes.append((labels, markdown(titles, rows)))
        if rows := empty_rows(document):
            empty.append(({"machine": machine}, markdown(EMPTY_TITLES, rows)))
    write_csv(folder / "compression-shapes.csv", shapes)
    write_csv(folder / "compression-empty-layers.csv", empty)
    write_csv(folder / "compression-bounds.csv", [({}, markdown(*share_table(documents[0])))])
    if files := file_table(documents[0]):
        write_csv(folder / "compression-files.csv", [({}, markdown(*files))])
