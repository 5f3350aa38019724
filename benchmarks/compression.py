"""What cutting heads buys: score against size and time, beside the most it could buy (Amdahl).

    python benchmarks/compression.py MODEL [--json RESULTS.json]               on the CPU: torch, onnxruntime, int8
    python benchmarks/compression.py MODEL --device cuda [--json RESULTS.json] on a GPU: torch in bf16, as it is and as CUDA graphs
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
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from compression_shown import (
    BARE,
    BATCHES,
    GRAPH,
    LENGTHS,
    LIMIT,
    WHOLE,
    Document,
    checked,
    draw,
    fill,
    scores,
    show,
)

from deadhead.errors import DeadheadError

if TYPE_CHECKING:
    import torch

PRUNINGS = (
    WHOLE,
    *(f"random {p}" for p in (10, 30, 50, 70, 90)),
    "layers top 3",
    "layers bottom 3",
    "layers odd 6",
)
SHARES = (32, 128, 512)  # lengths at which the heads' share of the arithmetic is said
QUANTISED = (WHOLE, "random 50", LIMIT)  # those of the prunings that are timed in int8 too
LABELS = 17  # of universal parts of speech
TURN = {
    "cpu": 0.05,
    "cuda": 0.02,
}  # seconds that a turn takes at least: short passes are repeated; a GPU is disturbed by nobody
SHORT = 4  # times as many rounds for those, which a busy machine disturbs more
Run = Callable[[], Any]


def whole_model(folder: Path) -> tuple[Any, list[str]]:
    """The model in float32 as it is served, and what there is to say about that."""
    import torch
    from transformers import AutoConfig, AutoModelForTokenClassification

    from deadhead import discover, load
    from deadhead.hub import quiet

    if not (folder / "config.json").is_file():
        raise DeadheadError(
            f"{folder} is not the folder of a model: it has no config.json.",
            "name a folder that save_pretrained wrote",
        )
    if AutoConfig.from_pretrained(folder).is_encoder_decoder:
        raise DeadheadError(
            f"{folder} is an encoder-decoder; this measures encoders.",
            "use deadhead bench, or benchmarks/translate.py",
        )
    torch.manual_seed(0)
    if not [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
        config = AutoConfig.from_pretrained(folder, num_labels=LABELS)
        return AutoModelForTokenClassification.from_config(config, dtype=torch.float32).eval(), [
            "there are no weights: random ones"
        ]
    model, said = load(folder, dtype=torch.float32).eval(), []
    if sum(len(a.removed) for a in discover(model).attentions):
        raise DeadheadError(
            f"{folder} has lost heads already.", "name the model as it was before pruning"
        )
    if model.get_output_embeddings() is not None:
        with quiet():
            model = AutoModelForTokenClassification.from_pretrained(
                folder, num_labels=LABELS, dtype=torch.float32
            ).eval()
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

    from deadhead.heads.verify.bench import inputs

    counted = copy.deepcopy(model)
    counted.set_attn_implementation("eager")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        counted(**inputs(model, 1, length))
    return int(counter.get_total_flops())


def layer_times(
    models: Mapping[str, Any], options: argparse.Namespace, place: torch.device
) -> Iterator[dict[str, Any]]:
    """The attention of one layer: whole, with no head left, and taken out by hand down to its bias and norm. Nothing where it is no BERT."""
    import torch
    from torch import nn

    from deadhead.device import computing
    from deadhead.heads.discover import find_sites

    site = next(site for site in find_sites(models[LIMIT]) if not site.kept)
    path, _, name = site.path.rpartition(".")
    parts = {
        key: copy.deepcopy(models[key].get_submodule(path)).to(place) for key in (WHOLE, LIMIT)
    }
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
            torch.testing.assert_close(
                parts[BARE](states)[0], parts[LIMIT](states)[0]
            )  # it says the same, or is no yardstick
            runs = {key: partial(part, states) for key, part in parts.items()}
            found = race(runs, options.rounds, clock_of(options, place), turn=TURN[place.type])
        yield {
            "batch": batch,
            "length": length,
            **{key: numbers["seconds"] for key, numbers in found.items()},
        }


def clock_of(options: argparse.Namespace, place: torch.device) -> Callable[[], float]:
    import torch

    def clock() -> float:
        if place.type == "cuda":
            torch.cuda.synchronize(place)
            return time.perf_counter()
        return time.process_time() if options.threads == 1 else time.perf_counter()

    return clock


def race(
    runs: Mapping[str, Run],
    rounds: int,
    clock: Callable[[], float],
    against: str = WHOLE,
    turn: float = TURN["cpu"],
) -> dict[str, dict[str, float]]:
    """Seconds of a call of each, and how many times as fast it is as another, timed right before it: medians over rounds."""
    for run in runs.values():
        run()
        run()
    start = clock()
    runs[against]()
    calls = max(1, math.ceil(turn / max(clock() - start, 1e-6)))
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
        speeds = quantiles(
            [base / own for base, own in times], n=4
        )  # of the whole model against itself: the noise
        made[name] = {
            "seconds": median(own for _, own in times),
            "speed": speeds[1],
            "low": speeds[0],
            "high": speeds[2],
        }
    return made


def torch_times(
    models: Mapping[str, Any], options: argparse.Namespace, place: torch.device
) -> Iterator[dict[str, Any]]:
    import torch

    from deadhead.device import computing
    from deadhead.heads.verify.bench import inputs

    cuda = place.type == "cuda"
    dtype, kinds = (
        (torch.bfloat16, ("bf16", f"bf16 {GRAPH}")) if cuda else (torch.float32, ("fp32",))
    )
    ready = {name: copy.deepcopy(model).to(place, dtype) for name, model in models.items()}
    for kind in kinds:
        for batch, length in shapes(place.type):
            fed = {k: v.to(place) for k, v in inputs(ready[WHOLE], batch, length).items()}
            with torch.no_grad(), computing(ready[WHOLE]):
                runs = {
                    name: captured(model, fed) if kind.endswith(GRAPH) else partial(model, **fed)
                    for name, model in ready.items()
                }
                found = race(runs, options.rounds, clock_of(options, place), turn=TURN[place.type])
            for name, numbers in found.items():
                yield {
                    "where": f"torch {place.type} {kind}",
                    "pruning": name,
                    "batch": batch,
                    "length": length,
                    **numbers,
                }


def captured(model: Any, fed: Mapping[str, Any]) -> Run:
    """A pass as one CUDA graph, so that what is timed is the GPU and not the host that feeds it.

    While a graph is captured, transformers 5.17 makes a mask although nothing is masked, and attention with a mask runs in
    another kernel than without: graphs are to be compared with graphs.
    """
    import torch

    whole = {
        name: one for name, one in fed.items() if name != "attention_mask"
    }  # all ones; looking whether it is would wait for the GPU
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
    """Times in onnxruntime on the CPU, as exported and with weights in int8; the sizes of the files go into `sizes`."""
    import logging

    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    from deadhead import export, load
    from deadhead.heads.verify.bench import inputs

    logging.getLogger().setLevel(
        logging.ERROR
    )  # onnxruntime recommends a pass before quantising at every file
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads, settings.log_severity_level = (
        options.threads,
        1,
        3,
    )
    sessions: dict[tuple[str, str], Any] = {}
    for name, folder in folders.items():
        files = {"fp32": export(folder, onnx=folder / "model.onnx")}
        if name in QUANTISED:
            files["int8"] = folder / "int8.onnx"
            quantize_dynamic(files["fp32"], files["int8"], weight_type=QuantType.QInt8)
        sizes[name] |= {
            f"onnx {precision} bytes": file.stat().st_size for precision, file in files.items()
        }
        for precision, file in files.items():
            sessions[precision, name] = onnxruntime.InferenceSession(
                str(file), settings, providers=["CPUExecutionProvider"]
            )
        progress(f"exported {name}")
    clock = time.process_time if options.threads == 1 else time.perf_counter
    whole = load(folders[WHOLE])
    for batch, length in shapes("cpu"):
        fed = {k: v.numpy() for k, v in inputs(whole, batch, length).items()}
        runs = {
            f"{precision} {name}": partial(session.run, None, fed)
            for (precision, name), session in sessions.items()
        }
        for key, numbers in race(runs, options.rounds, clock, f"fp32 {WHOLE}").items():
            precision, _, name = key.partition(" ")
            yield {
                "where": f"onnxruntime cpu {precision}",
                "pruning": name,
                "batch": batch,
                "length": length,
                **numbers,
            }


def shapes(device: str) -> list[tuple[int, int]]:
    return [(batch, length) for batch in BATCHES[device] for length in LENGTHS]


def measure(options: argparse.Namespace) -> Document:
    import torch

    from deadhead import discover, prune, save
    from deadhead.device import device_named

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
            notes.append(
                "what an empty layer should cost is not measured: only a BERT's attention is taken out by hand"
            )
        runs = [torch_times(models, options, place)]
        missing = [
            name for name in ("onnx", "onnxscript", "onnxruntime") if find_spec(name) is None
        ]
        if place.type != "cpu":
            notes.append("onnxruntime is measured on the CPU alone: run this with --device cpu")
        elif missing:
            notes.append(
                f"onnxruntime is not measured: {', '.join(missing)} not installed; pip install 'deadhead[onnx]'"
            )
        else:
            runs.append(onnx_times(folders, sizes, options))
        for row in itertools.chain(*runs):
            rows.append(row)
            progress(
                f"{row['where']} {row['batch']} x {row['length']}, {row['pruning']}: {row['speed']:.2f}"
            )
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
    cpu = next(
        (line.split(":")[1].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )
    name = (
        torch.cuda.get_device_name(place)
        if place.type == "cuda"
        else f"{cpu}, {options.threads} thread(s) of {os.cpu_count()} cores"
    )
    more = ""
    if place.type == "cpu" and find_spec("onnxruntime"):
        import onnxruntime

        more = f", onnxruntime {onnxruntime.__version__}"
    return f"{name}; Python {platform.python_version()}, torch {torch.__version__}, transformers {transformers.__version__}{more}"


def progress(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, nargs="?", help="the folder of the model to cut")
    parser.add_argument(
        "--prunings",
        nargs="+",
        default=PRUNINGS,
        help='such as "random 50" and "layers top 3"; no ranking is read',
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write what was measured there")
    parser.add_argument(
        "--from",
        dest="measured",
        type=Path,
        nargs="+",
        help="show what --json wrote, instead of measuring",
    )
    parser.add_argument("--study", type=Path, help="a study whose scores stand beside")
    parser.add_argument("--figure", type=Path, help="draw it: .svg or .png")
    parser.add_argument(
        "--page", type=Path, help="write the tables into this page, between its marks"
    )
    options = parser.parse_args()
    if (options.model is None) == (options.measured is None):
        parser.error("name either the folder of a model, to measure, or --from FILES, to show")
    if options.rounds < 2 or options.threads < 1:
        parser.error("--rounds must be at least 2, for a median, and --threads at least 1")
    try:
        if options.measured:
            documents = [
                checked(json.loads(file.read_text(encoding="utf-8")), file)
                for file in options.measured
            ]
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
