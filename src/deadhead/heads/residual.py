"""Follow the output of a projection to what the model adds to it: the residual stream."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

ADDITIONS = ("add", "__add__", "__radd__", "add_", "__iadd__")


class Following(TorchFunctionMode):
    """Follows a tensor, under all its names, through additions and up to any other use of it.

    through: before the first addition, also through other functions of it: norms, factors.
    """

    def __init__(self, *, through: bool = False):
        super().__init__()
        self._through = through
        self._is_added = False
        self._followed: list[Tensor] = []  # the tensor under all its names

    def follow(self, tensor: Tensor) -> None:
        self._followed, self._is_added = [tensor], False

    def add(self, other: Tensor, total: Tensor) -> None:
        """Called with each tensor of the same shape that is added, and with the sum."""

    def end(self) -> None:
        """Called when the tensor is used in any other way; it is followed no longer."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        operands = (*args, *kwargs.values())
        if not self._followed or not any(self._is_followed(operand) for operand in operands):
            return func(*args, **kwargs)
        other = self._other_addend(func, args, kwargs)
        result = func(*args, **kwargs)
        if other is not None:
            self._followed, self._is_added = [result], True
            self.add(other, result)
        elif self._is_view(func, result) or (self._through and not self._is_added):
            self._followed += _tensors(result)
        elif not _is_question(func, result):
            self._followed = []
            self.end()
        return result

    def _is_followed(self, value: Any) -> bool:
        if isinstance(value, tuple | list):
            return any(self._is_followed(item) for item in value)
        return any(value is tensor for tensor in self._followed)

    def _other_addend(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> Tensor | None:
        """The other operand of an addition of two tensors of one shape."""
        if getattr(func, "__name__", "") not in ADDITIONS or len(args) != 2 or kwargs:
            return None
        first, second = args
        other = second if self._is_followed(first) else first
        if not isinstance(other, Tensor) or self._is_followed(other):
            return None
        mine = first if other is second else second
        return other.clone() if other.shape == mine.shape else None

    def _is_view(self, func: Any, result: Any) -> bool:
        """Whether the result is the output again: dropout outside of training, a view."""
        output = self._followed[0]
        return (
            isinstance(result, Tensor)
            and not works_in_place(func)
            and result.data_ptr() == output.data_ptr()
            and result.dtype == output.dtype
            and result.numel() == output.numel()
            and result.shape[-1:] == output.shape[-1:]
            and result.is_contiguous()
            and output.is_contiguous()
        )


def _tensors(result: Any) -> list[Tensor]:
    """The tensors that a function gave."""
    values = result if isinstance(result, tuple | list) else (result,)
    return [value for value in values if isinstance(value, Tensor)]


def works_in_place(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    return name.startswith(("__i", "__set")) or (name.endswith("_") and name[:2] != "__")


def _is_question(func: Any, result: Any) -> bool:
    """Whether a function only asked for a shape, a device or a number."""
    if isinstance(result, Tensor) or works_in_place(func):
        return False
    return isinstance(result, torch.Size) or not isinstance(result, tuple | list)
