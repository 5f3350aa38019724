"""Which block and layer each attention and feed-forward layer belongs to, as a `HeadLayout`."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

from torch import nn

from deadhead.errors import NoAttention, UnknownArchitecture, UnsupportedModel
from deadhead.layout import BLOCKS, Attention, FeedForward, HeadLayout, Kind

from . import names
from .feed_forward import scan_neurons
from .site import Site, merge_tied
from .sites import NoHeads, Skip, UnknownNames, scan

EXAMPLES = 4  # attention layers in the message about an unknown architecture


def discover(model: nn.Module, *, neurons: bool = False) -> HeadLayout:
    """Every softmax-attention head of the model, counted from its weights, also after pruning.

    neurons: also its feed-forward layers, as `feed_forwards` of the layout.

    >>> layout = discover(model)          # a BERT of 12 layers
    >>> len(layout), str(next(iter(layout)))
    (144, 'encoder.0.0')
    """
    sites, skipped = search(model, neurons=neurons)
    return layout_of(sites, {path: str(reason) for path, reason in skipped.items()})


def check_is_model(model: object) -> None:
    """Raise an error for the name of a model and whatever else is none."""
    if not isinstance(model, nn.Module):
        got = repr(model) if isinstance(model, str) else type(model).__name__
        hint = 'load it first: model = deadhead.load("folder")'
        raise UnsupportedModel(f"expected a model, a torch.nn.Module, got {got}.", hint)


def layout_of(sites: Sequence[Site], skipped: Mapping[str, str] | None = None) -> HeadLayout:
    return HeadLayout(
        (site.described(Attention) for site in sites if site.kind == "heads"),
        skipped,
        (site.described(FeedForward) for site in sites if site.kind == "neurons"),
    )


def find_sites(model: nn.Module) -> list[Site]:
    """The attention layers of the model, each with its block and layer, from the input upwards."""
    return search(model, neurons=False)[0]


def find_every_site(model: nn.Module, *needed: Kind) -> list[Site]:
    """The attention layers, then the feed-forward layers; an error if a needed kind is missing.

    Without a needed kind, one of them is enough.
    """
    return search(model, *needed)[0]


def search(
    model: nn.Module, *needed: Kind, neurons: bool = True
) -> tuple[list[Site], dict[str, Skip]]:
    """The layers, as above; and the skipped ones, module path -> reason.

    neurons: also the feed-forward layers.
    """
    check_is_model(model)
    attentions, skipped = _placed_sites(model)
    feed_forwards, more = _placed_feed_forwards(model, attentions, skipped) if neurons else ([], {})
    if not attentions and ("heads" in needed or not feed_forwards):
        raise _unknown(model, skipped)
    if not feed_forwards and "neurons" in needed:
        raise _no_neurons(model, more)
    return [*attentions, *feed_forwards], {**skipped, **more}


def _placed_sites(model: nn.Module) -> tuple[list[Site], dict[str, Skip]]:
    """The attention layers of the model, which may be none, and those that are skipped."""
    sites, skipped = scan(model)
    towers = {tower for site in sites if (tower := _tower(site.path))}
    for site in sites:
        site.block = _block(site, model, towers)
    return _in_order(sites, partial(_number, model)), skipped


def _placed_feed_forwards(
    model: nn.Module, attentions: list[Site], skipped_attention: Iterable[str]
) -> tuple[list[Site], dict[str, Skip]]:
    """The feed-forward layers, each where the attention of the same transformer layer is."""
    sites, skipped = scan_neurons(model, attentions)
    stacks = _with_twins(model, (use.path for attention in attentions for use in attention.uses))
    others = _with_twins(model, skipped_attention)
    if stacks or others:  # what is in no stack with attention, such as projectors, is no layer
        sites = [site for site in sites if (stacks | others) & _stacks(site.path)]
    towers = {tower for site in (*attentions, *sites) if (tower := _tower(site.path))}
    for site in sites:
        if stacks & _stacks(site.path):
            _place_near(site, attentions)
        else:
            site.block = _block(site, model, towers)
            site.layer = next(int(step) for step in site.path.split(".") if step.isdecimal())
    return _in_order(sites, _number_twins), skipped


def _in_order(sites: list[Site], number: Callable[[list[Site]], None]) -> list[Site]:
    """The layers from the input upwards, tied ones as one. number: numbers those of a block."""
    sites = merge_tied(sites)
    for block in {site.block for site in sites}:
        number([site for site in sites if site.block == block])
    return sorted(sites, key=lambda site: (BLOCKS.index(site.block), site.layer))


def _number_twins(sites: list[Site]) -> None:
    """Count the feed-forward layers of a block if one transformer layer has two."""
    if len({site.layer for site in sites}) < len(sites):
        for number, site in enumerate(sites):
            site.layer = number


def _place_near(site: Site, attentions: list[Site]) -> None:
    """Give a feed-forward layer the block and, within one transformer layer, the layer number and
    the sharing of the nearest attention.
    """
    # self-attention before attention over the encoder, which has its own numbers
    near = max(attentions, key=lambda a: (_shared(a.path, site.path), a.block != "cross"))
    site.block, steps = near.block, site.path.split(".")
    if any(step.isdecimal() for step in steps[: _shared(near.path, site.path)]):
        # its own weights may be untied
        runs = near.shared_by // len(near.uses)
        site.layer, site.shared_by = near.layer, max(site.shared_by, runs)
    else:
        site.layer = next(int(step) for step in steps if step.isdecimal())


def _with_twins(model: nn.Module, paths: Iterable[str]) -> set[str]:
    """The lists of layers that these modules are in, and lists of equal length beside them: XLM
    has its attention and its feed-forward layers in two lists.
    """
    stacks = {stack for path in paths for stack in _stacks(path)}
    twins = set(stacks)
    for stack in stacks:
        length, (above, _, _) = len(model.get_submodule(stack)._modules), stack.rpartition(".")
        twins.update(
            f"{above}.{name}".lstrip(".")
            for name, child in model.get_submodule(above).named_children()
            if len(child._modules) == length
        )
    return twins


def _stacks(path: str) -> set[str]:
    """The lists of layers that a module is in: the paths before the numbers in its path."""
    steps = path.split(".")
    return {".".join(steps[:n]) for n, step in enumerate(steps) if step.isdecimal()}


def _shared(some: str, other: str) -> int:
    """How many steps two paths have in common."""
    pairs = zip(some.split("."), other.split("."), strict=False)
    return len([*takewhile(lambda pair: pair[0] == pair[1], pairs)])


def _tower(path: str) -> str | None:
    """The part of a model for images or sound that a module belongs to."""
    for part in path.lower().split("."):
        if part.startswith("audio"):
            return "audio"
        if part.startswith(("vision", "visual")):
            return "vision"
    return None


def _block(site: Site, model: nn.Module, towers: set[str]) -> str:
    if tower := _tower(site.path):
        return tower
    parts = site.path.split(".")
    crosses = getattr(site.core, "is_cross_attention", False) is True
    if crosses or any(word in part for part in parts[-3:] for word in names.CROSS):
        return "cross"
    if towers:
        return "text"
    side = next((part for part in parts if part in ("encoder", "decoder")), None)
    config = getattr(model, "config", None)
    if side == "decoder":
        return "decoder"
    if side == "encoder" and getattr(config, "is_encoder_decoder", False):
        return "encoder"
    return "decoder" if _is_causal(site.core, config) else "encoder"


def _is_causal(core: nn.Module, config: Any) -> bool:
    """Whether a lone stack reads left to right, as a decoder does."""
    config = getattr(core, "config", None) or config
    if getattr(core, "is_decoder", False) is True or getattr(config, "is_decoder", False) is True:
        return True
    causal = getattr(core, "is_causal", None)
    if isinstance(causal, bool):
        return causal
    from transformers.models.auto import modeling_auto

    kind = getattr(config, "model_type", None)
    return (
        kind in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        and kind not in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
        and kind != "xlnet"
    )


def _number(model: nn.Module, sites: list[Site]) -> None:
    """Number the layers of a block by their paths, or by counting if two would share a number."""
    numbers = [next((int(p) for p in s.path.split(".") if p.isdecimal()), None) for s in sites]
    if None in numbers or max(Counter(numbers).values()) > 1:
        numbers = list(range(len(sites)))
    config: Any = getattr(model, "config", None)
    groups = getattr(config, "num_hidden_groups", None)
    for site, number in zip(sites, numbers, strict=True):
        site.layer = int(number or 0)
        if isinstance(groups, int) and groups:
            site.shared_by = max(site.shared_by, config.num_hidden_layers // groups)


def _unknown(model: nn.Module, skipped: Mapping[str, Skip]) -> UnknownArchitecture:
    """Why no head of this model can be gated, and what the user can do about it."""
    kind, reasons = _kind_and_reasons(model, skipped)
    modules = {  # called attention and with weights
        path: module
        for path, module in model.named_modules()
        if re.search(r"ttention|Attn|MLA", type(module).__name__) and [*module.parameters()]
    }
    if all(isinstance(why, NoHeads) for why in skipped.values()) and modules.keys() <= {*skipped}:
        return NoAttention(
            f"{kind!r} has no attention heads" + (f":\n{reasons}" if reasons else "."),
            "name a model that has softmax attention",
        )
    if reasons and not any(isinstance(why, UnknownNames) for why in skipped.values()):
        return UnknownArchitecture(
            f"no attention of {kind!r} has heads that deadhead can gate:\n{reasons}",
            "name a model whose heads have queries, keys and values of their own; "
            "docs/coverage.md lists those that work",
        )
    examples = [
        f"  {path}  ({', '.join(name for name, _ in module.named_children())})"
        for path, module in [*modules.items()][:EXAMPLES]
    ]
    return UnknownArchitecture(
        f"{kind!r} has no attention that deadhead can gate. This looks like its attention:\n"
        + (reasons or "\n".join(examples)),
        "add the names of its parts to deadhead/heads/names.py, "
        "then run: deadhead heads MODEL --check",
    )


def _no_neurons(model: nn.Module, skipped: Mapping[str, Skip]) -> UnknownArchitecture:
    """Why no neuron of this model can be gated, and what the user can do about it."""
    kind, reasons = _kind_and_reasons(model, skipped)
    return UnknownArchitecture(
        f"{kind!r} has no feed-forward layer that deadhead knows"
        + (f":\n{reasons}" if reasons else "."),
        "leave the neurons out; or, if it has such layers, add the names of their matrices to "
        "deadhead/heads/names.py",
    )


def type_of(model: nn.Module) -> str:
    """The type in the config of a model, or the name of its class."""
    return str(getattr(getattr(model, "config", None), "model_type", type(model).__name__))


def _kind_and_reasons(model: nn.Module, skipped: Mapping[str, Skip]) -> tuple[str, str]:
    """The type of a model, and why some of its layers are skipped, a line for each."""
    return type_of(model), "\n".join(
        f"  {path}: {why}" for path, why in [*skipped.items()][:EXAMPLES]
    )
