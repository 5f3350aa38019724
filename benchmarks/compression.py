"""What cutting heads gains: score against size and time, beside the most it could gain (Amdahl).

    python benchmarks/compression.py MODEL [--json RESULTS.json]                 torch, ONNX, int8
    python benchmarks/compression.py MODEL --device cuda [--json RESULTS.json]   torch in bf16
    python benchmarks/compression.py --from RESULTS.json ... [--study STUDY] [--figure FILE.svg]
                                                   [--page FILE.md] [--appendix FOLDER]

The first two measure, on the CPU and on a GPU (with and without CUDA graphs): each pruning is cut
with deadhead, saved in compact form, exported to ONNX if the extra `onnx` is installed, and timed.
Every round times each pruning once, right after the whole model; its speed-up is the median of
these ratios. With one thread of a CPU, times are processor times of that thread, so other work of
the machine does not count. The third command prints what was measured, beside the scores of a
study (means over the trials of a pruning), and loads no torch.

MODEL is a folder. A language model is measured as a tagger of 17 labels, which is what it is
fine-tuned to; a folder with only a config.json gets random weights, since sizes and times do not
depend on them. Missing packages other than torch and transformers are reported and skipped.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import compression_report as report
from compression_figure import draw
from compression_report import BARE, BATCHES, GRAPH, LENGTHS, LIMIT, WHOLE, Document
from machine import now, processor, versions

from deadhead.errors import DeadheadError

if TYPE_CHECKING:
    import torch

RANDOM = tuple(f"random {percent}" for percent in (10, 30, 50, 70, 90))
PRUNINGS = (WHOLE, *RANDOM, "layers top 3", "layers bottom 3", "layers odd 6")
SHARES = (32, 128, 512)  # lengths for which the heads' share of the arithmetic is printed
QUANTISED = (WHOLE, "random 50", LIMIT)  # prunings that are timed in int8 too
LABELS = 17  # universal parts of speech
# The least seconds of a turn: short passes are repeated. Nothing else runs on the GPU.
TURN = {"cpu": 0.05, "cuda": 0.02}
SHORT = 4  # times as many rounds for short passes, which a busy machine disturbs more
Run = Callable[[], Any]
progress = partial(print, file=sys.stderr, flush=True)


def whole_model(folder: Path) -> tuple[Any, list[str]]:
    """The model in float32 as it is served, and notes about it."""
    import torch
    from transformers import AutoConfig, AutoModelForTokenClassification

    from deadhead import discover, load
    from deadhead.files.hub import quiet

    if not (folder / "config.json").is_file():
        hint = "name a folder that save_pretrained wrote"
        raise DeadheadError(f"{folder} is no model: it has no config.json.", hint)
    if AutoConfig.from_pretrained(folder).is_encoder_decoder:
        hint = "use deadhead bench-task, or benchmarks/translate.py"
        raise DeadheadError(f"expected an encoder, got an encoder-decoder in {folder}.", hint)
    torch.manual_seed(0)
    if not [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
        config = AutoConfig.from_pretrained(folder, num_labels=LABELS)
        model = AutoModelForTokenClassification.from_config(config, dtype=torch.float32)
        return model.eval(), ["there are no weights: random ones"]
    model = load(folder, dtype=torch.float32)
    if discover(model).removed:
        hint = "name the model as it was before pruning"
        raise DeadheadError(f"expected a whole model, got a pruned one in {folder}.", hint)
    if model.get_output_embeddings() is None:
        return model.eval(), []
    with quiet():
        options = {"num_labels": LABELS, "dtype": torch.float32}
        model = AutoModelForTokenClassification.from_pretrained(folder, **options)
    return model.eval(), [f"a language model, measured as a tagger of {LABELS} labels"]


def heads_of(layout: Any, pruning: str) -> list[Any]:
    """The heads that `random 50` or `layers top 3` removes; at random with seed 0."""
    from deadhead.strategies import choose

    if pruning in (WHOLE, LIMIT):
        return sorted(layout)[:-1] if pruning == LIMIT else []
    strategy, _, amount = pruning.partition(" ")
    return sorted(choose(strategy, layout, int(amount) if amount.isdecimal() else amount))


def flops(model: Any, length: int) -> int:
    """Arithmetic of one sentence, counted with eager attention, which the counter always sees."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from deadhead.saved.bench import inputs

    eager = copy.deepcopy(model)
    eager.set_attn_implementation("eager")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        eager(**inputs(model, 1, length))
    return int(counter.get_total_flops())


def layer_times(
    models: Mapping[str, Any], options: argparse.Namespace, place: torch.device
) -> Iterator[dict[str, Any]]:
    """The attention of one layer: whole, without heads, and reduced by hand to its bias and norm.

    Yields nothing for a model that is not built like BERT.
    """
    import torch
    from torch import nn

    from deadhead.heads.discover import find_sites
    from deadhead.numerics import computing

    site = next(site for site in find_sites(models[LIMIT]) if not site.kept)
    path, _, name = site.path.rpartition(".")
    parts = {n: copy.deepcopy(models[n].get_submodule(path)).to(place) for n in (WHOLE, LIMIT)}
    output = getattr(parts[LIMIT], "output", None)
    if name != "self" or not hasattr(output, "LayerNorm"):
        return

    class Bare(nn.Module):
        def forward(self, hidden_states: torch.Tensor) -> tuple[torch.Tensor, None]:
            return output.LayerNorm(hidden_states + output.dense.bias), None

    parts[BARE] = Bare()
    for batch, length in shapes(place.type):
        states = torch.randn(batch, length, models[WHOLE].config.hidden_size, device=place)
        with torch.no_grad(), computing(models[WHOLE]):
            # only a layer with the same outputs is a fair comparison
            torch.testing.assert_close(parts[BARE](states)[0], parts[LIMIT](states)[0])
            runs = {name: partial(part, states) for name, part in parts.items()}
            times = race(runs, options.rounds, partial(now, place.type), turn=TURN[place.type])
        seconds = {name: numbers["seconds"] for name, numbers in times.items()}
        yield {"batch": batch, "length": length, **seconds}


def race(
    runs: Mapping[str, Run],
    rounds: int,
    clock: Callable[[], float],
    against: str = WHOLE,
    turn: float = TURN["cpu"],
) -> dict[str, dict[str, float]]:
    """Seconds of a call of each, and its speed relative to another that is timed right before it.

    Both are medians over the rounds.
    """
    for run in runs.values():
        run()
        run()
    start = clock()
    runs[against]()
    calls = max(1, math.ceil(turn / max(clock() - start, 1e-6)))

    def seconds_of(run: Run) -> float:
        if calls > 1:
            run()  # so that its weights are in the cache, as if it were the only model
        start = clock()
        for _ in range(calls):
            run()
        return (clock() - start) / calls

    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds * SHORT if calls > 1 else rounds):
        for name, run in runs.items():
            times[name].append((seconds_of(runs[against]), seconds_of(run)))
    numbers = {}
    for name, pairs in times.items():  # the whole model against itself shows the noise
        low, speed, high = quantiles([base / own for base, own in pairs], n=4)
        seconds = median(own for _, own in pairs)
        numbers[name] = {"seconds": seconds, "speed": speed, "low": low, "high": high}
    return numbers


def torch_times(
    models: Mapping[str, Any], options: argparse.Namespace, place: torch.device
) -> Iterator[dict[str, Any]]:
    import torch

    from deadhead.numerics import computing
    from deadhead.saved.bench import inputs

    dtype, kinds = torch.float32, ["fp32"]
    if place.type == "cuda":
        dtype, kinds = torch.bfloat16, ["bf16", f"bf16 {GRAPH}"]
    ready = {name: copy.deepcopy(model).to(place, dtype) for name, model in models.items()}
    for kind, (batch, length) in itertools.product(kinds, shapes(place.type)):
        batch_inputs = {k: v.to(place) for k, v in inputs(ready[WHOLE], batch, length).items()}
        run_of = captured if kind.endswith(GRAPH) else lambda model, batch: partial(model, **batch)
        with torch.no_grad(), computing(ready[WHOLE]):
            runs = {name: run_of(model, batch_inputs) for name, model in ready.items()}
            times = race(runs, options.rounds, partial(now, place.type), turn=TURN[place.type])
        for name, numbers in times.items():
            facts = {"where": f"torch {place.type} {kind}", "pruning": name}
            yield {**facts, "batch": batch, "length": length, **numbers}


def captured(model: Any, batch: Mapping[str, Any]) -> Run:
    """A pass as one CUDA graph: it times the GPU and not the host that feeds it.

    While a graph is captured, transformers 5.17 makes a mask although nothing is masked, and
    attention with a mask runs in another kernel than without: compare graphs with graphs.
    """
    import torch

    # the mask is all ones, and checking that would wait for the GPU
    whole = {name: tensor for name, tensor in batch.items() if name != "attention_mask"}
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            model(**whole)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(**whole)
    return graph.replay


def onnx_times(
    folders: Mapping[str, Path], sizes: dict[str, Any], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Times in onnxruntime on the CPU, as exported and with weights in int8.

    The sizes of the files are added to `sizes`.
    """
    import onnxruntime

    from deadhead import load
    from deadhead.saved.bench import inputs

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = options.threads, 1
    settings.log_severity_level = 3
    cpu = {"sess_options": settings, "providers": ["CPUExecutionProvider"]}
    runs_of: dict[str, Any] = {}
    for name, folder in folders.items():
        for precision, file in onnx_files(folder, quantise=name in QUANTISED).items():
            sizes[name][f"onnx {precision} bytes"] = file.stat().st_size
            session = onnxruntime.InferenceSession(str(file), **cpu)
            runs_of[f"{precision} {name}"] = session.run
            needed = {item.name for item in session.get_inputs()}
        progress(f"exported {name}")
    whole = load(folders[WHOLE])
    for batch, length in shapes("cpu"):
        arrays = {k: v.numpy() for k, v in inputs(whole, batch, length).items()}
        arrays |= dict.fromkeys(needed - arrays.keys(), 0 * arrays["input_ids"])
        runs = {key: partial(run, None, arrays) for key, run in runs_of.items()}
        for key, numbers in race(
            runs, options.rounds, partial(now, "cpu"), f"fp32 {WHOLE}"
        ).items():
            precision, _, name = key.partition(" ")
            facts = {"where": f"onnxruntime cpu {precision}", "pruning": name}
            yield {**facts, "batch": batch, "length": length, **numbers}


def onnx_files(folder: Path, *, quantise: bool) -> dict[str, Path]:
    """Export a model, and also write it in int8."""
    from deadhead import export

    files = {"fp32": export(folder, onnx=folder / "model.onnx")}
    if quantise:
        files["int8"] = export(folder, onnx=folder / "int8.onnx", int8=True)
    return files


def shapes(device: str) -> list[tuple[int, int]]:
    return [(batch, length) for batch in BATCHES[device] for length in LENGTHS]


def size_of(model: Any, folder: Path, removed: int) -> dict[str, Any]:
    """The heads cut, parameters, bytes on disk and FLOPs of a model."""
    longest = getattr(model.config, "max_position_embeddings", SHARES[-1])
    return {
        "heads cut": removed,
        "parameters": sum(p.numel() for p in model.parameters()),
        "disk bytes": sum(file.stat().st_size for file in folder.glob("*.safetensors")),
        "flops": {str(n): flops(model, n) for n in SHARES if n <= longest},
    }


def measure(options: argparse.Namespace) -> Document:
    import torch

    from deadhead import discover, prune, save
    from deadhead.numerics import device_named

    place = device_named(options.device)
    torch.set_num_threads(options.threads)
    model, notes = whole_model(options.model)
    layout = discover(model)
    document: Document = {"machine": machine(options, place), "date": time.strftime("%Y-%m-%d")}
    document |= {"rounds": options.rounds, "model": options.model.resolve().name}
    document |= {"heads": len(layout), "notes": notes, "sizes": {}, "times": []}
    with tempfile.TemporaryDirectory() as home:
        models, folders = {}, {}
        for i, name in enumerate(dict.fromkeys((WHOLE, *options.prunings, LIMIT))):
            heads = heads_of(layout, name)
            models[name] = prune(copy.deepcopy(model), heads)
            folders[name] = save(models[name], Path(home) / str(i))
            document["sizes"][name] = size_of(models[name], folders[name], len(heads))
        document["layer"] = list(layer_times(models, options, place))
        if not document["layer"]:
            notes.append(
                "an empty layer is not timed alone: only that of a BERT is reduced by hand"
            )
        missing = [n for n in ("onnx", "onnxscript", "onnxruntime") if find_spec(n) is None]
        rows = torch_times(models, options, place)
        if place.type != "cpu":
            notes.append("onnxruntime is measured on the CPU alone: run this with --device cpu")
        elif missing:
            notes.append(f"no {', '.join(missing)}: pip install 'deadhead[onnx]' to measure ONNX")
        else:
            rows = itertools.chain(rows, onnx_times(folders, document["sizes"], options))
        for row in rows:
            document["times"].append(row)
            shape = f"{row['batch']} x {row['length']}"
            progress(f"{row['where']} {shape}, {row['pruning']}: {row['speed']:.2f}")
            if options.json:  # after every row: an interrupted measurement keeps what it has
                options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return document


def machine(options: argparse.Namespace, place: torch.device) -> str:
    import torch

    packages = ["torch", "transformers"]
    if place.type == "cuda":
        return f"{torch.cuda.get_device_name(place)}; {versions(*packages)}"
    packages += ["onnxruntime"] if find_spec("onnxruntime") else []
    name = f"{processor()}, {options.threads} thread(s) of {os.cpu_count()} cores"
    return f"{name}; {versions(*packages)}"


def arguments() -> argparse.Namespace:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    add = parser.add_argument
    add("model", type=Path, nargs="?", help="the folder of the model to prune")
    prunings = 'such as "random 50" and "layers top 3"; none that needs a ranking'
    add("--prunings", nargs="+", default=PRUNINGS, help=prunings)
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--threads", type=int, default=1)
    add("--rounds", type=int, default=7)
    add("--json", type=Path, help="write the measurements to this file")
    results = "print what --json wrote, instead of measuring"
    add("--from", dest="results", type=Path, nargs="+", help=results)
    add("--study", type=Path, help="add the scores of this study")
    add("--figure", type=Path, help="draw the figure: .svg or .png")
    add("--page", type=Path, help="write the main table into this page, between its marks")
    add("--appendix", type=Path, help="write the other tables to CSV files in this folder")
    options = parser.parse_args()
    if (options.model is None) == (options.results is None):
        parser.error("name either the folder of a model, to measure it, or --from FILES")
    if options.rounds < 2 or options.threads < 1:
        parser.error("--rounds must be at least 2, for a median, and --threads at least 1")
    return options


def main() -> None:
    options = arguments()
    try:
        if options.results:
            stored = {file: json.loads(file.read_text("utf-8")) for file in options.results}
            documents = [report.check_document(data, file) for file, data in stored.items()]
        else:
            documents = [measure(options)]
        scores: report.Scores = {}
        if options.study:
            scores = report.study_scores(options.study, documents[0]["model"])
        report.print_tables(documents, scores)
        if options.figure:
            draw(options.figure, documents, scores)
        if options.page:
            report.fill_page(options.page, documents, scores)
        if options.appendix:
            report.write_appendix(options.appendix, documents)
    except (DeadheadError, OSError, json.JSONDecodeError) as problem:
        sys.exit(f"{type(problem).__name__}: {problem}")


if __name__ == "__main__":
    main()
