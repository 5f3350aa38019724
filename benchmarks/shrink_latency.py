"""How much faster models of shrink_curves.py are than the whole one, as ratios of one run.

    python benchmarks/shrink_latency.py ROWS.jsonl.xz --model MODEL [--task pos] [--seed 0]
                                        [--device cuda] [--dtype bfloat16] [--json FILE]
    python benchmarks/shrink_latency.py --from RESULTS.json [RESULTS.json ...] --page TABLE.csv

Heads are those that `shrink` removed by default in that task and seed, read from the rows; of
neurons, which the rows do not name, each layer loses the same share. Weights do not matter for
times, so nothing is trained or refitted, and the encoder is timed without a task layer. Every round
times each model right after the whole one, and its speed-up is the median of these ratios, with
the range in which half of them lie.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any

import torch
from machine import now, write_rows
from page import markdown, measure_or_write, run
from shrink_curves_plan import SHARES
from shrink_curves_rows import read, with_auto

from deadhead import discover, load, prune
from deadhead.errors import unknown_name

INPUTS = ((32, 128), (1, 32))  # examples, tokens
TURN = 0.05  # seconds: shorter passes are repeated


def removed_heads(rows: list[dict[str, Any]], task: str, seed: int) -> dict[int, list[str]]:
    """By share: the heads that the default of `shrink` removed."""
    places = {(row["task"], row["seed"]) for row in rows}
    if (task, seed) not in places:
        known = [f"{name} {number}" for name, number in sorted(places)]
        raise unknown_name("task and seed", f"{task} {seed}", known)
    removed = {}
    for row in with_auto(rows):
        key = row["task"], row["seed"], row["units"], row["choice"], row["treatment"]
        if key == (task, seed, "heads", "auto", "refit"):
            kept = [int(bits, 16) for bits in row["heads"].split()]
            removed[row["share"]] = [
                f"encoder.{layer}.{head}"
                for layer, bits in enumerate(kept)
                for head in range(12)
                if not bits >> head & 1
            ]
    return removed


def neurons_of(model: Any, share: int) -> dict[tuple[str, int], range]:
    """The same share of the neurons of every layer."""
    layers = discover(model, neurons=True).feed_forwards
    return {(one.block, one.layer): range(round(one.size * share / 100)) for one in layers}


def smaller_models(whole: Any, heads: dict[int, list[str]]) -> dict[tuple[str, int], Any]:
    """A copy of the model for each unit and share."""
    models = {}
    for share in SHARES:
        neurons = neurons_of(whole, share)
        parts = {"heads": (heads.get(share), {}), "neurons": ([], neurons)}
        parts["both"] = (heads.get(share), neurons)
        for units, (some, others) in parts.items():
            if some is not None:  # not every share was measured in every task and seed
                models[units, share] = prune(copy.deepcopy(whole), some, neurons=others)
    return models


def timed(model: Any, inputs: dict[str, torch.Tensor], repeats: int, device: str) -> float:
    begin = now(device)
    for _ in range(repeats):
        model(**inputs)
    return now(device) - begin


@torch.no_grad()
def speedups(
    whole: Any, models: dict[tuple[str, int], Any], inputs: dict[str, torch.Tensor], rounds: int
) -> dict[tuple[str, int], list[float]]:
    """Of each round: the seconds of the whole model over those of each smaller one."""
    device = inputs["input_ids"].device.type
    for model in (whole, *models.values()):
        timed(model, inputs, 2, device)  # the first passes set up kernels
    repeats = max(1, round(TURN / (timed(whole, inputs, 3, device) / 3)))
    ratios: dict[tuple[str, int], list[float]] = {name: [] for name in models}
    for _ in range(rounds):
        for name, model in models.items():
            before = timed(whole, inputs, repeats, device)
            ratios[name].append(before / timed(model, inputs, repeats, device))
    return ratios


def rows_of(
    on: str, ratios: dict[tuple[str, int], list[float]], facts: dict[str, Any]
) -> list[dict[str, Any]]:
    """A row for each model: the median of its ratios, and the range in which half of them lie."""
    rows = []
    for (units, share), own in ratios.items():
        low, middle, high = quantiles(own, n=4)
        row = {"on": on, "units": units, "share": share, "speedup": round(middle, 3)}
        row["rounds"] = len(own)
        rows.append({**row, "half": [round(low, 3), round(high, 3)], **facts})
        print(*rows[-1].values(), flush=True)
    return rows


def measure(options: argparse.Namespace) -> None:
    heads = removed_heads(read(options.rows), options.task, options.seed)
    whole = load(options.model).base_model.to(options.device, getattr(torch, options.dtype)).eval()
    models = smaller_models(whole, heads)
    results: list[dict[str, Any]] = []
    for examples, tokens in INPUTS:
        ids = torch.randint(5, 1000, (examples, tokens), generator=torch.Generator().manual_seed(1))
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        inputs = {name: value.to(options.device) for name, value in inputs.items()}
        ratios = speedups(whole, models, inputs, options.rounds)
        facts = {"task": options.task, "seed": options.seed, "dtype": options.dtype}
        results += rows_of(f"{examples} x {tokens}", ratios, facts)
        write_rows(options.json, options.device, results)


def table(files: Sequence[Path]) -> str:
    """A row for each machine, input and unit, a column for each share: how much faster."""
    lines: dict[tuple[str, ...], dict[int, str]] = {}
    for file in files:
        result = json.loads(file.read_text(encoding="utf-8"))
        machine = result["machine"].partition(";")[0]
        for row in result["rows"]:
            place = (f"{machine}, {row['dtype']}", row["on"], row["units"])
            low, high = row["half"]
            cell = f"{row['speedup']:.2f} ({low:.2f}-{high:.2f})"
            lines.setdefault(place, {})[row["share"]] = cell
    titles = ["machine", "inputs", "removed", *(f"{share} %" for share in SHARES)]
    rows = [[*place, *(cells.get(share, "") for share in SHARES)] for place, cells in lines.items()]
    return markdown(titles, rows)


def add_options(parser: argparse.ArgumentParser) -> None:
    """What every benchmark of speeds takes."""
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--rounds", type=int, default=15)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", type=Path, help="of shrink_curves.py")
    parser.add_argument("--model")
    parser.add_argument("--task", default="pos")
    parser.add_argument("--seed", type=int, default=0)
    add_options(parser)
    measure_or_write(parser, "shrink_latency.py", measure, table)


if __name__ == "__main__":
    run(main)
