"""Readers of files that belong together line by line: slot data, and the sides of a translation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from deadhead.tasks.task import Row, Task

from .columns import Sentence, tagged_rows
from .lines import at_blanks, bad, lines


def read_slot_lines(
    files: Mapping[str, Path], task: Task, notes: Counter[str], **_: Any
) -> list[Row]:
    """Read seq.in with seq.out, or text with `tags<TAB>intent`; intents must only be complete."""
    text = files.get("seq.in") or files["text"]
    label = files.get("seq.out") or files["label"]
    paths = [text, label] + ([files["label"]] if "seq.out" in files and "label" in files else [])
    sentences = []
    for number, (line, tag_line, *_intent) in _together(paths):
        words, tags = at_blanks(line), at_blanks(tag_line.partition("\t")[0])
        if len(words) != len(tags):
            message = f"{len(tags)} tags for the {len(words)} words of {text.name}."
            raise bad(label, number, message)
        if not words:
            notes["empty utterances dropped"] += 1
            continue
        sentences.append(Sentence(label, [number] * len(words), words, tags))
    return tagged_rows(task, notes, sentences)


def read_parallel(
    files: Mapping[str, Path], task: Task, notes: Counter[str], *, lang: str = "", **_: Any
) -> list[Row]:
    """Read two files line by line, the source language first; drop pairs with an empty side."""
    source, target = (files[code] for code in lang.split("-")) if lang else files.values()
    rows = []
    for _number, pair in _together([source, target]):
        left, right = (side.strip() for side in pair)
        if left and right:
            rows.append(Row((left, right)))
        else:
            notes["pairs with an empty side dropped"] += 1
    return rows


def _together(paths: list[Path]) -> Iterator[tuple[int, list[str]]]:
    for number, row in enumerate(zip_longest(*map(lines, paths)), 1):
        for path, item in zip(paths, row, strict=True):
            if item is None:
                hint = "line-parallel files need the same number of lines"
                raise bad(path, number, "the file ends here; its partner continues.", hint)
        yield number, [item[1] for item in row]
