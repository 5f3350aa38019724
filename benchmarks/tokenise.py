"""Time and memory to tokenise 400,000 examples of the size of MNLI.

    python benchmarks/tokenise.py [--examples N] [--tokenizer FOLDER] [--keep FOLDER] [--json FILE]

The goals are 60 s on 2 cores, and 2 GB. The text is generated with the shape of MNLI: premises of
about 20 words that come three times each, hypotheses of about 10, words by Zipf's law with
punctuation and rare words. Without `--tokenizer`, a WordPiece of 30,000 entries is trained on it
first (not timed). Reading from a tsv file is timed too.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from machine import loaded_cores, versions

from deadhead.tasks import batches, encode, load_data

SYLLABLES = [
    c + v + e
    for c in ("", *"bcdfghklmnprstvw", "st", "tr", "ch")
    for v in "aeiou"
    for e in ("", "n", "r", "s", "t", "l")
]
LABELS = ("entailment", "neutral", "contradiction")


def vocabulary(draw: random.Random, size: int = 60_000) -> list[str]:
    return [
        "".join(draw.choices(SYLLABLES, k=1 + int(draw.random() * (1.2 + rank / 25_000))))
        for rank in range(size)
    ]


def sentence(draw: random.Random, words: list[str], mean: float) -> str:
    count = max(2, int(draw.gammavariate(2.2, mean / 2.2)))
    ranks = [min(len(words) - 1, int(len(words) ** draw.random()) - 1) for _ in range(count)]
    text = [words[rank] + ("," if draw.random() < 0.07 else "") for rank in ranks]
    text[0] = text[0].capitalize()
    return " ".join(text) + "."


def examples(count: int) -> Iterator[tuple[str, str, str]]:
    draw = random.Random(0)
    words, premise = vocabulary(draw), ""
    for i in range(count):
        premise = premise if i % 3 else sentence(draw, words, 20)
        yield premise, sentence(draw, words, 10), LABELS[i % 3]


def train_tokenizer(folder: Path) -> Any:
    """A WordPiece tokenizer like BERT's, trained on the same kind of text."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertTokenizerFast

    wordpiece = BertWordPieceTokenizer(lowercase=False)
    wordpiece.train_from_iterator(
        (f"{a} {b}" for a, b, _ in examples(20_000)), vocab_size=30_000, show_progress=False
    )
    wordpiece.save(str(folder / "tokenizer.json"))
    return BertTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=400_000)
    parser.add_argument(
        "--tokenizer", type=Path, help="a folder with a tokenizer; without one, one is trained"
    )
    parser.add_argument("--json", type=Path, help="write the numbers, the machine and the date")
    parser.add_argument("--keep", type=Path, help="keep the text and the cache in this folder")
    args = parser.parse_args()
    folder = args.keep or Path(tempfile.mkdtemp(prefix="tokenise-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        packages = versions("tokenizers", "transformers", "numpy")
        facts = {"machine": f"{loaded_cores()}; {packages}", "date": time.strftime("%Y-%m-%d")}
        text = json.dumps({**facts, **measure(folder, args.examples, args.tokenizer)}, indent=1)
        print(text)
        if args.json:
            args.json.write_text(text + "\n")
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)


def measure(folder: Path, count: int, tokenizer_folder: Path | None) -> dict[str, float]:
    with (folder / "en-train.tsv").open("w") as file:
        file.writelines(f"{a}\t{b}\t{label}\n" for a, b, label in examples(count))
    if tokenizer_folder:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(str(tokenizer_folder))
    else:
        tokenizer = train_tokenizer(folder)
    before = peak_gb()
    start = time.perf_counter()
    data = load_data("mnli", "en", "train", root=folder)
    read = time.perf_counter()
    _ = data.fingerprint
    hashed = time.perf_counter()
    encoded = encode(data, tokenizer, max_length=128, cache=folder)
    cut = time.perf_counter()
    encode(data, tokenizer, max_length=128, cache=folder)
    again = time.perf_counter()
    in_batches = batches(encoded, size=32, seed=0)
    ordered = time.perf_counter()
    return {
        "examples": len(data),
        "tokens": len(encoded.arrays["ids"]),
        "read_s": round(read - start, 1),
        "fingerprint_s": round(hashed - read, 1),
        "tokenise_s": round(cut - hashed, 1),
        "from_cache_s": round(again - cut, 2),
        "order_s": round(ordered - again, 1),
        "padding": round(in_batches.padding, 4),
        "peak_gb_before": round(before, 2),
        "peak_gb": round(peak_gb(), 2),
    }


if __name__ == "__main__":
    main()
