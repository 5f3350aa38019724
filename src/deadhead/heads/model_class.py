"""The transformers class for a saved model, and the precision of its weights."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from deadhead.errors import FolderError, UnsupportedModel, unknown_name
from deadhead.files.hub import quiet

from .model_files import folder_of, is_sentence_encoder
from .prune import RECORD

DTYPES = ("float32", "bfloat16", "float16", "float64")
OVER_WORDS = ("ForMaskedLM", "ForPreTraining", "ForCausalLM")
AS_SAVED = "auto"  # the word of transformers for the precision of the folder


def dtype_named(dtype: Any) -> Any:
    """A dtype of torch, by itself or by its name, or `auto` for that of the folder."""
    if dtype == AS_SAVED or (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        return dtype
    if str(dtype) not in DTYPES:
        raise unknown_name("dtype for the weights of a model", dtype, (*DTYPES, AS_SAVED))
    return getattr(torch, str(dtype))


def outline(model: Any, config: Any) -> Any:
    """The model as its class builds it from this config, without memory for its weights."""
    with torch.device("meta"), quiet():
        return type(model)(copy.deepcopy(config))


def saved_class(config: Any, folder: str | Path) -> Any:
    """The class that config.json names, or the bare model if it names none.

    A sentence encoder has no use for a layer over words, which the config of its source may name.
    """
    import transformers

    names = getattr(config, "architectures", None) or []
    if not isinstance(names, list):
        raise FolderError(
            f"{folder}: `architectures` in config.json expects a list, got {names!r}.",
            "save or download the folder again",
        )
    if names and not _has_idle_layer(str(names[0]), config, folder):
        cls: Any = getattr(transformers, str(names[0]), None)
    else:
        cls = _first(transformers.AutoModel._model_mapping.get(type(config), None))
    if not isinstance(cls, type) or not issubclass(cls, transformers.PreTrainedModel):
        name = names[0] if names else config.model_type
        raise FolderError(
            f"{folder}: expected a model that the installed transformers knows, got {name}.",
            "install the release it was saved with",
        )
    return cls


def _has_idle_layer(name: str, config: Any, folder: str | Path) -> bool:
    """Whether the class has a layer over words that a sentence encoder does not run."""
    home = folder_of(folder)
    ours = getattr(config, RECORD, None) is not None  # its weights are those of its class
    return name.endswith(OVER_WORDS) and not ours and home is not None and is_sentence_encoder(home)


def bare_class(model: Any, report: Mapping[str, Any]) -> Any:
    """The class of the model without its task layers, if the weights have none of them; or None.

    report: what transformers reports about the weights it read.
    """
    body = model.base_model
    parameters = dict(model.named_parameters(remove_duplicate=False))
    on_top = {id(p) for p in parameters.values()} - {id(p) for p in body.parameters()}
    missing = {id(parameters[name]) for name in report["missing_keys"] if name in parameters}
    return type(body) if body is not model and on_top and on_top <= missing else None


def task_class(auto: Any, config: Any, folder: str | Path) -> Any:
    """The class that an auto class of transformers, or its name, means for this kind of model."""
    if isinstance(auto, str):
        import transformers
        from transformers.models.auto import modeling_auto

        # the list of names: looking up each class would import the packages that classes need
        names = [n for n in modeling_auto.__all__ if n.startswith("AutoModel")]
        if auto not in names:
            raise unknown_name("auto class for models", auto, names)
        auto = getattr(transformers, auto)
    if not hasattr(auto, "_model_mapping"):
        name = getattr(auto, "__name__", repr(auto))
        raise UnsupportedModel(
            f"`auto` expects an auto class for models, got {name}.",
            "use one of transformers, such as AutoModelForTokenClassification",
        )
    cls = _first(auto._model_mapping.get(type(config), None))
    if cls is None:
        raise FolderError(
            f"{folder} is a {config.model_type}, for which there is no {auto.__name__}.",
            "name a model of another kind",
        )
    return cls


def _first(classes: Any) -> Any:
    return classes[0] if isinstance(classes, tuple) else classes
