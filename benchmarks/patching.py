"""How much faster patch_effects is than one run per head, as ratios measured in one run.

    python benchmarks/patching.py [--device cuda] [--shape 12x12x96] [--pairs 100] [--json FILE]

The loops are what people write: a hook on one output projection, which takes the slice of one head
from a clean run, and a run of the corrupt batch for each of the 144 heads. One loop runs all pairs
in a batch, the other each pair by itself; that one is timed on a few pairs and scaled. Every round
times each of them once, and the fastest round counts. All of them must give the same effects.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from deadhead import patch_effects
from deadhead.effects import logit_difference

SHAPES = ("12x12x96", "12x12x312", "12x12x768")  # layers x heads x width
WORDS = 1000  # a small vocabulary, so that the layers and not the logits take the time
METRIC = logit_difference(5, 6)
GOAL = 8.0

Batch = dict[str, Tensor]
Line = tuple[str, float, str, bool | None]  # what, how much, the goal, reached


def build(shape: str, device: str, dtype: torch.dtype) -> Any:
    torch.manual_seed(0)
    layers, heads, width = map(int, shape.split("x"))
    config = GPT2Config(
        n_layer=layers, n_head=heads, n_embd=width, vocab_size=WORDS, initializer_range=0.05,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config).to(device=device, dtype=dtype).eval()


def pairs(count: int, length: int, device: str) -> tuple[Batch, Batch]:
    """Sentences that differ in one token."""
    draw = torch.Generator().manual_seed(1)
    clean = torch.randint(10, WORDS, (count, length), generator=draw)
    corrupt = clean.clone()
    corrupt[:, length // 3] = torch.randint(10, WORDS, (count,), generator=draw)
    return {"input_ids": clean.to(device)}, {"input_ids": corrupt.to(device)}


@torch.no_grad()
def one_run_per_head(model: Any, clean: Batch, corrupt: Batch) -> Tensor:
    """The metric of the corrupt run with each head patched: layers x heads."""
    projections = [block.attn.c_proj for block in model.transformer.h]
    layers, heads = model.config.n_layer, model.config.n_head
    width = projections[0].weight.shape[0] // heads
    kept: list[Tensor] = []
    hooks = [p.register_forward_pre_hook(lambda m, a: kept.append(a[0])) for p in projections]
    model(**clean, use_cache=False)
    for hook in hooks:
        hook.remove()
    values = torch.zeros(layers, heads, dtype=torch.float64, device=model.device)
    for layer, projection in enumerate(projections):
        for head in range(heads):
            features = slice(head * width, (head + 1) * width)

            def patch(
                module: Any, args: Any, features: slice = features, layer: int = layer
            ) -> Any:
                patched = args[0].clone()
                patched[..., features] = kept[layer][..., features]
                return (patched,)

            hook = projection.register_forward_pre_hook(patch)
            outputs = model(**corrupt, use_cache=False)
            values[layer, head] = METRIC(outputs, corrupt).double().mean()
            hook.remove()
    return values


def one_run_per_head_and_pair(model: Any, clean: Batch, corrupt: Batch, few: int) -> None:
    for row in range(few):
        single = ({n: v[row : row + 1] for n, v in batch.items()} for batch in (clean, corrupt))
        one_run_per_head(model, *single)


def batched(model: Any, clean: Batch, corrupt: Batch) -> Tensor:
    effects = patch_effects(model, clean, corrupt, METRIC, progress=False)
    values = torch.tensor(list(effects.values.values()), dtype=torch.float64)
    return values.view(model.config.n_layer, model.config.n_head)


def timed(run: Callable[[], Any], device: str) -> tuple[float, Any]:
    """Seconds; on a CPU those of this process, whatever else the machine does."""
    if device == "cpu":
        start = time.process_time()
        result = run()
        return time.process_time() - start, result
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = run()
    torch.cuda.synchronize()
    return time.perf_counter() - start, result


def measure(name: str, dtype: torch.dtype, options: argparse.Namespace) -> Iterator[Line]:
    model = build(name, options.device, dtype)
    clean, corrupt = pairs(options.pairs, options.length, options.device)
    few = min(options.few, options.pairs)
    runs: dict[str, Callable[[], Any]] = {
        "batched": lambda: batched(model, clean, corrupt),
        "loop": lambda: one_run_per_head(model, clean, corrupt),
        "single": lambda: one_run_per_head_and_pair(model, clean, corrupt, few),
    }
    seconds = dict.fromkeys(runs, float("inf"))
    results: dict[str, Any] = {}
    timed(runs["batched"], options.device)  # the first run also sets up the device
    for _ in range(options.rounds):
        for way, run in runs.items():
            took, results[way] = timed(run, options.device)
            seconds[way] = min(seconds[way], took)
    seconds["single"] *= options.pairs / few
    title = f"{name}, {str(dtype).removeprefix('torch.')}"
    yield f"{title}: batched, seconds", seconds["batched"], "", None
    loops = {"loop": "one run per head", "single": "one run per head and pair"}
    for way, words in loops.items():
        ratio = seconds[way] / seconds["batched"]
        yield f"{title}: {words}, seconds", seconds[way], "", None
        yield f"{title}: times faster than {words}", ratio, f">= {GOAL:g}", ratio >= GOAL
    gap = float((results["batched"] - results["loop"].cpu()).abs().max())
    size = float((results["loop"] - results["loop"].mean()).abs().max())
    most = 1e-4 if dtype is torch.float32 else 0.1
    share = gap / size
    yield f"{title}: largest difference of the effects", share, f"<= {most:g}", share <= most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--shape", action="append", help=f"by default {', '.join(SHAPES)}")
    parser.add_argument("--dtype", action="append", choices=("float32", "bfloat16"))
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--length", type=int, default=16, help="tokens of a sentence")
    parser.add_argument("--few", type=int, default=2, help="pairs that run by themselves")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the numbers here")
    options = parser.parse_args()
    lines = []
    for name in options.shape or SHAPES:
        for dtype in options.dtype or ["float32"]:
            for what, value, goal, reached in measure(name, getattr(torch, dtype), options):
                lines.append({"what": what, "value": value, "goal": goal, "reached": reached})
                answer = "" if reached is None else "yes" if reached else "NO"
                print(f"{what:66} {value:10.4g}  {goal:8} {answer}", flush=True)
    facts = {
        "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "pairs": options.pairs,
        "length": options.length,
    }
    if options.json:
        options.json.write_text(json.dumps({**facts, "lines": lines}, indent=1) + "\n")
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
