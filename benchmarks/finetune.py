"""The speed of short trainings: deadhead, the Trainer of transformers on the same data, the limit.

    python benchmarks/finetune.py [--threads 1] [--updates 24] [--json results.json]
    python benchmarks/finetune.py --device cuda [--trials 4] [--model MINI_MBERT --data DIR]
                                  [--json results.json]

The data is random, with the lengths of MNLI (mean 39 word pieces, cut at 128). Speeds are examples
per second; with one thread of a CPU per second of its processor time. The limit is that of
arithmetic: 6 operations per weight of the layers and token, without padding, at the speed of large
matrix products on this machine. A section that fails prints why, and the others continue.
`--model` and `--data` add a second comparison: English POS, three epochs, 14 test sets, `--trials`
trainings with different heads removed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from finetune_parts import BATCH, SHAPES, Rows, bert, mnli_like, pos, pos_eager, side_by_side
from machine import now, torch_machine
from rich.console import Console
from rich.table import Table

from deadhead import discover, gated, prune, strategies
from deadhead.tasks import Encoded, batches
from deadhead.tasks.encoding.feed import Feed
from deadhead.training import Settings, finetune
from deadhead.training.update import Updater


class Enough(Exception):
    """All updates were timed."""


class Stopwatch:
    """The time of some updates after the first two, which warm up; waits for a GPU only twice."""

    def __init__(self, device: str, updates: int):
        self.device, self.updates, self.count, self.stamps = device, updates, 0, list[float]()

    def __call__(self, *_: Any, **__: Any) -> None:
        self.count += 1
        if self.count in (2, self.updates + 2):
            self.stamps.append(now(self.device))
        if len(self.stamps) == 2:
            raise Enough

    @property
    def speed(self) -> float:
        return self.updates * BATCH / (self.stamps[1] - self.stamps[0])


def cpu_speed(model: Any, data: Encoded, settings: Settings, updates: int) -> dict[str, Any]:
    """The first updates of an epoch, which are a fair draw of its batches."""
    watch = Stopwatch("cpu", updates)
    with suppress(Enough):
        finetune(model, data, settings, device="cpu", progress=watch)
    return {"value": watch.speed, "unit": "examples/s"}


def speed(model: Any, data: Encoded, settings: Settings, **options: Any) -> dict[str, Any]:
    """Train two epochs on a GPU; the second one counts."""
    history = finetune(
        model, data, replace(settings, epochs=2), device="cuda", progress=False, **options
    )
    if history.state != "done":
        raise RuntimeError(history.reason)
    return {"value": history.epochs[-1].speed, "unit": "examples/s", "notes": history.notes}


class Windows(torch.utils.data.Dataset):
    """The same data in the form that the Trainer takes."""

    def __init__(self, data: Encoded):
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> dict[str, Any]:
        a, b = self.data.starts[i], self.data.starts[i + 1]
        ids = self.data.arrays["ids"][a:b].tolist()
        return {
            "input_ids": ids,
            "token_type_ids": [0] * len(ids),
            "attention_mask": [1] * len(ids),
            "label": int(self.data.arrays["labels"][i]),
        }


def trainer_speed(model: Any, data: Encoded, device: str, updates: int) -> dict[str, Any]:
    """The Trainer with its defaults at the same batch size (in bf16 on a GPU, as ours)."""
    from tokenizers import Tokenizer, models
    from transformers import (
        DataCollatorWithPadding,
        PreTrainedTokenizerFast,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1}, "[UNK]")),
        pad_token="[PAD]",
    )
    watch = Stopwatch(device, updates)

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            watch()

    with tempfile.TemporaryDirectory() as folder, suppress(Enough):
        options: dict[str, Any] = {"use_cpu": True} if device == "cpu" else {"bf16": True}
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=BATCH,
            num_train_epochs=3,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **options,
        )
        Trainer(
            model,
            arguments,
            train_dataset=Windows(data),
            data_collator=DataCollatorWithPadding(tokenizer),
            callbacks=[Clock()],
        ).train()
    return {"value": watch.speed, "unit": "examples/s"}


def limit(model: Any, data: Encoded, device: str) -> dict[str, Any]:
    """Examples per second if nothing but the arithmetic of the layers took time."""
    size, dtype = (1024, torch.float32) if device == "cpu" else (8192, torch.bfloat16)
    a = torch.randn(size, size, dtype=dtype, device=device)
    best = 0.0
    for _ in range(6):
        start = now(device)
        for _ in range(5):
            a @ a
        best = max(best, 10 * size**3 / (now(device) - start))
    weights = sum(p.numel() for name, p in model.named_parameters() if "embeddings" not in name)
    tokens = float(np.mean(data.arrays["lengths"]))
    return {
        "value": best / (6 * weights * tokens),
        "unit": "examples/s",
        "notes": [f"matrix products at {best / 1e12:.3g} TFLOP/s"],
    }


def cpu_sections(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Rows]]]:
    data, shape = mnli_like(options.examples), options.shape or "BERT-small"
    settings = Settings(batch=BATCH, rate=1e-4)

    def against() -> Rows:
        ours = cpu_speed(bert(shape), data, settings, options.updates)
        theirs = trainer_speed(bert(shape), data, "cpu", options.updates)
        ratio = {"value": ours["value"] / theirs["value"], "unit": "x", "goal": ">= 1.5"}
        return [
            {"what": f"{shape}, deadhead", **ours},
            {"what": f"{shape}, transformers Trainer", **theirs},
            {"what": f"{shape}, limit", **limit(bert(shape), data, "cpu")},
            {"what": "deadhead / Trainer", **ratio},
        ]

    def cut() -> Rows:
        return pruned_against_masked(shape, mnli_like(3 * BATCH), settings, options.rounds)

    yield "against the Trainer", against
    yield "pruned against masked", cut


def pruned_against_masked(shape: str, data: Encoded, settings: Settings, rounds: int) -> Rows:
    """Single updates on the same batches in turns; the fastest round of each batch counts.

    A busy machine then slows both.
    """
    rows: Rows = []
    feed = Feed(data, "cpu")
    plan = batches(data, size=BATCH, seed=0).numbers
    for percent, goal in ((50, 1.12), (90, 1.28)):
        heads = sorted(strategies.random(discover(bert(shape)), percent, seed=0))
        updaters = {
            "masked": Updater(bert(shape).train(), feed, settings),
            "pruned": Updater(prune(bert(shape), heads).train(), feed, settings),
        }
        best = {kind: [float("inf")] * len(plan) for kind in updaters}
        with gated(updaters["masked"].model, closed=heads):
            for turn in range(rounds + 1):
                for i, numbers in enumerate(plan):
                    for kind, update in updaters.items():
                        start = now("cpu")
                        update(torch.from_numpy(numbers), [feed.shape(numbers)], 1e-5)
                        if turn:
                            best[kind][i] = min(best[kind][i], now("cpu") - start)
        speeds = {kind: len(data) / sum(times) for kind, times in best.items()}
        rows += [
            {"what": f"{shape}, {percent} % {kind}", "value": value, "unit": "examples/s"}
            for kind, value in speeds.items()
        ]
        ratio = {"value": speeds["pruned"] / speeds["masked"], "unit": "x", "goal": f">= {goal}"}
        rows.append({"what": f"{percent} % pruned / masked", **ratio})
    return rows


def cuda_sections(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Rows]]]:
    shape, settings = (
        options.shape or "BERT-base",
        Settings(batch=BATCH, rate=3e-5, precision="bf16"),
    )
    short, long = mnli_like(1024), mnli_like(16384)

    def row(what: str, numbers: dict[str, Any], **more: Any) -> Rows:
        return [{"what": f"{shape}, {what}", **more, **numbers}]

    def graphs() -> Rows:
        numbers = speed(bert(shape), long, settings)
        return row("buckets, CUDA graphs", numbers, goal=">= 6000")

    def eager(by_length: bool) -> Rows:
        own = replace(settings, by_length=by_length)
        name = "buckets" if by_length else "random batches"
        return row(f"{name}, eager", speed(bert(shape), short, own, graphs=False))

    def trainer() -> Rows:
        return row("transformers Trainer", trainer_speed(bert(shape), long, "cuda", 48))

    trials: Rows = []

    def captured() -> Rows:
        trials.extend(pos(options))
        return trials

    yield "graphs", graphs
    yield "eager, random batches", lambda: eager(by_length=False)
    yield "eager, buckets", lambda: eager(by_length=True)
    yield "Trainer", trainer
    yield "limit", lambda: row("limit", limit(bert(shape), long, "cuda"))
    yield "loss curves", lambda: curves(shape, replace(settings, rate=1e-4))
    if options.model and options.data:
        yield "POS", captured
        yield "POS, eager", lambda: pos_eager(options, trials)
    if options.trials > 1:
        yield "side by side", lambda: side_by_side(shape, min(4, options.trials))


def curves(shape: str, settings: Settings) -> Rows:
    """The losses of a training, update by update, eagerly, as graphs, and with another seed."""
    data = mnli_like(1024)
    runs = {
        name: finetune(
            bert(shape),
            data,
            replace(settings, epochs=3, seed=seed),
            device="cuda",
            progress=False,
            graphs=graphs,
        )
        for name, graphs, seed in (
            ("eager", False, 0),
            ("graphs", True, 0),
            ("eager, another seed", False, 1),
        )
    }
    rows: Rows = []
    base = np.array(runs["eager"].losses)
    for name, history in runs.items():
        epochs = ", ".join(f"{e.loss:.4f}" for e in history.epochs)
        apart = float(np.abs(np.array(history.losses) - base).max())
        rows.append(
            {
                "what": f"loss by epoch, {name}: {epochs}",
                "value": apart,
                "unit": "largest |difference| of an update",
                "notes": history.notes,
                "losses": [round(loss, 6) for loss in history.losses],
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    sizes = "BERT-small on a CPU, else BERT-base"
    parser.add_argument("--shape", choices=SHAPES, help=sizes)
    parser.add_argument("--examples", type=int, default=8192, help="of the CPU sections")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--updates", type=int, default=24, help="timed on the CPU, against the Trainer"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=4, help="trainings side by side on one GPU")
    parser.add_argument(
        "--workers", type=int, default=2, help="processes that share the POS trials"
    )
    parser.add_argument("--model", help="a folder with mini-mbert")
    parser.add_argument("--data", help="a folder of data with the POS treebanks")
    parser.add_argument("--only", nargs="*", help="sections to run, by name")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads if options.device == "cpu" else 4)
    transformers.logging.set_verbosity_error()
    sections = cpu_sections(options) if options.device == "cpu" else cuda_sections(options)
    rows: Rows = []
    for name, section in sections:
        if options.only and name not in options.only:
            continue
        start = time.perf_counter()
        try:
            section_rows = section()
        except Exception:
            section_rows = [{"what": f"{name}: FAILED", "notes": [traceback.format_exc()]}]
            traceback.print_exc()
        for row in section_rows:
            number = f"{row.get('value', float('nan')):,.4g} {row.get('unit', '')}"
            print(f"  {row['what']}: {number} {row.get('notes') or ''}", flush=True)
        print(f"[{name}: {time.perf_counter() - start:.1f} s]", file=sys.stderr, flush=True)
        rows += section_rows
        if options.json:  # after every section: what was measured is kept if the rest is cut short
            facts = {"machine": torch_machine(options.device), "date": time.strftime("%Y-%m-%d")}
            options.json.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")
    table = Table("what", "value", "unit", "goal", title=torch_machine(options.device))
    for row in rows:
        table.add_row(
            row["what"],
            f"{row['value']:,.4g}" if "value" in row else "",
            row.get("unit", ""),
            row.get("goal", ""),
        )
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
