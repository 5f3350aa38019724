"""What a model has to prune: heads and neurons by layer and their parameters, as plain data."""

from __future__ import annotations

from typing import Any

from deadhead.layout import spans

from .discover import discover, find_every_site
from .site import Site


def summary(model: Any, *, neurons: bool = False) -> dict[str, Any]:
    """Counts of heads and parameters; `layers` has an entry for each attention layer.

    neurons: also `feed_forwards`, with an entry for each feed-forward layer.
    """
    layout = discover(model, neurons=neurons)
    sites = find_every_site(model)
    modules = [
        m
        for site in sites
        if site.kind == "heads"
        for m in (site.core, *(p.module for p in site.parts.values()))
    ]
    in_attention = {id(p): p.numel() for module in modules for p in module.parameters()}
    per_unit = {site.place: _parameters_per_unit(site) for site in sites}
    facts = {
        "class": type(model).__name__,
        "heads": len(layout),
        "removed": [str(head) for head in layout.removed],
        "parameters": sum(p.numel() for p in model.parameters()),
        "attention_parameters": sum(in_attention.values()),
        "layers": [
            {
                "block": a.block,
                "layer": a.layer,
                "built": a.size,
                "left": list(a.kept),
                "width": a.width,
                "group": a.group,
                "shared_by": a.shared_by,
                "parameters_per_head": per_unit["heads", a.block, a.layer],
            }
            for a in layout.attentions
        ],
        "skipped": layout.skipped,
    }
    if neurons:
        facts["feed_forwards"] = [
            {
                "block": f.block,
                "layer": f.layer,
                "built": f.size,
                "left": len(f.kept),
                "removed": spans(f.removed),
                "shared_by": f.shared_by,
                "parameters_per_neuron": per_unit["neurons", f.block, f.layer],
            }
            for f in layout.feed_forwards
        ]
    return facts


def _parameters_per_unit(site: Site) -> int:
    parts = [(p.module, name) for p in site.parts.values() for name, _ in p.tensors]
    numbers = sum(getattr(module, name).numel() for module, name in parts)
    return numbers // max(1, len(site.kept))
