"""How much the effects of all edges cost, as ratios to one run forward and backward.

    python benchmarks/edges.py [--device cuda] [--family gpt2] [--width 768] [--pairs 100]

The measure is a forward pass on the clean pairs and a backward pass of the metric with gradients of
activations, not of weights. Every round times each way once, and the fastest round counts. The
memory is the highest that torch used on a GPU, or this process on Linux, less that before.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from deadhead import edge_effects
from deadhead.effects import logit_difference
from deadhead.saved.bench import peak_bytes

WORDS = 1000  # a small vocabulary, so that the layers and not the logits take the time
METRIC = logit_difference(5, 6)
GOALS = {"time": 4.0, "memory": 3.0, "steps": 1.2}
STEPS = 5
RESET = Path("/proc/self/clear_refs")  # Linux with glibc has it


def build(family: str, width: int, device: str) -> Any:
    torch.manual_seed(0)
    sizes = {"num_hidden_layers": 12, "num_attention_heads": 12, "hidden_size": width}
    more = {"vocab_size": WORDS, "initializer_range": 0.05}
    if family != "gpt2":
        more["intermediate_size"] = 4 * width
    config = transformers.AutoConfig.for_model(family, **sizes, **more)
    kind = transformers.AutoModelForMaskedLM if family == "bert" else None
    model = (kind or transformers.AutoModelForCausalLM).from_config(config)
    return model.to(device).eval().requires_grad_(False)


def pairs(count: int, length: int, device: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Sentences that differ in one token."""
    draw = torch.Generator().manual_seed(1)
    clean = torch.randint(10, WORDS, (count, length), generator=draw)
    corrupt = clean.clone()
    corrupt[:, length // 3] = torch.randint(10, WORDS, (count,), generator=draw)
    return {"input_ids": clean.to(device)}, {"input_ids": corrupt.to(device)}


def forward_and_backward(model: Any, batch: dict[str, Tensor]) -> None:
    embeddings = model.get_input_embeddings()(batch["input_ids"]).requires_grad_()
    outputs = model(inputs_embeds=embeddings)
    torch.autograd.grad(METRIC(outputs, batch).sum(), embeddings)


def timed(run: Callable[[], Any], device: str) -> tuple[float, float]:
    """Seconds, on a CPU those of this process; and the highest memory, less that before."""
    if device == "cpu":
        if RESET.exists():
            ctypes.CDLL(None).malloc_trim(0)  # or free memory of earlier runs would be used first
            RESET.write_text("5")  # the highest memory is that from here on
        before, start = peak_bytes(torch.device(device)), time.process_time()
        run()
        return time.process_time() - start, peak_bytes(torch.device(device)) - before
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    allocated = torch.cuda.memory_allocated()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - start, torch.cuda.max_memory_allocated() - allocated


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--family", action="append", choices=("gpt2", "llama", "bert"))
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--pairs", type=int, default=100)
    parser.add_argument("--length", type=int, default=64, help="tokens of a sentence")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the numbers here")
    options = parser.parse_args()
    rows = []
    for family in options.family or ["gpt2", "llama", "bert"]:
        model = build(family, options.width, options.device)
        clean, corrupt = pairs(options.pairs, options.length, options.device)

        def effects(
            steps: int, model: Any = model, both: Any = (clean, corrupt)
        ) -> Callable[[], Any]:
            return lambda: edge_effects(model, *both, METRIC, steps=steps, progress=False)

        def once(model: Any = model, clean: Any = clean) -> None:
            forward_and_backward(model, clean)

        ways = {"run": once, "edges": effects(1), "steps": effects(STEPS)}
        best = {way: (float("inf"), float("inf")) for way in ways}
        ways["edges"]()  # the first run also sets up the device
        for _ in range(options.rounds):
            for way, run in ways.items():
                best[way] = min(best[way], timed(run, options.device))
        seconds, memory = ({way: pair[n] for way, pair in best.items()} for n in (0, 1))
        ratios = {
            "time": seconds["edges"] / seconds["run"],
            "steps": seconds["steps"] / seconds["edges"] / STEPS,
        }
        if memory["run"]:
            ratios["memory"] = memory["edges"] / memory["run"]
        rows.append({"family": family, "seconds": seconds, "bytes": memory, "ratios": ratios})
        for name, ratio in ratios.items():
            reached = "yes" if ratio <= GOALS[name] else "NO"
            print(f"{family:8} {name:8} {ratio:8.2f}  <= {GOALS[name]:g}  {reached}", flush=True)
        print(f"{family:8} seconds {seconds}", flush=True)
        del model
    facts = {
        "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        **{name: getattr(options, name) for name in ("width", "pairs", "length")},
    }
    if options.json:
        options.json.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
