"""Run the code of Kwon et al. 2022 for `kwon_authors.py`.

It expects a GPU, cupy and transformers 4. Here it runs on a CPU with scipy's LSMR, with the number
of steps that cupy allows, and `MaskedBert` takes its masks of heads.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from scipy.sparse.linalg import lsmr
from torch import Tensor, nn

from deadhead.errors import DeadheadError

FUNCTIONS = {
    "prune.fisher": ("collect_mask_grads", "compute_fisher_info"),
    "prune.search": ("search_mac",),
    "prune.rearrange": ("rearrange_mask",),
    "prune.rescale": ("rescale_mask",),
}


class Lsmr:
    """LSMR as cupy has it: with at most five steps for each unknown."""

    is_reversed = False  # whether the unknowns are in reverse order

    def solve(self, matrix: Any, vector: Any, damp: float) -> tuple[Any, ...]:
        step = -1 if self.is_reversed else 1
        solution, *rest = lsmr(
            matrix[::step, ::step], vector[::step], damp, maxiter=5 * len(vector)
        )
        return solution[::step].copy(), *rest


def authors_code(folder: Path) -> SimpleNamespace:
    """Import the authors' functions, with numpy and scipy instead of cupy; and their solver."""
    solver = Lsmr()
    if not (folder / "prune" / "rescale.py").exists():
        raise DeadheadError(
            f"{folder} has no prune/rescale.py.",
            "clone https://github.com/WoosukKwon/retraining-free-pruning and give its folder",
        )
    modules = {name: ModuleType(name) for name in ("cupy", "cupyx", "cupyx.scipy")}
    modules |= {f"cupyx.scipy.{name}": ModuleType(name) for name in ("sparse", "sparse.linalg")}
    vars(modules["cupy"]).update(asarray=np.asarray, asnumpy=np.asarray)
    vars(modules["cupyx.scipy.sparse.linalg"]).update(lsmr=solver.solve)
    with patch.dict(sys.modules, modules), patch.object(sys, "path", [str(folder), *sys.path]):
        return SimpleNamespace(solver=solver, **{
            function: getattr(importlib.import_module(module), function)
            for module, functions in FUNCTIONS.items()
            for function in functions
        })  # fmt: skip


@contextmanager
def on_cpu() -> Iterator[None]:
    """Keep tensors where they are: the authors' code moves them to a GPU."""
    move = torch.Tensor.to

    def to(tensor: Tensor, *args: Any, **options: Any) -> Tensor:
        return tensor if args[:1] == ("cuda",) else move(tensor, *args, **options)

    with (
        patch.object(torch.Tensor, "cuda", lambda tensor: tensor),
        patch.object(torch.Tensor, "to", to),
    ):
        yield


class MaskedLayer(nn.Module):
    """A layer of BERT with a mask of heads, called as transformers 4 did."""

    def __init__(self, layer: Any):
        super().__init__()
        self.attention, self.intermediate = layer.attention, layer.intermediate
        self.output = layer.output

    def forward(self, states: Tensor, mask: Tensor, head_mask: Tensor) -> tuple[Tensor]:
        context = self.attention.self(states, attention_mask=mask)[0]
        gates = head_mask.view(-1, 1)
        context = (context.unflatten(-1, (len(gates), -1)) * gates).flatten(-2)
        attended = self.attention.output(context, states)
        return (self.output(self.intermediate(attended), attended),)


class MaskedBert(nn.Module):
    """A BERT of any task whose forward pass takes masks of heads, as in transformers 4."""

    base_model_prefix = "bert"

    def __init__(self, model: Any):
        super().__init__()
        self.model = model
        layers = [MaskedLayer(layer) for layer in model.bert.encoder.layer]
        self.bert = SimpleNamespace(encoder=SimpleNamespace(layer=layers))

    def forward(self, head_mask: Tensor, **batch: Tensor) -> Any:
        padding = 1 - batch["attention_mask"][:, None, None].to(self.model.dtype)
        mask = padding * torch.finfo(padding.dtype).min
        with ExitStack() as stack:
            layers = zip(self.model.bert.encoder.layer, self.bert.encoder.layer, strict=True)
            for (layer, masked), heads in zip(layers, head_mask, strict=True):

                def run(states: Tensor, *_: Any, to: Any = (masked, heads), **__: Any) -> Tensor:
                    return to[0](states, mask, to[1].view(1, -1, 1, 1))[0]

                stack.enter_context(patch.object(layer, "forward", run))
            return self.model(**batch)
