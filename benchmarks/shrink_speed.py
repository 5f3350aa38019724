"""How well `shrink(speedup=...)` keeps its promise: predicted and measured speed-ups of one run.

    python benchmarks/shrink_speed.py [--device cuda] [--shape 12x12x768] [--on 32x128]
                                      [--speedups 1.5,2] [--json FILE]

The model is a BERT of random weights, since times do not depend on what it knows; heads and neurons
leave at random, and nothing is refitted. Whole and small model are timed in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from machine import torch_machine
from transformers import BertConfig, BertModel

from deadhead import shrink

SPEEDUPS = "1.25,1.5,2,3"
GOAL = 0.1  # share of the target by which the measured speed-up may differ
TOKENS = 16


def build(shape: str, device: str, dtype: torch.dtype) -> Any:
    layers, heads, width = map(int, shape.split("x"))
    torch.manual_seed(0)
    config = BertConfig(
        num_hidden_layers=layers, num_attention_heads=heads, hidden_size=width,
        intermediate_size=4 * width, vocab_size=1000,
    )  # fmt: skip
    return BertModel(config, add_pooling_layer=False).to(device=device, dtype=dtype).eval()


def measure(options: argparse.Namespace, speedup: float) -> dict[str, Any]:
    dtype = getattr(torch, options.dtype)
    model = build(options.shape, options.device, dtype)
    ids = torch.randint(5, 1000, (8, TOKENS), generator=torch.Generator().manual_seed(1))
    batches = [{"input_ids": ids, "attention_mask": torch.ones_like(ids)}]
    batch, length = map(int, options.on.split("x"))
    report = shrink(
        model, batches, speedup=speedup, on=(batch, length), method="random", repair="none",
        loss="self", progress=False,
    )  # fmt: skip
    assert report.speed is not None
    error = report.speed.measured / speedup - 1
    sizes = {name: after / before for name, (before, after) in report.sizes.items()}
    return {
        "target": speedup,
        "predicted": round(report.speed.predicted, 3),
        "measured": round(report.speed.measured, 3),
        "error": round(error, 3),
        "within the goal": abs(error) <= GOAL,
        "left": {name: round(share, 3) for name, share in sizes.items()},
        "seconds": {name: round(value, 1) for name, value in report.seconds.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--shape", default="12x12x768", help="layers x heads x width")
    parser.add_argument("--on", default="32x128", help="examples x tokens")
    parser.add_argument("--speedups", default=SPEEDUPS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["DEADHEAD_CACHE"] = cache  # a table of this run
        rows = [measure(options, float(speedup)) for speedup in options.speedups.split(",")]
    machine = torch_machine(options.device)
    print(f"BERT {options.shape}, {options.dtype}, inputs of {options.on}; {machine}")
    for row in rows:
        print(json.dumps(row))
    if options.json:
        facts = {"machine": machine, "shape": options.shape, "dtype": options.dtype}
        options.json.write_text(json.dumps({**facts, "on": options.on, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
