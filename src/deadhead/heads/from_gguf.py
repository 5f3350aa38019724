"""Models read from GGUF files, the format of llama.cpp.

transformers unpacks such a file into plain floats, and still marks the model as quantised. What
counts here is what the weights are: a model of plain floats is an ordinary one, whatever its mark.
"""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from deadhead.errors import FolderError, MissingExtra
from deadhead.files.hub import gguf_of, quiet, source

MARKS = ("hf_quantizer", "is_quantized", "quantization_method")
PLAIN = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def check_file(folder: str | Path, file: str) -> None:
    """Raise an error if a package for GGUF files, or the file in a folder, is missing."""
    from transformers.utils import is_accelerate_available, is_gguf_available

    for package, is_there in (("gguf", is_gguf_available), ("accelerate", is_accelerate_available)):
        if not is_there():
            raise MissingExtra(package, "gguf", "reading a GGUF file")
    home = Path(folder)
    if home.is_dir() and not (home / file).is_file():
        others = sorted(path.name for path in home.glob("*.gguf"))
        hint = f"it has {', '.join(others)}" if others else "name a folder with a GGUF file"
        raise FolderError(f"there is no file {file} in {folder}.", hint)


def name_class(config: Any) -> None:
    """Name the class of the model in its config, as config.json does: a GGUF file does not."""
    from transformers.models.auto import modeling_auto

    if not getattr(config, "architectures", None):
        names = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        if (name := names.get(config.model_type)) is not None:
            config.architectures = [name]


def unpacking(folder: str | Path, file: str, where: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `from_pretrained` that read a file as plain floats.

    The name of the file alone could also be one in the current folder, which transformers prefers.
    """
    import transformers
    from transformers.utils import cached_file

    path = cached_file(folder, file, **where)
    arguments: dict[str, Any] = {"gguf_file": path, "use_safetensors": None}
    if hasattr(transformers, "GgufConfig"):  # newer releases can leave the weights packed
        arguments["quantization_config"] = transformers.GgufConfig(dequantize=True)
    return arguments


def gguf_tokenizer(name: str) -> Any:
    """The tokenizer that a GGUF file holds; None for the name of another model."""
    if gguf_of(name) is None:
        return None
    from transformers import AutoTokenizer

    try:
        with quiet():
            return AutoTokenizer.from_pretrained(**source(name), trust_remote_code=False)
    except Exception as problem:  # each tokenizer has its own errors
        message = f"{name} has no readable tokenizer: {problem!r:.200}."
        raise FolderError(message, "copy or download the file again") from None


def is_marked(model: nn.Module) -> bool:
    """Whether transformers has marked the model as quantised."""
    return (
        getattr(model, "is_quantized", False) is True
        or getattr(model, "hf_quantizer", None) is not None
    )


def is_unpacked(model: nn.Module) -> bool:
    """Whether all weights of a model from a GGUF file are plain floats."""
    config = getattr(getattr(model, "hf_quantizer", None), "quantization_config", None)
    method = getattr(config, "quant_method", None)
    return getattr(method, "value", method) == "gguf" and all(
        type(parameter) is nn.Parameter and parameter.dtype in PLAIN
        for parameter in model.parameters()
    )


def drop_mark(model: nn.Module) -> None:
    """Make a model from a GGUF file an ordinary one, which can be trained and saved."""
    if not is_unpacked(model):
        return
    for module in model.modules():
        for name in MARKS:
            module.__dict__.pop(name, None)
        config: Any = module.__dict__.get("config")
        if getattr(config, "quantization_config", None) is not None:
            del config.quantization_config
