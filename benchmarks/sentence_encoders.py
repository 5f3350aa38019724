"""Sentence encoders without training: what is removed, what it costs in quality, what it saves.

    python benchmarks/sentence_encoders.py quality MODEL [MODEL ...] --text FILE [FILE ...]
                                           --similarity FILE [FILE ...] --retrieval FOLDER
                                           [--draws 5] [--device cuda] --json FILE
    python benchmarks/sentence_encoders.py speed MODEL ROWS.json --json FILE [--rounds 15]

`quality` shrinks each model with the settings below, once for each draw of calibration texts, and
scores the saved folders with deadhead's tasks: Spearman on each file of pairs, nDCG@10 on the
folder of retrieval. Rows of a file that is there already are kept and not run again, so that
several processes may share the work: `--part 1/4`.

`speed` times what `quality` left of a model, in PyTorch and in ONNX Runtime with float32 and int8
weights, on two shapes of input. All take turns in one run; a speed-up is the median over rounds of
the time of the whole model in PyTorch, taken right before, over the time of the other.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from machine import loaded_cores, torch_machine

from deadhead import load, prune
from deadhead.heads import discover
from deadhead.heads.depth import remove_layers
from deadhead.layout import Head
from deadhead.saved.bench import inputs
from deadhead.saved.shrink import ShrinkData, shrink_saved
from deadhead.shrinking.latency import in_turns

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
}
SHAPES = ((1, 32), (32, 128))


def scores(folder: str | Path, sets: dict[str, tuple[str, Path]], device: str) -> dict[str, float]:
    """The main metric of each set, in points."""
    from deadhead.tasks import load_data
    from deadhead.training.evaluation import evaluate
    from deadhead.training.models import encode_for, load_with_tokenizer

    model, tokenizer = load_with_tokenizer(str(folder), torch.device(device), auto=None, dtype=None)
    found = {}
    for name, (task, place) in sets.items():
        data = load_data(task, split="test", root=place)
        encoded = encode_for(model, tokenizer, data)
        result = evaluate(model, {name: encoded}, tokenizer=tokenizer, progress=False)
        found[name] = round(100 * float(result[name][data.task.metric]), 3)
    return found


def plan(models: list[str], draws: int) -> Iterator[dict[str, Any]]:
    for model in models:
        yield {"model": Path(model).name, "folder": model, "setting": "whole", "draw": 0}
        for setting in SETTINGS:
            for draw in range(draws):
                yield {"model": Path(model).name, "folder": model, "setting": setting, "draw": draw}


def quality(options: argparse.Namespace) -> None:
    sets = {file.name.split(".")[0]: ("similarity", file) for file in options.similarity}
    if options.retrieval is not None:
        sets[options.retrieval.name] = ("retrieval", options.retrieval)
    part, parts = map(int, options.part.split("/"))
    done = _rows(options.json)
    keys = {(row["model"], row["setting"], row["draw"]) for row in done}
    for number, row in enumerate(plan(options.models, options.draws)):
        if number % parts != part - 1 or (row["model"], row["setting"], row["draw"]) in keys:
            continue
        folder: str | Path = row.pop("folder")
        with tempfile.TemporaryDirectory() as place:
            if row["setting"] != "whole":
                out = Path(place) / "small"
                row |= _shrunk(str(folder), out, options, row)
                folder = out
            row["scores"] = scores(folder, sets, options.device)
        done.append(row)
        print(json.dumps({**row, "left": None}), flush=True)
        _write(options.json, torch_machine(options.device), done)


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
        "embeddings": str(saved.report.embeddings),
        "warning": saved.report.warning,
        "sizes": saved.report.sizes,
        "left": {_name(key): len(kept) for key, kept in layout.kept.items()},
    }


def _name(key: tuple[str, str, int]) -> str:
    return "{} {} {}".format(*key)


def smaller(folder: str, left: dict[str, int]) -> Any:
    """The model with so many heads and neurons in each layer; times do not depend on which."""
    model = load(folder).eval()
    heads: list[Head] = []
    neurons: dict[tuple[str, int], tuple[int, ...]] = {}
    for key, units in discover(model, neurons=True).kept.items():
        gone = units[left.get(_name(key), 0) :]
        if key[0] == "heads":
            heads += [Head(*key[1:], unit) for unit in gone]
        else:
            neurons[key[1:]] = gone
    return prune(model, heads, neurons=neurons)


def speed(options: argparse.Namespace) -> None:
    """A row for each setting, runtime and shape."""
    rows: list[dict[str, Any]] = []
    name = Path(options.model).name
    settings = {
        row["setting"]: row["left"]
        for row in _rows(options.rows)
        if row["model"] == name
        and row["draw"] == 0
        and row.get("left")
        and "," not in row["setting"]
    }
    models = {"whole": load(options.model).eval()}
    models |= {setting: smaller(options.model, left) for setting, left in settings.items()}
    depth = discover(models["whole"]).layers("encoder")
    models["first half of the layers"] = remove_layers(
        load(options.model).eval(), [f"encoder.{n}" for n in range(depth // 2, depth)]
    )
    for other in options.beside:
        models[Path(other).name] = load(other).eval()
    with tempfile.TemporaryDirectory() as place:
        for batch, length in SHAPES:
            calls = dict(_calls(models, Path(place), batch, length))
            first = calls.pop(("whole", "PyTorch"))
            for key, call in calls.items():
                pairs = in_turns([first, call], torch.device("cpu"), options.rounds)
                ratios = [whole / other for whole, other in zip(*pairs, strict=True)]
                low, _, high = quantiles(ratios, n=4)
                rows.append(
                    {
                        "model": name, "setting": key[0], "runtime": key[1],
                        "shape": f"{batch}x{length}", "speedup": round(median(ratios), 3),
                        "half": [round(low, 3), round(high, 3)],
                        "milliseconds": round(1e3 * median(pairs[1]), 2),
                    }
                )  # fmt: skip
                print(*rows[-1].values(), flush=True)
                _write(options.json, loaded_cores(), rows)


def _calls(
    models: dict[str, Any], place: Path, batch: int, length: int
) -> Iterator[tuple[tuple[str, str], Callable[[], Any]]]:
    import onnxruntime

    from deadhead import save
    from deadhead.exports.onnx.export import exported

    for number, (setting, model) in enumerate(models.items()):
        feed = inputs(model, batch, length)
        yield (setting, "PyTorch"), partial(_run, model, feed)
        for runtime, int8 in (("ONNX Runtime", False), ("ONNX Runtime int8", True)):
            file = place / f"{number}-{int8}.onnx"
            if not file.exists():
                save(model, place / "model", None)
                exported(place / "model", onnx=file, int8=int8)
            threads = onnxruntime.SessionOptions()
            threads.intra_op_num_threads = torch.get_num_threads()
            session = onnxruntime.InferenceSession(str(file), threads)
            zeros = torch.zeros_like(feed["input_ids"])  # types of tokens
            arrays = {i.name: feed.get(i.name, zeros).numpy() for i in session.get_inputs()}
            yield (setting, runtime), partial(session.run, None, arrays)


def _run(model: Any, feed: dict[str, torch.Tensor]) -> None:
    with torch.no_grad():
        model(**feed)


def _rows(file: Path | None) -> list[dict[str, Any]]:
    if file is None or not file.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(file.read_text())["rows"]
    return rows


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
    first.add_argument("--draws", type=int, default=5)
    first.add_argument("--device", default="cpu")
    first.add_argument("--part", default="1/1")
    first.add_argument("--no-guard", action="store_true")
    first.add_argument("--json", type=Path)
    first.set_defaults(run=quality)
    second = commands.add_parser("speed")
    second.add_argument("model")
    second.add_argument("rows", type=Path)
    second.add_argument("--beside", nargs="*", default=[])
    second.add_argument("--rounds", type=int, default=15)
    second.add_argument("--json", type=Path)
    second.set_defaults(run=speed)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
