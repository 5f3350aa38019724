"""The two samples of GLUE that the study `glue` trains on.

    python benchmarks/glue_data.py --sst2 train.tsv --qnli dev.tsv --out DIR

SST-2: 10,000 training sentences, drawn once. QNLI: its dev set, split by question, so that no
question is in both parts; 1,000 pairs to score. MRPC, RTE, CoLA and the dev set of SST-2 are those
of GLUE; put them into DIR too.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
from collections.abc import Sequence
from pathlib import Path

SENTENCES, SCORED = 10_000, 1_000
Row = list[str]


def rows_of(file: Path) -> tuple[Row, list[Row]]:
    """The first line and the others."""
    data = file.read_bytes()
    text = (gzip.decompress(data) if file.suffix == ".gz" else data).decode("utf-8")
    first, *rows = csv.reader(text.strip("\n").split("\n"), delimiter="\t", quoting=csv.QUOTE_NONE)
    return first, rows


def drawn(rows: Sequence[Row], number: int) -> list[Row]:
    """Rows at random, in their order."""
    return [rows[n] for n in sorted(random.Random(0).sample(range(len(rows)), number))]


def split(rows: Sequence[Row], question: int, scored: int) -> tuple[list[Row], list[Row]]:
    """The rows of some questions, and `scored` rows of the others."""
    by_question: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        by_question.setdefault(row[question], []).append(number)
    groups = list(by_question.values())
    random.Random(0).shuffle(groups)
    chosen: set[int] = set()
    for group in groups:
        if len(chosen) + len(group) <= scored:
            chosen.update(group)
    if len(chosen) != scored:
        raise SystemExit(f"expected whole questions with {scored} pairs, got {len(chosen)}")
    return (
        [row for n, row in enumerate(rows) if n not in chosen],
        [row for n, row in enumerate(rows) if n in chosen],
    )


def write(file: Path, first: Row, rows: Sequence[Row]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(row) for row in (first, *rows)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{file}: {len(rows):,} rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--sst2", type=Path, required=True)
    parser.add_argument("--qnli", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    first, rows = rows_of(options.sst2)
    write(options.out / "SST-2" / "train.tsv", first, drawn(rows, SENTENCES))
    first, rows = rows_of(options.qnli)
    train, scored = split(rows, first.index("question"), SCORED)
    write(options.out / "QNLI" / "train.tsv", first, train)
    write(options.out / "QNLI" / "dev.tsv", first, scored)


if __name__ == "__main__":
    main()
