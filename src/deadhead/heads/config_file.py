"""Check a config.json, which anybody may have written, before transformers builds anything from it.

A few bytes there can ask for more modules or names than a machine has room for, or for attention
that is computed by code from elsewhere.
"""

import json
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deadhead.errors import FolderError, Notice

from .model_files import check_files, hub_file

BYTES = 2**25  # of a config.json: the largest of today list the names of some thousand labels
LARGEST = 2**48  # number in a config.json; transformers would build until memory ends
MOST_LABELS = 2**20  # each gets a name
MOST_PARTS = 2**12  # layers, experts and the like, each of them modules
# fmt: off
PARTS = re.compile(
    r"layers?(?!_norm)|depth|block|stage|group|level|codebook|quantizer|pretraining_tp|expert"
)
# fmt: on
SIZE = re.compile(r"_(size|dim|width|length|capacity|freq|step|stride|offset)s?$")
# the attention that transformers computes by itself: for another, it may download code
OWN_ATTENTION = (None, "eager", "sdpa", "flex_attention")


def check_config_file(folder: str | Path, where: Mapping[str, Any]) -> None:
    """Raise an error for files that must stay closed, and for a config that asks for too much.

    where: arguments of `from_pretrained` that locate a model of the hub.
    """
    home = Path(folder) / where.get("subfolder", "")
    if home.is_dir():
        check_files(home)
    if (file := _file(folder, where)) is None or not file.exists():
        return
    try:
        _check_text(file)
    except (ValueError, RecursionError) as problem:
        message = f"expected a model that can be loaded, got {folder}: {problem}."
        raise FolderError(message, "save or download the folder again") from None


def _check_text(file: Path) -> None:
    if (size := file.stat().st_size) > BYTES:
        raise ValueError(f"config.json has {size:,} bytes; expected at most {BYTES:,}")
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as problem:
        hint = "correct that line, or save or download the folder again"
        raise FolderError(f"{file} is not JSON: {problem}.", hint) from None
    if not isinstance(stored, dict):
        raise ValueError("config.json holds no JSON object")
    _check_sizes(stored)


def _file(folder: str | Path, where: Mapping[str, Any]) -> Path | None:
    if Path(folder).is_dir():
        return Path(folder) / where.get("subfolder", "") / "config.json"
    return hub_file(folder, "config.json", where)


def _check_sizes(config: Mapping[str, Any]) -> None:
    """Check the numbers of a config, and of the configs in it."""
    for name, value in config.items():
        for number in _numbers(value):
            if abs(number) > LARGEST:
                raise ValueError(f"{name} in config.json is larger than {LARGEST:,}")
            if name == "num_labels" and number > MOST_LABELS:
                raise ValueError(f"num_labels in config.json is larger than {MOST_LABELS:,}")
            if number > MOST_PARTS and PARTS.search(name) and not SIZE.search(name):
                raise ValueError(f"{name} in config.json is larger than {MOST_PARTS:,}")
        if isinstance(value, dict):
            _check_sizes(value)


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item)


def keep_own_attention(config: Any, folder: str | Path) -> None:
    """Have transformers choose the attention if a config names one that is code from elsewhere.

    Who calls `load` can still ask for it.
    """
    from transformers import PreTrainedConfig

    name = "_attn_implementation_internal"
    if (attention := getattr(config, name, None)) not in OWN_ATTENTION:
        text = f"config.json of {folder} asks for the attention {attention!r:.80}"
        ending = "which was not loaded: the attention is computed by torch."
        warnings.warn(Notice(f"{text}, {ending}"), stacklevel=4)
        setattr(config, name, None)
    for part in [*vars(config).values()]:
        if isinstance(part, PreTrainedConfig):
            keep_own_attention(part, folder)
