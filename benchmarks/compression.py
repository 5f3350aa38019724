"""What cutting heads buys: score against size and time, beside the most it could buy (Amdahl).

    python benchmarks/compression.py MODEL [--json RESULTS.json]               on the CPU: torch, onnxruntime, int8
    python benchmarks/compression.py MODEL --device cuda [--json RESULTS.json] on a GPU: torch, in bf16 and float32
    python benchmarks/compression.py --from RESULTS.json ... [--study STUDY] [--figure FILE.svg] [--page FILE.md]

The first two measure: each pruning is cut with deadhead, saved in compact form, exported to ONNX where the extra `onnx`
is installed, and timed. Every round times each pruning once, right after the whole model; its speed-up is the median of
these ratios. On one thread of a CPU times are seconds of that thread, whatever else the machine does. The third shows
what was measured, beside the scores of a study (means over the trials of a pruning), and loads no torch.

MODEL is a folder. A language model is measured as what it is trained into, a tagger of 17 labels; a folder with a
config.json alone gets random weights, on which sizes and times do not depend. Needs torch and transformers and no other
package; what else is missing is left out, and said.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, median, quantiles, stdev
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from deadhead.errors import DeadheadError

if TYPE_CHECKING:
    import torch

WHOLE = "none"
PRUNINGS = (WHOLE, *(f"random {p}" for p in (10, 30, 50, 70, 90)), "layers top 3", "layers bottom 3", "layers odd 6")
LIMIT = "all but one"  # head: what no pruning can go beyond, as every other attention layer is empty
BARE = "taken out"  # an empty attention layer taken out by hand: what it should cost
BATCHES, LENGTHS, SHOWN = (1, 32), (32, 128), (32, 128)
SHARES = (32, 128, 512)  # lengths at which the heads' share of the arithmetic is said
QUANTISED = (WHOLE, "random 50", LIMIT)  # those of the prunings that are timed in int8 too
LABELS = 17  # of universal parts of speech
TURN = 0.05  # seconds that a turn takes at least: short passes are repeated
SHORT = 4  # times as many rounds for those, which a busy machine disturbs more
MARKS = ("<!-- made by benchmarks/compression.py -->", "<!-- end -->")
Document = dict[str, Any]
Run = Callable[[], Any]


# -- measuring


def whole_model(folder: Path) -> tuple[Any, list[str]]:
    """The model in float32 as it is served, and what there is to say about that."""
    import torch
    from transformers import AutoConfig, AutoModelForTokenClassification

    from deadhead import discover, load
    from deadhead.heads.folder import quiet

    if not (folder / "config.json").is_file():
        raise DeadheadError(f"{folder} is not the folder of a model: it has no config.json.", "name a folder that save_pretrained wrote")
    if AutoConfig.from_pretrained(folder).is_encoder_decoder:
        raise DeadheadError(f"{folder} is an encoder-decoder; this measures encoders.", "use deadhead bench, or benchmarks/translate.py")
    torch.manual_seed(0)
    if not [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
        config = AutoConfig.from_pretrained(folder, num_labels=LABELS)
        return AutoModelForTokenClassification.from_config(config, dtype=torch.float32).eval(), ["there are no weights: random ones"]
    model, said = load(folder, dtype=torch.float32).eval(), []
    if sum(len(a.removed) for a in discover(model).attentions):
        raise DeadheadError(f"{folder} has lost heads already.", "name the model as it was before pruning")
    if model.get_output_embeddings() is not None:
        with quiet():
            model = AutoModelForTokenClassification.from_pretrained(folder, num_labels=LABELS, dtype=torch.float32).eval()
        said = [f"a language model, measured as a tagger of {LABELS} labels"]
    return model, said


def heads_of(layout: Any, pruning: str) -> list[Any]:
    """The heads that `random 50` or `layers top 3` removes; of draws, draw 0."""
    from deadhead.strategies import choose

    if pruning == WHOLE:
        return []
    if pruning == LIMIT:
        return sorted(layout)[:-1]
    strategy, _, amount = pruning.partition(" ")
    return sorted(choose(strategy, layout, amount))


def flops(model: Any, length: int) -> int:
    """Arithmetic of one sentence, counted under eager attention, whose products the counter sees on every device."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from deadhead.heads.bench import inputs

    counted = copy.deepcopy(model)
    counted.set_attn_implementation("eager")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        counted(**inputs(model, 1, length))
    return int(counter.get_total_flops())


def layer_times(models: Mapping[str, Any], options: argparse.Namespace, place: torch.device) -> Iterator[dict[str, Any]]:
    """The attention of one layer: whole, with no head left, and taken out by hand down to its bias and norm. Nothing where it is no BERT."""
    import torch
    from torch import nn

    from deadhead.heads.discover import located

    site = next(site for site in located(models[LIMIT]) if not site.kept)
    path, _, name = site.path.rpartition(".")
    parts = {key: copy.deepcopy(models[key].get_submodule(path)).to(place) for key in (WHOLE, LIMIT)}
    output = getattr(parts[LIMIT], "output", None)
    if name != "self" or not hasattr(output, "LayerNorm"):
        return

    class Bare(nn.Module):
        def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, None]:
            return output.LayerNorm(hidden_states + output.dense.bias), None

    parts[BARE] = Bare()
    for batch, length in shapes():
        states = torch.randn(batch, length, models[WHOLE].config.hidden_size, device=place)
        with torch.no_grad():
            torch.testing.assert_close(parts[BARE](states)[0], parts[LIMIT](states)[0])  # it says the same, or is no yardstick
            found = race({key: partial(part, states) for key, part in parts.items()}, options.rounds, clock_of(options, place))
        yield {"batch": batch, "length": length, **{key: numbers["seconds"] for key, numbers in found.items()}}


def clock_of(options: argparse.Namespace, place: torch.device) -> Callable[[], float]:
    import torch

    def clock() -> float:
        if place.type == "cuda":
            torch.cuda.synchronize(place)
            return time.perf_counter()
        return time.process_time() if options.threads == 1 else time.perf_counter()

    return clock


def race(runs: Mapping[str, Run], rounds: int, clock: Callable[[], float], against: str = WHOLE) -> dict[str, dict[str, float]]:
    """Seconds of a call of each, and how many times as fast it is as another, timed right before it: medians over rounds."""
    for run in runs.values():
        run()
        run()
    start = clock()
    runs[against]()
    calls = max(1, math.ceil(TURN / max(clock() - start, 1e-6)))
    if calls > 1:
        rounds *= SHORT

    def took(run: Run) -> float:
        if calls > 1:
            run()  # so that its weights lie where they do when it is the only model
        start = clock()
        for _ in range(calls):
            run()
        return (clock() - start) / calls

    found: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            found[name].append((took(runs[against]), took(run)))
    made = {}
    for name, times in found.items():
        speeds = quantiles([base / own for base, own in times], n=4)  # of the whole model against itself: the noise
        made[name] = {"seconds": median(own for _, own in times), "speed": speeds[1], "low": speeds[0], "high": speeds[2]}
    return made


def torch_times(models: Mapping[str, Any], options: argparse.Namespace, place: torch.device) -> Iterator[dict[str, Any]]:
    import torch

    from deadhead.heads.bench import inputs

    for precision, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)) if place.type == "cuda" else (("fp32", torch.float32),):
        ready = {name: copy.deepcopy(model).to(place, dtype) for name, model in models.items()}
        for batch, length in shapes():
            fed = {k: v.to(place) for k, v in inputs(ready[WHOLE], batch, length).items()}
            with torch.no_grad():
                found = race({name: partial(model, **fed) for name, model in ready.items()}, options.rounds, clock_of(options, place))
            for name, numbers in found.items():
                yield {"where": f"torch {place.type} {precision}", "pruning": name, "batch": batch, "length": length, **numbers}


def onnx_times(folders: Mapping[str, Path], sizes: dict[str, Any], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Times in onnxruntime on the CPU, as exported and with weights in int8; the sizes of the files go into `sizes`."""
    import logging

    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    from deadhead import export, load
    from deadhead.heads.bench import inputs

    logging.getLogger().setLevel(logging.ERROR)  # onnxruntime recommends a pass before quantising at every file
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads, settings.log_severity_level = options.threads, 1, 3
    sessions: dict[tuple[str, str], Any] = {}
    for name, folder in folders.items():
        files = {"fp32": export(folder, onnx=folder / "model.onnx")}
        if name in QUANTISED:
            files["int8"] = folder / "int8.onnx"
            quantize_dynamic(files["fp32"], files["int8"], weight_type=QuantType.QInt8)
        sizes[name] |= {f"onnx {precision} bytes": file.stat().st_size for precision, file in files.items()}
        for precision, file in files.items():
            sessions[precision, name] = onnxruntime.InferenceSession(str(file), settings, providers=["CPUExecutionProvider"])
        progress(f"exported {name}")
    clock = time.process_time if options.threads == 1 else time.perf_counter
    whole = load(folders[WHOLE])
    for batch, length in shapes():
        fed = {k: v.numpy() for k, v in inputs(whole, batch, length).items()}
        runs = {f"{precision} {name}": partial(session.run, None, fed) for (precision, name), session in sessions.items()}
        for key, numbers in race(runs, options.rounds, clock, f"fp32 {WHOLE}").items():
            precision, _, name = key.partition(" ")
            yield {"where": f"onnxruntime cpu {precision}", "pruning": name, "batch": batch, "length": length, **numbers}


def shapes() -> list[tuple[int, int]]:
    return [(batch, length) for batch in BATCHES for length in LENGTHS]


def measure(options: argparse.Namespace) -> Document:
    import torch

    from deadhead import discover, prune, save
    from deadhead.heads.kernels import device_named

    place = device_named(options.device)
    torch.set_num_threads(options.threads)
    model, notes = whole_model(options.model)
    layout = discover(model)
    models, sizes, folders, rows = {}, {}, {}, []
    document = {
        "machine": machine(options, place),
        "date": time.strftime("%Y-%m-%d"),
        "rounds": options.rounds,
        "model": options.model.resolve().name,
        "heads": len(layout),
        "notes": notes,
        "sizes": sizes,
        "times": rows,
    }
    with tempfile.TemporaryDirectory() as home:
        for i, name in enumerate(dict.fromkeys((WHOLE, *options.prunings, LIMIT))):
            gone = heads_of(layout, name)
            models[name] = prune(copy.deepcopy(model), gone)
            folders[name] = save(models[name], Path(home) / str(i))
            sizes[name] = {
                "heads cut": len(gone),
                "parameters": sum(p.numel() for p in models[name].parameters()),
                "disk bytes": sum(f.stat().st_size for f in folders[name].glob("*.safetensors")),
                "flops": {str(n): flops(models[name], n) for n in lengths(model)},
            }
        document["layer"] = list(layer_times(models, options, place))
        if not document["layer"]:
            notes.append("what an empty layer should cost is not measured: only a BERT's attention is taken out by hand")
        runs = [torch_times(models, options, place)]
        missing = [name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None]
        if place.type != "cpu":
            notes.append("onnxruntime is measured on the CPU alone: run this with --device cpu")
        elif missing:
            notes.append(f"onnxruntime is not measured: {', '.join(missing)} not installed; pip install 'deadhead[onnx]'")
        else:
            runs.append(onnx_times(folders, sizes, options))
        for row in itertools.chain(*runs):
            rows.append(row)
            progress(f"{row['where']} {row['batch']} x {row['length']}, {row['pruning']}: {row['speed']:.2f}")
            if options.json:  # after every row: what was measured is kept if the rest is cut short
                options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return document


def lengths(model: Any) -> list[int]:
    return [n for n in SHARES if n <= getattr(model.config, "max_position_embeddings", n)]


def machine(options: argparse.Namespace, place: torch.device) -> str:
    import torch
    import transformers

    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    name = torch.cuda.get_device_name(place) if place.type == "cuda" else f"{cpu}, {options.threads} thread(s) of {os.cpu_count()} cores"
    more = ""
    if place.type == "cpu" and find_spec("onnxruntime"):
        import onnxruntime

        more = f", onnxruntime {onnxruntime.__version__}"
    return f"{name}; Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}{more}"


def progress(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


# -- showing


def scores(folder: Path, model: str) -> dict[str, dict[str, Any]]:
    """Of each pruning of a study of this model the mean score where it was trained and over the other languages, in points."""
    from deadhead.report.cells import PRUNING, read_study

    study = read_study(folder)
    others = sorted(set(study.axes) - {*PRUNING, "seed"})
    if others:
        raise DeadheadError(
            f"{folder} varies {', '.join(others)} too, so a pruning has no one score.", "name a study of one model and task"
        )
    studied = str(study.cells[0].axes.get("model"))
    if Path(studied).name != model:
        raise DeadheadError(f"{folder} is a study of {studied}, and what was measured is {model}.", f"name a study of {model}")
    found: dict[str, dict[str, tuple[float, float | None]]] = {}
    for cell in study.cells:
        own = [value for language, value in cell.scores.items() if language in cell.learnt]
        far = [value for language, value in cell.scores.items() if language not in cell.learnt]
        if own:
            found.setdefault(str(cell.axes.get("remove", WHOLE)), {})[cell.trial] = (fmean(own), fmean(far) if far else None)
    if not found:
        raise DeadheadError(f"{folder} has no finished trial that is scored in its source language.", f"deadhead status {folder}")
    learnt = next(cell.learnt for cell in study.cells)
    made = {}
    for pruning, trials in found.items():
        made[pruning] = {"trials": len(trials), "source": "+".join(learnt), "languages": len(set(study.languages) - set(learnt))}
        for i, name in enumerate(("own", "others")):
            values = [pair[i] for pair in trials.values() if pair[i] is not None]
            made[pruning][name] = fmean(values) if values else None
            made[pruning][f"{name} sd"] = stdev(values) if len(values) > 1 else None
    return made


def checked(document: Any, file: Path) -> Document:
    if not isinstance(document, dict) or not {"sizes", "times", "layer", "heads"} <= document.keys():
        raise DeadheadError(f"{file} was not written by this script.", "name a file that --json wrote")
    return document


def share(document: Document, length: str) -> float:
    """The part of the arithmetic that all heads are; every head is the same, so all but one tell of all."""
    whole, limit = document["sizes"][WHOLE]["flops"][length], document["sizes"][LIMIT]["flops"][length]
    return (1 - limit / whole) * document["heads"] / (document["heads"] - 1)


def bound(document: Document, pruning: str, length: int) -> float:
    """How many times as fast it can be if time goes with arithmetic."""
    flops_of = {name: size["flops"][str(length)] for name, size in document["sizes"].items()}
    return flops_of[WHOLE] / flops_of[pruning]


def table_of(documents: Sequence[Document], joined: Mapping[str, Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """A row for each pruning: heads, scores, sizes, and at the shape shown the bound beside the speed in every runtime."""
    first, length = documents[0], SHOWN[1]
    runtimes = list(dict.fromkeys(row["where"] for document in documents for row in document["times"]))
    speeds = {
        (row["where"], row["pruning"]): row["speed"]
        for document in documents
        for row in document["times"]
        if (row["batch"], row["length"]) == SHOWN
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
        rows.append([*cells, *(f"{speeds[where, name]:.2f}" if (where, name) in speeds else "–" for where in runtimes)])
    return titles, rows


def named(pruning: str) -> str:
    strategy, _, amount = pruning.partition(" ")
    return f"random {amount} %" if strategy == "random" else f"{amount} layers" if strategy == "layers" else pruning


def points(score: Mapping[str, Any], name: str) -> str:
    if score.get(name) is None:
        return "–"
    spread = score[f"{name} sd"]
    return f"{score[name]:.1f}" + (f" ±{spread:.1f}" if spread is not None else "")


def by_shape(document: Document) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """For each runtime: the speed of every pruning at every batch size and length, with its bound beside it."""
    for where in dict.fromkeys(row["where"] for row in document["times"]):
        speeds = {(row["pruning"], row["batch"], row["length"]): row for row in document["times"] if row["where"] == where}
        places = sorted({(batch, length) for _, batch, length in speeds})
        rows = []
        for name in (name for name in document["sizes"] if (name, *places[0]) in speeds):
            told = [f"{speeds[name, b, n]['speed']:.2f}{beside(document, where, name, n)}" for b, n in places]
            rows.append([named(name), *told])
        milliseconds = [f"{1000 * speeds[WHOLE, b, n]['seconds']:,.1f}" for b, n in places]
        rows[0][1:] = [f"{one} = {ms} ms" for one, ms in zip((r.split(" ")[0] for r in rows[0][1:]), milliseconds, strict=True)]
        yield where, ["heads cut", *(f"{b} x {n}" for b, n in places)], rows


def beside(document: Document, where: str, pruning: str, length: int) -> str:
    """The bound, in brackets; int8 is compared with float32, so counting its products bounds nothing."""
    return "" if "int8" in where else f" ({bound(document, pruning, length):.2f})"


def shares_table(document: Document) -> tuple[list[str], list[list[str]]]:
    told = {length: share(document, length) for length in document["sizes"][WHOLE]["flops"]}
    return ["length", "heads' share of FLOPs", "no head left: at most"], [[n, f"{s:.0%}", f"{1 / (1 - s):.2f} x"] for n, s in told.items()]


def empties(document: Document) -> list[list[str]]:
    """How much of what an empty layer could save is saved: against the same layer taken out by hand."""
    rows = []
    for row in document["layer"]:
        whole, empty, bare = row[WHOLE], row[LIMIT], row[BARE]
        told = [f"{1000 * seconds:.3f}" for seconds in (whole, empty, bare)]
        rows.append([f"{row['batch']} x {row['length']}", *told, f"{(whole - empty) / (whole - bare):.0%}"])
    return rows


EMPTIES = ["batch x length", "whole, ms", "no head left, ms", "taken out by hand, ms", "saving reached"]


def heads_share(document: Document) -> str:
    sizes, heads = document["sizes"], document["heads"]
    part = (1 - sizes[LIMIT]["parameters"] / sizes[WHOLE]["parameters"]) * heads / (heads - 1)
    return f"{document['model']}: {heads} heads hold {part:.0%} of its {sizes[WHOLE]['parameters'] / 1e6:.1f} million parameters."


def noise(document: Document) -> str:
    """How far the ratios of single rounds are apart."""
    spread = median((row["high"] - row["low"]) / row["speed"] / 2 for row in document["times"])
    return f"half of the ratios of single rounds lie within ±{spread:.0%} of those shown"


def files_table(document: Document) -> tuple[list[str], list[list[str]]] | None:
    """Megabytes of the three kinds of file, where there are any ONNX files."""
    kinds = ("disk bytes", "onnx fp32 bytes", "onnx int8 bytes")
    if kinds[1] not in document["sizes"][WHOLE]:
        return None
    rows = [
        [named(name), *(f"{size[kind] / 1e6:.1f}" if kind in size else "–" for kind in kinds)] for name, size in document["sizes"].items()
    ]
    return ["heads cut", "safetensors, MB", "ONNX, MB", "ONNX int8, MB"], rows


def show(documents: Sequence[Document], joined: Mapping[str, Mapping[str, Any]]) -> None:
    console = Console(width=160)
    for document in documents:
        console.print(
            heads_share(document), document["machine"], noise(document), *document["notes"], sep="\n", highlight=False, markup=False
        )
    put(console, f"Speed-ups at {SHOWN[0]} x {SHOWN[1]}; size and FLOPs are what is left", *table_of(documents, joined))
    put(console, "The bound", *shares_table(documents[0]))
    for document in documents:
        for where, titles, rows in by_shape(document):
            put(console, f"{where}: speed-up{'' if 'int8' in where else ' (bound)'}", titles, rows)
        put(console, "Does the attention of an empty layer cost nothing? torch, fp32", EMPTIES, empties(document))
    if made := files_table(documents[0]):
        put(console, "Files", *made)


def put(console: Console, title: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        table = Table(*titles, title=title)
        for row in rows:
            table.add_row(*row)
        console.print(table)


def markdown(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (titles, ["---", *["---:"] * (len(titles) - 1)], *rows))


def fill(page: Path, documents: Sequence[Document], joined: Mapping[str, Mapping[str, Any]]) -> None:
    """Put the tables between the marks of a page, and leave the rest as it is."""
    try:
        before, _, rest = page.read_text(encoding="utf-8").partition(MARKS[0])
    except OSError as problem:
        raise DeadheadError(f"{page} cannot be read: {problem.strerror}.", f"make it, with {MARKS[0]} and {MARKS[1]} in it") from None
    if MARKS[1] not in rest:
        raise DeadheadError(f"{page} has no place for the tables.", f"write {MARKS[0]} and, lines below it, {MARKS[1]}")
    parts = [heads_share(documents[0]), markdown(*shares_table(documents[0]))]
    parts += [f"Speed-ups at batch {SHOWN[0]}, length {SHOWN[1]}:", markdown(*table_of(documents, joined))]
    for document in documents:
        parts += [
            f"### On {document['machine'].partition(';')[0]}",
            f"{document['machine'].partition('; ')[2]}; {noise(document)}. Speed-up (bound):",
        ]
        for where, titles, rows in by_shape(document):
            parts += [f"**{where}**", markdown(titles, rows)]
        if rows := empties(document):
            parts += ["The attention of one layer, torch in float32:", markdown(EMPTIES, rows)]
    if made := files_table(documents[0]):
        parts += ["### Files", markdown(*made)]
    page.write_text(f"{before}{MARKS[0]}\n\n" + "\n\n".join(parts) + f"\n\n{MARKS[1]}{rest.partition(MARKS[1])[2]}", encoding="utf-8")


def draw(file: Path, documents: Sequence[Document], joined: Mapping[str, Mapping[str, Any]]) -> None:
    """Speed beside its bound, and score against speed where there are scores: SVG or PNG, by the file's name."""
    from deadhead.report.charts import MIDDLE, categories, field, whole
    from deadhead.report.export import PRINT, _drawers

    ending = file.suffix.removeprefix(".")
    if ending not in ("svg", "png"):
        raise DeadheadError(f"{file} is neither .svg nor .png.", "name a file that ends so")
    timed = [
        {"label": named(row["pruning"]), "where": row["where"], "speed": row["speed"], "bound": bound(document, row["pruning"], SHOWN[1])}
        for document in documents
        for row in document["times"]
        if (row["batch"], row["length"]) == SHOWN and row["pruning"] != WHOLE and "int8" not in row["where"]
    ]
    order = [named(name) for name in documents[0]["sizes"] if name != WHOLE]
    runtimes = list(dict.fromkeys(row["where"] for row in timed))
    across = field("label", "O", "", sort=order, axis={"labelAngle": -40})
    up = {"title": f"times as fast, {SHOWN[0]} x {SHOWN[1]}", "scale": {"zero": False}}
    speed = {
        "width": 420,
        "height": 260,
        "data": {"values": timed},
        "layer": [
            {
                "mark": {"type": "tick", "orient": "horizontal", "width": 26, "thickness": 2, "color": MIDDLE},
                "encoding": {"y": {"field": "bound", "type": "quantitative", **up}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
                "encoding": {
                    "y": {"field": "speed", "type": "quantitative", **up},
                    "color": field("where", "N", "measured (bars: bound)", scale=categories(runtimes)),
                },
            },
        ],
        "encoding": {"x": across},
    }
    pictures = [speed]
    scored = [{**row, **score} for row in timed if row["where"] == runtimes[0] and (score := _scored(joined, row["label"]))]
    if scored and (none := _scored(joined, named(WHOLE))):
        scored.append({"label": named(WHOLE), "speed": 1.0, **none})
    for name, title in (("own", "score in the source language"), ("others", "mean score in the other languages")) if scored else ():
        places = {
            "x": field("speed", "Q", f"times as fast, {runtimes[0]}", scale={"zero": False, "padding": 40}),
            "y": field(name, "Q", title, scale={"zero": False, "padding": 20}),
        }
        text = {
            "mark": {"type": "text", "align": "left", "angle": 335, "dx": 6, "fontSize": 10},
            "encoding": {**places, "text": field("label", "N")},
        }
        dots = {"mark": {"type": "point", "filled": True, "size": 50, "opacity": 1}, "encoding": places}
        pictures.append({"width": 330, "height": 260, "data": {"values": scored}, "layer": [dots, text]})
    drawers = _drawers()
    made = drawers[ending]({**whole({"hconcat": pictures}, [], documents[0]["model"]), "config": PRINT})
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(made.encode("utf-8") if isinstance(made, str) else made)


def _scored(joined: Mapping[str, Mapping[str, Any]], label: str) -> dict[str, Any] | None:
    return next(({"own": s["own"], "others": s["others"]} for name, s in joined.items() if named(name) == label), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", help="the folder of the model to cut")
    parser.add_argument("--prunings", nargs="+", default=PRUNINGS, help='such as "random 50" and "layers top 3"; no ranking is read')
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write what was measured there")
    parser.add_argument("--from", dest="measured", type=Path, nargs="+", help="show what --json wrote, instead of measuring")
    parser.add_argument("--study", type=Path, help="a study whose scores stand beside")
    parser.add_argument("--figure", type=Path, help="draw it: .svg or .png")
    parser.add_argument("--page", type=Path, help="write the tables into this page, between its marks")
    options = parser.parse_args()
    if (options.model is None) == (options.measured is None):
        parser.error("name either the folder of a model, to measure, or --from FILES, to show")
    if options.rounds < 2 or options.threads < 1:
        parser.error("--rounds must be at least 2, for a median, and --threads at least 1")
    try:
        if options.measured:
            documents = [checked(json.loads(file.read_text(encoding="utf-8")), file) for file in options.measured]
        else:
            documents = [measure(options)]
        joined = scores(options.study, documents[0]["model"]) if options.study else {}
        show(documents, joined)
        if options.figure:
            draw(options.figure, documents, joined)
        if options.page:
            fill(options.page, documents, joined)
    except (DeadheadError, OSError, json.JSONDecodeError) as problem:
        sys.exit(f"{type(problem).__name__}: {problem}")


if __name__ == "__main__":
    main()
