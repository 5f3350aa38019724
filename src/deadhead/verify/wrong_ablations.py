"""Ablations that are often written by mistake, each as it would be written with hooks.

`check_ablation` compares a user's ablation with these to say what it likely does. Each acts on one
attention layer; `places` are the places of the heads in that layer, which are their numbers unless
the model was pruned.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from deadhead.heads.hooks import attach
from deadhead.heads.parts import outputs_of
from deadhead.heads.site import Site

Undo = Callable[[], None]
Install = Callable[[Site, list[int]], Undo | None]  # None where a layer cannot have this mistake

SEAM = "register_forward_pre_hook on the output projection and change its input"


class Problem(NamedTuple):
    """A mistake: its name for programs, what the function does, and what to do instead."""

    name: str
    words: str
    hint: str


def _slices(places: Iterable[int], width: int) -> list[int]:
    return [column for place in places for column in range(place * width, (place + 1) * width)]


def _at_input(site: Site, columns: list[int]) -> Undo | None:
    """Zero columns of what the output projection reads."""
    if not columns or max(columns) >= len(site.kept) * site.width:
        return None

    def change(context: Tensor) -> Tensor:
        return context.index_fill(-1, torch.tensor(columns, device=context.device), 0)

    return attach(site, change)


def _at_output(modules: Sequence[nn.Module], columns: list[int]) -> Undo | None:
    """Zero columns of what a projection returns, in each use of it."""
    if not modules or not columns or max(columns) >= outputs_of(modules[0]):
        return None

    def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        return output.index_fill(-1, torch.tensor(columns, device=output.device), 0)

    undo = ExitStack()
    for each in modules:
        undo.callback(each.register_forward_hook(hook).remove)
    return undo.close


def _wrong_width(site: Site, places: list[int]) -> Undo | None:
    """Take the hidden size divided by the number of heads for the width of a head."""
    width = 0 if site.out is None else outputs_of(site.out) // site.size
    return None if width == site.width else _at_input(site, _slices(places, width))


def _whole_group(site: Site, places: list[int]) -> Undo | None:
    """Remove every head that reads the same key/value head."""
    if site.group == 1:
        return None
    heads = {site.kept[place] for place in places}
    mates = {head for group in site.groups if heads.intersection(group) for head in group}
    places = [i for i, head in enumerate(site.kept) if head in mates]
    return _at_input(site, _slices(places, site.width))


def _group_number(site: Site, places: list[int]) -> Undo | None:
    """Take the number of a head for that of a key/value head, so for that of a group of heads.

    Zeroed values of a key/value head make the outputs of its heads zero, which is the same.
    """
    return _at_input(site, _slices(places, site.width * site.group)) if site.group > 1 else None


def _even_attention(site: Site, places: list[int]) -> Undo | None:
    """Zero the queries: all scores are then the same."""
    role = next((role for role in ("q", "qkv") if role in site.parts), None)
    if role is None:
        return None
    part = site.parts[role]
    rows = torch.cat([site.rows_of(part, "q", site.kept[place]) for place in places])
    return _at_output([use.parts[role].module for use in site.uses], rows.tolist())


def _wrong_axes(site: Site, places: list[int]) -> Undo:
    def change(context: Tensor) -> Tensor:
        if context.dim() != 3:
            return context
        examples, length, _ = context.shape
        view = context.clone().view(examples, len(site.kept), length, site.width)
        view[:, places] = 0
        return view.view_as(context)

    return attach(site, change)


def _only(where: Callable[[Tensor, bool], Tensor]) -> Install:
    """Zero the heads in a part of the tensor alone; `where` gives a view of it."""

    def install(site: Site, places: list[int]) -> Undo:
        def change(context: Tensor) -> Tensor:
            changed = context.clone()
            where(changed, site.time_first)[..., _slices(places, site.width)] = 0
            return changed

        return attach(site, change)

    return install


def first_call_only(site: Site, places: list[int]) -> Undo:
    """Zero the heads in the first call of a layer, as a hook that misses the steps with a cache."""
    calls = count()

    def change(context: Tensor) -> Tensor:
        columns = torch.tensor(_slices(places, site.width), device=context.device)
        return context if next(calls) else context.index_fill(-1, columns, 0)

    return attach(site, change)


WRONG: dict[Problem, Install] = {
    Problem(
        "nothing",
        "does nothing: the outputs are those of the whole model",
        "transformers 5 ignores head_mask; check that the hook returns what it changed, "
        "and that it is on a module that runs",
    ): lambda site, places: lambda: None,
    Problem(
        "output_side",
        "zeroes slices of the output of the output projection, which mixes all heads",
        SEAM,
    ): lambda site, places: _at_output(site.outs, _slices(places, site.width)),
    Problem(
        "wrong_width",
        "takes heads of the width hidden_size / num_heads, but this model's have another width",
        "use head_dim of the config or of the attention module",
    ): _wrong_width,
    Problem(
        "key_value_head",
        "takes the number of a head for that of a key/value head, which several heads share",
        SEAM + ": there each head has its own slice",
    ): _group_number,
    Problem(
        "whole_group",
        "removes all heads that share the key/value head",
        SEAM + ": there each head has its own slice",
    ): _whole_group,
    Problem(
        "even_attention",
        "zeroes queries, keys or attention scores before the softmax, so that the head reads "
        "all tokens evenly instead of none",
        "zero the attention probabilities after the softmax, or the input of the output projection",
    ): _even_attention,
    Problem(
        "wrong_axes",
        "reshapes to (batch, heads, length, head_dim) without a transpose, and so zeroes tokens",
        "reshape to (batch, length, heads, head_dim)",
    ): _wrong_axes,
    Problem("whole_layer", "removes every head of the layer", "slice by head"): (
        lambda site, places: _at_input(site, list(range(len(site.kept) * site.width)))
    ),
    Problem(
        "whole_layer",
        "zeroes everything that the attention of the layer returns, its bias too",
        SEAM,
    ): lambda site, places: _at_output(
        site.outs, list(range(outputs_of(site.out) if site.out is not None else 0))
    ),
    Problem(
        "one_position",
        "removes the heads at the last position alone",
        "slice columns and keep all positions: x[..., start:stop] = 0",
    ): _only(lambda x, time_first: x[-1] if time_first else x[:, -1]),
    Problem(
        "one_example",
        "removes the heads in the first example of the batch alone",
        "slice columns and keep all examples: x[..., start:stop] = 0",
    ): _only(lambda x, time_first: x[:, 0] if time_first else x[0]),
}
