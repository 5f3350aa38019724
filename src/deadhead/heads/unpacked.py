"""Models that transformers read from GGUF files, the format of llama.cpp.

transformers unpacks such a file into plain floats, and still marks the model as quantised. What
counts here is what the weights are: a model of plain floats is an ordinary one, whatever its mark.
"""

from typing import Any

import torch
from torch import nn

MARKS = ("hf_quantizer", "is_quantized", "quantization_method")
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def is_packed(model: nn.Module) -> bool:
    """Whether some weights of a model that is marked as quantised are no plain floats."""
    quantizer = getattr(model, "hf_quantizer", None)
    method = getattr(getattr(quantizer, "quantization_config", None), "quant_method", None)
    return quantizer is not None and not (
        getattr(method, "value", method) == "gguf"
        and all(type(p) is nn.Parameter and p.dtype in FLOATS for p in model.parameters())
    )


def drop_mark(model: nn.Module) -> None:
    """Make a model from a GGUF file an ordinary one, which can be trained and saved."""
    if is_packed(model) or getattr(model, "hf_quantizer", None) is None:
        return
    for module in model.modules():
        for name in MARKS:
            module.__dict__.pop(name, None)
        config: Any = module.__dict__.get("config")
        if getattr(config, "quantization_config", None) is not None:
            del config.quantization_config
