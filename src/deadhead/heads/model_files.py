"""The files a model came with: its folder, or what the hub's cache holds of it, and which of them a saved copy takes along."""

from __future__ import annotations

import json
import math
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from deadhead.errors import FolderError, Notice
from deadhead.hub import quiet, split

# Weights, whoever reads them, and what a training leaves beside them: of the model as it was, so no part of what is saved.
KINDS = [
    "safetensors",
    "bin",
    "pt",
    "pth",
    "ckpt",
    "h5",
    "msgpack",
    "ot",
    "onnx",
    "onnx_data",
    "gguf",
    "ggml",
    "tflite",
    "mlmodel",
    "pkl",
    "pickle",
    "npz",
    "npy",
    "distcp",
]
WEIGHTS = re.compile(rf"\.({'|'.join(KINDS)})(\.index\.json|\.zip|\.gz)?$|tfevents")
AGAIN = ("onnx", "openvino", "coreml")  # folders that hold the model once more
NOT_TAKEN = re.compile(
    rf"^(\..*|{'|'.join(AGAIN)}|checkpoint-\d+|runs|__pycache__)$"
)  # also hidden files and earlier states
FLOATS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}  # as safetensors names them
HEADER = 100_000_000  # bytes, the most that safetensors allows for the head of a file
CARD = "README.md"
WRITTEN = ("config.json", CARD)  # by `save` itself; in the top folder
TOKENIZER = re.compile(
    r"^(tokenizer.*|vocab.*|merges\.txt|added_tokens\.json|special_tokens_map\.json|spiece\.model|sentencepiece.*|.*\.spm|chat_template.*)$"
)


def folder_of(name: str | Path, *, cache_dir: Any = None) -> Path | None:
    """The folder of this name, or of this model in the hub's cache; None where it is in neither."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    path = Path(name)
    if path.is_dir():
        return path
    base, revision = split(name)
    try:
        cached = try_to_load_from_cache(base, "config.json", cache_dir=cache_dir, revision=revision)
    except HFValidationError:
        return None
    return Path(cached).parent if isinstance(cached, str) else None


def source_of(model: Any) -> Path | None:
    """Where a model in memory was loaded from, if its files are still there."""
    config = getattr(model, "config", None)
    name = getattr(config, "_name_or_path", "")
    return folder_of(name) if name else None


def fetch(name: str) -> None:
    """For a model on the hub, have what a saved copy takes along in the cache too, where loading fetches only what it reads."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.constants import HF_HUB_OFFLINE

    if Path(name).is_dir() or HF_HUB_OFFLINE:
        return
    base, revision = split(name)
    try:
        with quiet():
            snapshot_download(
                base,
                revision=revision,
                ignore_patterns=[
                    *(f"*.{kind}" for kind in KINDS),
                    *(f"{folder}/*" for folder in AGAIN),
                ],
            )
    except (
        Exception
    ):  # no network, no right to see it: the hub client has an error of its own for each
        warnings.warn(
            Notice(
                f"the hub did not answer for the other files of {name}: what its cache holds is taken along."
            ),
            stacklevel=2,
        )


def stored_dtype(name: str | Path) -> torch.dtype | None:
    """The precision that most of the weights of a model have on disk, from the heads of the files alone; None where it cannot be told."""
    counts: Counter[str] = Counter()
    folder = folder_of(name)
    for file in () if folder is None else folder.glob("*.safetensors"):
        try:
            with file.open("rb") as raw:
                header = json.loads(raw.read(min(int.from_bytes(raw.read(8), "little"), HEADER)))
            for entry in (value for name, value in header.items() if name != "__metadata__"):
                counts[entry["dtype"]] += math.prod(entry["shape"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # damaged, which loading reports
    return FLOATS.get(counts.most_common(1)[0][0]) if counts else None


def check_shards(folder: Path) -> None:
    """Raise an error if an index of weights in a folder names a file outside of that folder."""
    for index in folder.glob("*.index.json") if folder.is_dir() else ():
        try:
            stored = json.loads(index.read_text(encoding="utf-8"))
            names = {str(name) for name in stored["weight_map"].values()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as why:
            raise FolderError(
                f"{index} is damaged: {why!r}.", "save or download the folder again"
            ) from None
        outside = [n for n in names if Path(n).name != n or "\\" in n or "\0" in n]
        if outside:
            raise FolderError(
                f"{index} expects files of its own folder, got {min(outside)!r}.",
                "do not use this folder; download the model again",
            )


def has_tokenizer(folder: Path) -> bool:
    """Whether tokenizer files lie there: transformers makes up one without words where none do."""
    return any(
        TOKENIZER.match(file.name) and not file.name.startswith("tokenizer_config")
        for file in folder.iterdir()
    )


def taken_along(folder: Path, *, tokenizer: bool) -> Iterator[Path]:
    """What a copy of the model takes along, relative to the folder: all files but weights and what `save` writes.

    tokenizer: whether the files of the tokenizer are among them; they are not where the copy gets a tokenizer of its own.
    """
    for path in sorted(folder.iterdir()):
        if (
            NOT_TAKEN.match(path.name)
            or path.name in WRITTEN
            or (not tokenizer and TOKENIZER.match(path.name))
        ):
            continue
        for below in [path, *sorted(path.rglob("*"))] if path.is_dir() else [path]:
            inside = below.relative_to(folder)
            if not WEIGHTS.search(below.name) and not any(
                NOT_TAKEN.match(part) for part in inside.parts
            ):
                yield inside


def take_along(source: Path, target: Path, *, tokenizer: bool) -> None:
    """Copy what a copy of the model takes along; what is in the target already stays."""
    for inside in taken_along(source, tokenizer=tokenizer):
        place = target / inside
        if (source / inside).is_dir():
            place.mkdir(
                parents=True, exist_ok=True
            )  # also an empty one: a module of sentence-transformers may be one
        elif not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / inside, place)
