"""All edges of a decoder, by deadhead and by TransformerLens, on indirect objects.

    lens/bin/python benchmarks/circuits_lens.py --model FOLDER [--json FILE]

The environment is that of against_transformer_lens.py. The sentences are those of circuits.py which
the model solves, the shortest ones: TransformerLens scores each position, and SmolLM2-135M takes it
three gigabytes and half a minute of processor for a pair of 13 tokens.

TransformerLens refuses grouped queries, so it gets the same model with a copy of the keys and
values for each head of a group. The effects on the copies add up to that on what the heads share.
It scores each position of a pair; their sums are compared. Both get one pair at a time, and the
results are written after each.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import machine
import numpy as np
import torch
from against_transformer_lens import EdgeAttributionConfig, Lens, attribution_patch, node_of
from circuits import Batch, Pairs, candidates, metric, solved, write
from transformers import AutoModelForCausalLM, AutoTokenizer

from deadhead import edge_effects
from deadhead.effects import EdgeEffects
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
    """Return the name in deadhead of a target of TransformerLens."""
    if node.kind not in ("k_input", "v_input"):
        return node_of(node)
    first = node.head // group * group
    return f"decoder.{node.layer}.{spans(range(first, first + group))}.{node.kind[0]}"


def keys_of(node: Any) -> tuple[Any, ...]:
    return node.kind, node.layer, node.head


def compared(model: Any, pairs: Pairs) -> Iterator[dict[str, Any]]:
    """How alike the effects of all edges are, and the seconds for a pair, after each pair."""
    single, config, start = without_groups(model), model.config, time.process_time
    with torch.no_grad():
        ids = pairs.clean[0]["input_ids"]
        apart = float((single(ids).logits - model(ids).logits).abs().max())
    lens, group = Lens(single), config.num_attention_heads // config.num_key_value_heads
    ours, theirs = 0.0, np.zeros(())
    seconds = {"deadhead": 0.0, "transformer-lens": 0.0}
    for count, (clean, corrupt) in enumerate(one_by_one(pairs), 1):
        begin = start()
        effects = edge_effects(model, clean, corrupt, metric, progress=False)
        seconds["deadhead"] += start() - begin
        ours, begin = ours + effects.matrix, start()
        ((answer, wrong, at),) = clean["labels"].tolist()
        scores = attribution_patch(
            lens.bridge,
            corrupt["input_ids"],
            clean["input_ids"],
            lambda logits, at=at, answer=answer, wrong=wrong: (
                logits[0, at, answer] - logits[0, at, wrong]
            ),
            EdgeAttributionConfig(granularity="edge"),
        ).edge_scores
        seconds["transformer-lens"] += start() - begin
        theirs = theirs + without_positions(scores, effects, group)
        del scores
        measured = ~np.isnan(ours)
        if (np.isnan(theirs) == measured).any():
            raise SystemExit("the edges of TransformerLens are others")
        first, second = ours[measured] / count, theirs[measured] / count
        strongest = [set(np.argsort(-abs(each))[:FEW]) for each in (first, second)]
        yield {
            "version": version("transformer-lens"),
            "pairs": count,
            "edges": len(effects),
            "logits apart": apart,
            "correlation": float(np.corrcoef(first, second)[0, 1]),
            "largest difference": float(abs(first - second).max()),
            "largest effect": float(abs(second).max()),
            f"of the {FEW} strongest, in both": len(strongest[0] & strongest[1]),
            "seconds for a pair": {name: total / count for name, total in seconds.items()},
        }


def one_by_one(pairs: Pairs) -> Iterator[tuple[Batch, Batch]]:
    for batches in zip(pairs.clean, pairs.corrupt, strict=True):
        for row in range(len(batches[0]["labels"])):
            clean, corrupt = ({n: v[row : row + 1] for n, v in b.items()} for b in batches)
            yield clean, corrupt


def without_positions(scores: Any, effects: EdgeEffects, group: int) -> np.ndarray:
    """The scores of TransformerLens as the matrix of deadhead, summed over positions."""
    rows = {name: number for number, name in enumerate(effects.targets)}
    columns = {name: number for number, name in enumerate(effects.sources)}
    matrix = np.where(np.isnan(effects.matrix), np.nan, 0.0)
    ends = {keys_of(node): node for edge in scores for node in edge}
    sums: defaultdict[Any, float] = defaultdict(float)
    for (source, target), effect in scores.items():
        sums[keys_of(source), keys_of(target)] += effect
    for (source, target), effect in sums.items():
        matrix[rows[target_of(ends[target], group)], columns[node_of(ends[source])]] += effect
    return matrix


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
    about = {"machine": machine.torch_machine("cpu"), "model": options.model.name}
    for results in compared(model, Pairs(right[: options.pairs], tokenizer)):
        write({**about, **results}, options.json)


if __name__ == "__main__":
    main()
