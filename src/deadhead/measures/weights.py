"""Weight change: how far the query, key and value weights of each head moved in training.

For a head and each of the three matrices, the mean over the head's entries of |after - before|;
then the mean over the three. Weights are kept per head under the head's own name, so that a model
before and the same model after pruning can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from deadhead.errors import HeadError

from .measure import Measure, MeasureInputs

if TYPE_CHECKING:
    from torch import Tensor

    from deadhead.heads.site import Site

MATRICES = ("q", "k", "v")


@dataclass(frozen=True)
class Weights(Measure):
    """The change since training began of every head that is left; 0 before any training."""

    label: ClassVar[str] = "Change of weights by training"
    help: ClassVar[str] = "How far the query, key and value weights of each head moved in training."
    legend: ClassVar[str] = "mean |change|"
    needs_start: ClassVar[bool] = True
    is_change: ClassVar[bool] = True
    digits: ClassVar[int] = 8

    magnitudes: bool = False  # compare |after| with |before|, so that a change of sign is no change
    relative: bool = False  # divide by the mean |before| of the head
    biases: bool = False  # count the biases of the three projections among the entries

    def __call__(self, model: Any, inputs: MeasureInputs) -> dict[str, float]:
        now = head_weights(model)
        return change(now if inputs.start is None else inputs.start, now, self)


def head_weights(model: Any) -> dict[str, Tensor]:
    """A copy of the weights of every head: `encoder.0.3/q` -> tensor; `encoder.0.3/q.bias`."""
    from deadhead.heads.discover import find_sites

    tensors = (pair for site in find_sites(model) for pair in _of_site(site))
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors}


def _of_site(site: Site) -> Iterator[tuple[str, Tensor]]:
    for part in site.parts.values():
        for role in part.rows:
            for name, axis in part.tensors:
                tensor = getattr(part.module, name, None)
                matrix = role if name in ("weight", "bias") else name  # XLNet's have no module
                if tensor is None or matrix not in MATRICES or part is not _owner(site, matrix):
                    continue
                suffix = f"/{matrix}.bias" if name == "bias" else f"/{matrix}"
                for head in site.kept:
                    rows = site.rows_of(part, role, head).to(tensor.device)
                    values = tensor.index_select(axis, rows)
                    yield f"{site.block}.{site.layer}.{head}{suffix}", values


def _owner(site: Site, matrix: str) -> Any:
    """The part that holds a projection: its own, or the one it is fused with."""
    return next(site.parts[name] for name in (matrix, "kv", "qkv", "all") if name in site.parts)


def change(
    before: Mapping[str, Tensor], after: Mapping[str, Tensor], options: Weights | None = None
) -> dict[str, float]:
    """How far each head of `after` is from the same head of `before`, both from `head_weights`."""
    heads = dict.fromkeys(name.partition("/")[0] for name in after)
    return {head: _change(head, before, after, options or Weights()) for head in heads}


def _change(
    head: str, before: Mapping[str, Tensor], after: Mapping[str, Tensor], options: Weights
) -> float:
    moves, sizes = [], []
    for matrix in MATRICES:
        name = f"{head}/{matrix}"
        old, new = _entries(before, name, options.biases), _entries(after, name, options.biases)
        if old.shape != new.shape:
            message = f"head {head} has weights of other shapes before and after."
            raise HeadError(message, "compare one model before and after training")
        if options.magnitudes:
            old, new = old.abs(), new.abs()
        moves.append(float((new - old).abs().mean()))
        sizes.append(float(old.abs().mean()))
    total = sum(moves) / len(moves)
    return total / (sum(sizes) / len(sizes)) if options.relative else total


def _entries(weights: Mapping[str, Tensor], name: str, biases: bool) -> Tensor:
    import torch

    if name not in weights:
        hint = "keep those of the model before heads were removed"
        raise HeadError(f"there are no weights {name} to compare with.", hint)
    entries = [weights[name].double().flatten()]
    if biases and f"{name}.bias" in weights:
        entries.append(weights[f"{name}.bias"].double().flatten())
    return torch.cat(entries)
