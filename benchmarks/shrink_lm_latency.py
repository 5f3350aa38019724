"""How much faster a language model is without heads and neurons, as ratios of one run.

    python benchmarks/shrink_lm_latency.py --model FOLDER [--gguf NAME] [--device cuda]
                                           [--dtype bfloat16] [--json FILE]
    python benchmarks/shrink_lm_latency.py --from RESULTS.json [RESULTS.json ...] --page PAGE.md

As `shrink_latency.py`, for a prompt that is read at once, and for tokens that are generated one by
one with a cache. Units are drawn at random, heads by whole key/value groups: which ones go hardly
matters for times, and the weights do not.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from machine import write_rows
from page import fill
from shrink_curves import KINDS
from shrink_curves_plan import SHARES
from shrink_latency import rows_of, speedups, table
from shrink_lm import load_model

from deadhead import prune
from deadhead.errors import DeadheadError
from deadhead.heads.discover import find_every_site, layout_of
from deadhead.shrinking import choose, read_targets, removal
from deadhead.shrinking.target import count_of

PROMPTS = ((1, 512), (8, 128))  # texts, tokens
NEW, BEFORE = 32, 32  # tokens: generated, and of the prompt before them


def smaller_models(whole: Any, seed: int) -> dict[tuple[str, int], Any]:
    """A copy of the model for each unit and share."""
    layout = layout_of(find_every_site(whole))
    models = {}
    for share in SHARES:
        for units, kinds in KINDS.items():
            budgets = []
            for kind in kinds:
                total = int(removal(layout, kind, 0).whole)
                count = count_of(kind, read_targets({kind: f"{share}%"})[kind], total, total)
                budgets.append(removal(layout, kind, count))
            units_chosen = choose(whole, (), "random", budgets=budgets, seed=seed, progress=False)
            model = copy.deepcopy(whole)
            models[units, share] = prune(model, units_chosen.heads, neurons=units_chosen.neurons)
    return models


def generating(model: Any) -> Callable[..., Any]:
    """The model, as a function that generates tokens."""
    options = {"min_new_tokens": NEW, "max_new_tokens": NEW, "do_sample": False}
    return lambda **inputs: model.generate(**inputs, **options)


def measure(options: argparse.Namespace) -> None:
    whole, _ = load_model(options.model, options.gguf, options.device)
    whole = whole.to(getattr(torch, options.dtype))
    whole.generation_config.pad_token_id = 0
    models = smaller_models(whole, options.seed)
    writers = {name: generating(model) for name, model in models.items()}
    results: list[dict[str, Any]] = []
    for texts, tokens in (*PROMPTS, (1, BEFORE)):
        draw = torch.Generator().manual_seed(1)
        size = whole.config.vocab_size
        ids = torch.randint(size, (texts, tokens), generator=draw).to(options.device)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if tokens == BEFORE:
            name, one, others = f"{NEW} new tokens", generating(whole), writers
        else:
            name, one, others = f"{texts} x {tokens}", whole, models
            inputs["use_cache"] = False
        ratios = speedups(one, others, inputs, options.rounds)
        results += rows_of(name, ratios, {"seed": options.seed, "dtype": options.dtype})
        write_rows(options.json, options.device, results)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--gguf", help="the name of a GGUF file in the folder")
    parser.add_argument("--seed", type=int, default=0, help="of the units that go")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--from", dest="results", type=Path, nargs="+", help="measured before")
    parser.add_argument("--page", type=Path, help="write the table of --from into this page")
    options = parser.parse_args()
    if options.results and options.page:
        fill(options.page, "shrink_lm_latency.py", [table(options.results)])
    elif options.model:
        measure(options)
    else:
        raise DeadheadError("There is nothing to do.", "name --model, or --from and --page")


if __name__ == "__main__":
    try:
        main()
    except DeadheadError as problem:
        raise SystemExit(f"{problem.message} {problem.hint}") from None
