"""How much faster a language model is without heads and neurons, as ratios of one run.

    python benchmarks/shrink_lm_latency.py --model FOLDER [--gguf NAME] [--device cuda]
                                           [--dtype bfloat16] [--layers 3 6 9] [--json FILE]
    python benchmarks/shrink_lm_latency.py --from RESULTS.json [RESULTS.json ...] --page TABLE.csv

As `shrink_latency.py`, for a prompt that is read at once, and for tokens that are generated one by
one with a cache. Units are drawn at random, heads by whole key/value groups. Weights do not matter
for times, so nothing is refitted. With --layers, this many whole layers are removed instead.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from machine import write_rows
from page import measure_or_write, run
from shrink_curves import KINDS, count
from shrink_curves_plan import SHARES
from shrink_latency import add_options, rows_of, speedups, table
from shrink_lm import load_model

from deadhead import prune
from deadhead.heads.depth import remove_layers, stacks_of
from deadhead.heads.discover import find_every_site, layout_of
from deadhead.shrinking import choose, removal

PROMPT = 512  # tokens that are read at once
BEFORE, NEW = 32, 32  # tokens that are read, and those that are generated after them


def smaller_models(whole: Any, seed: int) -> dict[tuple[str, int], Any]:
    """A copy of the model for each unit and share."""
    layout = layout_of(find_every_site(whole))
    models = {}
    for share in SHARES:
        for units, kinds in KINDS.items():
            budgets = [removal(layout, kind, count(layout, kind, share)) for kind in kinds]
            choice = choose(whole, (), "random", budgets=budgets, seed=seed, progress=False)
            model = copy.deepcopy(whole)
            models[units, share] = prune(model, choice.heads, neurons=choice.neurons)
    return models


def shallower_models(whole: Any, numbers: Sequence[int]) -> dict[tuple[str, int], Any]:
    """A copy of the model for each number of layers to remove, by unit and share in percent."""
    (stack,) = stacks_of(whole).values()
    models = {}
    for number in numbers:
        share = round(100 * number / len(stack.layers))
        models["layers", share] = remove_layers(copy.deepcopy(whole), range(number))
    return models


def reading(model: Any) -> Callable[..., Any]:
    return partial(model, use_cache=False)


def generating(model: Any) -> Callable[..., Any]:
    return partial(model.generate, min_new_tokens=NEW, max_new_tokens=NEW, do_sample=False)


def measure(options: argparse.Namespace) -> None:
    whole, _ = load_model(options.model, options.gguf, options.device)
    whole = whole.to(getattr(torch, options.dtype))
    whole.generation_config.pad_token_id = 0
    if options.layers:
        models = shallower_models(whole, options.layers)
    else:
        models = smaller_models(whole, options.seed)
    cases = {
        f"{PROMPT} tokens read": (PROMPT, reading),
        f"{NEW} tokens generated": (BEFORE, generating),
    }
    results: list[dict[str, Any]] = []
    for on, (tokens, as_call) in cases.items():
        draw = torch.Generator().manual_seed(1)
        ids = torch.randint(whole.config.vocab_size, (1, tokens), generator=draw)
        ids = ids.to(options.device)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        others = {name: as_call(model) for name, model in models.items()}
        ratios = speedups(as_call(whole), others, inputs, options.rounds)
        results += rows_of(on, ratios, {"seed": options.seed, "dtype": options.dtype})
        write_rows(options.json, options.device, results)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--gguf", help="the name of a GGUF file in the folder")
    parser.add_argument("--seed", type=int, default=0, help="of the units that go")
    parser.add_argument("--layers", type=int, nargs="+", help="numbers of whole layers to remove")
    add_options(parser)
    measure_or_write(parser, "shrink_lm_latency.py", measure, table)


if __name__ == "__main__":
    run(main)
