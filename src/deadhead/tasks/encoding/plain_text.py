"""Plain text as batches without labels: a text on each line of a file, or those of a dataset."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from deadhead.errors import DataError
from deadhead.tasks.dataset import Dataset

from .tokenizer import Pieces

if TYPE_CHECKING:
    from torch import Tensor

Texts = Sequence[tuple[str, ...]]  # a text, or a pair of them

TEXT_FILES = (".txt", ".txt.gz")  # that are read from a folder


class TextBatches(NamedTuple):
    """Batches ready for `model(**batch)`, with facts about them."""

    batches: list[dict[str, Tensor]]
    examples: int
    padding: float  # the share of positions that no model reads
    notes: Mapping[str, int]


def text_files(places: Iterable[Path]) -> list[Path]:
    """Return these files, and for each folder the files of text in it, sorted by name."""
    files: list[Path] = []
    for place in places:
        if place.is_dir():
            texts = sorted(file for file in place.iterdir() if file.name.endswith(TEXT_FILES))
            if not texts:
                message = f"the folder {place} has no file {' or '.join(TEXT_FILES)}."
                raise DataError(message, "name the files, or a folder of such files")
            files += texts
        else:
            files.append(place)
    return files


def read_text(file: str | Path) -> str:
    """Read a file of text, which may be packed."""
    hint = "give a UTF-8 file with a text on each line"
    try:
        with (gzip.open if str(file).endswith(".gz") else open)(
            file, "rt", encoding="utf-8-sig"
        ) as text:
            return str(text.read())
    except FileNotFoundError:
        raise DataError(f"there is no file {file}.", hint) from None
    except IsADirectoryError:
        raise DataError(f"{file} is a folder.", hint) from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as problem:
        raise DataError(f"{file} cannot be read as text: {problem}.", hint) from None


def read_texts(file: str | Path) -> list[tuple[str, ...]]:
    """Read a text on each line, or two with a tab between them; blank lines are skipped."""
    lines = read_text(file).splitlines()
    texts = [tuple(part.strip() for part in line.split("\t")) for line in lines if line.strip()]
    for number, parts in enumerate(texts, 1):
        if len(parts) > 2:
            message = f"{file}: text {number} has {len(parts)} parts between tabs."
            raise DataError(message, "give one text a line, or a pair with one tab")
    if not texts:
        raise DataError(f"{file} has no text.", "give a file with a text on each line")
    return texts


def texts_of(data: Dataset) -> list[tuple[str, ...]]:
    """Return the texts of a dataset: sentences of words, texts, pairs, or sources to translate."""
    unit = data.task.traits.label_unit
    if unit == "word":
        return [(" ".join(row.texts),) for row in data.rows]
    return [row.texts[:1] if unit == "text" else row.texts for row in data.rows]


def fingerprint(texts: Texts) -> str:
    """Return a hash of the texts."""
    content = "\n".join("\t".join(parts) for parts in texts)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def text_batches(
    texts: Texts, tokenizer: Any, *, size: int = 32, max_length: int = 256
) -> TextBatches:
    """Return batches of texts of similar length. Texts that are too long are cut and counted."""
    import torch

    fill = {"input_ids": Pieces(tokenizer).pad, "attention_mask": 0, "token_type_ids": 0}
    options = {"truncation": True, "max_length": max_length, "return_overflowing_tokens": False}
    windows = [tokenizer(*parts, **options) for parts in texts]
    lengths = [len(window["input_ids"]) for window in windows]
    full = (len(tokenizer(*parts, verbose=False)["input_ids"]) for parts in texts)
    cut = sum(length < before for length, before in zip(lengths, full, strict=True))
    order = sorted(range(len(windows)), key=lengths.__getitem__)
    batches, positions = [], 0
    for begin in range(0, len(order), size):
        group = order[begin : begin + size]
        width = max(lengths[i] for i in group)
        positions += width * len(group)
        columns = {name: value for name, value in fill.items() if name in windows[group[0]]}
        batch = {
            name: [[*windows[i][name], *[value] * (width - lengths[i])] for i in group]
            for name, value in columns.items()
        }
        batches.append({name: torch.tensor(rows) for name, rows in batch.items()})
    notes = {"texts cut off": cut} if cut else {}
    return TextBatches(batches, len(windows), 1 - sum(lengths) / positions, notes)
