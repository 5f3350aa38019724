"""What it costs to keep the same number of heads and of neurons in every layer.

    python benchmarks/even.py --model FOLDER --task pos --lang en --data DIR --json FILE
    python benchmarks/even.py --model FOLDER --task similarity --data FILE --text FILE --json FILE
    python benchmarks/even.py --from FILE [FILE ...] --page PAGE

Each target is reached twice by `shrink`, with a free choice and with an even one, on the same
calibration data; both are scored on the test set of the task. Rows of FILE are not measured again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from machine import read_rows, write_rows
from page import markdown, measure_or_write, run

from deadhead.saved.shrink import ShrinkData, shrink_saved
from deadhead.tasks import load_data
from deadhead.tasks.bootstrap import Interval, difference
from deadhead.tasks.task import TEXT
from deadhead.training.evaluation import predict
from deadhead.training.models import encode_for, load_with_tokenizer

TARGETS: dict[str, dict[str, Any]] = {
    "20 % of the neurons": {"neurons": 0.2},
    "half of the neurons": {"neurons": 0.5},
    "half of the MACs": {"macs": 0.5},
}
PERCENT = ("accuracy", "micro_f1", "spearman")  # metrics that are printed in points


def score(folder: str | Path, options: argparse.Namespace) -> Interval:
    device = torch.device(options.device)
    model, tokenizer = load_with_tokenizer(str(folder), device, auto=None, dtype="float32")
    data = load_data(options.task, options.lang or None, "test", root=options.data)
    encoded = encode_for(model, tokenizer, data, options.max_length)
    return predict(model.eval(), encoded, tokenizer=tokenizer).bootstrap(data)


def measure(options: argparse.Namespace) -> None:
    torch.manual_seed(0)
    rows = read_rows(options.json) if options.json.exists() else []
    known = {(row["target"], row["guard"]) for row in rows}
    data = ShrinkData(
        task=None if options.text else options.task, languages=options.lang or [TEXT],
        text=options.text,
        examples=options.examples, scored=20, max_length=options.max_length,
        where={"root": options.data, "source": None}, guard=options.guard,
    )  # fmt: skip
    metric = load_data(options.task, options.lang or None, "test", root=options.data).task.metric
    whole = None
    for target in options.targets or TARGETS:
        if (target, options.guard) in known:
            continue
        whole = whole or score(options.model, options)
        scores, seconds = {"whole": whole}, []
        for name in ("free", "even"):
            with tempfile.TemporaryDirectory() as place:
                settings, begin = {**TARGETS[target], "even": name == "even"}, time.perf_counter()
                saved = shrink_saved(
                    options.model, Path(place) / "small", data, settings,
                    device=torch.device(options.device),
                )  # fmt: skip
                seconds.append(round(time.perf_counter() - begin))
                scores[name] = score(Path(place) / "small", options)
        row = {"model": Path(options.model).name, "target": target, "metric": metric}
        row |= {"guard": options.guard, "examples": options.examples}
        row |= {"seconds": seconds, "notes": saved.report.notes}
        row |= {name: own.value for name, own in scores.items()}
        row["cost"] = difference(scores["free"], scores["even"]).to_dict()
        rows.append(row)
        print(row, flush=True)
        write_rows(options.json, options.device, rows)


def table(files: Sequence[Path]) -> str:
    lines = []
    for file in files:
        for row in read_rows(file):
            factor, digits = (100, 2) if row["metric"] in PERCENT else (1, 1)
            values = [f"{factor * row[name]:.{digits}f}" for name in ("whole", "free", "even")]
            low, high = (factor * row["cost"][name] for name in ("low", "high"))
            ends = f"{low:+.{digits}f} to {high:+.{digits}f}"
            guard = "with" if row["guard"] else "without"
            lines.append([f"{row['model']}, {row['metric']}", row["target"], guard, *values, ends])
    titles = [
        "model, score",
        "removed",
        "guard",
        "whole",
        "free",
        "even",
        "even against free, 95 %",
    ]
    return markdown(titles, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--task", default="pos")
    parser.add_argument("--lang", nargs="*", default=[])
    parser.add_argument("--data", help="of the task, also for its test set")
    parser.add_argument("--text", nargs="*", type=Path, default=(), help="calibrate on these")
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--max-length", type=int)
    parser.add_argument("--targets", nargs="*")
    parser.add_argument("--no-guard", dest="guard", action="store_false", help="as for shrink")
    parser.add_argument("--device", default="cpu")
    measure_or_write(parser, "even.py", measure, table)


if __name__ == "__main__":
    run(main)
