"""What `shrink` costs: its time as a multiple of one forward pass over the same texts.

    OMP_NUM_THREADS=1 python benchmarks/shrink_cost.py MODEL --text FILE [--examples 1000]
        [--macs 0.5] [--heads 0.5] [--on-others FILE] [--seed 0] [--json FILE]

With one thread all times are processor time, which other work of the machine hardly changes. The
forward pass is timed before and after each run. `--on-others` measures the loss of the small model
on texts that `shrink` did not read.
"""

from __future__ import annotations

import argparse
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from machine import now, torch_machine

from deadhead import shrink
from deadhead.forward import forward, on_device
from deadhead.rankers.label_free import label_free, with_default_loss, with_loss
from deadhead.saved.rank_data import rank_batches, sample
from deadhead.shrinking.held_out import mean_loss
from deadhead.training.models import load_with_tokenizer


def batches_of(model: Any, tokenizer: Any, file: Path, examples: int, seed: int) -> list[Any]:
    rows = sample(None, [], "train", [file], most=examples, seed=seed)
    needs: dict[str, Any] = {"needs_labels": False, "loss": "self", "size": None}
    return [*rank_batches(model, tokenizer, rows, **needs, max_length=None, in_file_order=False)[0]]


@torch.no_grad()
def forward_pass(model: Any, batches: list[Any], times: int = 2) -> float:
    """The seconds of a forward pass over the batches, the best of some."""
    seconds = []
    for _ in range(times):
        begin = now(model.device.type)
        for batch in batches:
            forward(model, on_device(batch, model))
        seconds.append(now(model.device.type) - begin)
    return min(seconds)


def measure(model: Any, batches: list[Any], target: dict[str, float], others: Any) -> Any:
    small = deepcopy(model)
    before = forward_pass(model, batches)
    begin = now(model.device.type)
    report = shrink(small, batches, **target, progress=False)
    seconds = now(model.device.type) - begin
    one = (before + forward_pass(model, batches)) / 2
    shares = {name: value / sum(report.seconds.values()) for name, value in report.seconds.items()}
    row = {
        **target,
        "forward passes": round(seconds / one, 1),
        "of stages": {name: round(share * seconds / one, 1) for name, share in shares.items()},
        "seconds of one": round(one, 2),
        "method": report.choice.name,
        "held-out loss": round(report.losses["refitted"], 5),
    }
    if others:
        row["loss on others"] = round(mean_loss(small.eval(), others), 5)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--text", type=Path, required=True, help="a text per line")
    parser.add_argument("--on-others", type=Path, help="texts that are only measured on")
    parser.add_argument("--examples", type=int, default=1000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    for name in ("macs", "heads"):
        parser.add_argument(f"--{name}", type=float)
    options = parser.parse_args()
    model, tokenizer = load_with_tokenizer(
        options.model, torch.device(options.device), auto=None, dtype=None
    )
    model.eval()
    read = batches_of(model, tokenizer, options.text, options.examples, options.seed)
    others: list[Any] = []
    if options.on_others:
        others = batches_of(model, tokenizer, options.on_others, options.examples, 0)
        loss = with_default_loss(model, others, None)[1] or "self"
        others = with_loss(model, others, label_free(model, loss), False, 0)
    targets = [{n: v} for n in ("macs", "heads") if (v := getattr(options, n)) is not None]
    rows = []
    for target in targets or [{"macs": 0.5}, {"heads": 0.5}]:
        rows.append(measure(model, read, target, others))
        print(json.dumps(rows[-1]), flush=True)
    if options.json:
        facts = {"machine": torch_machine(options.device), "model": options.model}
        options.json.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
