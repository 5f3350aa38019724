"""Hooks that ablate heads, as people write them, for the tests of `check_ablation`."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from deadhead.layout import Head

WIDTH = 8  # of a head of the tiny models
Change = Callable[[torch.Tensor, Head], Any]


def attention(model, layer):
    if hasattr(model, "transformer"):
        return model.transformer.h[layer].attn
    if hasattr(model, "bert"):
        return model.bert.encoder.layer[layer].attention
    return model.model.layers[layer].self_attn


def out(model, layer):
    core = attention(model, layer)
    return getattr(core, "c_proj", None) or getattr(core, "o_proj", None) or core.output.dense


def queries(model, layer):
    core = attention(model, layer)
    return getattr(core, "c_attn", None) or getattr(core, "q_proj", None) or core.self.query


def part(head, width=WIDTH):
    return slice(head.index * width, (head.index + 1) * width)


def at_input(change, model, heads):
    """The handles of hooks that change what the output projection reads."""

    def hook(head, module, args):
        changed = args[0].clone()
        answer = change(changed, head)
        return (changed if answer is None else answer,)

    return [out(model, head.layer).register_forward_pre_hook(partial(hook, head)) for head in heads]


def at_output(module, change, model, heads):
    def hook(head, projection, args, output):
        changed = output.clone()
        change(changed, head)
        return changed

    return [module(model, head.layer).register_forward_hook(partial(hook, head)) for head in heads]


def zero(x, head):
    x[..., part(head)] = 0


correct = partial(at_input, zero)
