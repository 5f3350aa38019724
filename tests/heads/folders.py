"""Saved folders edited by hand."""

import json
from typing import Any

from safetensors.torch import load_file, save_file


def config_of(folder):
    stored: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return stored


def edit_config(folder, **fields):
    """Change keys of a config; None deletes one."""
    config = {**config_of(folder), **fields}
    text = json.dumps({key: value for key, value in config.items() if value is not None})
    (folder / "config.json").write_text(text, encoding="utf-8")


def edit_record(folder, **fields):
    """Change keys of the list of what was removed."""
    edit_config(folder, deadhead={**config_of(folder)["deadhead"], **fields})


def edit_weights(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
