"""Remove heads and neurons: check everything first, then cut each layer, then note it down."""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from deadhead.errors import GroupError, HeadError, UnsupportedModel, unknown_name
from deadhead.layout import GROUPS, Groups, Head, HeadLayout, Kind, Neurons, spans

from .cut import cut, needs_copies
from .discover import check_is_model, find_every_site, layout_of
from .hooks import check_no_gates, forget_compiled
from .means import HeadMeans
from .output_bias import added, drop_bias, dropped, fill_bias, filled, refuse_bias_outside
from .site import Site
from .unpacked import drop_mark, is_packed

RECORD = "deadhead"  # the key of the removed heads in a model's config
FORMAT = 1
# optional keys in the record: block -> layers
BIASES = "dropped_output_biases"
FILLED_BIASES = "filled_output_biases"
FILLED_FEED_FORWARDS = "filled_feed_forward_biases"
SHARES = "heads_per_key_value_head"  # optional: block -> layer -> heads, where some were copied
REMOVED_NEURONS = "removed_neurons"  # optional: block -> layer -> text such as "0-3, 7"
# The key of a config that names fusions of modules, which `save_pretrained` writes. transformers
# stops at a name that it does not know, and prints it. Without it, transformers would drop biases
# that the architecture does not have.
FUSIONS = "fusion_config"
NOT_PLAIN = "this model is pruned; load it with deadhead.load, or save it with form='padded'"
# wrappers that hold the parameters in buckets or shards of their own
PARALLEL = ("DistributedDataParallel", "FullyShardedDataParallel")


def prune(
    model: nn.Module,
    heads: Iterable[Head | str] | Mapping[int, Iterable[int]] = (),
    *,
    neurons: Neurons | None = None,
    fill: HeadMeans | None = None,
    drop_output_bias: bool = False,
    groups: Groups = "whole",
) -> nn.Module:
    """Remove heads and neurons from the model for good, and return the same model, smaller.

    Args:
        heads: the heads to remove, or `{layer: [heads]}` for a model with one block of attention.
        neurons: the neurons to remove from feed-forward layers, `{("encoder", 3): [17, 18]}`. A
            layer that loses all its neurons adds only its output bias.
        fill: the means of `head_means(model, batches)`: the bias of the output projection then
            adds what the removed heads contributed on average, as `gated(..., fill=means)` does.
            Removed neurons need `head_means(model, batches, neurons=True)`.
            A projection without a bias gets one, which trains like any other. By default, removed
            heads contribute nothing.
        drop_output_bias: also remove the bias of the output projection of a layer that loses its
            last head, so that its attention adds exactly nothing. By default the bias stays, as it
            does if all heads are masked.
        groups: in a model whose heads share key/value heads, each group must keep the same number
            of heads in a layer. `whole`: it is an error if they do not. `expand`: any heads may
            be removed, and key/value heads are copied as few times as make the groups even again,
            which costs parameters and cache.

    Heads keep the numbers they had before any pruning. The config that the model was made from is
    not changed: the model gets a copy that lists the removed heads. An optimizer made before holds
    the old parameters; make it after pruning.
    """
    if groups not in GROUPS:
        raise unknown_name("value of `groups`", groups, GROUPS)
    expand = groups == "expand"
    cuts = checked_cuts(model, heads, neurons, biases=fill is not None, expand=expand)
    sites = [site for site, _ in cuts]
    if fill is not None:
        # neurons that stay need no means
        listed = [site for site in sites if neurons or site.kind == "heads"]
        _check_fill(fill, layout_of(listed), drop_output_bias)
    if drop_output_bias:
        refuse_bias_outside(sites)
    changed = [(site, left) for site, left in cuts if left != site.kept]
    means = {} if fill is None else {site.key: fill.of(site) for site, _ in changed}
    # parameters made in inference mode could never be trained or ranked again
    with torch.inference_mode(False):
        for site, left in changed:
            if fill is not None:
                fill_bias(site, left, means[site.key])
            cut(site, left)
            if drop_output_bias and not left and site.kind == "heads":
                drop_bias(site)
    if changed:
        note_in_config(model, sites)
        drop_mark(model)
        forget_compiled()
    return model


class Cut(NamedTuple):
    """A layer, and the heads or neurons that stay."""

    site: Site
    left: tuple[int, ...]


def checked_cuts(
    model: nn.Module,
    heads: Iterable[Head | str] | Mapping[int, Iterable[int]] = (),
    neurons: Neurons | None = None,
    *,
    biases: bool,
    everywhere: bool = False,
    expand: bool = False,
) -> list[Cut]:
    """What `prune` leaves in every layer of the model; raises an error if it cannot cut it so.

    biases: output biases will change too.
    everywhere: the layers that lose nothing will change too.
    expand: key/value heads may be copied.
    """
    check_changeable(model)
    sites = _sites_to_cut(model, bool(heads) or neurons is None, bool(neurons))
    kept = _kept_units(layout_of(sites), heads, neurons)
    cuts = [Cut(site, kept[site.key]) for site in sites]
    changed = [site for site, left in cuts if everywhere or left != site.kept]
    _refuse_shared(model, changed, biases=biases)
    for site, left in cuts:
        if left != site.kept and not expand:
            refuse_uneven_groups(site, left)
    return cuts


def _sites_to_cut(model: nn.Module, heads: bool, neurons: bool) -> list[Site]:
    """Every layer of the model. heads, neurons: it is an error if it has none."""
    check_no_gates(model, "prune")
    needed: list[Kind] = ["heads"] if heads else []
    return find_every_site(model, *needed, *(("neurons",) if neurons else ()))


def _check_fill(fill: HeadMeans, layout: HeadLayout, drop_output_bias: bool) -> None:
    if not isinstance(fill, HeadMeans):
        raise HeadError(
            f"`fill` expects the means of heads, got {fill!r}.",
            "write prune(model, heads, fill=head_means(model, batches)), or leave fill out",
        )
    if drop_output_bias:
        raise HeadError(
            "expected `fill` or `drop_output_bias`, got both: the means are kept in the output "
            "bias.",
            "leave one of them out",
        )
    fill.check(layout)


def _kept_units(
    layout: HeadLayout,
    heads: Iterable[Head | str] | Mapping[int, Iterable[int]],
    neurons: Neurons | None,
) -> dict[tuple[Kind, str, int], tuple[int, ...]]:
    """What each layer keeps without these: kind, block and layer -> numbers."""
    removed = layout.check(_named_heads(layout, heads))
    left = layout.without(removed, neurons)
    if layout.attentions and not len(left):
        raise HeadError(
            "expected some heads to remove, got every head of every layer.",
            "leave at least one head in the model",
        )
    return left.kept


def _named_heads(
    layout: HeadLayout, heads: Iterable[Head | str] | Mapping[int, Iterable[int]]
) -> Iterable[Head | str]:
    """The heads of a list or of a dict of layers."""
    if not isinstance(heads, Mapping):
        return heads
    block, *others = layout.blocks
    if others:
        raise HeadError(
            f"expected heads with a block ({', '.join(layout.blocks)}), got a dict of layers.",
            f'name the heads in full: prune(model, ["{block}.0.3", ...])',
        )
    for layer, numbers in heads.items():
        if isinstance(numbers, str) or not isinstance(numbers, Iterable):
            raise HeadError(
                f"expected a list of heads for layer {layer}, got {numbers!r}.",
                "write for instance {3: [7, 8]}",
            )
    return [Head(block, layer, i) for layer, numbers in heads.items() for i in numbers]


def _refuse_shared(model: nn.Module, sites: list[Site], *, biases: bool) -> None:
    """Raise an error for a layer that shares weights with a module outside of its uses.

    biases: or shares its output bias, which a fill changes.
    """
    # two modules may share a parameter, and two parents a module
    owners = Counter(id(p) for module in model.modules() for p in module._parameters.values())
    parents = Counter(id(child) for module in model.modules() for child in module._modules.values())
    for site in sites:
        every = [(use, *part) for use in site.uses for part in use.parts.items()]
        for use, role, part in every:
            shared = part.module is not use.core and parents[id(part.module)] > 1
            weights = [getattr(part.module, name) for name, _ in part.tensors]
            if biases and role == "o":
                weights.append(getattr(part.module, "bias", None))
            if shared or any(w is not None and owners[id(w)] > len(site.uses) for w in weights):
                raise UnsupportedModel(
                    f"expected a projection of its own in {use.path}, got one that another "
                    "module uses too.",
                    "copy it first, for instance module.q_proj = copy.deepcopy(module.q_proj)",
                )


def refuse_uneven_groups(site: Site, kept: tuple[int, ...]) -> None:
    """Raise an error if the groups that share a key/value head would keep unequal numbers."""
    if not needs_copies(site, kept):
        return
    short = min(site.by_key(kept), key=len)
    members = next(group for group in site.by_key(site.kept) if short[0] in group)
    left = f"head{'s' * (len(short) > 1)} {spans(short)}"
    raise GroupError(
        f"{site.block} layer {site.layer}: heads {spans(members)} read one key/value head; "
        f"expected all groups to keep the same number of heads, got only {left} left in this one.",
        "remove whole groups, or copy key/value heads where groups become uneven. The lowest K of "
        "a ranking, by whole groups: prune(model, deadhead.strategies.choose("
        '"lowest", discover(model), K, scores=ranking.scores)), '
        "or: deadhead prune MODEL --remove-lowest K --ranking FILE --out DIR. Any heads, with "
        'copies: prune(model, heads, groups="expand"), '
        "or: deadhead prune MODEL ... --groups expand",
    )


def check_changeable(model: nn.Module) -> None:
    """Raise an error for a model that cannot be cut in its present state."""
    check_is_model(model)
    if is_packed(model):
        raise _expected("plain weights", "a quantised model", "prune first, then quantise")
    for module in model.modules():
        if type(module).__name__ in PARALLEL:
            raise _expected(
                "a model in one process",
                f"{type(module).__name__}, which has its own list of weights",
                "prune the model first, then wrap it",
            )
    for name, module in model.named_modules():
        if hasattr(module, "_packed_params") or "quantized" in type(module).__module__:
            hint = "prune first, then quantise"
            raise _expected("plain weights", f"a quantised model (at {name})", hint)
        if hasattr(module, "lora_A") or hasattr(module, "base_layer"):
            hint = "merge them first: model = model.merge_and_unload()"
            raise _expected("a model without adapters", f"adapters (at {name})", hint)
        for parameter in module.parameters(recurse=False):
            if type(parameter.data).__name__ == "DTensor":
                hint = "prune the model first, then shard it"
                raise _expected("weights in one process", f"sharded weights (at {name})", hint)
            if parameter.is_meta:
                hint = "load the weights, then prune"
                raise _expected("weights in memory", f"the meta device (at {name})", hint)
            if not parameter.is_floating_point():
                hint = "load it unquantised, prune, then quantise"
                raise _expected("plain weights", f"{parameter.dtype} (at {name})", hint)


def _expected(wish: str, got: str, hint: str) -> UnsupportedModel:
    return UnsupportedModel(f"expected {wish}, got {got}.", hint)


def record(sites: list[Site]) -> dict[str, Any]:
    """What was removed, as it is written into a config: block -> layer -> numbers."""
    listed: dict[str, Any] = {"format": FORMAT, "removed": {}}

    def note(key: str, site: Site, value: Any) -> None:
        listed.setdefault(key, {}).setdefault(site.block, {})[str(site.layer)] = value

    for site in sites:
        if site.key_heads:
            note(SHARES, site, len(site.groups[0]))
        numbers = sorted(set(range(site.size)).difference(site.kept))
        if numbers and site.kind == "heads":
            note("removed", site, numbers)
        elif numbers:  # thousands: one line for a layer
            note(REMOVED_NEURONS, site, spans(numbers))
        fills = FILLED_BIASES if site.kind == "heads" else FILLED_FEED_FORWARDS
        for key, is_listed in ((BIASES, dropped(site)), (fills, filled(site))):
            if is_listed:
                listed.setdefault(key, {}).setdefault(site.block, []).append(site.layer)
    return listed


def set_record(config: Any, sites: list[Site]) -> None:
    """List in the config what was removed; added biases stop plain transformers."""
    setattr(config, RECORD, record(sites))
    if any(added(site) for site in sites):
        setattr(config, FUSIONS, {NOT_PLAIN: True})


def allow_plain_loading(config: Any) -> None:
    """Undo what stops plain transformers, for a config that it may read or `load` has read."""
    if NOT_PLAIN in (getattr(config, FUSIONS, None) or {}):
        delattr(config, FUSIONS)


def note_in_config(model: nn.Module, sites: list[Site]) -> None:
    """Give the model a copy of its config that lists the removed heads; others keep the old one."""
    configs = [m.config for m in model.modules() if m.__dict__.get("config") is not None]
    if not configs:
        return
    copies: dict[int, Any] = {}
    new = copy.deepcopy(configs[0], copies)  # the first: a wrapper has none of its own
    set_record(new, sites)
    for module in model.modules():
        own = module.__dict__.get("config")
        if own is not None and id(own) in copies:
            module.config = copies[id(own)]
