"""Perplexity of a language model without whole layers: only removed, and repaired.

Prints a row of JSON for each number of layers:

    python benchmarks/shrink_depth.py --model FOLDER --train train.txt --test test.txt
                                      [--removed 3,6,9] [--json FILE]
    python benchmarks/shrink_depth.py --model FOLDER --generate FILE [--rounds 9] [--json OTHER]

`--generate` times the models of FILE and the whole one, in turns, while they write a text alone.
"""

import argparse
import copy
import gzip
import json
import math
import time
from pathlib import Path

import torch
from machine import read_rows, write_rows

from deadhead import load
from deadhead.heads.depth import remove_layers
from deadhead.heads.model_files import tokenizer_of
from deadhead.shrinking import shrink

WINDOW, BATCH = 512, 8
PROMPT, WRITTEN = 32, 64  # tokens


def windows(tokenizer, file, count):
    data = file.read_bytes()
    text = (gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8")
    text = text[: 12 * WINDOW * count]  # more than enough letters
    ids = torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"])
    return ids[: len(ids) // WINDOW * WINDOW].view(-1, WINDOW)[:count]


@torch.no_grad()
def perplexity(model, test):
    model.eval()
    total = 0.0
    for rows in test.split(BATCH):
        ids = rows.to(model.device)
        logits = model(ids).logits.float()[:, :-1]
        labels = ids[:, 1:].flatten()
        total += float(
            torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels, reduction="sum")
        )
    return math.exp(total / (test.numel() - len(test)))


def seconds_of(model, prompt):
    begin = time.perf_counter()
    model.generate(
        prompt, attention_mask=torch.ones_like(prompt), do_sample=False, pad_token_id=0,
        min_new_tokens=WRITTEN, max_new_tokens=WRITTEN,
    )  # fmt: skip
    return time.perf_counter() - begin


def generate(options):
    """How many times as fast a model writes without the layers of each row."""
    whole = load(options.model, dtype=torch.float32).to(options.device).eval()
    prompt = torch.arange(PROMPT, device=options.device)[None]
    rows = []
    for row in read_rows(options.generate):
        keys = [(name.rpartition(".")[0], int(name.rpartition(".")[2])) for name in row["removed"]]
        small = remove_layers(copy.deepcopy(whole), keys)
        both = (whole, small)
        turns = [[seconds_of(m, prompt) for m in both] for _ in range(1 + options.rounds)]
        ratios = sorted(before / after for before, after in turns[1:])  # the first warms up
        rows.append({"removed": row["removed"], "prompt": PROMPT, "written": WRITTEN})
        rows[-1]["faster"] = [round(ratio, 3) for ratio in ratios]
        print(json.dumps(rows[-1]), flush=True)
        write_rows(options.json, options.device, rows)


def measure(options):
    tokenizer = tokenizer_of(options.model)
    train = windows(tokenizer, options.train, 4 * options.windows)
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
    train = train[order[: options.windows]]
    test = windows(tokenizer, options.test, options.test_windows)
    batches = [{"input_ids": rows, "labels": rows} for rows in train.split(BATCH)]
    rows = []
    for number in map(int, options.removed.split(",")):
        model = load(options.model, dtype=torch.float32).to(options.device)
        begin = time.perf_counter()
        report = shrink(
            model, batches, layers=number, method=options.method, on=(1, WINDOW), progress=False,
            score=lambda model: perplexity(model, test),
        )  # fmt: skip
        row = {"removed": report.removed_layers, "windows": options.windows}
        row["perplexity"] = report.scores
        row |= {"parameters": report.sizes["parameters"], "stages": report.seconds}
        rows.append({**row, "seconds": round(time.perf_counter() - begin, 1)})
        print(json.dumps(rows[-1]), flush=True)
        write_rows(options.json, options.device, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--train", type=Path)
    parser.add_argument("--test", type=Path)
    parser.add_argument("--removed", default="3,6,9")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--windows", type=int, default=640, help="to choose and refit with")
    parser.add_argument("--test-windows", type=int, default=160)
    parser.add_argument("--generate", type=Path, metavar="FILE", help="rows of models to time")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.generate:
        generate(options)
    elif options.train and options.test:
        measure(options)
    else:
        parser.error("name --train and --test, or --generate")


if __name__ == "__main__":
    main()
