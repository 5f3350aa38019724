"""Attention without projection biases, in architectures that have them: zeros that are never trained."""

from __future__ import annotations

from typing import Any

import torch

from .discover import located

NO_BIAS = "projection_bias"  # the key of config.json that says so, with false


def hold_biases(model: Any) -> None:
    """Where the config says that projections have no bias, those of every attention, which are zero, are not trained."""
    if getattr(model.config, NO_BIAS, True) is not False:
        return
    for site in located(model):
        for part in site.parts.values():
            bias = getattr(part.module, "bias", None)
            if isinstance(bias, torch.nn.Parameter):
                bias.requires_grad_(False)
