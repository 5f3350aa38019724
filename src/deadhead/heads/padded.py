"""The padded form of a pruned model: full shapes, the removed heads zero, for plain transformers.

If `prune(..., fill=means)` gave output projections a bias that the architecture does not have, the
form needs a config that asks for these biases. Many architectures have the switch
`attention_bias`, some `mlp_bias`: it adds biases to other projections too, which are zero here, so
the result is the same.
"""

import copy
from typing import Any, NamedTuple

import torch
from torch import nn

from deadhead.errors import UnsupportedModel
from deadhead.layout import Kind

from .model_class import outline
from .output_bias import bias_name, filled, owner
from .site import Site

# in a config: the projections of attention, or the feed-forward layers, have biases
SWITCHES: dict[Kind, str] = {"heads": "attention_bias", "neurons": "mlp_bias"}


class Padded(NamedTuple):
    """What is written: the weights in full shapes, and a config of a model that has them all."""

    weights: dict[str, torch.Tensor]
    config: Any


def padded_form(model: Any, sites: list[Site]) -> Padded:
    """The weights and the config of the padded form; an error if no config has all biases."""
    weights = _full_weights(model, sites)
    gained = _gained_biases(model, sites)
    if not gained:
        return Padded(weights, model.config)
    config = copy.deepcopy(model.config)
    for part in {id(c): c for c in (config, config.get_text_config())}.values():
        for switch in {SWITCHES[site.kind] for site in sites if filled(site)}:
            if getattr(part, switch, None) is False:
                setattr(part, switch, True)
    switched = _unpruned(model, config)
    extra = {name: bias for name, bias in switched.items() if name not in weights}
    linear = {f"{name}.bias" for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    if not gained <= set(switched) or not linear.issuperset(extra):
        raise UnsupportedModel(
            f"the padded form expects an architecture whose output projections have a bias, got "
            f"{type(model).__name__}: `fill` added one, as {min(gained)}.",
            'use form="compact", which deadhead.load reads',
        )
    zeros = {name: torch.zeros(bias.shape, dtype=model.dtype) for name, bias in extra.items()}
    return Padded({**weights, **zeros}, config)


def _gained_biases(model: Any, sites: list[Site]) -> set[str]:
    """The output biases that the class of the model does not have by itself."""
    owners = {id(owner(site)): bias_name(site) for site in sites if filled(site)}
    biases = {f"{n}.{owners[id(m)]}" for n, m in model.named_modules() if id(m) in owners}
    return biases.difference(_unpruned(model, model.config)) if biases else biases


def _unpruned(model: Any, config: Any) -> dict[str, nn.Parameter]:
    """The parameters that plain transformers gives this model, without memory for them."""
    return dict(outline(model, config).named_parameters())


def _full_weights(model: nn.Module, sites: list[Site]) -> dict[str, torch.Tensor]:
    """The state of the model with every tensor in its old shape, zeros for removed heads."""
    state = dict(model.state_dict())
    names: dict[int, list[str]] = {}  # several where weights are tied
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    # empty projections do not show how wide a head was, and a query may be wider than a value
    emptied = any(not site.kept for site in sites)
    whole = _unpruned(model, model.config) if emptied else {}
    for site in sites:
        for part in site.parts.values():
            rows = part.present(site.kept, site.keys_of(site.kept))
            for name, axis in part.tensors:
                parameter = getattr(part.module, name)
                small = parameter.detach()
                shape = list(small.shape)
                shape[axis] = part.size
                if not site.kept and (known := whole.get(names[id(parameter)][0])) is not None:
                    shape = list(known.shape)
                index = rows.to(small.device)
                full = small.new_zeros(shape).index_copy(axis, index, small)
                if site.key_heads and not full.index_select(axis, index).equal(small):
                    raise UnsupportedModel(
                        "the padded form expects equal copies of each key/value head, got "
                        f"different ones in {site.block} layer {site.layer}: they were trained.",
                        'use form="compact", which deadhead.load reads',
                    )
                state |= dict.fromkeys(names[id(parameter)], full)
    return state
