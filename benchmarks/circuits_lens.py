"""All edges of a decoder, by deadhead and by TransformerLens, on indirect objects.

    lens/bin/python benchmarks/circuits_lens.py --model FOLDER [--json FILE]

The environment is that of against_transformer_lens.py. The sentences are those of circuits.py which
the model solves, the shortest ones: TransformerLens scores each position, and SmolLM2-135M takes it
three gigabytes and half a minute of processor for a pair of 13 tokens.

TransformerLens refuses grouped queries, so it gets the same model with a copy of the keys and
values for each head of a group. The effects on the copies add up to that on what the heads share.
It scores each position of each pair, in a run of its own; their sums are compared.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import machine
import numpy as np
import torch
from against_transformer_lens import EdgeAttributionConfig, Lens, attribution_patch, node_of
from circuits import Pairs, candidates, metric, solved, write
from transformers import AutoModelForCausalLM, AutoTokenizer

from deadhead import edge_effects
from deadhead.layout import spans

FEW = 100  # the strongest edges


def without_groups(model: Any) -> Any:
    """The model with keys and values for every head."""
    config, weights = copy.deepcopy(model.config), model.state_dict()
    copies = config.num_attention_heads // config.num_key_value_heads
    width = weights["model.layers.0.self_attn.k_proj.weight"].shape[0]
    width //= config.num_key_value_heads
    config.num_key_value_heads = config.num_attention_heads
    for name, weight in weights.items():
        if name.endswith(("k_proj.weight", "v_proj.weight")):
            by_head = weight.unflatten(0, (-1, width)).repeat_interleave(copies, 0)
            weights[name] = by_head.flatten(0, 1)
    single = type(model)(config).eval()
    single.load_state_dict(weights)
    return single


def target_of(node: Any, group: int) -> str:
    """How deadhead names a target of TransformerLens in a model with groups of so many heads."""
    if node.kind not in ("k_input", "v_input"):
        return node_of(node)
    first = node.head // group * group
    return f"decoder.{node.layer}.{spans(range(first, first + group))}.{node.kind[0]}"


def keys_of(node: Any) -> tuple[Any, ...]:
    return node.kind, node.layer, node.head


def compared(model: Any, pairs: Pairs) -> dict[str, Any]:
    """How alike the effects of all edges are, and the seconds of each for one pair."""
    start = time.process_time()
    ours = edge_effects(model, pairs.clean, pairs.corrupt, metric, progress=False)
    seconds = {"deadhead": time.process_time() - start, "transformer-lens": 0.0}
    single = without_groups(model)
    with torch.no_grad():
        ids = pairs.clean[0]["input_ids"]
        apart = float((single(ids).logits - model(ids).logits).abs().max())
    lens = Lens(single)
    config = model.config
    group = config.num_attention_heads // config.num_key_value_heads
    rows = {name: number for number, name in enumerate(ours.targets)}
    columns = {name: number for number, name in enumerate(ours.sources)}
    theirs = np.where(np.isnan(ours.matrix), np.nan, 0.0)
    for clean, corrupt in zip(pairs.clean, pairs.corrupt, strict=True):
        for number, (answer, wrong, at) in enumerate(clean["labels"].tolist()):
            row: Any = slice(number, number + 1)
            start = time.process_time()
            scores = attribution_patch(
                lens.bridge,
                corrupt["input_ids"][row],
                clean["input_ids"][row],
                lambda logits, at=at, answer=answer, wrong=wrong: (
                    logits[0, at, answer] - logits[0, at, wrong]
                ),
                EdgeAttributionConfig(granularity="edge"),
            ).edge_scores
            seconds["transformer-lens"] += time.process_time() - start
            sums: defaultdict[Any, float] = defaultdict(float)  # without positions
            for (source, target), effect in scores.items():
                sums[keys_of(source), keys_of(target)] += effect / len(pairs)
            ends = {keys_of(node): node for edge in scores for node in edge}
            for (source, target), effect in sums.items():
                name, column = target_of(ends[target], group), node_of(ends[source])
                theirs[rows[name], columns[column]] += effect
            del scores
            print(f"{seconds}", flush=True)
    measured = ~np.isnan(ours.matrix)
    if np.isnan(theirs[measured]).any() or not np.isnan(theirs[~measured]).all():
        raise SystemExit("the edges of TransformerLens are others")
    first, second = ours.matrix[measured], theirs[measured]
    strongest = [set(np.argsort(-abs(each))[:FEW]) for each in (first, second)]
    return {
        "version": version("transformer-lens"),
        "pairs": len(pairs),
        "edges": len(ours),
        "logits apart": apart,
        "correlation": float(np.corrcoef(first, second)[0, 1]),
        "largest difference": float(abs(first - second).max()),
        "largest effect": float(abs(second).max()),
        f"of the {FEW} strongest, in both": len(strongest[0] & strongest[1]),
        "seconds for a pair": {name: total / len(pairs) for name, total in seconds.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="a folder")
    parser.add_argument("--candidates", type=int, default=100, help="pairs that are generated")
    parser.add_argument("--pairs", type=int, default=12, help="pairs to compare on")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    eager = {"dtype": torch.float32, "attn_implementation": "eager"}
    model = AutoModelForCausalLM.from_pretrained(options.model, **eager).eval()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    right = solved(model, candidates("names", options.candidates, tokenizer), tokenizer)
    right.sort(key=lambda pair: len(tokenizer(pair[0])["input_ids"]))
    results = {
        "machine": machine.torch_machine("cpu"),
        "model": options.model.name,
        **compared(model, Pairs(right[: options.pairs], tokenizer)),
    }
    write(results, options.json)


if __name__ == "__main__":
    main()
