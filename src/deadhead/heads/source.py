"""The files a model came with: its folder, or what the hub's cache holds of it, and which of them a saved copy takes along."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Weights, whoever reads them, and what a training leaves beside them: of the model as it was, so no part of what is saved.
WEIGHTS = re.compile(
    r"\.(safetensors|bin|pt|pth|ckpt|h5|msgpack|ot|onnx|onnx_data|gguf|ggml|tflite|mlmodel|pkl|pickle|npz|npy|zip|gz)$"
    r"|\.(safetensors|bin|h5|msgpack)\.index\.json$|\.distcp$|tfevents"
)
NOT_TAKEN = re.compile(r"^(\..*|onnx|openvino|coreml|checkpoint-\d+|runs|__pycache__)$")  # hidden, the model once more, earlier states
WRITTEN = ("config.json", "README.md")  # by `save` itself; in the top folder
TOKENIZER = re.compile(
    r"^(tokenizer.*|vocab.*|merges\.txt|added_tokens\.json|special_tokens_map\.json|spiece\.model|sentencepiece.*|.*\.spm|chat_template.*)$"
)


def folder_of(name: str | Path, *, revision: str | None = None, cache_dir: Any = None) -> Path | None:
    """The folder of this name, or of this model in the hub's cache; None where it is in neither."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    path = Path(name)
    if path.is_dir():
        return path
    try:
        cached = try_to_load_from_cache(str(name), "config.json", cache_dir=cache_dir, revision=revision)
    except HFValidationError:
        return None
    return Path(cached).parent if isinstance(cached, str) else None


def source_of(model: Any) -> Path | None:
    """Where a model in memory was loaded from, if its files are still there."""
    config = getattr(model, "config", None)
    name = getattr(config, "_name_or_path", "")
    return folder_of(name, revision=getattr(config, "_commit_hash", None)) if name else None


def has_tokenizer(folder: Path) -> bool:
    """Whether tokenizer files lie there: transformers makes up one without words where none do."""
    return any(TOKENIZER.match(file.name) and not file.name.startswith("tokenizer_config") for file in folder.iterdir())


def taken_along(folder: Path, *, tokenizer: bool) -> Iterator[Path]:
    """What a copy of the model takes along, relative to the folder: all files but weights and what `save` writes.

    tokenizer: whether the files of the tokenizer are among them; they are not where the copy gets a tokenizer of its own.
    """
    for path in sorted(folder.iterdir()):
        if NOT_TAKEN.match(path.name) or path.name in WRITTEN or (not tokenizer and TOKENIZER.match(path.name)):
            continue
        for below in [path, *sorted(path.rglob("*"))] if path.is_dir() else [path]:
            inside = below.relative_to(folder)
            if not WEIGHTS.search(below.name) and not any(NOT_TAKEN.match(part) for part in inside.parts):
                yield inside


def take_along(source: Path, target: Path, *, tokenizer: bool) -> None:
    """Copy what a copy of the model takes along; what is in the target already stays."""
    for inside in taken_along(source, tokenizer=tokenizer):
        place = target / inside
        if (source / inside).is_dir():
            place.mkdir(parents=True, exist_ok=True)  # also an empty one: a module of sentence-transformers may be one
        elif not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / inside, place)
