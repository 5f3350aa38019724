"""What a model has to prune: its heads by layer and the parameters in them, as plain data."""

from __future__ import annotations

from typing import Any

from .discover import discover, find_sites


def summary(model: Any) -> dict[str, Any]:
    """Counts of heads and parameters; `layers` has an entry for each attention layer."""
    layout = discover(model)
    sites = find_sites(model)
    modules = [m for site in sites for m in (site.core, *(p.module for p in site.parts.values()))]
    in_attention = {id(p): p.numel() for module in modules for p in module.parameters()}
    per_head = {}
    for site in sites:
        parts = [(p.module, name) for p in site.parts.values() for name, _ in p.tensors]
        numbers = sum(getattr(module, name).numel() for module, name in parts)
        per_head[site.block, site.layer] = numbers // max(1, len(site.kept))
    return {
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
                "parameters_per_head": per_head[a.block, a.layer],
            }
            for a in layout.attentions
        ],
        "skipped": layout.skipped,
    }
