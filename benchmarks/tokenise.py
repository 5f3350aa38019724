"""How long it takes to tokenise 400,000 examples the size of MNLI, and how much memory: wanted are under 60 s on 2 cores and 2 GB.

    python benchmarks/tokenise.py [--examples N] [--tokenizer FOLDER] [--keep FOLDER] [--json FILE]

The text is made up but shaped like MNLI: premises of about 20 words that come three times each,
hypotheses of about 10, words by Zipf's law with punctuation and rare words. Without `--tokenizer` a
WordPiece of 30,000 entries is trained on it first (not timed). Reading from a tsv file is timed too.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

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


def trained(folder: Path) -> Any:
    """A WordPiece tokenizer of BERT's kind, trained on text like the one to be cut."""
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertTokenizerFast

    made = BertWordPieceTokenizer(lowercase=False)
    made.train_from_iterator(
        (f"{a} {b}" for a, b, _ in examples(20_000)), vocab_size=30_000, show_progress=False
    )
    made.save(str(folder / "tokenizer.json"))
    return BertTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=400_000)
    parser.add_argument(
        "--tokenizer", type=Path, help="a folder with a tokenizer; without one, one is trained"
    )
    parser.add_argument(
        "--json", type=Path, help="write the numbers there, with the machine and the date"
    )
    parser.add_argument("--keep", type=Path, help="keep the text and the cache in this folder")
    given = parser.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp(prefix="tokenise-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        found = {
            "machine": machine(),
            "date": time.strftime("%Y-%m-%d"),
            **measure(folder, given.examples, given.tokenizer),
        }
        print(json.dumps(found, indent=1))
        if given.json:
            given.json.write_text(json.dumps(found, indent=1) + "\n")
    finally:
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)


def machine() -> str:
    """The processor, what of it was free, and the versions that count."""
    named = Path("/proc/cpuinfo")
    rows = named.read_text().splitlines() if named.exists() else []
    cpu = next(
        (row.split(":")[1].strip() for row in rows if row.startswith("model name")),
        platform.machine(),
    )
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("tokenizers", "transformers", "numpy")
    )
    load = f"load {os.getloadavg()[0]:.1f} before it began" if hasattr(os, "getloadavg") else ""
    return f"{cpu}, {os.cpu_count()} cores, {load}; Python {platform.python_version()}, {versions}"


def measure(folder: Path, count: int, tokenizer_folder: Path | None) -> dict[str, float]:
    with (folder / "en-train.tsv").open("w") as file:
        file.writelines(f"{a}\t{b}\t{label}\n" for a, b, label in examples(count))
    if tokenizer_folder:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(str(tokenizer_folder))
    else:
        tokenizer = trained(folder)
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
    made = batches(encoded, size=32, seed=0)
    ordered = time.perf_counter()
    return {
        "examples": len(data),
        "tokens": len(encoded.arrays["ids"]),
        "read_s": round(read - start, 1),
        "fingerprint_s": round(hashed - read, 1),
        "tokenise_s": round(cut - hashed, 1),
        "from_cache_s": round(again - cut, 2),
        "order_s": round(ordered - again, 1),
        "padding": round(made.padding, 4),
        "peak_gb_before": round(before, 2),
        "peak_gb": round(peak_gb(), 2),
    }


if __name__ == "__main__":
    main()
