"""Perplexity of a language model against the share removed, without any training.

    python benchmarks/shrink_lm_curves.py --model FOLDER --calibration test.txt --text valid.txt
                                          --draw 0,1 --out FOLDER [--gguf NAME] [--device cuda]
                                          [--parts heads,neurons,both] [--shares 25,50]
    python benchmarks/shrink_lm_curves.py --table FILES [--page TABLE.csv] [--figure FILE.svg]

As `shrink_curves.py`, with a draw of calibration text in place of a fine-tuning: each method
chooses its units once, and every row is a copy of the model without them, cut or refitted. Heads
go by whole key/value groups. Perplexity is per token of the other text, in windows of 512 tokens.
The same command does only what is missing in FOLDER, also after a kill.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from page import fill, markdown, run, write_figure
from shrink_curves import Choices, Run
from shrink_curves_plan import METHODS, SHARES, Part, chosen_parts
from shrink_curves_rows import EPOCH, REPAIRED, Key, Rows, key_of, read
from shrink_lm import WINDOW, cleaned, load_model, perplexity, windows
from shrink_lm_figure import answer_chart
from torch import Tensor

from deadhead import encode
from deadhead.errors import DeadheadError
from deadhead.heads.discover import find_every_site, layout_of
from deadhead.rankers.run import frozen
from deadhead.shrinking.held_out import mean_loss, split_examples
from deadhead.tasks import Row, dataset
from deadhead.training import Settings, finetune

BATCH = 4  # windows of calibration text, with gradients
LONG_BATCH = 64  # without them, and without logits: a refit stops before these
TRAIN_BATCH = 16
TRAINED = f"refit{EPOCH}"
TREATMENTS = (*REPAIRED, TRAINED)
DRAWS = 5  # for most cells; others name their number
PARTS: dict[str, tuple[Part, ...]] = {
    units: (Part(units, METHODS[units], SHARES, REPAIRED),) for units in METHODS
}
PARTS["epoch"] = tuple(Part(units, METHODS[units], SHARES, (TRAINED,)) for units in METHODS)


@dataclass(frozen=True)
class TextTask:
    """One epoch on all of a text, in windows."""

    text: Any  # encoded

    def train_one_epoch(self, models: Sequence[Any], seed: int, whole: Any = None) -> None:
        (model,) = models
        half = next(model.parameters()).device.type == "cuda"
        settings = Settings(
            precision="bf16" if half else "float32", seed=seed, epochs=1, batch=TRAIN_BATCH
        )
        finetune(model, self.text, settings, progress=False)
        model.eval()


@dataclass(frozen=True)
class Source:
    """What all draws read: the whole model, and texts in windows."""

    model: Any
    calibration: Tensor
    text: Tensor
    task: TextTask


def source_of(arguments: argparse.Namespace) -> Source:
    model, tokenizer = load_model(arguments.model, arguments.gguf, arguments.device)
    rows = [Row(texts=(cleaned(Path(arguments.calibration).read_text()),), labels=())]
    whole_text = dataset("lm", "text", "train", rows)
    return Source(
        model=model,
        calibration=windows(arguments.calibration, tokenizer),
        text=windows(arguments.text, tokenizer)[: arguments.scored],
        task=TextTask(encode(whole_text, tokenizer, max_length=WINDOW)),
    )


class TextRun(Run):
    """One draw of calibration text: the whole model, and the choices."""

    def __init__(self, arguments: argparse.Namespace, source: Source):
        self.arguments, self.seed, self.together = arguments, arguments.draw, 1
        self.home = arguments.out / f"lm-{self.seed}"
        self.home.mkdir(parents=True, exist_ok=True)
        self.whole, self.text, self.task = source.model, source.text, source.task
        self.layout = layout_of(find_every_site(self.whole))
        numbers = range(len(source.calibration))
        drawn = random.Random(self.seed).sample(numbers, arguments.windows)
        batches = partial(_batches, source.calibration[drawn])
        self.fit, self.held_out = split_examples(batches(BATCH))
        self.long_fit, _ = split_examples(batches(LONG_BATCH))
        self.choices = Choices(self)

    def row(self, key: Key, model: Any, seconds: float) -> dict[str, Any]:
        units, choice, share, treatment = key
        with frozen(model, self.seed):
            loss = mean_loss(model, self.held_out)
        return {
            "draw": self.seed,
            "units": units,
            "choice": choice,
            "share": share,
            "treatment": treatment,
            "perplexity": round(perplexity(model, self.text, self.arguments.device), 4),
            "loss": round(loss, 6),
            "seconds": round(seconds, 3),
            "parameters": sum(p.numel() for p in model.parameters()),
        }


def _batches(rows: Tensor, size: int) -> list[dict[str, Tensor]]:
    return [{"input_ids": ids, "labels": ids} for ids in rows.split(size)]


def table(files: list[Path]) -> str:
    """A row for each choice and treatment: mean and range over the draws of each share."""
    values: dict[Key, list[float]] = {}
    for row in read(files):
        values.setdefault(key_of(row), []).append(row["perplexity"])
    shares = sorted({share for _, _, share, _ in values if share})
    lines = []
    for units, choice, treatment in sorted({(u, c, t) for u, c, s, t in values if s}, key=_order):
        some = [values.get((units, choice, share, treatment), []) for share in shares]
        lines.append([units, choice, treatment, *map(_text, some)])
    titles = ["removed", "chosen by", "then", *(f"{share} %" for share in shares)]
    return markdown(titles, lines)


def _order(line: tuple[str, str, str]) -> tuple[int, int, int]:
    units, choice, treatment = line
    known = METHODS[units].index(choice)
    return [*METHODS].index(units), known, TREATMENTS.index(treatment)


def _text(values: list[float]) -> str:
    """The mean, the range, and the number of draws where they are not five."""
    if not values:
        return ""
    low, mean, high = (f"{x:,.1f}" for x in (min(values), statistics.mean(values), max(values)))
    spread = f"{low} to {high}" if low != high else ""
    count = f"{len(values)} draw{'s' * (len(values) > 1)}" if len(values) != DRAWS else ""
    note = ", ".join(filter(None, (spread, count)))
    return f"{mean} ({note})" if note else mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--table", nargs="+", type=Path, help="print what earlier runs wrote")
    parser.add_argument(
        "--page", type=Path, help="write the table into this page, or to this .csv file"
    )
    parser.add_argument("--figure", type=Path, help="write a figure to this file, too")
    parser.add_argument("--model")
    parser.add_argument("--gguf", help="the name of a GGUF file in the folder")
    parser.add_argument("--calibration", help="a text file")
    parser.add_argument("--text", help="another one, to measure on")
    parser.add_argument("--draw", default="0", help="its number; several with commas")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--parts", default=",".join(PARTS), help=", ".join(PARTS))
    parser.add_argument("--shares", help="only these, in %%")
    parser.add_argument("--choices", help="only these, such as random,fisher")
    parser.add_argument("--windows", type=int, default=64, help="of calibration")
    parser.add_argument("--scored", type=int, default=128, help="windows of the other text")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tf32", action="store_true", default=None, help="as in shrink_curves.py")
    arguments = parser.parse_args()
    if arguments.table and arguments.figure:
        write_figure(arguments.figure, answer_chart(read(arguments.table)))
    if arguments.table and arguments.page:
        fill(arguments.page, "shrink_lm_curves.py", [table(arguments.table)])
    elif arguments.table:
        print(table(arguments.table))
    if arguments.table:
        return
    for name in ("model", "calibration", "text", "out"):
        if getattr(arguments, name) is None:
            raise DeadheadError(f"--{name} is missing.", "see --help")
    if wrong := [draw for draw in arguments.draw.split(",") if not draw.isdecimal()]:
        raise DeadheadError(f"--draw is {wrong[0]!r}, not a number.", "type --draw 0,1,2")
    chosen_parts(arguments, PARTS)
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.tf32:
        torch.set_float32_matmul_precision("high")
    source = source_of(arguments)
    for draw in map(int, arguments.draw.split(",")):
        measure(argparse.Namespace(**{**vars(arguments), "draw": draw}), source)


def measure(arguments: argparse.Namespace, source: Source) -> None:
    """Add the missing rows of one draw."""
    facts = {name: getattr(arguments, name) for name in ("device", "windows", "scored", "tf32")}
    facts["model"] = Path(arguments.model).name
    rows = Rows(arguments.out / f"lm-{arguments.draw}.jsonl", facts)
    parts = chosen_parts(arguments, PARTS)
    for row in TextRun(arguments, source).rows(parts, rows.known):
        rows.add(row)
        print("lm", row["draw"], *key_of(row), row["perplexity"], flush=True)


if __name__ == "__main__":
    run(main)
