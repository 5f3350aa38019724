"""Models that keep the same sizes in every layer: ordinary models of their class."""

from collections.abc import Sequence
from typing import Any

import torch

from deadhead.files.hub import quiet

from .discover import find_every_site
from .loading import describes, fields_of, smaller_configs
from .output_bias import FILLED
from .prune import FUSIONS, RECORD
from .site import MARK, Site


def same_sizes(model: Any, sites: Sequence[Site]) -> list[list[Site]]:
    """The layers that must keep the same number of units for an ordinary model.

    These are the layers of one block, or of all blocks that share a field of the config, as the
    encoder and the decoder of T5 do.
    """
    groups: dict[tuple[str, ...], list[Site]] = {}
    for site in sites:
        names = fields_of(model.config, site) if getattr(model, "config", None) else {}
        groups.setdefault((site.kind, *(names or (site.block,))), []).append(site)
    return [*groups.values()]


def make_ordinary(model: Any) -> dict[str, Any]:
    """Make a pruned model an ordinary one, with the sizes that are left in its config.

    Returns these fields of the config; none if the class has no config for such layers, and the
    model stays as it is. The check builds the class from the config without memory for weights, and
    compares all modules and shapes. Heads and neurons are numbered from 0 again.
    """
    if getattr(model, "config", None) is None:
        return {}
    for config, fields in smaller_configs(model, find_every_site(model)):
        for name in (RECORD, FUSIONS):
            vars(config).pop(name, None)
        reread = type(config).from_dict(config.to_dict())
        if fields and describes(config, model) and describes(reread, model):
            _take_config(model, config)
            return fields
    return {}


def _take_config(model: Any, config: Any) -> None:
    """Give the modules of a model this config, and forget what was removed."""
    with torch.device("meta"), quiet():
        built = type(model)(config)
    configs = {path: vars(module).get("config") for path, module in built.named_modules()}
    for path, module in model.named_modules():
        if vars(module).get("config") is not None:
            module.config = configs[path]
        for name in (MARK, FILLED):
            vars(module).pop(name, None)
