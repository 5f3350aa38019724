"""Model in, `HeadLayout` out: which block and layer each attention layer found belongs to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from torch import nn

from deadhead.errors import NoAttention, UnknownArchitecture
from deadhead.layout import HeadLayout

from .sites import NO_HEADS, Site, sites

ORDER = ("encoder", "decoder", "cross", "vision", "audio", "text")
CROSS_NAMES = ("encoder_attn", "crossattention", "EncDecAttention", "encdec", "cross")


def discover(model: nn.Module) -> HeadLayout:
    """Every softmax-attention head of the model, counted from its weights, so also right after pruning.

    >>> layout = discover(model)          # a BERT of 12 layers
    >>> len(layout), str(next(iter(layout)))
    (144, 'encoder.0.0')
    """
    return layout_of(find_sites(model), skipped(model))


def layout_of(found: list[Site], passed: dict[str, str]) -> HeadLayout:
    return HeadLayout((site.attention() for site in found), passed)


def skipped(model: nn.Module) -> dict[str, str]:
    return sites(model)[1]


def find_sites(model: nn.Module) -> list[Site]:
    """The attention layers of the model, each with its block and layer, from the input upwards."""
    found, passed = sites(model)
    if not found:
        raise _unknown(model, passed)
    towers = {t for t in (_tower(s.path) for s in found) if t}
    for site in found:
        site.block = _block(site, model, towers)
    for block in {s.block for s in found}:
        _number([s for s in found if s.block == block], model)
    return sorted(found, key=lambda s: (ORDER.index(s.block), s.layer))


def _tower(path: str) -> str | None:
    for part in path.lower().split("."):
        for tower in ("vision", "visual", "audio"):
            if part.startswith(tower):
                return "audio" if tower == "audio" else "vision"
    return None


def _block(site: Site, model: nn.Module, towers: set[str]) -> str:
    parts = site.path.split(".")
    cross = getattr(site.core, "is_cross_attention", False) is True or any(
        w in p for p in parts[-3:] for w in CROSS_NAMES
    )
    tower = _tower(site.path)
    if tower:
        return tower
    if cross:
        return "cross"
    if towers:
        return "text"
    side = next((p for p in parts if p in ("encoder", "decoder")), None)
    if side == "decoder":
        return "decoder"
    config = getattr(model, "config", None)
    if side == "encoder" and getattr(config, "is_encoder_decoder", False):
        return "encoder"
    return "decoder" if _causal(site.core, config) else "encoder"


def _causal(core: nn.Module, config: Any) -> bool:
    """Whether a lone stack reads left to right, as a decoder does."""
    config = getattr(core, "config", None) or config
    if getattr(core, "is_decoder", False) is True or getattr(config, "is_decoder", False) is True:
        return True
    causal = getattr(core, "is_causal", None)
    if isinstance(causal, bool):
        return causal
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    kind = getattr(config, "model_type", None)
    return (
        kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        and kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
        and kind != "xlnet"
    )


def _number(found: list[Site], model: nn.Module) -> None:
    """Layers take the number in their path; where two would share one (stages, groups), they are counted."""
    numbers = [
        next((int(p) for p in site.path.split(".") if p.isdecimal()), None) for site in found
    ]
    if None in numbers or max(Counter(numbers).values()) > 1:
        numbers = list(range(len(found)))
    config = getattr(model, "config", None)
    groups = getattr(config, "num_hidden_groups", None)
    for site, number in zip(found, numbers, strict=True):
        site.layer = int(number or 0)
        if isinstance(groups, int) and groups:
            site.shared_by = max(site.shared_by, config.num_hidden_layers // groups)  # type: ignore[union-attr]


def _unknown(model: nn.Module, passed: dict[str, str]) -> UnknownArchitecture:
    """Why no head of this model can be gated, and what can be done about it, if anything."""
    kind = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
    reasons = [f"  {path}: {reason}" for path, reason in list(passed.items())[:4]]
    shown = "\n".join(reasons)
    others = [path for path, _ in _walk(model) if path not in passed]
    if all(reason.endswith(NO_HEADS) for reason in passed.values()) and not others:
        return NoAttention(
            f"{kind!r} has no attention heads{f':{chr(10)}{shown}' if reasons else '.'}",
            "name a model that has softmax attention",
        )
    if reasons and not any("known name" in reason for reason in passed.values()):
        return UnknownArchitecture(
            f"no attention of {kind!r} has heads that deadhead can gate:\n{shown}",
            "name a model whose heads have queries, keys and values of their own; docs/coverage.md lists those that work",
        )
    looks = [
        f"  {path}  ({', '.join(n for n, _ in module.named_children())})"
        for path, module in list(_walk(model))[:4]
    ]
    return UnknownArchitecture(
        f"no attention that deadhead can gate was found in {kind!r}. This looks like its attention:\n"
        + (shown or "\n".join(looks)),
        "add the names of its parts to the tables at the top of deadhead/heads/sites.py, then run: deadhead heads MODEL --check",
    )


def _walk(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Modules that call themselves attention and hold weights, for the message about an unknown architecture."""
    for path, module in model.named_modules():
        if re.search(r"ttention|Attn|MLA", type(module).__name__) and any(
            True for _ in module.parameters()
        ):
            yield path, module
