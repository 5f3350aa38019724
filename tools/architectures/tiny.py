"""Tiny random models of every type that transformers knows; `inputs.py` makes inputs for them.

A model is built from its own config class, with all sizes made small by the names they go by. Its
weights are large, so that every head matters.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from deadhead.errors import UnsupportedModel

from .configs import ATTEMPTS, shrunk


class NotApplicable(Exception):
    """This model type has no model of its own that could be built here."""


def tiny(model_type: str, *, seed: int = 0, **overrides: Any) -> Any:
    """A tiny random model of this type, in evaluation mode."""
    import transformers

    config_class = transformers.CONFIG_MAPPING[model_type]
    failure: Exception | None = None
    for attempt in ATTEMPTS:
        try:
            return built(shrunk(config_class, overrides, **attempt), seed)
        except NotApplicable:
            raise
        except Exception as problem:  # whatever the code of the config or of the model raises
            failure = failure or problem
    raise UnsupportedModel(
        f"not proved: no tiny model can be built: {type(failure).__name__}: {one_line(failure)}"
    ) from failure


def built(config: Any, seed: int, *, randomised: bool = True) -> Any:
    """The model of a config, with a head for text where there is one.

    randomised: with large weights, and not those that the model starts with.
    """
    import transformers

    torch.manual_seed(seed)
    failure: Exception | None = None
    for task in ("ForSeq2SeqLM", "ForSpeechSeq2Seq", "ForCausalLM", ""):
        auto = getattr(transformers, f"AutoModel{task}")
        if type(config) not in auto._model_mapping:
            continue
        try:
            model = _model_class(auto, config)._from_config(config)
        except NotApplicable:
            raise
        except ImportError as problem:
            reason = str(problem).strip().splitlines()[0][:120]
            raise NotApplicable(f"needs a package that is not installed: {reason}") from problem
        except Exception as problem:
            failure = problem
            continue
        if randomised:
            randomise(model, seed)
        return model.eval()
    if failure is None:
        raise NotApplicable("has no model class of its own among the auto classes")
    raise failure


def _model_class(auto: Any, config: Any) -> Any:
    """The class for a config, the first where it has several."""
    try:
        classes = auto._model_mapping[type(config)]
    except ValueError as problem:
        raise NotApplicable("its model class is named, but does not exist") from problem
    return classes[0] if isinstance(classes, list | tuple) else classes


def one_line(problem: BaseException | None) -> str:
    return " ".join(getattr(problem, "message", str(problem)).split())[:400]


@torch.no_grad()
def randomise(model: nn.Module, seed: int) -> None:
    """Large weights everywhere: with the usual small ones a removed head hardly shows."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue  # tables of sines are computed, and not saved
        noise = torch.randn(parameter.shape, generator=generator) * 0.25
        is_scale = parameter.dim() == 1 and "norm" in name.lower() and not name.endswith("bias")
        parameter.copy_(noise + 1 if is_scale else noise)
