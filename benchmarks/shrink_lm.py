"""What shrinking without training costs a language model: perplexity on held-out text.

    python benchmarks/shrink_lm.py --model FOLDER --gguf NAME --calibration test.txt
                                   --text valid.txt [--device cuda] [--draws 5] [--json FILE]

The model is a folder of transformers, or a GGUF file in it. Calibration is windows of one text, of
which each draw takes its own part; perplexity is per token of the other text, in windows of 512.
Beside deadhead's own choice and refit: the cut alone, random sets under the same refit (the
control), Kwon et al. (their choice and their scales) and FLAP (its choice and its bias).
"""

from __future__ import annotations

import argparse
import copy
import math
import random
import re
import statistics
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from machine import now, write_rows
from shrink_encoders import facts, variants_of
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from deadhead.shrinking import shrink

WINDOW, BATCH = 512, 16
BUDGETS: dict[str, dict[str, float]] = {
    "20 % of the key/value groups": {"heads": 0.2},
    "20 % of the neurons": {"neurons": 0.2},
    "20 % of both": {"heads": 0.2, "neurons": 0.2},
}


def load_model(folder: str, gguf: str | None, device: str) -> tuple[Any, Any]:
    """The model in float32, as an ordinary one: its weights are plain numbers once it is loaded."""
    options = {"gguf_file": gguf} if gguf else {}
    tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options)
    if gguf:
        config = copy.deepcopy(model.config)
        config.__dict__.pop("quantization_config", None)
        unquantised = type(model)(config)
        unquantised.load_state_dict(model.state_dict())
        model = unquantised
    return model.to(device).eval(), tokenizer


def cleaned(text: str) -> str:
    """WikiText as people write: without spaces before commas, and without its marks."""
    text = text.replace(" @-@ ", "-").replace(" @,@ ", ",").replace(" @.@ ", ".")
    text = text.replace("<unk>", "unk")
    return re.sub(r"([(]) ", r"\1", re.sub(r" ([.,;:!?)%'])", r"\1", text))


def windows(file: str, tokenizer: Any) -> Tensor:
    text = cleaned(Path(file).read_text())
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids[0]
    return ids[: len(ids) // WINDOW * WINDOW].view(-1, WINDOW)


@torch.no_grad()
def perplexity(model: Any, text: Tensor, device: str) -> float:
    total = 0.0
    for rows in text.split(BATCH):
        ids = rows.to(device)
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
        total += float(F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="sum"))
    return math.exp(total / text[:, 1:].numel())


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| removed | | perplexity | range | seconds |", "|---|---|---|---|---|"]
    for removed, variant in dict.fromkeys((r["removed"], r["variant"]) for r in rows):
        some = [r for r in rows if (r["removed"], r["variant"]) == (removed, variant)]
        values = [r["perplexity"] for r in some]
        seconds = statistics.median(r.get("seconds", 0.0) for r in some)
        spread = f"{min(values):.2f} to {max(values):.2f}" if len(values) > 1 else ""
        middle = f"{statistics.mean(values):.2f}"
        lines.append(f"| {removed} | {variant} | {middle} | {spread} | {seconds:.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--gguf", help="the name of a GGUF file in the folder")
    parser.add_argument("--calibration", required=True, help="a text file")
    parser.add_argument("--text", required=True, help="another one, to measure on")
    parser.add_argument("--windows", type=int, default=256, help="of calibration, in each draw")
    parser.add_argument("--draws", default="0,1,2,3,4", help="their numbers")
    parser.add_argument("--only", help="only what contains this, such as 'both: deadhead'")
    parser.add_argument("--each-method", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    start = time.time()
    whole, tokenizer = load_model(arguments.model, arguments.gguf, arguments.device)
    calibration = windows(arguments.calibration, tokenizer)
    text = windows(arguments.text, tokenizer)
    rows = [{"removed": "nothing", "variant": "whole"}]
    rows[0]["perplexity"] = perplexity(whole, text, arguments.device)
    print(f"[{time.time() - start:6.1f}] whole: {rows[0]['perplexity']:.2f}")
    for draw in map(int, arguments.draws.split(",")):
        chosen = random.Random(draw).sample(range(len(calibration)), arguments.windows)
        batches = [{"input_ids": ids, "labels": ids} for ids in calibration[chosen].split(BATCH)]
        for removed, budget in BUDGETS.items():
            for variant, options in variants_of(arguments).items():
                if arguments.only and arguments.only not in f"{removed}: {variant}":
                    continue
                model, begin = copy.deepcopy(whole), now(arguments.device)
                report = shrink(model, batches, **budget, **options, seed=draw, progress=False)
                row = {"removed": removed, "variant": variant, "draw": draw}
                row["seconds"] = now(arguments.device) - begin
                row["perplexity"] = perplexity(model, text, arguments.device)
                row |= facts(report)
                rows.append(row)
                value = f"{row['perplexity']:.2f} in {row['seconds']:.0f} s"
                print(f"[{time.time() - start:6.1f}] {draw} {removed}, {variant}: {value}")
                write_rows(arguments.json, arguments.device, rows)
    print(table(rows))


if __name__ == "__main__":
    main()
