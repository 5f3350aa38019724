"""Write a GGUF file, and read one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from deadhead.errors import DataError, UnsupportedModel

from .plan import BLOCK, Plan

TYPES = {"f32": 0, "f16": 1, "q8_0": 7}  # how matrices are stored -> the number of it in the file
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
            kind = _stored(type, shape)
            quantisation = gguf.GGMLQuantizationType[kind.upper()]
            size = gguf.quant_shape_to_byte_shape(shape, quantisation) if kind == "q8_0" else shape
            numbers = np.dtype({"f32": "f4", "f16": "f2", "q8_0": "u1"}[kind])
            bytes_ = int(np.prod(size)) * numbers.itemsize
            writer.add_tensor_info(name, size, numbers, bytes_, quantisation)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for name, tensor in contents.tensors():
            writer.write_tensor_data(_encoded(name, tensor, _stored(type, tuple(tensor.shape))))
    finally:
        writer.close()


def _stored(type: str, shape: tuple[int, ...]) -> str:
    """How a tensor is stored: vectors in full, and rows that are no whole blocks as f16."""
    if len(shape) == 1:
        return "f32"
    return "f16" if type == "q8_0" and shape[-1] % BLOCK else type


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
