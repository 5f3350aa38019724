"""Sentence encoders without training: what is removed, what it costs in quality, what it saves.

    python benchmarks/sentence_encoders.py quality MODEL [MODEL ...] --text FILE [FILE ...]
                                           --similarity FILE [FILE ...] --retrieval FOLDER
                                           [--draws 0 1 2 3 4] [--device cuda]
                                           [--only SETTING ...] [--tf32] --json FILE
    python benchmarks/sentence_encoders.py speed MODEL ROWS.json --json FILE [--rounds 15]
                                           [--beside MODEL ...] [--graphs FOLDER]

`quality` shrinks each model with the settings below, once for each draw of calibration texts, and
scores the saved folders with deadhead's tasks: Spearman on each file of pairs, nDCG@10 on the
folder of retrieval. Rows of a file that is there already are kept and not run again; several
processes may add to one file. A setting that ends in "int8" is scored by ONNX Runtime on the CPU.

`speed` times what `quality` left of a model, in PyTorch and in ONNX Runtime with float32 and int8
weights, on two shapes of input. All settings take turns; a speed-up is the median over rounds of
the time of the whole model in PyTorch over the time of the other in the same round. Graphs stay in
the folder `--graphs`, so that a second run only times.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from machine import alone, loaded_cores, read_rows, rows_so_far, torch_machine

from deadhead import load, prune
from deadhead.heads import discover
from deadhead.heads.depth import remove_layers
from deadhead.layout import Head
from deadhead.saved.bench import inputs
from deadhead.saved.shrink import ShrinkData, shrink_saved

SETTINGS: dict[str, dict[str, Any]] = {
    "75 % of the MACs": {"macs": 0.75},
    "50 % of the MACs": {"macs": 0.5},
    "40 % of the MACs": {"macs": 0.4},
    "half of the heads": {"heads": 0.5},
    "a quarter of the heads": {"heads": 0.75},
    "half of the neurons": {"neurons": 0.5},
    "50 % of the MACs, random units": {"macs": 0.5, "method": "random"},
    "half of the heads, random": {"heads": 0.5, "method": "random"},
    "50 % of the MACs, loss self": {"macs": 0.5, "loss": "self"},
    "50 % of the MACs, int8": {"macs": 0.5},
}
ONCE = ("whole", "whole, int8", "first half of the layers")  # nothing is drawn
SHAPES = ((1, 32), (32, 128))
PAUSE = 0.05  # seconds before each timed call, until the threads of the last one sleep
TURN = 0.2  # seconds of each turn of a short call
RUNTIMES = ("PyTorch", "ONNX Runtime", "ONNX Runtime int8")


def scores(
    folder: str | Path, sets: dict[str, tuple[str, Path]], device: str, *, int8: bool = False
) -> dict[str, float]:
    """The main metric of each set, in points."""
    from deadhead.tasks import load_data
    from deadhead.training.evaluation import evaluate
    from deadhead.training.models import encode_for, load_with_tokenizer

    place = torch.device("cpu" if int8 else device)
    model, tokenizer = load_with_tokenizer(str(folder), place, auto=None, dtype=None)
    if int8:
        model.forward = _int8(Path(folder))
    results = {}
    for name, (task, place) in sets.items():
        data = load_data(task, split="test", root=place)
        encoded = encode_for(model, tokenizer, data)
        result = evaluate(model, {name: encoded}, tokenizer=tokenizer, progress=False)
        results[name] = round(100 * float(result[name][data.task.metric]), 3)
    return results


def _int8(folder: Path) -> Callable[..., Any]:
    """What ONNX Runtime answers for the folder with int8 weights, in place of `forward`."""
    import onnxruntime
    from transformers.modeling_outputs import BaseModelOutput

    from deadhead.exports.onnx.export import exported

    with tempfile.TemporaryDirectory() as place:
        exported(folder, onnx=Path(place) / "model.onnx", int8=True)
        session = onnxruntime.InferenceSession((Path(place) / "model.onnx").read_bytes())

    def forward(input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: Any) -> Any:
        zeros = torch.zeros_like(input_ids)  # types of tokens
        feed = {"input_ids": input_ids, "attention_mask": attention_mask}
        arrays = {i.name: feed.get(i.name, zeros).numpy() for i in session.get_inputs()}
        (states,) = session.run(["last_hidden_state"], arrays)
        return BaseModelOutput(last_hidden_state=torch.from_numpy(states))

    return forward


def plan(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for model in options.models:
        for setting in options.only or [*ONCE, *SETTINGS]:
            for draw in [0] if setting in ONCE else options.draws:
                row = {"model": Path(model).name, "setting": setting, "draw": draw}
                if setting in SETTINGS:
                    texts = " ".join(file.stem for file in options.text)
                    row |= {"texts": texts, "guard": not options.no_guard}
                row |= {"tf32": True} if options.tf32 else {}
                yield {**row, "folder": model}


def quality(options: argparse.Namespace) -> None:
    from deadhead import save
    from deadhead.training.models import load_with_tokenizer

    if options.tf32:
        torch.set_float32_matmul_precision("high")
    sets = {file.name.split(".")[0]: ("similarity", file) for file in options.similarity}
    if options.retrieval is not None:
        sets[options.retrieval.name] = ("retrieval", options.retrieval)
    for row in plan(options):
        folder: str | Path = row.pop("folder")
        if any(row.items() <= other.items() for other in rows_so_far(options.json)):
            continue
        with tempfile.TemporaryDirectory() as place:
            out = Path(place) / "small"
            if row["setting"] in SETTINGS:
                row |= _shrunk(str(folder), out, options, row)
                folder = out
            elif row["setting"] == "first half of the layers":
                model, tokenizer = load_with_tokenizer(str(folder), None, auto=None, dtype=None)
                save(half_as_deep(model), out, tokenizer)
                folder = out
            int8 = row["setting"].endswith("int8")
            row["scores"] = scores(folder, sets, options.device, int8=int8)
        print(json.dumps({**row, "left": None}), flush=True)
        with alone(options.json):
            _write(options.json, torch_machine(options.device), [*rows_so_far(options.json), row])


def _shrunk(
    folder: str, out: Path, options: argparse.Namespace, row: dict[str, Any]
) -> dict[str, Any]:
    from deadhead.shrinking.held_out import examples_on

    device = torch.device(options.device)
    data = ShrinkData(
        task=None, text=options.text, examples=examples_on(device), seed=row["draw"],
        guard=not options.no_guard,
    )  # fmt: skip
    settings = {"seed": row["draw"], **SETTINGS[row["setting"]]}
    begin = time.perf_counter()
    saved = shrink_saved(folder, out, data, settings, device=device)
    layout = discover(load(out), neurons=True)
    return {
        "seconds": round(time.perf_counter() - begin, 1),
        "stages": {name: round(value, 1) for name, value in saved.report.seconds.items()},
        "embeddings": str(saved.report.embeddings),
        "warning": saved.report.warning,
        "sizes": saved.report.sizes,
        "left": {_name(key): len(kept) for key, kept in layout.kept.items()},
    }


def _name(key: tuple[str, str, int]) -> str:
    return "{} {} {}".format(*key)


def smaller(folder: str, left: dict[str, int]) -> Any:
    """Make the model with these sizes of layers; times do not depend on which units remain."""
    model = load(folder).eval()
    heads: list[Head] = []
    neurons: dict[tuple[str, int], tuple[int, ...]] = {}
    for key, units in discover(model, neurons=True).kept.items():
        removed = units[left.get(_name(key), 0) :]
        if key[0] == "heads":
            heads += [Head(*key[1:], unit) for unit in removed]
        else:
            neurons[key[1:]] = removed
    return prune(model, heads, neurons=neurons)


def half_as_deep(model: Any) -> Any:
    """The model with the first half of its layers."""
    depth = discover(model).layers("encoder")
    return remove_layers(model, [f"encoder.{n}" for n in range(depth // 2, depth)])


def speed(options: argparse.Namespace) -> None:
    """A row for each setting, runtime and shape."""
    rows: list[dict[str, Any]] = []
    name = Path(options.model).name
    settings = {
        row["setting"]: row["left"]
        for row in read_rows(options.rows)
        if row["model"] == name
        and row["draw"] == 0
        and row.get("left")
        and "," not in row["setting"]
    }
    models = {"whole": load(options.model).eval()}
    models |= {setting: smaller(options.model, left) for setting, left in settings.items()}
    models["first half of the layers"] = half_as_deep(load(options.model).eval())
    for other in options.beside:
        models[Path(other).name] = load(other).eval()
    with tempfile.TemporaryDirectory() as place:
        graphs = options.graphs or Path(place)
        small = min(models.values(), key=lambda model: model.config.vocab_size)
        for (batch, length), runtime in product(SHAPES, RUNTIMES):
            feed = inputs(small, batch, length)  # tokens that every model knows
            calls = [partial(_run, models["whole"], feed)]
            calls += [_call(model, runtime, feed, graphs / key) for key, model in models.items()]
            first, *others = in_turns(calls, options.rounds)
            for setting, times in zip(models, others, strict=True):
                ratios = [whole / other for whole, other in zip(first, times, strict=True)]
                low, _, high = quantiles(ratios, n=4)
                rows.append(
                    {
                        "model": name, "setting": setting, "runtime": runtime,
                        "shape": f"{batch}x{length}", "speedup": round(median(ratios), 3),
                        "half": [round(low, 3), round(high, 3)],
                        "milliseconds": round(1e3 * median(times), 2),
                    }
                )  # fmt: skip
                print(*rows[-1].values(), flush=True)
            _write(options.json, loaded_cores(), rows)


def in_turns(calls: list[Callable[[], Any]], rounds: int) -> list[list[float]]:
    """The seconds that each call takes in each round, behind a round that does not count.

    In a turn, short calls are repeated until the time is up, behind one that does not count.
    """
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(1 + rounds):
        for call, seconds in zip(calls, times, strict=True):
            time.sleep(PAUSE)
            number, start = 0, time.perf_counter()
            call()
            if (elapsed := time.perf_counter() - start) > TURN:
                seconds.append(elapsed)
                continue
            start = time.perf_counter()
            while (elapsed := time.perf_counter() - start) < TURN:
                call()
                number += 1
            seconds.append(elapsed / number)
    return [seconds[1:] for seconds in times]


def _call(
    model: Any, runtime: str, feed: dict[str, torch.Tensor], graphs: Path
) -> Callable[[], Any]:
    """A run of the model; its graph is exported unless it is there."""
    if runtime == "PyTorch":
        return partial(_run, model, feed)
    import onnxruntime

    from deadhead import save
    from deadhead.exports.onnx.export import exported

    file = graphs / f"{runtime}.onnx"
    if not file.exists():
        save(model, graphs / "model", None)
        exported(graphs / "model", onnx=file, int8="int8" in runtime)
    threads = onnxruntime.SessionOptions()
    threads.intra_op_num_threads = torch.get_num_threads()
    # else its threads wait actively after a run: a whole MiniLM in PyTorch took three times as long
    threads.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(str(file), threads)
    zeros = torch.zeros_like(feed["input_ids"])  # types of tokens
    arrays = {i.name: feed.get(i.name, zeros).numpy() for i in session.get_inputs()}
    return partial(session.run, None, arrays)


def _run(model: Any, feed: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        model(**feed)


def _write(file: Path | None, machine: str, rows: list[dict[str, Any]]) -> None:
    if file is not None:
        file.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    commands = parser.add_subparsers(required=True)
    first = commands.add_parser("quality")
    first.add_argument("models", nargs="+")
    first.add_argument("--text", type=Path, nargs="+", required=True)
    first.add_argument("--similarity", type=Path, nargs="+", default=[])
    first.add_argument("--retrieval", type=Path)
    first.add_argument("--draws", type=int, nargs="+", default=[*range(5)])
    first.add_argument("--device", default="cpu")
    first.add_argument("--only", nargs="+", default=[])
    first.add_argument("--no-guard", action="store_true")
    first.add_argument("--tf32", action="store_true", help="as in shrink_curves.py")
    first.add_argument("--json", type=Path)
    first.set_defaults(run=quality)
    second = commands.add_parser("speed")
    second.add_argument("model")
    second.add_argument("rows", type=Path)
    second.add_argument("--beside", nargs="*", default=[])
    second.add_argument("--rounds", type=int, default=15)
    second.add_argument("--graphs", type=Path)
    second.add_argument("--json", type=Path)
    second.set_defaults(run=speed)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
