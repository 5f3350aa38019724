"""The first tiny model of a type, and the first inputs for it, with which its own code runs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from deadhead.errors import UnsupportedModel
from deadhead.verify.inputs import can_generate
from deadhead.verify.proof import generated, outputs

from .inputs import batches_for, prompts_for, unknown_inputs
from .scaled import scaled
from .tiny import NotApplicable, built, one_line, tiny

DIVISORS = (8, 1)  # that the widths of a default config are divided by
LARGEST = 50_000_000  # weights of a model


def runnable(model_type: str) -> Any:
    """A tiny model of this type that runs; if none does, the first that can be built."""
    first: Any = None
    failure: UnsupportedModel | None = None
    for build in _builders(model_type):
        try:
            model = build()
            first = model if first is None else first
            inputs_for(model)
        except UnsupportedModel as problem:
            failure = failure or problem
        else:
            return model
    if first is None and failure is not None:
        raise failure
    return first


def _builders(model_type: str) -> Iterator[Callable[[], Any]]:
    yield partial(tiny, model_type)
    for divisor in DIVISORS:
        yield partial(_divided, model_type, divisor)


def _divided(model_type: str, divisor: int) -> Any:
    import transformers

    try:
        config = scaled(transformers.CONFIG_MAPPING[model_type], divisor)
        with torch.device("meta"):
            weights = built(config, 0, randomised=False).num_parameters()
        if weights > LARGEST:
            raise UnsupportedModel(f"not proved: its smallest model has {weights:,} weights")
        return built(config, 0)
    except (UnsupportedModel, NotApplicable):
        raise
    except Exception as problem:  # whatever the code of the config or of the model raises
        raise _unproved("no tiny model can be built", problem) from problem


@torch.no_grad()
def inputs_for(model: Any) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The first batch that the model runs, and the first prompt, None if it generates no text."""
    if unknown := unknown_inputs(model):
        raise UnsupportedModel(f"not proved: its forward pass reads {', '.join(unknown)}")
    if model.dtype != torch.float32:  # in which the code of every model works
        model = copy.deepcopy(model).float()
    batch = _first(model, batches_for(model), outputs)
    prompt = _first(model, prompts_for(model, batch), generated) if can_generate(model) else None
    return batch, prompt


def _first(
    model: Any, candidates: Iterator[dict[str, Any]], run: Callable[[Any, dict[str, Any]], Any]
) -> dict[str, Any]:
    failure: Exception | None = None
    for inputs in candidates:
        try:
            run(model, inputs)
        except Exception as problem:  # whatever the model's own code raises for our inputs
            failure = failure or problem
        else:
            return inputs
    assert failure is not None  # there is at least one candidate
    raise _unproved("the tiny model could not be run", failure) from failure


def _unproved(what: str, problem: Exception) -> UnsupportedModel:
    return UnsupportedModel(f"not proved: {what}: {type(problem).__name__}: {one_line(problem)}")
