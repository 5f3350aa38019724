"""Cut one layer down to some of its heads or neurons.

The rows of the removed heads leave q, k, v and o, and the layer is adapted in one of three ways.
It *shrinks* if its code takes shapes from weights or from counts that can be set. If its code
needs the shapes it was built with, the small projections are *spread*: their results are copied
into zeros of the old width, and picked out again before the output projection, which is exact and
still saves the weights and their products. A layer without heads is *silent*: it computes nothing
but the output bias. A feed-forward layer shrinks in the same way, and spreads if its code needs
the number of neurons from the config.

A layer that shrinks reads its key/value heads in turn, each for the same number of heads. If the
groups of heads that share one become uneven, key/value heads are *copied*: as few times as make
the groups even. A layer that is spread has its old groups, and needs no copies.
"""

import copy
import inspect
import math
from functools import partial
from typing import Any

import torch
from torch import nn

from . import load_pruned, names
from .load_pruned import PickInput, PickRows, Spread
from .parts import Part, code_names, out_axis, unwrapped
from .site import MARK, Born, Site
from .sites import output_inside


def cut(site: Site, kept: tuple[int, ...], share: int | None = None) -> None:
    """Leave only these heads, or neurons, in one layer.

    share: heads that read one key/value head; by default as many as can without uneven groups.
    """
    for use in site.uses:
        _cut_use(use, kept, share)
    for tied in site.tied:  # each use was cut alone
        for role, part in site.parts.items():
            for name, _ in part.tensors:
                setattr(tied.parts[role].module, name, getattr(part.module, name))


def _cut_use(site: Site, kept: tuple[int, ...], share: int | None) -> None:
    before, shrinks = copy.copy(site), _shrinks(site)
    if shrinks:
        site.key_heads = _key_heads(site, kept, share)
    keys = site.keys_of(kept)
    for part in site.parts.values():
        if not shrinks:  # bare vectors stay as they are if the code needs its old shapes
            part.cut = part.cut and part.module is not site.core
        if kept and site.key_heads and part.cut:
            _slice(part, _copied_rows(part, before, kept, keys))
            continue
        old, new = part.present(before.kept, before.keys_of(before.kept)), part.present(kept, keys)
        if len(new) < len(old):
            _slice(part, torch.isin(old, new).nonzero().flatten())
    site.kept = kept
    first = next(iter(site.parts.values())).module
    setattr(first, MARK, site.described(Born))
    if site.kind == "neurons" and shrinks:
        _set_counts(site, len(kept), len(keys))
        _silence_conv1d(site)
    elif not kept and shrinks and _can_be_silent(site.core):
        _silence(site)
    elif shrinks and (kept or site.out is None):
        _set_counts(site, len(kept), len(keys))
        for role, norm in site.norms.items():
            rows = site.parts[role].rows[role]
            _hook(norm, PickRows(rows[list(keys if role == "k" else kept)].flatten()))
    else:
        _set_counts(site, site.size, site.keys)
        _spread(site, kept, keys)


def computed_heads(site: Site, left: int) -> int:
    """For how many heads the layer computes attention once only `left` of them are left."""
    if not _shrinks(site):
        return site.size
    return left if left or site.out is None or _can_be_silent(site.core) else site.size


def needs_copies(site: Site, kept: tuple[int, ...]) -> bool:
    """Whether key/value heads must be copied to leave only these heads in the layer."""
    if site.keys in (1, site.size):
        return False
    return len({len(group) for group in site.by_key(kept)}) > 1 and _shrinks(site)


def _key_heads(site: Site, kept: tuple[int, ...], share: int | None) -> tuple[int, ...]:
    """Which key/value head each head reads afterwards; empty if none is, or was, copied."""
    groups = () if site.keys in (1, site.size) else site.by_key(kept)
    sizes = {len(group) for group in groups}
    if not groups or (len(sizes) == 1 and not site.key_heads and share is None):
        return ()
    each = share or math.gcd(*sizes)
    numbers = [-1] * site.size
    for place, head in enumerate(kept):
        numbers[head] = place // each
    return tuple(numbers)


def _copied_rows(
    part: Part, before: Site, kept: tuple[int, ...], keys: tuple[int, ...]
) -> torch.Tensor:
    """The rows of a part that a cut with copies leaves, in their order, by their numbers now.

    Copies of one key/value head may have been trained apart, so each is followed by itself.
    """
    starts, end = {}, 0
    for block in part.blocks(before.kept, before.keys_of(before.kept)):
        starts[block] = end
        end += part.rows[block[0]].shape[1]
    readers = before.by_key(before.kept)
    rows = []
    for role, place in part.blocks(kept, keys):
        if role in "kv":
            head = kept[place * len(kept) // len(keys)]
            old = next(n for n, heads in enumerate(readers) if head in heads)
        else:
            old = before.kept.index(kept[place])
        start = starts[role, old]
        rows.append(torch.arange(start, start + part.rows[role].shape[1]))
    return torch.cat(rows)


def _slice(part: Part, index: torch.Tensor) -> None:
    """Keep these rows of all tensors of a part."""
    for name, axis in part.tensors:
        old = getattr(part.module, name)
        new = old.detach().index_select(axis, index.to(old.device))
        setattr(part.module, name, nn.Parameter(new, requires_grad=old.requires_grad))
    module, weight = part.module, getattr(part.module, "weight", None)
    if isinstance(module, nn.Linear):
        module.out_features, module.in_features = weight.shape  # type: ignore[union-attr]
    elif isinstance(module, nn.Embedding):
        module.embedding_dim = weight.shape[1]  # type: ignore[union-attr]
    elif hasattr(module, "nf"):
        module.nx, module.nf = weight.shape  # type: ignore[union-attr]


def _set_counts(site: Site, heads: int, keys: int) -> None:
    """Write the numbers of heads, or of neurons, into the module, under its names for them."""
    if site.kind == "neurons":
        values = dict.fromkeys(names.NEURON_COUNTS, heads)
    else:
        values = dict.fromkeys(names.COUNTS, heads) | dict.fromkeys(names.KEY_COUNTS, keys)
        values |= dict.fromkeys(names.TOTALS, heads * site.width) | {"kv_dim": keys * site.width}
        if keys:
            values["num_key_value_groups"] = heads // keys
    for name, value in values.items():
        if isinstance(site.core.__dict__.get(name), int):
            setattr(site.core, name, value)


def _can_be_silent(core: nn.Module) -> bool:
    """Whether nothing but its output is missed if the layer does not run."""
    used = code_names(core)  # an indexer chooses tokens for later layers too
    return "ALL_ATTENTION_FUNCTIONS" in used and "indexer" not in used


def _shrinks(site: Site) -> bool:
    """Whether the layer's own code works with fewer heads once its counts are set."""
    core, used = site.core, code_names(site.core)
    if site.kind == "neurons":
        return not any(n in used and n not in core.__dict__ for n in names.NEURON_COUNTS)
    if site.out is None:
        return True
    values = next((site.parts[role] for role in ("v", "kv", "qkv") if role in site.parts), None)
    if values is None or not values.cut:
        return False  # its keys and values are those of another layer, or read by others too
    counts = (*names.COUNTS, *names.KEY_COUNTS)
    if used & names.RIGID or any(n in used and n not in core.__dict__ for n in counts):
        return False
    arguments = inspect.signature(type(core).forward).parameters
    if any(name in arguments for name in names.PER_HEAD_ARGUMENTS):
        return False
    if not _can_be_silent(core) and any(p.module is core for p in site.parts.values()):
        return False  # a bare vector per head cannot be spread if the layer loses all heads
    known = {id(p.module) for p in site.parts.values()} | {id(n) for n in site.norms.values()}
    others = [
        child
        for name, child in core.named_children()
        if id(unwrapped(child)) not in known and name not in (*names.BEFORE_HEADS, "indexer")
    ]
    own = [p for name, p in core.named_parameters(recurse=False) if name not in site.parts]
    if any(site.size in p.shape and p.shape[-1] != site.width for p in own):
        return False  # a table of all heads
    return all(p.numel() == site.width for child in others for p in child.parameters())


class _FollowAdapters:
    """Forward pre-hook of an attention layer: keep the hooks of its projections outermost.

    An adapter around a small projection must have the same shapes as the projection. So the hook
    belongs on the adapter, and back on the projection once the adapter is removed.
    """

    def __init__(self, places: list[tuple[nn.Module, str, Any]]):
        self.places = places  # the owner of a projection, its name there, and the hook

    def __call__(self, module: nn.Module, args: Any) -> None:
        for owner, name, hook in self.places:
            outer = owner._modules[name]
            if outer is not None and hook not in _hooks(outer, hook).values():
                inner: Any = outer
                while hasattr(inner, "base_layer"):
                    inner = inner.base_layer
                    hooks = _hooks(inner, hook)
                    for key in [k for k, h in hooks.items() if h is hook]:
                        del hooks[key]
                _hook(outer, hook)


def _hooks(module: nn.Module, hook: Any) -> dict[int, Any]:
    """The hooks of a module of the same kind as this one."""
    before = isinstance(hook, PickInput | _FollowAdapters)
    return module._forward_pre_hooks if before else module._forward_hooks


def _hook(module: nn.Module, hook: Any) -> None:
    """Register a hook, or replace the one of the same type that an earlier cut left."""
    hooks = _hooks(module, hook)
    for key, old in hooks.items():
        if type(old) is type(hook):
            hooks[key] = hook
            return
    if hooks is module._forward_pre_hooks:
        module.register_forward_pre_hook(hook, prepend=True)
    else:
        module.register_forward_hook(hook)


def _silence(site: Site) -> None:
    """Have a layer without heads compute nothing but the output bias."""
    out = output_inside(site.core)
    # by name: an adapter may come between
    name = next((name for name, module in site.core.named_modules() if module is out), None)
    annotation = inspect.signature(type(site.core).forward).return_annotation
    alone = annotation in (torch.Tensor, "torch.Tensor")  # as in towers for images
    # unlike a bound method, a partial can be copied and pickled
    site.core.forward = partial(load_pruned.silent_forward, site.core, name, alone)
    _silence_conv1d(site)


def _silence_conv1d(site: Site) -> None:
    """Have GPT-2's Conv1D give its bias alone if nothing is left to multiply."""
    if not site.kept and site.out is not None and out_axis(site.out) == 1:
        site.out.forward = partial(load_pruned.bias_alone, site.out)


def _spread(site: Site, kept: tuple[int, ...], keys: tuple[int, ...]) -> None:
    _silence_conv1d(site)
    # the output projection may be beside the core
    above = site.core if site.parent is None else site.parent
    owners = {
        id(child): (owner, name)
        for owner in above.modules()
        for name, child in owner._modules.items()
    }
    places = []
    for role, part in site.parts.items():
        if role != "o" and not part.cut:
            continue
        rows = part.present(kept, keys)
        hook = PickInput(rows) if role == "o" else Spread(rows, part.size)
        _hook(part.module, hook)
        places.append((*owners[id(part.module)], hook))
    _hook(site.core, _FollowAdapters(places))
