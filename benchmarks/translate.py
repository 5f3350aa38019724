"""How fast a Transformer for translation trains and decodes, whole and pruned.

    python benchmarks/translate.py [--size transformer-mini] [--sentences 100] [--json FILE]
    python benchmarks/translate.py --device cuda --data DIR --size transformer-base --epochs 6
                                   [--texts out.json] [--json FILE]

DIR has parallel text (Multi30k, English to German); the default is the data of the embedded world.
The model is trained from scratch (tokens per second: of source and target, without padding). Then
copies without half and without three quarters of the heads of each component, chosen at random,
are trained for `--again` epochs, so that they learn to end their translations. All decode the same
sentences, greedily and with a beam of 4; the best of `--rounds` counts. Translations differ in
length. With sacrebleu installed, BLEU is printed; `--texts` keeps the texts.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from machine import now, torch_machine
from rich.console import Console
from rich.table import Table

from deadhead import discover, prune, strategies
from deadhead.errors import DeadheadError
from deadhead.tasks import MetricValues, encode, load_data, score
from deadhead.training import History, Settings, finetune, preset
from deadhead.training.evaluation import predict
from deadhead.translation import build, vocabulary

PAIR = "en-de"
Rows = list[dict[str, Any]]


class Bench:
    """One run: the data, the model, and the rows as they come."""

    def __init__(self, options: argparse.Namespace):
        self.options, self.rows = options, Rows()
        self.texts: dict[str, tuple[str, ...]] = {}
        self.beams = 4
        rows = {
            split: load_data("parallel", PAIR, split, root=options.data)
            for split in ("train", "dev", "test")
        }
        start = time.perf_counter()
        self.tokenizer = vocabulary(
            (text for row in rows["train"].rows for text in row.texts), options.vocabulary
        )
        self.row(f"vocabulary of {len(self.tokenizer):,}", time.perf_counter() - start, "s")
        most = {"train": options.train, "dev": options.train, "test": options.sentences}
        self.train, self.dev, self.test = (
            encode(replace(data, rows=data.rows[: most[split]]), self.tokenizer)
            for split, data in rows.items()
        )

    def row(self, what: str, value: float, unit: str, **more: Any) -> None:
        self.rows.append({"what": what, "value": value, "unit": unit, **more})
        print(f"  {what}: {value:,.4g} {unit} {more or ''}", flush=True)
        if self.options.json:  # at once: what was measured is kept if the rest is cut short
            about = {
                "machine": torch_machine(self.options.device),
                "date": time.strftime("%Y-%m-%d"),
                "size": self.options.size,
                "data": self.options.data,
            }
            self.options.json.write_text(json.dumps({**about, "rows": self.rows}, indent=1) + "\n")

    def trained(self, what: str, model: Any, settings: Settings) -> History:
        history = finetune(
            model, self.train, settings, dev=self.dev, device=self.options.device, progress=False
        )
        if history.state != "done":
            raise RuntimeError(history.reason)
        tokens = int(self.train.arrays["lengths"].sum() + self.train.arrays["label_lengths"].sum())
        speed = tokens / min(epoch.seconds for epoch in history.epochs)
        losses = [f"{e.loss:.3f} / {-e.scores['log_likelihood']:.3f}" for e in history.epochs]
        self.row(
            f"training {what}",
            speed,
            "tokens/s",
            losses=losses,
            updates=len(history.losses),
            notes=history.notes,
        )
        return history

    def decoded(self, what: str, model: Any) -> float:
        return self._best(
            what,
            lambda: predict(model, self.test, tokenizer=self.tokenizer, beams=self.beams).texts,
        )

    def _best(self, what: str, work: Callable[[], tuple[str, ...]]) -> float:
        best = float("inf")
        for _ in range(self.options.rounds):
            start = now(self.options.device)
            texts = work()
            best = min(best, now(self.options.device) - start)
        self.texts[what] = texts
        tokens = sum(len(ids) for ids in self.tokenizer(list(texts))["input_ids"])
        goal = {"goal": "< 30"} if len(texts) == 1000 else {}
        self.row(
            f"decoding {len(texts):,} sentences, {what}",
            best,
            "s",
            tokens=tokens,
            bleu=self._bleu(texts),
            **goal,
        )
        return best

    def _bleu(self, texts: tuple[str, ...]) -> dict[str, float] | None:
        try:
            values: MetricValues = score("parallel", texts, self.test.data)
        except DeadheadError:
            return None
        return {name: round(value, 2) for name, value in values.items()}

    def __call__(self) -> None:
        o = self.options
        whole = build(o.size, self.tokenizer)
        peak, warm = (0.004, 100) if o.data == "world" else (0.002, 400)
        settings = preset(
            "weak-link-transformer",
            tokens=o.tokens,
            accumulate=o.accumulate,
            rate=peak,
            warmup=warm,
            epochs=o.epochs,
            precision=o.precision,
            average=min(3, o.epochs),
        )
        self.trained(f"{o.size} in {o.accumulate} part(s)", whole, settings)
        models = {"whole": whole}
        for percent in (50, 75):
            smaller = copy.deepcopy(whole)
            prune(smaller, strategies.random(discover(smaller), percent, seed=0, per="block"))
            self.trained(
                f"{o.size}, {percent} % of the heads cut",
                smaller,
                replace(settings, epochs=o.again, average=1, warmup=warm // 2, rate=peak / 2),
            )
            models[f"{percent} % of the heads cut"] = smaller
        for beams in (1, 4):
            self.beams = beams
            way = "greedy" if self.beams == 1 else "beam of 4"
            seconds = {
                name: self.decoded(f"{way}, {name}", model) for name, model in models.items()
            }
            for name in list(seconds)[1:]:
                self.row(
                    f"{way}: {name} / whole", seconds["whole"] / seconds[name], "x", goal="> 1"
                )
        if o.texts:
            o.texts.write_text(
                json.dumps(
                    {"references": [row.texts[1] for row in self.test.data.rows], **self.texts},
                    ensure_ascii=False,
                )
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--data", help="a folder with parallel text", default="world")
    parser.add_argument("--size", default="transformer-mini")
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--train", type=int, help="sentences to train on; by default all")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--tokens", type=int, help="of a batch; 25,000 on a GPU, else 1,000")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--again", type=int, default=1, help="epochs of a pruned model")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--texts", type=Path)
    options = parser.parse_args()
    options.precision = "bf16" if options.device == "cuda" else "float32"
    options.tokens = options.tokens or (25_000 if options.device == "cuda" else 1_000)
    torch.set_num_threads(options.threads if options.device == "cpu" else 4)
    transformers.logging.set_verbosity_error()
    bench = Bench(options)
    bench()
    table = Table("what", "value", "unit", "goal", title=torch_machine(options.device))
    for row in bench.rows:
        table.add_row(row["what"], f"{row['value']:,.4g}", row["unit"], row.get("goal", ""))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
