"""What shrinking without training costs an encoder: heads alone, and half of the MACs.

    python benchmarks/shrink_encoders.py --model MODEL --data DIR [--tasks pos,ner] [--seeds 0,1]
                                         [--device cuda] [--examples 4000] [--train 1500]
                                         [--whole-texts] [--only WORDS] [--json FILE]
    python benchmarks/shrink_encoders.py --table FILE [FILE ...]

For each task and seed, the model is fine-tuned once. Then copies of it are shrunk without any
training, by deadhead's own choice and by others: random sets under the same refit (the control),
Kwon et al. (their choice and their scales), FLAP (its choice and its bias), the cut without a refit
and, with --each-method, each method of choosing alone. Scores are those of the test set (SST-2: of
the dev set), in points; for POS also the mean of five other languages, beside a model that was cut
before training as in the papers. Calibration data are training examples; with --whole-texts only
those that are no part of another one: SST-2 learns phrases too, and is scored on sentences. Every
row has the seconds of the whole call of `shrink`; those of deadhead's own choice also how many
times as fast the model has become, both timed in turns.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from encoder_tasks import Task
from flap import Flap
from machine import now, read_rows, write_rows

from deadhead import discover, prune, rank, strategies
from deadhead.shrinking import CHOOSERS, Shrunk, shrink
from deadhead.shrinking.latency import time_models

OTHERS = ("de", "fr", "ru", "tr", "zh")  # for POS, without any training in them
ON = (32, 128)  # examples and tokens of the inputs that models are timed on
TOKENS = 8192  # in a batch on a GPU
WHOLE = "whole"  # the variant that is not shrunk
# name of a variant -> arguments of shrink
RIVALS: dict[str, dict[str, Any]] = {
    "deadhead": {},
    "deadhead, all refitted": {"repair": "refit-all"},
    "deadhead, cut only": {"repair": "none"},
    "random, same refit": {"method": "random"},
    "Kwon et al.": {"method": "kwon", "repair": "scales"},
    "FLAP": {"method": "flap", "repair": "mean"},
}
METHODS: dict[str, dict[str, Any]] = {
    "reconstruction": {"method": "reconstruction"},
    "fisher": {"method": "fisher"},
    "kwon, our refit": {"method": "kwon"},
    "flap, our refit": {"method": "flap"},
}
EPOCH_AFTER = ("half of the MACs: deadhead", "half of the MACs: deadhead, all refitted")
BUDGETS: dict[str, dict[str, Any]] = {
    "heads 75 %": {"heads": 0.75},
    "half of the MACs": {"macs": 0.5},
}


def score_of(task: Task, model: Any) -> dict[str, float]:
    """The score in English, and the mean of the other languages if there are any."""
    points = task.points(model)
    english = {"score": points.pop("en")}
    return english | ({"others": statistics.mean(points.values())} if points else {})


def rows_of(task: Task, seed: int, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The whole model, each variant, and what training before or after does."""
    name = f"{task.name}, whole texts" if task.whole_texts else task.name
    common, device = {"task": name, "seed": seed}, task.device
    whole = task.train_model(task.new_model(seed), seed)
    yield {**common, "variant": WHOLE, **score_of(task, whole)}
    data = task.calibration(seed, arguments.examples, TOKENS)
    if task.name == "pos" and not arguments.only:
        yield from _cut_and_retrained(task, seed, whole, data)
    for variant, options in _variants(arguments):
        model, start = copy.deepcopy(whole), now(device)
        report = shrink(model, data, **options, seed=seed, progress=False)
        seconds = now(device) - start
        row = {**common, "variant": variant, **score_of(task, model), "seconds": seconds}
        if variant.endswith(": deadhead"):
            before, after = time_models([whole, model], data[0], ON)
            row["faster"] = before / after
        yield {**row, **facts(report)}
        if variant in EPOCH_AFTER:
            start = now(device)
            task.train_one_epoch([model], seed)
            seconds = now(device) - start
            variant = f"{variant}, then one epoch"
            yield {**common, "variant": variant, **score_of(task, model), "seconds": seconds}


def _variants(arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """The names and the arguments of shrink."""
    for budget, amount in BUDGETS.items():
        for name, options in variants_of(arguments).items():
            variant = f"{budget}: {name}"
            if not arguments.only or arguments.only in variant:
                yield variant, {**amount, **options}


def variants_of(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    CHOOSERS["flap"] = Flap
    return {**RIVALS, **METHODS} if arguments.each_method else RIVALS


def _cut_and_retrained(
    task: Task, seed: int, whole: Any, data: list[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """As the papers do it: cut the pretrained model, then fine-tune it."""
    count = round(0.75 * len(discover(whole)))
    ranking = rank(whole, data, "gradient", progress=False)
    sets = {
        "random": strategies.choose("random", discover(whole), 75, seed=seed),
        "lowest by gradient": ranking.lowest(count),
    }
    for name, heads in sets.items():
        model = task.train_model(prune(task.new_model(seed), heads), seed)
        variant = f"heads 75 %: {name}, cut and retrained"
        yield {"task": task.name, "seed": seed, "variant": variant, **score_of(task, model)}


def facts(report: Shrunk) -> dict[str, Any]:
    """What a row keeps of a report: all but the names of the units."""
    candidates = Counter(layer.candidate for layer in report.layers)
    return {
        "method": dict(report.choice.method),
        "losses": dict(report.losses),
        "tried": dict(report.tried),
        "stages": dict(report.seconds),
        "sizes": {name: list(pair) for name, pair in report.sizes.items()},
        "candidates": dict(candidates),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Points lost against the whole model of the same run: mean and range over the seeds."""
    columns = [
        (task, value)
        for task in dict.fromkeys(r["task"] for r in rows)
        for value in ("score", "others")
        if any(value in r for r in rows if r["task"] == task)
    ]
    heads = [task if value == "score" else f"{task}, {value}" for task, value in columns]
    lines = ["| | " + " | ".join(heads) + " | seconds |", "|---" * (len(columns) + 2) + "|"]
    for variant in dict.fromkeys(r["variant"] for r in rows):
        cells = [_cell(rows, variant, task, value) for task, value in columns]
        seconds = [r["seconds"] for r in rows if r["variant"] == variant and "seconds" in r]
        cells.append(f"{statistics.median(seconds):.1f}" if seconds else "")
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(rows: list[dict[str, Any]], variant: str, task: str, value: str) -> str:
    wholes: dict[int, float] = {}  # seed -> score of the whole model that the next rows are from
    scores, changes = [], []
    for row in rows:
        if row["task"] != task or value not in row:
            continue
        if row["variant"] == WHOLE:
            wholes[row["seed"]] = row[value]
        if row["variant"] == variant:
            scores.append(row[value])
            changes.append(row[value] - wholes[row["seed"]])
    if not scores:
        return ""
    if variant == WHOLE:
        return f"{statistics.mean(scores):.2f}"
    spread = f"{min(changes):+.2f} to {max(changes):+.2f}"
    return f"{statistics.mean(changes):+.2f} ({spread}; {len(changes)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--data")
    parser.add_argument("--tasks", default="pos,ner,slots,sst2")
    parser.add_argument("--seeds", default="0,1,2,3,4", help="their numbers")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--examples", type=int, default=4000)
    parser.add_argument("--train", type=int, help="of the training examples, for a slow machine")
    parser.add_argument("--whole-texts", action="store_true", help="to calibrate with")
    parser.add_argument("--only", help="variants whose name contains this")
    parser.add_argument("--each-method", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", nargs="+", type=Path, help="print what earlier runs wrote")
    arguments = parser.parse_args()
    if arguments.table:
        print(table([r for f in arguments.table for r in read_rows(f)]))
        return
    start, rows = time.time(), list[dict[str, Any]]()
    for name in arguments.tasks.split(","):
        task = Task(
            name=name,
            model=arguments.model,
            data=arguments.data,
            device=arguments.device,
            train=arguments.train,
            whole_texts=arguments.whole_texts,
            others=OTHERS if name == "pos" else (),
        )
        for seed in map(int, arguments.seeds.split(",")):
            for row in rows_of(task, seed, arguments):
                rows.append(row)
                values = ("score", "others", "seconds", "faster")
                points = ", ".join(f"{k} {row[k]:.2f}" for k in values if k in row)
                print(f"[{time.time() - start:6.1f}] {name} {seed} {row['variant']}: {points}")
                write_rows(arguments.json, arguments.device, rows)
    print(table(rows))


if __name__ == "__main__":
    main()
