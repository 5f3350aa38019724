"""What helps a language model that keeps 80 % of its parameters.

    python benchmarks/shrink_lm_ways.py --model FOLDER [--gguf NAME] --train train.txt
                                        --text test.txt --folder WORK --json FILE
    python benchmarks/shrink_lm_ways.py --from FILE --page FILE.csv

Each way changes one thing of the first: more text to calibrate on, whole layers beside heads and
neurons, other weights of tokens in the refit, or training afterwards: an epoch of LoRA on the
outputs of the whole model. All are scored on the same windows of the other text. WORK keeps the
smaller models, and FILE its rows, so a second call continues.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from machine import read_rows, write_rows
from page import markdown, measure_or_write, run
from prune_and_quantise import losses
from prune_and_quantise_page import change
from shrink_lm import WINDOW, load_model, windows

from deadhead import load, save, shrink
from deadhead.forward import on_device
from deadhead.heads.prune import Cut, checked_cuts
from deadhead.shrinking import REPAIRS, Repair
from deadhead.shrinking.held_out import FitBatches, Parts
from deadhead.shrinking.projection import Projection
from deadhead.shrinking.refitting import RefitPlan, Solver, planned
from deadhead.shrinking.repairs import refitting_by
from deadhead.shrinking.streams import Call, Streams
from deadhead.training import distill
from deadhead.training.lora import RATE, add_adapters
from deadhead.training.settings import Settings

KEPT = 0.8  # share of the parameters
BATCH = 2  # windows
RANK, UPDATE = 8, 1  # LoRA: its rank, and the windows of an update
METHOD, TWO = "fisher", "auto"  # trying two methods takes longer


class Way(NamedTuple):
    text: int = 1  # to calibrate on, a multiple of the windows
    layers: int | None = 0  # to remove before heads and neurons; None: as many as pay
    repair: str = "refit"
    method: str = METHOD
    trained: int = 0  # a multiple of the windows


FIRST = "heads and neurons"
WAYS: dict[str, dict[str, Any]] = {
    FIRST: {},
    "tokens weigh gradient²": {"repair": "gradient"},
    "LoRA on four times the text": {"trained": 4},
    "four times the text": {"text": 4},
    "two layers, then heads and neurons": {"layers": 2},
    "layers, heads and neurons by search": {"layers": None, "method": TWO},
    "heads and neurons, two methods tried": {"method": TWO},
    "four times the text, layers by search": {"text": 4, "layers": None, "method": TWO},
    "all tokens weigh the same": {"repair": "same"},
    "tokens weigh 1 / target²": {"repair": "relative"},
}


class GradientSolver(Solver):
    """Weighs the error of a token by the squared gradient of the loss at the output it changes."""

    def _streams(self, cuts: Sequence[Cut]) -> Streams:
        sites = [cut.site for cut in cuts]
        self.weights = [gradients(self.model, sites, batch) for _, batch in self.data]
        return super()._streams(cuts)

    def _read(self, projection: Projection, count: Callable[[int], None]) -> str:
        site = projection.cut.site
        for number, batch in self.data:
            (whole,) = self.streams.run(number, batch, site, follow=True)
            (small,) = self.streams.run(number, batch, site, small=True, follow=True)
            parts = self._parts(number, batch, site, small.inputs)
            add(projection, whole, small, parts, self.weights[number][id(site)])
            count(number + 1)
        self._check_finite(projection)
        return "residual"


def add(
    projection: Projection, whole: Call, small: Call, parts: Parts, weights: torch.Tensor
) -> None:
    """Add the rows of a call in both runs, each token with its weight."""
    goal = whole.output + whole.added - small.added
    inputs = small.inputs.flatten(0, -2)[:, projection.columns]
    targets = goal.flatten(0, -2)
    errors = targets - F.linear(inputs, projection.weight, projection.bias)
    squared = targets.square().sum(1)
    for rows, sums in zip(parts, (projection.weighted, projection.held_out), strict=True):
        sums.add(inputs[rows], errors[rows], squared[rows], weights[rows])
    projection.tokens += len(parts[0])
    projection.held_out_tokens += len(parts[1])


def gradients(model: Any, sites: Sequence[Any], batch: Mapping[str, Any]) -> dict[int, Any]:
    """The squared gradient of the loss at the output of each site, for each token."""
    zeros: dict[int, torch.Tensor] = {}

    def hook(site: Any, module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
        zeros[id(site)] = torch.zeros_like(output, requires_grad=True)
        return output + zeros[id(site)]

    with ExitStack() as stack, torch.enable_grad():
        for site in sites:
            stack.enter_context(site.out.register_forward_hook(partial(hook, site)))
        loss = model(**on_device(batch, model), use_cache=False).loss
        squares = torch.autograd.grad(loss, [*zeros.values()])
    return {key: g.square().sum(-1).flatten() for key, g in zip(zeros, squares, strict=True)}


def plan_by_gradient(
    model: Any, batches: Any, choice: Any, progress: Any, new_biases: bool = True
) -> RefitPlan:
    cuts = checked_cuts(model, choice.heads, choice.neurons, biases=True, everywhere=False)
    changed = [cut for cut in cuts if cut.left != cut.site.kept]

    def solver() -> Solver:
        data = FitBatches(model, batches)
        return GradientSolver(model, data, ("weighted",), new_biases=new_biases)

    return planned(solver, model, cuts, changed, progress)


WEIGHTS = {  # a weight for each token; the default tries "same" and "relative" in each layer
    "same": Repair(help="1", plan=refitting_by("mean", "scales", "refit"), new_biases="cut"),
    "relative": Repair(help="1 / target²", plan=refitting_by("weighted"), new_biases="cut"),
    "gradient": Repair(help="gradient²", plan=plan_by_gradient, new_biases="cut"),
}


@contextmanager
def registered() -> Iterator[None]:
    """Let `shrink` know the repairs of this script."""
    REPAIRS.update(WEIGHTS)
    try:
        yield
    finally:
        for name in WEIGHTS:
            del REPAIRS[name]


@registered()
def measure(options: argparse.Namespace) -> None:
    whole, tokenizer = load_model(options.model, options.gguf, options.device)
    text = windows(options.text, tokenizer)
    text = text[torch.linspace(0, len(text) - 1, options.scored).long()]
    train = windows(options.train, tokenizer)
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
    train = train[order]
    rows = read_rows(options.json) if options.json.exists() else []
    known = {row["way"] for row in rows}
    if "whole" not in known:
        rows.append({"way": "whole", "parameters": whole.num_parameters(), "removed": []})
        rows[-1] |= {"seconds": 0, "parts": losses(whole, text), "sizes": WINDOW - 1}
    for name in options.only or WAYS:
        if name in known:
            continue
        way = Way(**WAYS[name])
        folder = options.folder / "-".join(map(str, way[:-1]))
        if not (folder / "shrunk.json").exists():
            begin, model = time.perf_counter(), copy.deepcopy(whole)
            batches = batches_of(train[: way.text * options.windows], BATCH)
            report = shrink(
                model, batches, parameters=KEPT, layers=way.layers, method=way.method,
                repair=way.repair, on=(1, WINDOW), progress=False,
            )  # fmt: skip
            save(model, folder, tokenizer)
            facts = {"removed": report.removed_layers, "seconds": time.perf_counter() - begin}
            (folder / "shrunk.json").write_text(json.dumps(facts))
        facts, begin = json.loads((folder / "shrunk.json").read_text()), time.perf_counter()
        model = load(folder, dtype=torch.float32).to(options.device)
        if way.trained:
            adapters = add_adapters(model, RANK, seed=0, classifier=False)
            learned = batches_of(train[: way.trained * options.windows], UPDATE)
            distill(model, whole, learned, Settings(epochs=1, rate=RATE), progress=False)
            model = adapters.merge_and_unload()
        row = {"way": name, "parameters": model.num_parameters(), "removed": facts["removed"]}
        row["seconds"] = round(facts["seconds"] + time.perf_counter() - begin)
        row |= {"parts": losses(model.eval(), text), "sizes": WINDOW - 1}
        rows.append(row)
        print({key: row[key] for key in row if key != "parts"}, perplexity(row), flush=True)
        write_rows(options.json, options.device, rows)


def batches_of(ids: torch.Tensor, size: int) -> list[dict[str, torch.Tensor]]:
    return [{"input_ids": rows, "labels": rows} for rows in ids.split(size)]


def perplexity(row: Mapping[str, Any]) -> float:
    return math.exp(sum(row["parts"]) / len(row["parts"]) / row["sizes"])


def table(files: Sequence[Path]) -> str:
    rows = {row["way"]: row for file in files for row in read_rows(file)}
    lines = []
    for name, row in rows.items():
        mean, half = change(rows[FIRST], row)
        against = "" if name == FIRST else f"{mean:+.1f} ± {half:.1f} %"
        lines.append([name, f"{perplexity(row):.1f}", against])
    return markdown(["way", "perplexity", "against heads and neurons"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--gguf", help="the name of a GGUF file in the folder")
    parser.add_argument("--train", help="a text file to calibrate on")
    parser.add_argument("--text", help="another one, to score on")
    parser.add_argument("--folder", type=Path, help="keeps the smaller models")
    parser.add_argument("--windows", type=int, default=8, help="of 512 tokens, to calibrate with")
    parser.add_argument("--scored", type=int, default=8, help="of 512 tokens, to measure on")
    parser.add_argument("--only", nargs="*", choices=WAYS)
    parser.add_argument("--device", default="cpu")
    measure_or_write(parser, "shrink_lm_ways.py", measure, table)


if __name__ == "__main__":
    run(main)
