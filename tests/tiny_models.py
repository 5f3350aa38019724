"""Tiny models in double precision, built once and copied for each test, and the few questions tests
ask of them.
"""

import copy
import warnings
from contextlib import contextmanager
from functools import cache

import pytest
import torch

from architectures.configs import shrunk
from architectures.tiny import randomise, tiny
from deadhead.files.hub import quiet
from deadhead.heads import discover
from deadhead.layout import Head
from deadhead.verify.inputs import batch_for
from deadhead.verify.proof import outputs

torch.set_num_threads(1)


@cache
def _built(family, overrides):
    with warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")
        model = tiny(family, **dict(overrides))
        return (
            model if family == "prophetnet" else model.double()
        )  # whose own code overflows in double precision


def build(family, **overrides):
    """A fresh tiny model of this family, in evaluation mode, in float64."""
    return copy.deepcopy(_built(family, tuple(sorted(overrides.items()))))


def build_class(model_class, **overrides):
    """A tiny model of one particular class, for instance one with a classifier."""
    torch.manual_seed(0)
    model = model_class(shrunk(model_class.config_class, overrides))
    randomise(model, 0)
    return model.eval().double()


def with_random_vectors(model):
    """The model with other norms and biases, which at first are 1 or 0 and would hide a mistake."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


@torch.no_grad()
def answers(model, batch=None):
    with quiet():
        return outputs(model, batch or batch_of(model))


def batch_of(model):
    """Two examples for the model, the second one padded, in the model's precision."""
    return {
        k: v.to(model.dtype) if v.is_floating_point() else v for k, v in batch_for(model).items()
    }


def apart(first, two):
    assert [t.shape for t in first] == [t.shape for t in two]
    return max(float((a - b).abs().max()) for a, b in zip(first, two, strict=True))


def limit(model):
    """What rounding may leave between two ways of computing one thing."""
    return 1e-9 if model.dtype == torch.float64 else 1e-4


def hooks(model):
    """Everything a hook could hide in, and every attribute set on a module by hand."""
    return {
        path: (
            list(m._forward_pre_hooks.items()),
            list(m._forward_hooks.items()),
            list(m._backward_hooks.items()),
            sorted(m.__dict__),
        )
        for path, m in model.named_modules()
    }


def uneven(model):
    """Another number of heads (or key/value groups) from every layer of every block, at least one
    left in each.
    """
    removed: list[Head] = []
    for nth, attention in enumerate(discover(model).attentions):
        groups = attention.groups
        picked = groups[1:] if nth % 2 == 0 else groups[:1] if len(groups) > 1 else ()
        removed += [head for group in picked for head in group]
    return removed


@contextmanager
def refused(model, kind, text):
    """The block raises this error with these words and a hint, and leaves the model as it was."""

    def state():
        weights = {name: value.clone() for name, value in model.state_dict().items()}
        return hooks(model), model.config.to_dict(), weights

    real = not any(p.is_meta or not p.is_floating_point() for p in model.parameters())
    hooks_before, config, weights = state()
    before = answers(model) if real else []
    with pytest.raises(kind) as error:
        yield
    assert type(error.value) is kind
    assert text in error.value.message, error.value.message
    assert error.value.hint
    hooks_after, config_after, weights_after = state()
    assert hooks_after == hooks_before
    assert config_after == config
    assert weights_after.keys() == weights.keys()
    assert all(v.is_meta or torch.equal(v, weights[n]) for n, v in weights_after.items())
    assert not real or apart(before, answers(model)) == 0


def finite_difference(loss, numbers, place):
    """The slope of a loss in one of these numbers."""
    ends = []
    for step in (1e-5, -1e-5):
        with torch.no_grad():
            numbers[place] += step
            ends.append(float(loss()))
            numbers[place] -= step
    return (ends[0] - ends[1]) / 2e-5
