"""Weight change: how far the query, key and value weights of each head moved in training.

For a head and each of the three matrices, the mean over the head's entries of |after - before|;
then the mean over the three. Weights are kept per head under the head's own name, so that a model
before and the same model after pruning can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from deadhead.errors import HeadError

from .measure import Measure, MeasureInputs

if TYPE_CHECKING:
    from torch import Tensor

    from deadhead.heads.site import Site

MATRICES = ("q", "k", "v")


@dataclass(frozen=True)
class Weights(Measure):
    """The change since training began of every head that is left; 0 before any training."""

    label = "Change of weights by training"
    help = "How far the query, key and value weights of each head moved in training."
    legend = "mean |change|"
    needs_start = True
    is_change = True
    digits = 8

    def __call__(self, model: Any, inputs: MeasureInputs) -> dict[str, float]:
        now = head_weights(model)
        return change(now if inputs.start is None else inputs.start, now)


def head_weights(model: Any) -> dict[str, Tensor]:
    """A copy of the weights of every head: `encoder.0.3/q` -> tensor."""
    from deadhead.heads.discover import find_sites

    tensors = (pair for site in find_sites(model) for pair in _of_site(site))
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors}


def _of_site(site: Site) -> Iterator[tuple[str, Tensor]]:
    for part in site.parts.values():
        for role in part.rows:
            for name, axis in part.tensors:
                tensor = getattr(part.module, name, None)
                matrix = role if name == "weight" else name  # XLNet's have no module
                if tensor is None or matrix not in MATRICES or part is not _owner(site, matrix):
                    continue
                for head in site.kept:
                    rows = site.rows_of(part, role, head).to(tensor.device)
                    yield (
                        f"{site.block}.{site.layer}.{head}/{matrix}",
                        tensor.index_select(axis, rows),
                    )


def _owner(site: Site, matrix: str) -> Any:
    """The part that holds a projection: its own, or the one it is fused with."""
    return next(site.parts[name] for name in (matrix, "kv", "qkv", "all") if name in site.parts)


def change(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> dict[str, float]:
    """How far each head of `after` is from the same head of `before`, both from `head_weights`."""
    moves: dict[str, list[float]] = {}
    for name, new in after.items():
        head = name.partition("/")[0]
        if name not in before:
            hint = "keep those of the model before heads were removed"
            raise HeadError(f"there are no weights {name} to compare with.", hint)
        if before[name].shape != new.shape:
            message = f"head {head} has weights of other shapes before and after."
            raise HeadError(message, "compare one model before and after training")
        moves.setdefault(head, []).append(
            float((new.double() - before[name].double()).abs().mean())
        )
    return {head: fmean(of_matrices) for head, of_matrices in moves.items()}
