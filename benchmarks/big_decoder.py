"""What ranking and shrinking a big decoder take: seconds, and memory in multiples of its weights.

    python benchmarks/big_decoder.py --shape llama-3-8b --json FILE      on a GPU
    python benchmarks/big_decoder.py --shape tiny                        a trial run anywhere
    python benchmarks/big_decoder.py --stages build,rank                 some of the stages

The weights are random and made on the device in bf16: times and memory do not depend on what a
model knows. Each stage prints its numbers when it ends; a stage that fails prints its traceback,
and the others run. Needs only torch and transformers.

build       make the model
reference   forward pass and backward pass of activations over the windows, without deadhead
rank        `rank(model, batches, "gradient")` over the same windows
shrink      `shrink(model, batches, heads=0.2)`: choice and refit by both methods of "auto"
checkpointing  `rank` with activations that are computed again instead of kept
neurons     `shrink(model, batches, neurons=0.2, method="fisher")`; not by default
"""

from __future__ import annotations

import argparse
import gc
import json
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from machine import torch_machine
from transformers import LlamaConfig, LlamaForCausalLM

from deadhead import rank, shrink
from deadhead.forward import forward
from deadhead.numerics import computing
from deadhead.rankers.run import frozen

SHAPES = {
    "llama-3-8b": {
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256,
    },
    "tiny": {
        "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
        "hidden_size": 64, "intermediate_size": 160, "vocab_size": 500,
    },
}  # fmt: skip
GOALS = {  # stage -> number -> the most it may be, for the shape llama-3-8b on one H200
    "rank": {"memory": 1.5, "seconds": 60, "times the reference": 1.15},
    "shrink": {"memory": 1.5, "seconds": 300},
}
STAGES = ("build", "reference", "rank", "checkpointing", "shrink")
MORE = ("neurons",)


class Run:
    """The model and its data, and the numbers of each stage."""

    def __init__(self, options: argparse.Namespace):
        self.options, self.device = options, torch.device(options.device)
        self.results: dict[str, dict[str, Any]] = {}
        self.model: Any = None
        self.weights = 0  # bytes

    def batches(self) -> list[dict[str, torch.Tensor]]:
        draw = torch.Generator().manual_seed(1)
        shape = (self.options.windows, self.options.length)
        ids = torch.randint(3, SHAPES[self.options.shape]["vocab_size"], shape, generator=draw)
        return [{"input_ids": rows, "labels": rows} for rows in ids.split(self.options.batch)]

    @contextmanager
    def measured(self, stage: str) -> Iterator[dict[str, Any]]:
        """Time a stage and note the peak of the memory; a failure is a result too."""
        facts: dict[str, Any] = {}
        print(f"[{stage}] ...", flush=True)
        self._reset()
        begin = time.perf_counter()
        try:
            yield facts
        except Exception as problem:
            facts["failed"] = f"{type(problem).__name__}: {problem}"
            print(traceback.format_exc(), flush=True)
        self._wait()
        facts["seconds"] = round(time.perf_counter() - begin, 2)
        if self.device.type == "cuda":
            facts["peak GB"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
            facts["reserved GB"] = round(torch.cuda.max_memory_reserved() / 1e9, 2)
            if self.weights:
                facts["memory"] = round(torch.cuda.max_memory_allocated() / self.weights, 3)
        self._judge(stage, facts)
        self.results[stage] = facts
        print(f"[{stage}] {json.dumps(facts)}", flush=True)
        self.write()

    def _judge(self, stage: str, facts: dict[str, Any]) -> None:
        name = "seconds of the windows"
        reference = self.results.get("reference", {}).get(name)
        if stage in ("rank", "checkpointing") and reference and name in facts:
            facts["times the reference"] = round(facts[name] / reference, 3)
        if self.options.shape != "llama-3-8b" or self.device.type != "cuda":
            return
        for name, goal in GOALS.get(stage, {}).items():
            if name in facts:
                facts[f"{name}: goal {goal}"] = facts[name] <= goal

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _reset(self) -> None:
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        self._wait()

    def write(self) -> None:
        if self.options.json:
            facts = {n: str(v) for n, v in vars(self.options).items() if n != "json"}
            result = {"machine": torch_machine(self.device.type), "options": facts}
            text = json.dumps({**result, "weights": self.weights, "stages": self.results}, indent=1)
            self.options.json.write_text(text + "\n", encoding="utf-8")

    def need_model(self) -> Any:
        if self.model is None:
            raise RuntimeError("the stage build has not run, or failed")
        return self.model

    def build(self, facts: dict[str, Any]) -> None:
        torch.manual_seed(0)
        config = LlamaConfig(
            **SHAPES[self.options.shape], max_position_embeddings=8192, rope_theta=5e5,
            tie_word_embeddings=False,
        )  # fmt: skip
        with self.device:
            self.model = LlamaForCausalLM._from_config(
                config, dtype=torch.bfloat16, attn_implementation="sdpa"
            ).eval()
        self.weights = sum(p.nbytes for p in self.model.parameters())
        facts["parameters"] = sum(p.numel() for p in self.model.parameters())
        facts["weights GB"] = round(self.weights / 1e9, 2)
        facts["dtypes"] = sorted({str(p.dtype) for p in self.model.parameters()})

    def _timed(self, work: Callable[[list[Any]], Any], facts: dict[str, Any]) -> Any:
        """Warm up on one batch, then time the work on all."""
        batches = self.batches()
        work(batches[:1])
        self._wait()
        begin = time.perf_counter()
        result = work(batches)
        self._wait()
        facts["seconds of the windows"] = round(time.perf_counter() - begin, 2)
        facts["windows"] = self.options.windows
        return result

    def reference(self, facts: dict[str, Any]) -> None:
        """What any gradient at the heads costs at least, with the loss of transformers."""
        model = self.need_model()

        def work(batches: list[Any]) -> None:
            for batch in batches:
                ids = batch["input_ids"].to(self.device)
                embedded = model.get_input_embeddings()(ids).detach().requires_grad_()
                logits = forward(model, {"inputs_embeds": embedded}).logits
                model.loss_function(logits, ids, model.config.vocab_size).backward()

        with frozen(model, 0), computing(model):
            self._timed(work, facts)

    def rank(self, facts: dict[str, Any], **options: Any) -> None:
        model = self.need_model()

        def work(batches: list[Any]) -> Any:
            return rank(model, batches, "gradient", progress=False, **options)

        ranking = self._timed(work, facts)
        facts["lowest"] = [str(head) for head in ranking.order[:4]]

    def checkpointing(self, facts: dict[str, Any]) -> None:
        self.rank(facts, checkpointing=True)

    def shrink(self, facts: dict[str, Any], **options: Any) -> None:
        stages: dict[str, float] = {}
        peaks: dict[str, float] = {}

        def progress(done: int, total: int, note: str = "") -> None:
            if self.device.type == "cuda":
                peaks[note] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
            if note not in stages or done == total:
                stages[note] = round(time.perf_counter() - begin, 1)
                print(f"  {note}: {done} of {total}, {stages[note]} s, {peaks}", flush=True)

        begin = time.perf_counter()
        goal = {"heads": 0.2, **options}
        model = self.need_model()
        try:
            report = shrink(model, self.batches(), **goal, progress=progress)
            facts.update(
                stages={name: round(value, 1) for name, value in report.seconds.items()},
                sizes=report.sizes, losses=report.losses, tried=report.tried,
                notes=list(report.notes), candidates=[row.candidate for row in report.layers],
            )  # fmt: skip
        finally:
            facts["peak GB after"] = peaks

    def neurons(self, facts: dict[str, Any]) -> None:
        self.shrink(facts, heads=None, neurons=0.2, method="fisher")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--shape", default="llama-3-8b", choices=[*SHAPES])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--windows", type=int, default=128)
    parser.add_argument("--length", type=int, default=1024, help="tokens of a window")
    parser.add_argument("--batch", type=int, default=1, help="windows at once")
    parser.add_argument("--stages", default=",".join(STAGES), help=f"of {STAGES + MORE}")
    parser.add_argument("--json", type=Path)
    run = Run(parser.parse_args())
    stages = run.options.stages.split(",")
    unknown = set(stages).difference(STAGES + MORE)
    if unknown:
        parser.error(f"--stages expects some of {STAGES + MORE}, got {sorted(unknown)}")
    print(torch_machine(run.device.type), flush=True)
    for stage in ["build", *(name for name in stages if name != "build")]:
        with run.measured(stage) as facts:
            getattr(run, stage)(facts)


if __name__ == "__main__":
    main()
