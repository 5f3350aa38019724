"""The feed-forward layers of a model, as sites whose units are neurons.

A neuron is a row of the first matrix, a row of the gate if the layer has one, and the column of
the second matrix that reads it. `names.py` lists the names of the matrices; the widths must fit.
A layer whose neurons do not stand alone is skipped with the reason.
"""

from typing import Any

import torch
from torch import nn

from . import names
from .parts import (
    Part,
    bare,
    even_rows,
    inputs_of,
    is_linear,
    out_axis,
    output_tensors,
    outputs_of,
    unwrapped,
)
from .site import MARK, Born, Site
from .sites import Skip, collect


def scan_neurons(model: nn.Module, attentions: list[Site]) -> tuple[list[Site], dict[str, Skip]]:
    """Every feed-forward layer with neurons; and the skipped ones, module path -> reason.

    attentions: the attention layers of the model, whose matrices belong to no feed-forward layer.
    """
    cores = (use.core for site in attentions for use in site.uses)
    in_attention = {id(module) for core in cores for module in core.modules()}
    experts = _experts(model, in_attention)

    def site_of(module: nn.Module, path: str, parent: nn.Module | None) -> Site | None:
        # a layer of a stack has a number; a projector between two models has none
        numbered = any(step.isdecimal() for step in path.split("."))
        if not numbered or id(module) in in_attention or _is_inside(path, experts):
            return None
        return _site(module, path, in_attention)

    sites, skipped = collect(model, site_of)
    return sites, {**experts, **skipped}


def _experts(model: nn.Module, in_attention: set[int]) -> dict[str, Skip]:
    """The mixtures of experts, module path -> reason: with the router, but without attention."""
    mixtures: dict[str, Skip] = {}
    for path, module in model.named_modules():
        if _is_inside(path, mixtures):
            continue
        for name in names.EXPERTS:
            if isinstance(getattr(module, name, None), nn.Module):
                alone = any(id(below) in in_attention for below in module.modules())
                where = f"{path}.{name}" if alone else path
                shared = any(
                    getattr(module, other, None) is not None for other in names.SHARED_EXPERTS
                )
                mixtures[where] = Skip(
                    f"{type(module).__name__} is a mixture of experts: a token passes only some "
                    "of them, so their neurons cannot be removed alone"
                    + ("; the expert that all tokens share is kept whole with them" * shared)
                )
    return mixtures


def _is_inside(path: str, places: dict[str, Skip]) -> bool:
    return any(path == place or path.startswith(f"{place}.") for place in places)


def _site(core: nn.Module, path: str, in_attention: set[int]) -> Site | None:
    """The feed-forward layer of this module, None if it owns none; raises Skip."""
    if not core._modules:  # most modules of a model
        return None
    for words, last in names.FEED_FORWARDS:
        first, out = [_below(core, word) for word in words], _below(core, last)
        if all(map(is_linear, [*first, out])):
            if getattr(core, names.SPARSITY, 0):
                raise Skip(
                    f"{type(core).__name__} keeps the highest of its neurons, judged by all of "
                    "them, so no neuron can be removed alone"
                )
            site = _measured_site(core, path, out, first)
            if getattr(bare(first[0]), MARK, None) is None:
                _refuse_mixing(site, (*words, last), in_attention)
            return site
    return None


def _below(core: nn.Module, path: str) -> Any:
    module: Any = core
    for step in path.split("."):  # faster than getattr, which builds an error for each wrong name
        module = None if module is None else module._modules.get(step)
    return unwrapped(module)


def _measured_site(core: nn.Module, path: str, out: nn.Module, first: list[nn.Module]) -> Site:
    """The layer with its neurons counted; raises Skip if its matrices do not fit."""
    born = getattr(bare(first[0]), MARK, None)
    if born is None:
        size = inputs_of(out)
        rows = [outputs_of(module) for module in first]
        halves = 2 if rows == [2 * size] else 1
        if not size or set(rows) != {halves * size}:
            raise Skip(
                f"{type(core).__name__}: its second matrix reads {size} neurons, and its first "
                f"gives {', '.join(map(str, rows))}"
            )
        every = tuple(range(size))
        born = Born(size=size, keys=size, width=1, kept=every, halves=halves)
    site = Site(kind="neurons", core=core, path=path, out=out, **vars(born))
    size = site.size
    neurons = even_rows(size, 1)
    both = neurons + torch.arange(site.halves) * size  # the gate of a neuron, then the neuron
    for role, module in zip(("up",) if len(first) == 1 else ("gate", "up"), first, strict=True):
        site.parts[role] = Part(module, output_tensors(module), {role: both})
    site.parts["o"] = Part(out, (("weight", 1 - out_axis(out)),), {"o": neurons})
    return site


def _refuse_mixing(site: Site, paths: tuple[str, ...], in_attention: set[int]) -> None:
    """Raise Skip for other weights beside the two matrices at these paths, such as of a norm."""
    own = {
        id(getattr(part.module, name)) for part in site.parts.values() for name, _ in part.tensors
    }
    ends = {outputs_of(site.parts["o"].module), inputs_of(next(iter(site.parts.values())).module)}
    sizes = {site.size, site.size * site.halves} - ends
    owners = (_below(site.core, p.rpartition(".")[0]) if "." in p else site.core for p in paths)
    modules = (inner for owner in dict.fromkeys(owners) for inner in owner.named_modules())
    for path, module in modules:
        if id(module) in in_attention:
            continue
        is_norm = any(step in names.NEURON_NORMS for step in path.split("."))
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in own and (is_norm or sizes.intersection(parameter.shape)):
                full = f"{path}.{name}".lstrip(".")
                raise Skip(
                    f"{type(site.core).__name__}: {full} seems to work on all neurons at once, "
                    "so no neuron can be removed alone"
                )
