"""Plain text as batches without labels: of a file with a text on each line, or the texts of a dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deadhead.errors import DataError
from deadhead.tasks.dataset import Dataset

from .tokenizer import Pieces

if TYPE_CHECKING:
    from torch import Tensor

Texts = Sequence[tuple[str, ...]]  # a text, or a pair of them


@dataclass(frozen=True)
class TextBatches:
    """Batches ready for `model(**batch)`, and what is to be known about them."""

    batches: list[dict[str, Tensor]] = field(repr=False)
    examples: int
    padding: float  # the share of positions that no model reads
    notes: Mapping[str, int]


def read_texts(file: str | Path) -> list[tuple[str, ...]]:
    """A text on each line, or two with a tab between them; blank lines are skipped."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError(
            f"{file} cannot be read as text: {problem}.",
            "give a UTF-8 file with a text on each line",
        ) from None
    texts = [tuple(part.strip() for part in line.split("\t")) for line in lines if line.strip()]
    for number, one in enumerate(texts, 1):
        if len(one) > 2:
            raise DataError(
                f"{file}: text {number} has {len(one)} parts between tabs.",
                "give one text a line, or a pair with one tab",
            )
    if not texts:
        raise DataError(f"{file} has no text.", "give a file with a text on each line")
    return texts


def texts_of(data: Dataset) -> list[tuple[str, ...]]:
    """The texts of a dataset: a sentence of its words, a text, a pair of texts, or what is to be translated."""
    if data.task.kind == "tag":
        return [(" ".join(row.texts),) for row in data.rows]
    return [row.texts[:1] if data.task.kind == "translate" else row.texts for row in data.rows]


def fingerprint(texts: Texts) -> str:
    return hashlib.sha256(
        "\n".join("\t".join(one) for one in texts).encode("utf-8", "surrogatepass")
    ).hexdigest()[:16]


def text_batches(
    texts: Texts, tokenizer: Any, *, size: int = 32, max_length: int = 256
) -> TextBatches:
    """Batches of texts of like length. What is too long is cut, and counted."""
    import torch

    pad, windows, cut = Pieces(tokenizer).pad, [], 0
    for one in texts:
        whole = tokenizer(
            *one, truncation=True, max_length=max_length, return_overflowing_tokens=False
        )
        cut += len(tokenizer(*one, verbose=False)["input_ids"]) > len(whole["input_ids"])
        windows.append(whole)
    order = sorted(range(len(windows)), key=lambda i: len(windows[i]["input_ids"]))
    fill = {"input_ids": pad, "attention_mask": 0, "token_type_ids": 0}
    batches, places = [], 0
    for begin in range(0, len(order), size):
        mine = [windows[i] for i in order[begin : begin + size]]
        width = max(len(one["input_ids"]) for one in mine)
        places += width * len(mine)
        batches.append(
            {
                name: torch.tensor(
                    [[*one[name], *[value] * (width - len(one[name]))] for one in mine]
                )
                for name, value in fill.items()
                if name in mine[0]
            }
        )
    read = sum(len(one["input_ids"]) for one in windows)
    return TextBatches(
        batches, len(windows), 1 - read / places, {"texts cut off": cut} if cut else {}
    )
