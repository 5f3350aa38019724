"""Write a GGUF file, and read one."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from deadhead.errors import DataError, UnsupportedModel

from .decoder import Decoder, Linear
from .plan import BLOCK, Plan

# how matrices are stored -> the number of it in the file
TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 7}
IN_BLOCKS = ("q4_0", "q8_0")
LARGEST_HALF = 65504.0


def write(file: Path, contents: Plan, metadata: Mapping[str, Any], type: str) -> None:
    """Write a file tensor by tensor. type: how its matrices are stored."""
    import gguf

    writer = gguf.GGUFWriter(file, contents.architecture)
    try:
        for key, value in metadata.items():
            _add(writer, key, value)
        for name, tensor in contents.tensors():
            shape = tuple(tensor.shape)
            kind = _stored(type, name, shape)
            quantisation = gguf.GGMLQuantizationType[kind.upper()]
            size = shape
            if kind in IN_BLOCKS:
                size = gguf.quant_shape_to_byte_shape(shape, quantisation)
            numbers = np.dtype({"f32": "f4", "f16": "f2"}.get(kind, "u1"))
            bytes_ = int(np.prod(size)) * numbers.itemsize
            writer.add_tensor_info(name, size, numbers, bytes_, quantisation)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for name, tensor in contents.tensors():
            kind = _stored(type, name, tuple(tensor.shape))
            writer.write_tensor_data(_encoded(name, tensor, kind))
    finally:
        writer.close()


def _stored(type: str, name: str, shape: tuple[int, ...]) -> str:
    """How a tensor is stored: vectors in full, and rows that are no whole blocks as f16.

    Beside q4_0, the matrices of tokens are q8_0: the logits need more bits than the layers.
    """
    if len(shape) == 1:
        return "f32"
    if type in IN_BLOCKS and shape[-1] % BLOCK:
        return "f16"
    return "q8_0" if type == "q4_0" and name in ("token_embd.weight", "output.weight") else type


def as_stored(decoder: Decoder, type: str) -> Decoder:
    """The model with the numbers that a file of this type holds, as far as it rounds blocks."""
    if type not in IN_BLOCKS:
        return decoder

    def rounded(name: str, part: Any) -> Any:
        if not isinstance(part, Linear) or not part.weight.numel():
            return part
        # neurons are filled up to whole blocks; other rows that are none stay f16
        if name != "down" and part.weight.shape[1] % BLOCK:
            return part
        return Rounded(part.weight, part.bias, type)

    layers = tuple(
        replace(layer, **{name: rounded(name, part) for name, part in vars(layer).items()})
        for layer in decoder.layers
    )
    if decoder.embeddings.shape[1] % BLOCK:
        return replace(decoder, layers=layers)
    embeddings = _rounded(decoder.embeddings, "q8_0")
    output = None if decoder.output is None else _rounded(decoder.output, "q8_0")
    return replace(decoder, layers=layers, embeddings=embeddings, output=output)


@dataclass(frozen=True)
class Rounded(Linear):
    """A matrix that is rounded whenever it is used, so that no second copy of it is kept."""

    type: str = "q8_0"

    @property
    def values(self) -> Tensor:
        return _rounded(self.weight, self.type)

    def __call__(self, x: Tensor) -> Tensor:
        return Linear(self.values, self.bias)(x)


def _rounded(matrix: Tensor, type: str) -> Tensor:
    import gguf

    kind = gguf.GGMLQuantizationType[type.upper()]
    columns = matrix.shape[1]
    filled = pad(matrix.detach().float().cpu(), (0, -columns % BLOCK)).contiguous()
    rounded = gguf.dequantize(gguf.quantize(filled.numpy(), kind), kind)
    return torch.from_numpy(rounded)[:, :columns].to(matrix.device)


def _encoded(name: str, tensor: Tensor, kind: str) -> Any:
    import gguf

    numbers = tensor.detach().float().cpu().contiguous().numpy()
    if kind == "f16" and numbers.size and np.abs(numbers).max() > LARGEST_HALF:
        raise UnsupportedModel(
            f"{name} has numbers up to {np.abs(numbers).max():.3g}, too large for f16.",
            "use --type f32",
        )
    return gguf.quantize(numbers, gguf.GGMLQuantizationType[kind.upper()])


def _add(writer: Any, key: str, value: Any) -> None:
    """Add a number, a text or a list of either with the type that llama.cpp expects."""
    from gguf import GGUFValueType as Type

    kinds = {bool: Type.BOOL, int: Type.UINT32, float: Type.FLOAT32, str: Type.STRING}
    if isinstance(value, list):
        kind = type(value[0])
        writer.add_key_value(key, value, Type.ARRAY, Type.INT32 if kind is int else kinds[kind])
    else:
        writer.add_key_value(key, value, kinds[type(value)])


def read_file(file: Path) -> Any:
    """The metadata and tensors of the GGUF file with a tokenizer, as the package gguf has them."""
    import gguf

    try:
        return gguf.GGUFReader(file)
    except (OSError, ValueError, LookupError, OverflowError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise DataError(
            f"--tokenizer-from expects a GGUF file, got {file}: {reason}.",
            "name a GGUF file that exists and is complete",
        ) from problem
