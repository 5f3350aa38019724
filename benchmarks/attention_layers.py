"""How many attention layers of a decoder are redundant: perplexity against layers removed.

    python benchmarks/attention_layers.py --model FOLDER --calibration valid.txt --text test.txt
                                          [--windows 40] [--draws 5] [--device cuda] [--json FILE]
    python benchmarks/attention_layers.py --from FILE --page FILE.csv

After He et al. 2024, "What matters in transformers? Not all attention is needed": layers go in the
order of the ranker `similarity`, which reads the calibration text; the control is random layers,
`--draws` times. A removed layer loses all its heads; its feed-forward part stays. Perplexity is per
token of the other text, in windows of 256 tokens.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from machine import read_rows, torch_machine
from page import markdown, measure_or_write, run
from shrink_lm import cleaned
from torch import Tensor
from transformers import AutoTokenizer

from deadhead import discover, gated, load, rank
from deadhead.strategies import choose

WINDOW, BATCH = 256, 4


def windows(file: str, tokenizer: Any, most: int) -> Tensor:
    """The first windows of a text, as token ids."""
    text = cleaned(Path(file).read_text(encoding="utf-8"))[: most * WINDOW * 12]
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids[0]
    return ids[: len(ids) // WINDOW * WINDOW].view(-1, WINDOW)[:most]


@torch.no_grad()
def perplexity(model: Any, text: Tensor) -> float:
    total = 0.0
    for ids in text.split(BATCH):
        ids = ids.to(model.device)
        logits = model(input_ids=ids).logits[:, :-1].float()
        total += float(F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="sum"))
    return math.exp(total / (text.shape[0] * (WINDOW - 1)))


def perplexities(model: Any, ranked: Tensor, text: Tensor, draws: int) -> dict[str, Any]:
    """Perplexity by the number of removed layers, for the ranking and for random layers."""
    layout = discover(model)
    ranking = rank(model, [{"input_ids": ids} for ids in ranked.split(BATCH)], "similarity")
    scores = {a.layer: ranking[a.heads[0]] for a in layout.attentions}
    layers = len(layout.attentions)
    whole = perplexity(model, text)
    rows: list[dict[str, Any]] = [{"removed": 0, "similarity": whole, "random": [whole]}]
    for number in sorted({round(layers * share / 10) for share in range(1, 6)}):
        chosen = choose("lowest_layers", layout, number, scores=ranking.scores)
        controls = [choose("random_layers", layout, number, seed=seed) for seed in range(draws)]
        values = []
        for heads in (chosen, *controls):
            with gated(model, closed=heads):
                values.append(perplexity(model, text))
        removed = sorted({head.layer for head in chosen})
        row = {"removed": number, "layers": removed, "similarity": values[0], "random": values[1:]}
        rows.append(row)
        median = statistics.median(values[1:])
        print(f"{number:3} of {layers} layers: {values[0]:.2f}; random {median:.2f} (median)")
    return {"scores": scores, "rows": rows}


def table(files: Sequence[Path]) -> str:
    """Perplexity by the number of layers removed."""
    lines = []
    for row in (row for file in files for row in read_rows(file)):
        draws = row["random"]
        spread = f"{min(draws):.1f} to {max(draws):.1f}" if len(draws) > 1 else ""
        cells = [f"{row['similarity']:.1f}", f"{statistics.median(draws):.1f}", spread]
        lines.append([str(row["removed"]), *cells])
    titles = ["attention layers removed", "by similarity", "random, median", "random, range"]
    return markdown(titles, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--calibration")
    parser.add_argument("--text")
    parser.add_argument("--windows", type=int, default=40)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    measure_or_write(parser, Path(__file__).name, measure, table)


def measure(options: argparse.Namespace) -> None:
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = load(options.model, dtype="float32").to(options.device).eval()
    ranked, text = (
        windows(file, tokenizer, options.windows) for file in (options.calibration, options.text)
    )
    results = {
        "machine": torch_machine(options.device),
        "model": Path(options.model).name,
        "windows": [len(ranked), len(text)],
        **perplexities(model, ranked, text, options.draws),
    }
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
