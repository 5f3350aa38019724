"""The parts of a layer that hold weights, and the rows that belong to each head or neuron."""

import inspect
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from . import names


@dataclass
class Part:
    """A module with weights, and the rows of these weights that belong to each head or neuron."""

    module: nn.Module
    tensors: tuple[tuple[str, int], ...]  # its parameters, each with the axis of the rows
    rows: dict[str, torch.Tensor]  # role (q, k, v, o; up) -> heads x row numbers, before any cut
    cut: bool = True  # False if a norm over all heads follows, which needs all rows
    size: int = field(init=False)  # rows before any cut

    def __post_init__(self) -> None:
        self.size = 1 + max(int(numbers.max()) for numbers in self.rows.values())

    def present(self, heads: tuple[int, ...], keys: tuple[int, ...]) -> torch.Tensor:
        """The rows that remain with only these heads and these key/value heads, in their order.

        The rows of a key/value head that is there more than once are there as often.
        """
        if not self.cut:
            return torch.arange(self.size)
        if len(set(keys)) < len(keys):
            blocks = self.blocks(heads, keys)
            return torch.cat([self.rows[role][_units(role, heads, keys)[n]] for role, n in blocks])
        keep = torch.ones(self.size, dtype=torch.bool)
        for role, rows in self.rows.items():
            removed = set(range(len(rows))).difference(_units(role, heads, keys))
            keep[rows[sorted(removed)].flatten()] = False
        return keep.nonzero().flatten()

    def blocks(self, heads: tuple[int, ...], keys: tuple[int, ...]) -> list[tuple[str, int]]:
        """The rows in their order, head by head: role, place among these heads or key/value heads.

        Copies of a key/value head follow each other.
        """
        ordered = [
            (int(rows[unit, 0]), place, role)
            for role, rows in self.rows.items()
            for place, unit in enumerate(_units(role, heads, keys))
        ]
        return [(role, place) for _, place, role in sorted(ordered)]


def _units(role: str, heads: tuple[int, ...], keys: tuple[int, ...]) -> tuple[int, ...]:
    """The units that a role has rows for."""
    return keys if role in "kv" else heads


def bare(module: Any) -> Any:
    """A module without the adapters around it."""
    while hasattr(module, "base_layer"):
        module = module.base_layer
    return module


def unwrapped(module: Any) -> Any:
    """The linear module inside of one that has nothing else, such as a clamp around it."""
    if isinstance(module, nn.Module) and not is_linear(module):
        inner = [*module.children()]
        if len(inner) == 1 and is_linear(inner[0]) and not [*module.parameters(recurse=False)]:
            return inner[0]
    return module


def code_names(core: nn.Module) -> set[str]:
    """Every name that the methods of a module's class use, except its constructor."""
    used: set[str] = set()
    for name, function in vars(type(core)).items():
        inner = inspect.unwrap(function) if callable(function) else function
        code = getattr(inner, "__code__", None)
        if code is not None and name != "__init__":
            used.update(code.co_names, code.co_varnames)
    return used


def is_linear(module: object) -> bool:
    """Whether it is torch's Linear or GPT-2's Conv1D, also with an adapter around it."""
    if not isinstance(module, nn.Module):
        return False
    inner = bare(module)
    linear = isinstance(inner, nn.Linear) or type(inner).__name__ == "Conv1D"
    return linear and module.weight.dim() == 2  # type: ignore[operator]


def out_axis(module: nn.Module) -> int:
    """The axis of the weight for the outputs: GPT-2's Conv1D is transposed."""
    return 1 if type(bare(module)).__name__ == "Conv1D" else 0


def outputs_of(module: nn.Module) -> int:
    return int(module.weight.shape[out_axis(module)])  # type: ignore[index]


def inputs_of(module: nn.Module) -> int:
    return int(module.weight.shape[1 - out_axis(module)])  # type: ignore[index]


def output_tensors(module: nn.Module) -> tuple[tuple[str, int], ...]:
    """The parameters of a linear module that have one row for each output."""
    weight = (("weight", out_axis(module)),)
    has_bias = isinstance(getattr(module, "bias", None), torch.Tensor)
    return (*weight, ("bias", 0)) if has_bias else weight


def even_rows(heads: int, width: int, offset: int = 0, stride: int | None = None) -> torch.Tensor:
    """Row numbers of heads that follow each other at a fixed distance: heads x width."""
    return offset + torch.arange(heads)[:, None] * (stride or width) + torch.arange(width)


def family_of(core: nn.Module) -> str:
    """The model type whose code a module has."""
    return type(core).__module__.rsplit(".", 1)[-1].removeprefix("modeling_")


def fused_rows(core: nn.Module, heads: int, keys: int, width: int) -> dict[str, torch.Tensor]:
    """Which rows of a fused projection are the queries, keys and values of each head."""
    family = family_of(core)
    if family == "codegen":  # four partitions, each with its share of q, then v, then k
        share, (partition, head) = heads // 4, _divided(heads, 4)
        base = partition * 3 * share * width + head * width
        return {
            role: (base + i * share * width)[:, None] + torch.arange(width)
            for i, role in enumerate("qvk")
        }
    if family == "falcon" and 1 < keys < heads:  # each group: its queries, its key, its value
        size = heads // keys
        group, head = _divided(heads, keys)
        base, stride = group * (size + 2) * width + head * width, (size + 2) * width
        k = even_rows(keys, width, size * width, stride)
        return {"q": base[:, None] + torch.arange(width), "k": k, "v": k + width}
    if family in names.INTERLEAVED and keys == heads:
        return {r: even_rows(heads, width, i * width, 3 * width) for i, r in enumerate("qkv")}
    return {
        "q": even_rows(heads, width),
        "k": even_rows(keys, width, heads * width),
        "v": even_rows(keys, width, (heads + keys) * width),
    }


def _divided(heads: int, partitions: int) -> tuple[torch.Tensor, torch.Tensor]:
    """For each head, its partition and its place there."""
    numbers, size = torch.arange(heads), heads // partitions
    return numbers // size, numbers % size
