"""Weight change: how far the query, key and value weights of each head moved in training.

For a head and each of the three matrices, the mean over the head's entries of |after - before|; then
the mean over the three. Weights are kept per head under the head's own name, so that a model before
and the same model after pruning can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deadhead.errors import HeadError

from . import Given, check_flag

if TYPE_CHECKING:
    from torch import Tensor

    from deadhead.heads.sites import Site

MATRICES = ("q", "k", "v")


@dataclass(frozen=True)
class Weights:
    """The change since training began of every head that is left, by its name; 0 before any training."""

    magnitudes: bool = (
        False  # compare |after| with |before| instead, which a change of sign does not move
    )
    relative: bool = False  # divide by the mean |before| of the head
    biases: bool = False  # count the biases of the three projections among the entries

    def __post_init__(self) -> None:
        for name in ("magnitudes", "relative", "biases"):
            check_flag(name, getattr(self, name))

    def __call__(self, model: Any, given: Given) -> dict[str, float]:
        now = head_weights(model)
        return change(now if given.began is None else given.began, now, **vars(self))


def head_weights(model: Any) -> dict[str, Tensor]:
    """A copy of the weights of every head: `encoder.0.3/q` -> tensor, and `encoder.0.3/q.bias` where there is one."""
    from deadhead.heads.discover import find_sites

    return {
        name: tensor.detach().cpu().clone()
        for site in find_sites(model)
        for name, tensor in _of_site(site)
    }


def _of_site(site: Site) -> Iterator[tuple[str, Tensor]]:
    import torch

    keys = site.keys_of(site.kept)
    for part in site.parts.values():
        present = part.present(site.kept, keys)
        for role, rows in part.rows.items():
            for tensor, axis in part.tensors:
                matrix, is_bias = (
                    (role, tensor == "bias") if tensor in ("weight", "bias") else (tensor, False)
                )  # XLNet's are bare
                if (
                    matrix not in MATRICES
                    or getattr(part.module, tensor, None) is None
                    or part is not _owner(site, matrix)
                ):
                    continue
                for head in site.kept:
                    unit = head if matrix == "q" or role == "q" else site.keys_of((head,))[0]
                    places = torch.searchsorted(present, rows[unit])
                    held = getattr(part.module, tensor)
                    name = f"{site.block}.{site.layer}.{head}/{matrix}" + (
                        ".bias" if is_bias else ""
                    )
                    yield name, held.index_select(axis, places.to(held.device))


def _owner(site: Site, matrix: str) -> Any:
    """The part that holds a projection: its own, or the one it is fused with."""
    return next(site.parts[name] for name in (matrix, "kv", "qkv", "all") if name in site.parts)


def change(
    before: Mapping[str, Tensor],
    after: Mapping[str, Tensor],
    *,
    magnitudes: bool = False,
    relative: bool = False,
    biases: bool = False,
) -> dict[str, float]:
    """How far each head of `after` is from the same head of `before`, both made by `head_weights`."""
    heads = dict.fromkeys(name.partition("/")[0] for name in after)
    return {head: _moved(head, before, after, magnitudes, relative, biases) for head in heads}


def _moved(
    head: str,
    before: Mapping[str, Tensor],
    after: Mapping[str, Tensor],
    magnitudes: bool,
    relative: bool,
    biases: bool,
) -> float:
    moved, size = [], []
    for matrix in MATRICES:
        old, new = (_entries(weights, f"{head}/{matrix}", biases) for weights in (before, after))
        if old.shape != new.shape:
            raise HeadError(
                f"head {head} has weights of other shapes before and after.",
                "compare one model before and after training",
            )
        moved.append(float(((new.abs() - old.abs()) if magnitudes else (new - old)).abs().mean()))
        size.append(float(old.abs().mean()))
    total = sum(moved) / len(moved)
    return total / (sum(size) / len(size)) if relative else total


def _entries(weights: Mapping[str, Tensor], name: str, biases: bool) -> Tensor:
    import torch

    if name not in weights:
        raise HeadError(
            f"there are no weights {name} to compare with.",
            "keep those of the model before heads were cut",
        )
    found = [weights[name].double().flatten()]
    if biases and f"{name}.bias" in weights:
        found.append(weights[f"{name}.bias"].double().flatten())
    return torch.cat(found)
