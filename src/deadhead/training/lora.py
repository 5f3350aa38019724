"""LoRA: train small adapters beside the frozen weights of a model, and merge them afterwards."""

from typing import Any

import torch
from torch import nn

from deadhead.errors import optional

SCALE = 2  # what the adapters compute is multiplied by this
RATE = 2e-4  # the learning rate where none is named: adapters need more than whole weights do


def check_installed() -> None:
    """Raise an error if peft, which provides the adapters, is not installed."""
    optional("peft", "lora", "training with LoRA")


def add_adapters(model: Any, rank: int, *, seed: int, classifier: bool) -> Any:
    """Put adapters beside every projection of the model and freeze the rest.

    Args:
        rank: of the two factors of an adapter.
        seed: of the first factor; the second one starts as zeros, so nothing changes at first.
        classifier: train the layers behind the base model as a whole, since they are new.

    Returns:
        The adapters. Their `merge_and_unload()` adds them to the weights and removes them.
    """
    from peft import LoraConfig, LoraModel
    from transformers.pytorch_utils import Conv1D

    prefix = f"{model.base_model_prefix}."
    # a layer without heads or neurons has projections of size 0, which need no adapter
    projections = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear | Conv1D)
        and name.startswith(prefix)
        and module.weight.numel()
    }
    torch.manual_seed(seed)
    config = LoraConfig(
        r=rank,
        lora_alpha=SCALE * rank,
        target_modules=[*projections],
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in projections.values()),
    )
    adapters = LoraModel(model, {"default": config}, "default")
    if classifier:
        for name, parameter in model.named_parameters():
            if not name.startswith(prefix):
                parameter.requires_grad_(True)
    return adapters


def trained_weights(model: Any) -> tuple[int, int]:
    """How many weights of the model are trained, and how many it has."""
    sizes = [(p.numel(), p.requires_grad) for p in model.parameters()]
    return sum(size for size, trains in sizes if trains), sum(size for size, _ in sizes)
