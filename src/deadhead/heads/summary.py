"""What a model has to prune: heads and neurons by layer and their parameters, as plain data."""

from typing import Any

from deadhead.layout import spans

from .cut import computed_heads
from .discover import find_sites, layout_of, search
from .site import Site


def summary(model: Any, *, neurons: bool = False) -> dict[str, Any]:
    """Counts of heads and parameters; `layers` has an entry for each attention layer.

    neurons: also `feed_forwards`, with an entry for each feed-forward layer.
    """
    sites, skipped = search(model, neurons=neurons)
    layout = layout_of(sites)
    attentions = [site for site in sites if site.kind == "heads"]
    modules = [m for s in attentions for m in (s.core, *(p.module for p in s.parts.values()))]
    in_attention = {id(p): p.numel() for module in modules for p in module.parameters()}
    facts = {
        "class": type(model).__name__,
        "heads": len(layout),
        "removed": [str(head) for head in layout.removed],
        "parameters": sum(p.numel() for p in model.parameters()),
        "attention_parameters": sum(in_attention.values()),
        "layers": [
            {
                "block": site.block,
                "layer": site.layer,
                "built": site.size,
                "left": list(site.kept),
                "width": site.width,
                "group": site.group,
                "key_heads": list(site.key_heads),
                "shared_by": site.shared_by,
                "parameters_per_head": _parameters_per_unit(site),
            }
            for site in attentions
        ],
        "skipped": {path: str(reason) for path, reason in skipped.items()},
    }
    if neurons:
        facts["feed_forwards"] = [
            {
                "block": site.block,
                "layer": site.layer,
                "built": site.size,
                "left": len(site.kept),
                "removed": spans(set(range(site.size)).difference(site.kept)),
                "shared_by": site.shared_by,
                "parameters_per_neuron": _parameters_per_unit(site),
            }
            for site in sites[len(attentions) :]
        ]
    return facts


def cache_bytes(model: Any) -> int:
    """Bytes that each token takes in the key/value cache of a model that generates; else 0."""
    if not (hasattr(model, "can_generate") and model.can_generate()):
        return 0
    sites = [site for site in find_sites(model) if site.block in ("decoder", "text")]
    numbers = sum(len(site.uses) * _cached_numbers(site) for site in sites)
    return numbers * model.dtype.itemsize


def _cached_numbers(site: Site) -> int:
    """How many numbers a layer stores for a token."""
    computed = computed_heads(site, len(site.kept))
    if not computed:
        return 2  # a layer without heads counts tokens: `load_pruned.silent_forward`
    keys = len(site.keys_of(site.kept)) if computed == len(site.kept) else site.keys
    width = next((p.rows["k"].shape[1] for p in site.parts.values() if "k" in p.rows), site.width)
    return keys * (width + site.width)


def _parameters_per_unit(site: Site) -> int:
    parts = [(p.module, name) for p in site.parts.values() for name, _ in p.tensors]
    numbers = sum(getattr(module, name).numel() for module, name in parts)
    return numbers // max(1, len(site.kept))
