"""The cost of gates and the savings of pruned heads, as ratios measured in one run.

    python benchmarks/heads.py [--threads 1] [--rounds 8] [--json results.json]

Every round times each variant once, so that a busy machine slows all of them; the time of a
variant is its fastest round. "realised" is the share of time saved over the share of arithmetic
saved: 1.0 means that a tenth fewer FLOPs took a tenth less time. Torch-Pruning, where installed,
cuts the same heads for comparison.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from machine import torch_machine
from rich.console import Console
from rich.table import Table
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import BertConfig, BertForSequenceClassification

from deadhead import captured, discover, gated, head_means, prune, strategies

SHAPES = ("6x12x384", "12x12x768")  # layers x heads x width


def bert(layers: int, heads: int, width: int) -> Any:
    torch.manual_seed(0)
    config = BertConfig(
        num_hidden_layers=layers,
        num_attention_heads=heads,
        hidden_size=width,
        intermediate_size=4 * width,
        vocab_size=8000,
    )
    return BertForSequenceClassification(config)


def batch(size: int, length: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    return {
        "input_ids": torch.randint(5, 8000, (size, length)),
        "attention_mask": torch.ones(size, length, dtype=torch.long),
        "labels": torch.randint(0, 2, (size,)),
    }


def forward(model: Any, inputs: dict[str, torch.Tensor]) -> Callable[[], None]:
    model.eval()

    def run() -> None:
        with torch.no_grad():
            model(**inputs)

    return run


def step(model: Any, inputs: dict[str, torch.Tensor]) -> Callable[[], None]:
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def run() -> None:
        optimizer.zero_grad(set_to_none=True)
        model(**inputs).loss.backward()
        optimizer.step()

    return run


def race(runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The fastest round of each, all of them timed in turns."""
    best: dict[str, float] = {}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if turn:
                best[name] = min(best.get(name, 1e9), time.perf_counter() - start)
    return best


def flops(model: Any, inputs: dict[str, torch.Tensor], backward: bool) -> int:
    """Arithmetic of one pass, counted under eager attention, whose products the counter sees."""
    from torch.utils.flop_counter import FlopCounterMode

    counted = copy.deepcopy(model)
    counted.set_attn_implementation("eager")
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(backward):
        loss = counted(**inputs).loss
        if backward:
            loss.backward()
    return int(counter.get_total_flops())


def torch_pruned(model: Any, removed: list[tuple[int, int]]) -> Any | None:
    """The same heads cut by Torch-Pruning, head counts corrected by hand; None if it cannot."""
    try:
        import torch_pruning as tp
    except ImportError:
        return None
    width = model.config.hidden_size // model.config.num_attention_heads
    for layer in range(model.config.num_hidden_layers):
        heads = [h for n, h in removed if n == layer]
        if not heads:
            continue
        attention = model.bert.encoder.layer[layer].attention
        if len(heads) == model.config.num_attention_heads:
            return None  # it cannot empty a layer
        rows = [h * width + i for h in heads for i in range(width)]
        for linear in (attention.self.query, attention.self.key, attention.self.value):
            tp.prune_linear_out_channels(linear, rows)
        tp.prune_linear_in_channels(attention.output.dense, rows)
        attention.self.num_attention_heads -= len(heads)
        attention.self.all_head_size = attention.self.num_attention_heads * width
    return model


class Alive(TorchDispatchMode):
    """Counts the bytes of the tensors that come to life while it is on, and of those that die."""

    def __init__(self, before: list[torch.Tensor]):
        super().__init__()
        self.now = self.peak = 0
        for tensor in before:
            weakref.finalize(tensor, self.add, -tensor.numel() * tensor.element_size())

    def add(self, size: int) -> None:
        self.now += size
        self.peak = max(self.peak, self.now)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if (
            isinstance(out, torch.Tensor)
            and not any(out is a for a in args)
            and out._base is None
            and "detach" not in str(func)
        ):
            size = out.numel() * out.element_size()
            self.add(size)
            weakref.finalize(out, self.add, -size)
        return out


def peak_extra(model: Any, heads: Any) -> int:
    """Most bytes alive at once during pruning beyond those of the model as it was."""
    with Alive(list(model.parameters())) as alive:
        prune(model, heads)
    return alive.peak


def measure(shape: str, rounds: int) -> Iterator[dict[str, Any]]:
    # Longer than most functions: it is the list of what is measured.
    whole = bert(*map(int, shape.split("x")))
    layout, inputs, small = discover(whole), batch(32, 128), batch(8, 128)
    closed = sorted(strategies.random(layout, 50, seed=0))

    def masked(**options: Any) -> Callable[[], None]:
        def run() -> None:
            with gated(whole, closed=closed, **options):
                forward(whole, small)()

        return run

    means = head_means(whole, [small])
    with captured(whole) as clean:
        forward(whole, small)()
    runs = {
        "plain": forward(whole, small),
        "gated": masked(),
        "means": masked(fill=means),
        "resample": masked(fill="resample"),
        "captured run": masked(fill=clean),
        "positions": masked(positions=[1, -1]),
    }
    cost = race(runs, 3 * rounds)
    yield {
        "what": "gated forward / untouched, 8 x 128",
        "value": cost["gated"] / cost["plain"],
        "goal": "<= 1.03",
    }
    for name in ("means", "resample", "captured run", "positions"):
        yield {
            "what": f"gated with {name} / with zero, 8 x 128",
            "value": cost[name] / cost["gated"],
            "goal": "<= 1.05" if name == "means" else "",
        }
    spare = [copy.deepcopy(whole) for _ in range(4)]
    seconds = []
    for model in spare[1:]:
        start = time.perf_counter()
        prune(model, closed)
        seconds.append(time.perf_counter() - start)
    yield {
        "what": "pruning / one forward of 8 x 128",
        "value": min(seconds) / cost["plain"],
        "goal": "< 1",
    }
    layer = sum(p.numel() * p.element_size() for p in whole.bert.encoder.layer[0].parameters())
    yield {
        "what": "peak extra memory / one layer's weights",
        "value": peak_extra(spare[0], closed) / layer,
        "goal": "<= 1",
    }

    for percent in (50, 90):
        removed = sorted(strategies.random(layout, percent, seed=0))
        models = {"whole": whole, "deadhead": prune(copy.deepcopy(whole), removed)}
        other = torch_pruned(copy.deepcopy(whole), [(h.layer, h.index) for h in removed])
        if other is not None:
            models["Torch-Pruning"] = other
        for kind, make in (("forward", forward), ("training step", step)):
            work = {key: flops(model, inputs, make is step) for key, model in models.items()}
            took = race(
                {key: make(copy.deepcopy(model), inputs) for key, model in models.items()}, rounds
            )
            for key in list(models)[1:]:
                saved, ideal = 1 - took[key] / took["whole"], 1 - work[key] / work["whole"]
                times = {
                    "value": took["whole"] / took[key],
                    "ideal": work["whole"] / work[key],
                    "realised": saved / ideal,
                }
                yield {
                    "what": f"{kind}, {percent} % of heads cut by {key}",
                    **times,
                    "goal": "realised >= 0.9",
                }
            if other is None:
                yield {
                    "what": f"{kind}, {percent} % of heads cut by Torch-Pruning",
                    "note": "cannot: a layer loses all its heads",
                }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--shape", action="append", help=f"by default {' and '.join(SHAPES)}")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    for shape in options.shape or SHAPES:
        for row in measure(shape, options.rounds):
            rows.append({"shapes": shape, **row})
            print(shape, *row.values(), sep="  ", flush=True)
    machine = torch_machine("cpu")
    columns = ("shape", "what", "ratio", "ideal", "realised", "goal")
    table = Table(*columns, title=machine)
    for row in rows:
        numbers = [
            f"{row[k]:.3f}" if k in row else row.get("note", "") if k == "value" else ""
            for k in ("value", "ideal", "realised")
        ]
        table.add_row(row["shapes"], row["what"], *numbers, row.get("goal", ""))
    Console(width=160).print(table)
    if options.json:
        facts = {"machine": machine, "date": time.strftime("%Y-%m-%d"), "rows": rows}
        options.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
