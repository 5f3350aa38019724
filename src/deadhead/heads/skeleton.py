"""A saved model without its weights: its modules on the device "meta", which holds no numbers."""

from pathlib import Path
from typing import Any

import torch

from deadhead.files.hub import quiet, source

from .load import cut_saved_heads, cutting_class
from .model_class import dtype_named, saved_class, task_class
from .model_files import stored_dtype
from .saved_config import read_config, read_saved


def skeleton(name: str | Path, *, auto: Any = None, dtype: Any = None) -> Any:
    """The model of a folder or a hub name as `load` would build it.

    dtype: as for `load`; by default that of the stored weights.
    """
    where = source(name)
    folder = where.pop("pretrained_model_name_or_path")
    config = read_config(folder, where)
    saved = read_saved(config, folder)
    cls = saved_class(config, folder) if auto is None else task_class(auto, config, folder)
    if saved.is_pruned and not saved.padded:
        cls = cutting_class(cls, saved, [])
    precision = stored_dtype(name) if dtype in (None, "auto") else dtype_named(dtype)
    with torch.device("meta"), quiet():
        model = cls._from_config(config, dtype=precision or getattr(config, "dtype", None))
    if saved.padded:
        cut_saved_heads(model, saved)
    model.config._name_or_path = str(Path(folder).resolve()) if Path(folder).is_dir() else folder
    return model.eval()
