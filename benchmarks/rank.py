"""How fast are head scores, and do they equal those of the slow way?

    python benchmarks/rank.py                  on the CPU: compared with a loop over single examples
    python benchmarks/rank.py --device cuda    on a GPU: examples per second, leave-one-out, bf16
    python benchmarks/rank.py --methods        on one CPU thread: every method, in forward passes

Prints a table with the goal of each line; --json FILE writes the numbers. Without --model FOLDER,
weights are random, with heads scaled differently, as in trained models, so that rankings differ.
The data is random, with lengths as printed. Needs only torch and transformers.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
)

from deadhead.heads.discover import find_sites
from deadhead.heads.gates import gated
from deadhead.rankers import rank
from deadhead.rankers.loss import example_losses

WORDS = {None: "", True: "yes", False: "NO"}  # is the goal reached?
SHAPES = ("6x12x384", "12x12x768")  # layers x heads x width
METHODS = ("entropy", "confidence", "gradient", "taylor", "lrp", "ablation", "l0", "shapley")
SHORTER = {"shapley": {"permutations": 10}}  # a tenth of the default
LONG = 20  # forward passes: a method that takes as many is timed once
Batch = dict[str, torch.Tensor]


def build(shape: str, device: str, dtype: torch.dtype, folder: str | None = None) -> Any:
    torch.manual_seed(0)
    if folder:
        model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=3)
    else:
        layers, heads, width = map(int, shape.split("x"))
        config = BertConfig(
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            num_labels=3,
        )
        model = BertForSequenceClassification(config)
        scale = torch.Generator().manual_seed(1)
        for site in find_sites(model):
            factors = torch.exp(
                torch.empty(site.size).uniform_(-1.5, 1.5, generator=scale)
            ).repeat_interleave(site.width)
            site.out.weight.data *= factors  # type: ignore[union-attr, operator]
    return model.to(device=device, dtype=dtype).eval()


def sentences(lengths: np.ndarray, seed: int = 0) -> list[tuple[torch.Tensor, int]]:
    """Random token numbers of these lengths, each with a label."""
    draw = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randint(1000, 30000, (int(n),), generator=draw),
            int(torch.randint(0, 3, (1,), generator=draw)),
        )
        for n in lengths
    ]


def mnli_like(count: int) -> np.ndarray:
    """Lengths with the mean of MNLI's, 39 word pieces, and its long tail."""
    lengths = np.random.default_rng(0).gamma(3.2, 39 / 3.2, count).round().clip(8, 128)
    return np.asarray(lengths, dtype=int)


def packed(
    rows: list[tuple[torch.Tensor, int]],
    *,
    tokens: int | None = None,
    size: int = 32,
    exact: bool = False,
) -> list[Batch]:
    """Batches of similar length, by rows or tokens; `exact`: only equal lengths share a batch."""
    rows, groups = sorted(rows, key=lambda row: len(row[0])), list[list[tuple[torch.Tensor, int]]]()
    for row in rows:
        last = groups[-1] if groups else []
        full = len(last) >= size if tokens is None else (len(last) + 1) * len(row[0]) > tokens
        if not last or full or (exact and len(last[-1][0]) != len(row[0])):
            groups.append([row])
        else:
            last.append(row)
    return [pad(group) for group in groups]


def pad(group: list[tuple[torch.Tensor, int]]) -> Batch:
    ids = torch.nn.utils.rnn.pad_sequence([row for row, _ in group], batch_first=True)
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "labels": torch.tensor([label for _, label in group]),
    }


def one_by_one(model: Any, rows: list[tuple[torch.Tensor, int]]) -> np.ndarray:
    """The usual script: batches of one example, gates, and gradients of all weights."""
    sites = find_sites(model)
    total = torch.zeros(len(sites), sites[0].size, device=model.device)
    for row in rows:
        gates = torch.ones_like(total, requires_grad=True)
        batch = {name: value.to(model.device) for name, value in pad([row]).items()}
        with gated(model, gates):
            model(**batch).loss.backward()
        total += gates.grad.abs()  # type: ignore[union-attr]
        model.zero_grad()
    return (total / sum(len(row) for row, _ in rows)).double().cpu().numpy()


def plain_pass(model: Any, batches: list[Batch]) -> float:
    """A forward pass, and a backward pass to the embeddings, with frozen weights and no gates."""
    total = torch.zeros((), device=model.device)
    model.requires_grad_(False)
    start: list[torch.Tensor] = []
    hook = model.bert.embeddings.register_forward_hook(
        lambda m, a, out: start.append(out.requires_grad_()) or out
    )
    try:
        for batch in batches:
            start.clear()
            losses = example_losses(model, batch)
            (gradient,) = torch.autograd.grad(losses.sum(), start)
            total += gradient.abs().max()
    finally:
        hook.remove()
        model.requires_grad_(True)
    return float(total)


def timed(run: Callable[[], Any], device: str) -> tuple[float, Any]:
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = run()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def rounds(
    runs: dict[str, Callable[[], Any]], device: str, repeats: int
) -> tuple[dict[str, float], dict[str, Any]]:
    """The fewest seconds of each, timed in turns so that a busy machine slows all; and results."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    answers: dict[str, Any] = {}
    for _ in range(repeats):
        for name, run in runs.items():
            seconds, answers[name] = timed(run, device)
            times[name].append(seconds)
    return {name: min(values) for name, values in times.items()}, answers


Line = tuple[str, float, str, bool | None]  # what, how much, the goal, reached


def on_cpu(shape: str, count: int, repeats: int) -> Iterator[Line]:
    model = build(shape, "cpu", torch.float32)
    rows = sentences(np.random.default_rng(0).integers(12, 49, count))
    batches = packed(rows, size=16)
    rank(model, batches[:1], "gradient")
    runs = {
        "ours": lambda: rank(model, batches, "gradient").matrix(raw=True),
        "plain": lambda: plain_pass(model, batches),
        "loop": lambda: one_by_one(model, rows),
    }
    seconds, answers = rounds(runs, "cpu", repeats)
    goal = 2.2 if shape.startswith("6") else 1.5
    gap = float(np.abs(answers["ours"] - answers["loop"]).max() / answers["loop"].max())
    yield f"{shape}: ours, seconds", seconds["ours"], "", None
    yield f"{shape}: loop of single examples, seconds", seconds["loop"], "", None
    yield (
        f"{shape}: times faster than the loop",
        seconds["loop"] / seconds["ours"],
        f">= {goal}",
        seconds["loop"] / seconds["ours"] >= goal,
    )
    yield f"{shape}: largest difference from it, of the largest score", gap, "<= 1e-5", gap <= 1e-5
    ratio = seconds["ours"] / seconds["plain"]
    yield f"{shape}: times one forward and activation backward", ratio, "<= 1.15", ratio <= 1.15


def on_gpu(folder: str | None, count: int, repeats: int) -> Iterator[Line]:
    rows = sentences(mnli_like(count))
    yield "mean word pieces", float(np.mean([len(row) for row, _ in rows])), "39", None
    model = build("12x12x768", "cuda", torch.bfloat16, folder)
    ways = {f"{tokens} tokens": packed(rows, tokens=tokens) for tokens in (16384, 32768, 65536)}
    best = 0.0
    for name, batches in ways.items():
        rank(model, batches[:: max(1, len(batches) // 8)], "gradient")
        ours, base = partial(rank, model, batches, "gradient"), partial(plain_pass, model, batches)
        seconds, _ = rounds({"ours": ours, "plain": base}, "cuda", repeats)
        best = max(best, count / seconds["ours"])
        yield (
            f"bf16, {name} ({len(batches)} batches): examples/s",
            count / seconds["ours"],
            "",
            None,
        )
        yield (
            f"bf16, {name}: times one forward and activation backward",
            seconds["ours"] / seconds["plain"],
            "<= 1.15",
            None,
        )
    yield "bf16, best: examples/s", best, ">= 20000", best >= 20000
    few = rows[:: max(1, len(rows) // 200)][:200]
    yield (
        "loop of single examples: examples/s",
        len(few) / timed(lambda: one_by_one(model, few), "cuda")[0],
        "",
        None,
    )
    thousand = packed(rows[:1000], tokens=16384)
    seconds, _ = timed(lambda: rank(model, thousand, "ablation"), "cuda")
    yield "leave-one-out, 144 heads, 1000 examples: seconds", seconds, "< 60", seconds < 60
    some = packed(rows[:4000], tokens=32768)
    small = rank(model, some, "gradient")
    full = rank(build("12x12x768", "cuda", torch.float32, folder), some, "gradient")
    rho = small.spearman(full).rho
    yield "bf16 against float32: Spearman", rho, ">= 0.99", rho >= 0.99


@torch.no_grad()
def forward(model: Any, batches: list[Batch]) -> None:
    for batch in batches:
        model(**batch)


def clocked(run: Callable[[], Any]) -> float:
    """Seconds of this process, whatever else the machine does."""
    start = time.process_time()
    run()
    return time.process_time() - start


def in_passes(
    run: Callable[[], Any], single: Callable[[], Any], repeats: int
) -> tuple[float, float]:
    """What a run takes, in passes timed just before and after it, and in seconds: medians."""
    ratios, seconds = list[float](), list[float]()
    for _ in range(repeats):
        before, took, after = clocked(single), clocked(run), clocked(single)
        ratios.append(2 * took / (before + after))
        seconds.append(took)
        if ratios[-1] >= LONG:
            break
    return median(ratios), median(seconds)


def every_method(folder: str | None, shape: str, count: int, repeats: int) -> Iterator[Line]:
    torch.set_num_threads(1)
    model = build(shape, "cpu", torch.float32, folder)
    batches = packed(sentences(np.random.default_rng(0).integers(12, 49, count)), size=16)
    single = partial(forward, model, batches)
    single()
    yield (
        f"forward pass over {count} sentences: seconds",
        median(clocked(single) for _ in range(repeats)),
        "",
        None,
    )
    for method in METHODS:
        options = SHORTER.get(method, {})
        passes, seconds = in_passes(
            partial(rank, model, batches, method, **options), single, repeats
        )
        settings = "".join(f", {name} {value}" for name, value in options.items())
        yield f"{method}{settings}: forward passes", passes, "", None
        yield f"{method}{settings}: seconds", seconds, "", None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument(
        "--shape", action="append", help=f"layers x heads x width; {', '.join(SHAPES)}"
    )
    parser.add_argument(
        "--methods", action="store_true", help="on the CPU: what every method costs"
    )
    parser.add_argument(
        "--examples", type=int, help="256 on the CPU, 64 with --methods, 20000 on a GPU"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--model", help="on a GPU, or with --methods: a folder with a model of 12 x 12 heads"
    )
    parser.add_argument("--json", type=Path, help="write the numbers here")
    args = parser.parse_args()
    if args.device == "cuda":
        lines = on_gpu(args.model, args.examples or 20000, args.repeats)
    elif args.methods:
        (shape,) = args.shape or SHAPES[-1:]
        lines = every_method(args.model, shape, args.examples or 64, args.repeats)
    else:
        lines = (
            line
            for shape in args.shape or SHAPES
            for line in on_cpu(shape, args.examples or 256, args.repeats)
        )
    done = []
    for what, value, goal, reached in lines:
        done.append({"what": what, "value": value, "goal": goal, "reached": reached})
        print(f"{what:72} {value:12.5g}  {goal:9} {WORDS[reached]}", flush=True)
    facts = {
        "device": torch.cuda.get_device_name() if args.device == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    if args.json:
        args.json.write_text(json.dumps({**facts, "lines": done}, indent=1) + "\n")
    print(json.dumps({**facts, "lines": done}))


if __name__ == "__main__":
    main()
