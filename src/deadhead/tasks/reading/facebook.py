"""The tables of Facebook's multilingual slot data (Schuster et al. 2019): intent, slots, utterance, locale, tokens as JSON.

Slots are `start:end:type` by character, and each token has its place, so tags are computed:
a token inside a slot is B- where it is the first of it, else I-.
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
    return len(cells) == COLUMNS and cells[-1].startswith(TOKENS)


def read_facebook(
    files: Mapping[str, Path], task: Task, notes: Counter[str], **_: Any
) -> list[Row]:
    """One utterance a line."""
    (path,) = files.values()
    rows = []
    for number, line in lines(path):
        cells = line.split("\t")
        if not line.strip():
            continue
        if not is_facebook(cells):
            raise bad(
                path,
                number,
                f"got {len(cells)} columns; expected intent, slots, utterance, locale and tokens.",
            )
        try:
            rows.append(_row(cells[1], json.loads(cells[-1])["tokenizations"][0]))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise bad(
                path,
                number,
                f"the slots or tokens cannot be read ({type(error).__name__}: {error}).",
            ) from error
    return rows


def _row(slots: str, tokens: Mapping[str, Any]) -> Row:
    spans = [
        (int(start), int(end), kind)
        for start, end, kind in (one.split(":", 2) for one in slots.split(",") if one)
    ]
    tags, before = [], None
    for place in tokens["tokenSpans"]:
        inside = next((span for span in spans if span[0] <= place["start"] < span[1]), None)
        tags.append("O" if inside is None else f"{'I' if inside == before else 'B'}-{inside[2]}")
        before = inside
    words = tuple(map(str, tokens["tokens"]))
    if len(words) != len(tags) or not words:
        raise ValueError(f"{len(words)} tokens with {len(tags)} places")
    return Row(words, tuple(tags))
