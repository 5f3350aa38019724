"""Hooks that ablate heads, as people write them, for the tests of `check_ablation`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from deadhead.layout import Head

WIDTH = 8  # of a head of the tiny models
Change = Callable[[torch.Tensor, Head], Any]


def attention(model, layer: int):
    if hasattr(model, "transformer"):
        return model.transformer.h[layer].attn
    if hasattr(model, "bert"):
        return model.bert.encoder.layer[layer].attention
    return model.model.layers[layer].self_attn


def out(model, layer: int):
    core = attention(model, layer)
    return getattr(core, "c_proj", None) or getattr(core, "o_proj", None) or core.output.dense


def queries(model, layer: int):
    core = attention(model, layer)
    return getattr(core, "c_attn", None) or getattr(core, "q_proj", None) or core.self.query


def part(head: Head, width: int = WIDTH) -> slice:
    return slice(head.index * width, (head.index + 1) * width)


def at_input(change: Change, model, heads: tuple[Head, ...]) -> list[Any]:
    """The handles of hooks that change what the output projection reads."""

    def hook(head: Head, module, args):
        changed = args[0].clone()
        answer = change(changed, head)
        return (changed if answer is None else answer,)

    return [out(model, head.layer).register_forward_pre_hook(partial(hook, head)) for head in heads]


def at_output(module, change: Change, model, heads: tuple[Head, ...]) -> list[Any]:
    def hook(head: Head, projection, args, output):
        changed = output.clone()
        change(changed, head)
        return changed

    return [module(model, head.layer).register_forward_hook(partial(hook, head)) for head in heads]


def zero(x: torch.Tensor, head: Head):
    x[..., part(head)] = 0


correct = partial(at_input, zero)
