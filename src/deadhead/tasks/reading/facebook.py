"""Reader of Facebook's multilingual slot data (Schuster et al. 2019).

Its columns are intent, slots, utterance, locale, and tokens as JSON. Slots are `start:end:type` by
character and each token has its place, so tags are computed: a token inside a slot is B- if it is
the first of it, else I-.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deadhead.tasks.task import Row, Task

from .lines import bad, lines

COLUMNS = 5
TOKENS = '{"tokenizations"'  # how the last column begins


def is_facebook(cells: list[str]) -> bool:
    """Whether the cells are those of a line of this data."""
    return len(cells) == COLUMNS and cells[-1].startswith(TOKENS)


def read_facebook(
    files: Mapping[str, Path], task: Task, notes: Counter[str], **_: Any
) -> list[Row]:
    """Read one utterance a line."""
    (path,) = files.values()
    rows = []
    for number, line in lines(path):
        cells = line.split("\t")
        if not line.strip():
            continue
        if not is_facebook(cells):
            expected = "intent, slots, utterance, locale and tokens"
            raise bad(path, number, f"got {len(cells)} columns; expected {expected}.")
        try:
            rows.append(_row(cells[1], json.loads(cells[-1])["tokenizations"][0]))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            message = f"the slots or tokens cannot be read ({type(error).__name__}: {error})."
            raise bad(path, number, message) from error
    return rows


def _row(slots: str, tokens: Mapping[str, Any]) -> Row:
    parts = [slot.split(":", 2) for slot in slots.split(",") if slot]
    spans = [(int(start), int(end), kind) for start, end, kind in parts]
    tags, before = [], None
    for place in tokens["tokenSpans"]:
        span = next((span for span in spans if span[0] <= place["start"] < span[1]), None)
        tags.append("O" if span is None else f"{'I' if span == before else 'B'}-{span[2]}")
        before = span
    words = tuple(map(str, tokens["tokens"]))
    if len(words) != len(tags) or not words:
        raise ValueError(f"{len(words)} tokens with {len(tags)} places")
    return Row(words, tuple(tags))
