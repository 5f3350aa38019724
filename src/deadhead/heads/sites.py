"""The attention layers of a model, found by the structure of its modules and not by its name.

An attention layer is a module that owns projections for queries, keys and values (three, or one
fused from them) and whose output projection reads exactly the heads side by side. `names.py` lists
the names of such parts; widths and counts come from the weights. Any other attention is skipped
with the reason, never guessed at.
"""

import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from . import names
from .parts import (
    Part,
    bare,
    code_names,
    even_rows,
    family_of,
    fused_rows,
    inputs_of,
    is_linear,
    out_axis,
    output_tensors,
    outputs_of,
    unwrapped,
)
from .site import MARK, Born, Site


class Skip(Exception):
    """Why the heads or the neurons of a layer can be neither gated nor cut."""


class NoHeads(Skip):
    """It is not softmax attention over heads."""


class UnknownNames(Skip):
    """A part has a name that is not in `names.py`."""


def scan(model: nn.Module) -> tuple[list[Site], dict[str, Skip]]:
    """Every attention layer with heads; and the skipped ones, module path -> reason."""
    return collect(model, _site)


def collect(
    model: nn.Module, site_of: Callable[[nn.Module, str, nn.Module | None], Site | None]
) -> tuple[list[Site], dict[str, Skip]]:
    """The sites that a function finds at the modules of a model; and the skipped ones.

    site_of: gets a module, its path and the module above it; raises Skip.
    """
    sites = []
    skipped = {}
    uses = _count_uses(model)
    parents = {id(child): module for module in model.modules() for child in module.children()}
    for path, module in model.named_modules():
        try:
            site = site_of(module, path, parents.get(id(module)))
        except Skip as reason:
            skipped[path] = reason
            continue
        if site is not None:
            site.shared_by, site.parent = uses[id(module)], parents.get(id(module))
            site.time_first |= family_of(module) in names.TIME_FIRST
            sites.append(site)
    return sites, skipped


def _count_uses(model: nn.Module) -> Counter[int]:
    """How many places of the model each module has, by its id; faster without their paths."""
    uses: Counter[int] = Counter()
    modules = [model]
    while modules:
        module = modules.pop()
        uses[id(module)] += 1
        modules += [child for child in module._modules.values() if child is not None]
    return uses


def _site(core: nn.Module, path: str, parent: nn.Module | None) -> Site | None:
    """The attention layer of this module, None if it is no attention; raises Skip."""
    name = type(core).__name__
    if isinstance(core, nn.MultiheadAttention):
        raise Skip("torch.nn.MultiheadAttention is one fused function with no place for a gate")
    if _has_bare_parameters(core):
        return _xlnet_site(core, path)
    projections = _projections(core)
    if not projections:
        if "q_b_proj" in core._modules and "ttention" in name:
            raise Skip(f"{name} has queries of its own alone: all its heads read the same keys")
        if "ttention" in name and any(part in core._modules for part in names.EXPERTS):
            raise Skip(f"{name} is a mixture of experts: a token passes only some of its heads")
        return None
    if names.NOT_SOFTMAX.search(name) and not _is_latent(core):
        raise NoHeads(f"{name} is not softmax attention over heads")
    if names.FUSED_FUNCTION in code_names(core):
        raise Skip(f"{name} calls torch's fused attention, which has no place for a gate")
    out = output_inside(core)
    if out is None and parent is not None:
        out = output_inside(parent, names.OUTPUTS_ABOVE)
    if out is None:
        if "ttention" in name:
            raise UnknownNames(
                f"{name} has {', '.join(projections)} but no output projection with a known name"
            )
        return None
    site = _measured_site(core, path, out, projections)
    _add_projections(site, out, projections)
    _add_other_modules(site)
    _add_vectors(site)
    return site


def _projections(core: nn.Module) -> dict[str, nn.Module]:
    """The projections of a module by role: q, k and v; qkv; q and kv; or q. Empty without any."""
    children = dict(core.named_children())
    if not children:  # most modules of a model
        return {}
    if _is_latent(core):
        queries = (children.get(name) for name in names.LATENT_QUERIES)
        q = next((child for child in queries if is_linear(child)), None)
        return {} if q is None else {"q": q, "kv": children[names.LATENT_KEYS]}
    for triple in names.TRIPLES:
        if triple[0] not in children:  # faster than to look at all three
            continue
        parts = [unwrapped(children.get(name)) for name in triple]
        if all(map(is_linear, parts)):
            return dict(zip("qkv", parts, strict=True))
    if getattr(core, names.READS_KEYS, False) is True and is_linear(children.get("q_proj")):
        return {"q": children["q_proj"]}
    fused = next((children[name] for name in names.FUSED if is_linear(children.get(name))), None)
    if fused is None:
        return {}
    if is_linear(children.get("q_attn")):
        return {"q": children["q_attn"], "kv": fused}
    return {"qkv": fused}


def _is_latent(core: nn.Module) -> bool:
    """Whether a projection gives the key and the value of each head, head by head."""
    return is_linear(core._modules.get(names.LATENT_KEYS))


def _stays_whole(core: nn.Module, role: str) -> bool:
    """Whether more than the heads of this layer read its keys or values, so that none is cut."""
    lends = getattr(core, names.LENDS_KEYS, False) is True
    lends = lends and getattr(getattr(core, "config", None), "num_kv_shared_layers", 0) > 0
    return role in ("k", "v") and (lends or any(n in core._modules for n in names.READ_VALUES))


def output_inside(core: nn.Module, words: tuple[str, ...] = names.OUTPUTS) -> nn.Module | None:
    """The output projection among the children of a module."""
    for name in words:
        child: Any = core
        for step in name.split("."):
            child = getattr(child, step, None)
        if name == "to_out" and isinstance(child, nn.ModuleList | nn.Sequential) and len(child):
            child = child[0]
        child = unwrapped(child)
        if is_linear(child):
            return child
    return None


def _measured_site(
    core: nn.Module, path: str, out: nn.Module, projections: dict[str, nn.Module]
) -> Site:
    """The layer with its counts of heads, still without parts; raises Skip if they do not fit."""
    born = getattr(bare(next(iter(projections.values()))), MARK, None)
    if born is None:
        width = _head_width(core, inputs_of(out))
        size = inputs_of(out) // width
        keys = _count_keys(core, projections, size, width)
        born = Born(size=size, keys=keys, width=width, kept=tuple(range(size)))
        for role, units in (("q", size), ("k", keys)):
            rows = outputs_of(projections[role]) if role in projections else units
            if not rows or rows % units:
                raise Skip(
                    f"{type(core).__name__}: its queries or keys do not divide into {size} and "
                    f"{keys} heads"
                )
    return Site(core=core, path=path, out=out, **vars(born))


def _head_width(core: nn.Module, total: int) -> int:
    """The width of a head, given the width of what the output projection reads."""
    name, count = type(core).__name__, _integer(core, names.COUNTS)
    width = _integer(core, names.WIDTHS)
    if count is None and width is None:
        count = _integer(getattr(core, "config", None), names.COUNTS)
    if width is None and count and total % count == 0:
        width = total // count
    if not width or not total or total % width:
        raise Skip(
            f"{name} says neither how wide nor how many its heads are, or they do not fill its "
            f"output projection of width {total}"
        )
    if count and count * width != total:
        raise Skip(
            f"{name}: expected {count} heads of width {width} at its output projection, "
            f"got a width of {total}"
        )
    return width


def _count_keys(core: nn.Module, projections: dict[str, nn.Module], size: int, width: int) -> int:
    """The number of key/value heads, counted from the projection that gives the values."""
    if [*projections] == ["q"]:  # the keys and values of another layer
        keys, rest = size // (_integer(core, ("num_key_value_groups",)) or 1), 0
    elif "v" in projections:
        keys, rest = divmod(outputs_of(projections["v"]), width)
    elif _is_latent(core):  # a key may have another width than a value
        keys, rest = size, outputs_of(projections["kv"]) % size
    elif "kv" in projections:
        keys, rest = size, outputs_of(projections["kv"]) - 2 * size * width
    else:
        keys, rest = divmod(outputs_of(projections["qkv"]) - size * width, 2 * width)
    if rest or keys < 1 or size % keys:
        raise Skip(
            f"{type(core).__name__}: its output projection reads {size * width} values, which "
            f"its value projection does not give as {size} heads"
        )
    return keys


def _integer(module: Any, words: tuple[str, ...]) -> int | None:
    """The first of these attributes that is a whole number above 0."""
    for name in words:
        value = getattr(module, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _add_projections(site: Site, out: nn.Module, projections: dict[str, nn.Module]) -> None:
    site.norms = _wide_norms(site)
    for role, module in projections.items():
        cut = role not in site.norms and not _stays_whole(site.core, role)
        rows = _projection_rows(site, role, module, cut)
        site.parts[role] = Part(module, output_tensors(module), rows, cut)
    rows = {"o": even_rows(site.size, site.width)}
    site.parts["o"] = Part(out, (("weight", 1 - out_axis(out)),), rows)


def _projection_rows(
    site: Site, role: str, module: nn.Module, cut: bool
) -> dict[str, torch.Tensor]:
    """Which rows of a projection belong to which head, before any cut."""
    size, keys, width = site.size, site.keys, site.width
    if role == "kv" and _is_latent(site.core):
        both = outputs_of(module) // len(site.kept) if site.kept else 2 * width
        key = both - width
        return {"k": even_rows(size, key, 0, both), "v": even_rows(size, width, key, both)}
    if role == "kv":
        return {"k": even_rows(size, width), "v": even_rows(size, width, size * width)}
    if role == "qkv":
        return fused_rows(site.core, size, keys, width)
    units = size if role == "q" else keys
    left = units
    if cut:
        left = len(site.kept if role == "q" else site.keys_of(site.kept))
    # a layer without heads has empty projections, whose width no longer matters
    return {role: even_rows(units, outputs_of(module) // left if left else width)}


def _wide_norms(site: Site) -> dict[str, nn.Module]:
    """Norms over the queries, or keys, of all heads at once (OLMo 2): role -> module."""
    wide = {}
    for role, words in names.NORMS.items():
        for name in words:
            weight = getattr(getattr(site.core, name, None), "weight", None)
            if isinstance(weight, torch.Tensor) and weight.dim() == 1 and len(weight) > site.width:
                wide[role] = getattr(site.core, name)
    return wide


def _add_other_modules(site: Site) -> None:
    """Add modules beside q, k, v and o with rows for each head; raise Skip if one mixes heads."""
    core, size = site.core, site.size
    known = {id(p.module) for p in site.parts.values()} | {id(m) for m in site.norms.values()}
    known |= {id(child) for child in core.children() if id(unwrapped(child)) in known}
    # the first layer of T5 lends its bias to all
    lends_bias = "position_bias" in inspect.signature(type(core).forward).parameters
    for name, child in core.named_children():
        if id(child) in known:
            continue
        if name in names.PER_HEAD_ROWS and is_linear(child):
            rows = {"q": even_rows(size, site.width)}
            site.parts[name] = Part(child, output_tensors(child), rows)
        elif (
            name == "relative_attention_bias" and isinstance(child, nn.Embedding) and not lends_bias
        ):
            site.parts[name] = Part(child, (("weight", 1),), {"q": even_rows(size, 1)})
        elif isinstance(child, nn.Conv1d | nn.Conv2d) and child.groups == size:
            continue  # a filter for each head, which stays
        elif name not in (*names.HARMLESS, *names.BEFORE_HEADS):
            for part in child.modules():
                multiplies = type(part).__name__.endswith("Norm") or hasattr(part, "in_features")
                for parameter in part.parameters(recurse=False):
                    _refuse_mixing(site, name, parameter, table=not multiplies)


def _add_vectors(site: Site) -> None:
    """Add bare parameters with numbers for each head; raise Skip if one mixes heads."""
    for name, value in site.core.named_parameters(recurse=False):
        if name.startswith("lambda_"):
            raise Skip(
                f"{type(site.core).__name__}.{name} weighs pairs of heads against each other "
                "(differential attention), so no head can be removed alone"
            )
        if name in names.PER_HEAD_VECTORS and value.dim() == 1:
            width = 1 if name == "sinks" else site.width
        elif value.shape in {(site.size, site.width), (len(site.kept), site.width)}:
            width = 1
        else:
            if name not in names.HARMLESS:
                _refuse_mixing(site, name, value, table=True)
            continue
        cut = len(value) <= width * len(site.kept)  # an earlier cut may have left it: `cut.cut`
        rows = {"q": even_rows(site.size, width)}
        site.parts[name] = Part(site.core, ((name, 0),), rows, cut)


def _refuse_mixing(site: Site, name: str, parameter: torch.Tensor, *, table: bool) -> None:
    """Raise Skip unless this parameter works on each head by itself.

    table: it is looked up or added, and not multiplied with what all heads give.
    """
    if parameter.numel() not in (1, site.width) and not (table and _is_per_head(site, parameter)):
        raise Skip(
            f"{type(site.core).__name__}.{name} seems to work on all heads at once, "
            "so no head can be removed alone"
        )


def _is_per_head(site: Site, table: torch.Tensor) -> bool:
    """Whether the last axis of a table is the width of a head, or one axis alone the heads."""
    if table.dim() > 1 and table.shape[-1] == site.width:
        return True
    of_heads = [axis for axis, length in enumerate(table.shape) if length == site.size]
    return len(of_heads) == 1 and (of_heads[0] == table.dim() - 1 or table.numel() == site.size)


def _has_bare_parameters(core: nn.Module) -> bool:
    values = (core._parameters.get(name) for name in "qkvo")
    return all(value is not None and value.dim() == 3 for value in values)


def _xlnet_site(core: nn.Module, path: str) -> Site:
    """XLNet has q, k, v and o as bare parameters, model x heads x width, and uses einsum."""
    if not hasattr(core, "post_attention"):
        raise Skip(
            f"{type(core).__name__} has q, k, v and o as bare parameters, "
            "and no `post_attention` to put a gate at"
        )
    count, width = (int(n) for n in core.q.shape[1:])  # type: ignore[index]
    every = tuple(range(count))
    born = getattr(core, MARK, None) or Born(size=count, keys=count, width=width, kept=every)
    axes = dict.fromkeys(("q", "k", "v", "o", "r", "seg_embed"), 1)
    axes |= dict.fromkeys(("r_r_bias", "r_s_bias", "r_w_bias"), 0)
    tensors = tuple(
        (name, axis)
        for name, axis in axes.items()
        if isinstance(getattr(core, name, None), nn.Parameter)
    )
    parts = {"all": Part(core, tensors, {"q": even_rows(born.size, 1)})}
    return Site(core=core, path=path, out=None, parts=parts, time_first=True, **vars(born))
