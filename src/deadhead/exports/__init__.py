"""Write a saved model, pruned or not, in the format of another runtime: one module per format."""

from pathlib import Path
from typing import Any

from deadhead.errors import DeadheadError

from .duo_attention import export_duo_attention

__all__ = ["export", "export_duo_attention"]


def export(
    folder: str | Path,
    *,
    onnx: str | Path | None = None,
    int8: bool = False,
    gguf: str | Path | None = None,
    type: str = "f16",
    tokenizer_from: str | Path | None = None,
    auto: Any = None,
    dtype: Any = None,
) -> Path:
    """Write the model in `folder` for another runtime, and compare what is written with the model.

    Args:
        onnx: a name that ends in .onnx becomes one file with free batch size and length. Its
            inputs are those that the tokenizer in the folder gives, and its outputs have the
            names of transformers. Any other name becomes a folder with the config and the
            tokenizer; for a model that generates text, its graphs have a cache.
        int8: write the weights of ONNX graphs in int8.
        gguf: a GGUF file for llama.cpp. It needs a language model of the structure of Llama,
            Mistral, Qwen2 or Qwen3, with any number of heads and neurons left in each layer.
        type: how a GGUF file stores matrices: "f32", "f16", "q8_0" or "q4_0".
        tokenizer_from: a GGUF file of the original model, whose tokenizer the GGUF file gets;
            for a tokenizer that deadhead does not know.
        auto: the class to load the model as, such as "AutoModelForCausalLM".
        dtype: the precision to load the model in; float32 for ONNX by default, as saved for GGUF.
    """
    if (onnx is None) == (gguf is None):
        raise DeadheadError("`export` expects either `onnx` or `gguf`.", "use onnx='model.onnx'")
    if gguf is not None:
        if int8:
            raise DeadheadError("`int8` is for ONNX.", "use type='q8_0' for a GGUF file")
        from .gguf.export import exported as exported_gguf

        return exported_gguf(
            folder, gguf=gguf, type=type, tokenizer_from=tokenizer_from, auto=auto, dtype=dtype
        ).file
    from .onnx.export import exported

    assert onnx is not None  # for mypy
    return exported(folder, onnx=onnx, int8=int8, auto=auto, dtype=dtype or "float32").place
