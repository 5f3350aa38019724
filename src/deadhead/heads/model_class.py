"""As what a folder is loaded: the class of transformers that its config names or a task asks for, and the precision of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from deadhead.errors import FolderError, UnsupportedModel, unknown_name

DTYPES = ("float32", "bfloat16", "float16", "float64")
AS_SAVED = "auto"  # the word of transformers for the precision that the folder has


def dtype_named(dtype: Any) -> Any:
    """A type of torch, by itself or by its name, or `auto` for that of the folder; an error for anything else."""
    if dtype == AS_SAVED or (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        return dtype
    if str(dtype) not in DTYPES:
        raise unknown_name("dtype for the weights of a model", dtype, (*DTYPES, AS_SAVED))
    return getattr(torch, str(dtype))


def saved_class(config: Any, folder: str | Path) -> Any:
    """The class that config.json names, or the bare model where it names none."""
    import transformers

    names = getattr(config, "architectures", None) or []
    if not isinstance(names, list):
        raise FolderError(
            f"{folder}: `architectures` in config.json is not a list.",
            "save or download the folder again",
        )
    known = transformers.AutoModel._model_mapping
    cls: Any = (
        getattr(transformers, str(names[0]), None) if names else known.get(type(config), None)
    )
    if isinstance(cls, tuple):
        cls = cls[0]
    if not isinstance(cls, type) or not issubclass(cls, transformers.PreTrainedModel):
        raise FolderError(
            f"{folder} holds a {names[0] if names else config.model_type}, which the installed transformers does not know.",
            "install the release it was saved with",
        )
    return cls


def bare_class(model: Any, report: Mapping[str, Any]) -> Any:
    """The class of the model without its task layers, where the weights hold nothing of any of them; else None."""
    body = model.base_model
    parameters = dict(model.named_parameters(remove_duplicate=False))
    on_top = {id(p) for p in parameters.values()} - {id(p) for p in body.parameters()}
    missing = {id(parameters[name]) for name in report["missing_keys"] if name in parameters}
    return type(body) if body is not model and on_top and on_top <= missing else None


def task_class(auto: Any, config: Any, folder: str | Path) -> Any:
    """The class that an auto class of transformers, or its name, stands for with this kind of model."""
    auto = _auto_named(auto) if isinstance(auto, str) else auto
    if not hasattr(auto, "_model_mapping"):
        name = getattr(auto, "__name__", repr(auto))
        raise UnsupportedModel(
            f"auto={name} is no auto class for models.",
            "give one of transformers, such as AutoModelForTokenClassification",
        )
    known = auto._model_mapping.get(type(config), None)
    if known is None:
        raise FolderError(
            f"{folder} is a {config.model_type}, for which there is no {auto.__name__}.",
            "name a model of another kind",
        )
    return known[0] if isinstance(known, tuple) else known


def _auto_named(name: str) -> Any:
    import transformers
    from transformers.models.auto import modeling_auto

    # by its list of names: asking transformers for each class in turn would import what the classes need
    names = [n for n in modeling_auto.__all__ if n.startswith("AutoModel")]
    if name not in names:
        raise unknown_name("auto class for models", name, names)
    return getattr(transformers, name)
