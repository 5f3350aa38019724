"""A planted truth: the methods must find the heads that do nothing and the one that does most."""

import copy
from typing import Any

import pytest
import torch
from planted_truth import ESSENTIAL, USELESS, batches, planted

from deadhead.heads.discover import find_sites
from deadhead.rankers import rank

FINDS_BOTH: list[tuple[str, dict[str, Any]]] = [
    ("gradient", {}),
    ("gradient", {"unit": "per_batch"}),
    ("taylor", {"unit": "per_example", "normalize": True}),
    *(("lrp", {"rule": rule}) for rule in ("alpha-beta", "epsilon")),
    ("ablation", {}),
    ("shapley", {"permutations": 30}),
    ("shapley", {"permutations": 30, "measure": "loss"}),
    ("entropy", {}),
    ("entropy", {"average": "sentence", "smoothing": 1e-4}),
    ("confidence", {}),
]
FINDS_USELESS: list[tuple[str, dict[str, Any]]] = [  # a model that is sure has small gradients
    *(("gradient", {"unit": unit}) for unit in ("per_token", "cumulative")),
    ("gradient", {"normalize": False}),
    ("taylor", {}),
    *(("fisher", {"form": form}) for form in ("whole", "diagonal")),
    ("fisher", {"loss": "self"}),
]


@pytest.mark.parametrize(("method", "options"), [*FINDS_BOTH, *FINDS_USELESS], ids=str)
def test_useless_last_essential_first(method, options):
    ranking = rank(planted(), batches(), method, progress=False, **options)
    assert set(ranking.lowest(len(USELESS))) == set(USELESS)
    order = [ranking[head] for head in ranking.order]
    assert order[len(USELESS)] > order[len(USELESS) - 1]
    if (method, options) in FINDS_BOTH:
        assert ranking.highest(1) == (ESSENTIAL,)


def test_accuracy_falls_with_the_essential_head_alone():
    ranking = rank(planted(), batches(), "ablation", measure="accuracy", progress=False)
    assert ranking.details["accuracy"] > 0.95
    assert ranking[ESSENTIAL] > 0.3
    assert all(ranking[head] == 0 for head in USELESS)


@pytest.mark.parametrize("method", ["gradient", "ablation", "entropy"])
def test_twin_other_heads_made_useless_are_found_instead(method):
    """The ranking follows the weights, not the places: with the plants moved, the answer moves."""
    model = copy.deepcopy(planted())
    with torch.no_grad():
        for site in find_sites(model):
            parts = (
                (site.out, 1),
                *((getattr(site.core, n), 0) for n in ("query", "key", "value")),
            )
            for part, axis in parts:
                whole = part.weight.unflatten(axis, (4, 8))
                part.weight.copy_(whole.flip(axis).flatten(axis, axis + 1))
                if axis == 0:
                    part.bias.copy_(part.bias.unflatten(0, (4, 8)).flip(0).flatten())
    ranking = rank(model, batches(), method, progress=False)
    moved = {head._replace(index=3 - head.index) for head in (*USELESS, ESSENTIAL)}
    assert {*ranking.lowest(3), *ranking.highest(1)} == moved
    assert ranking.highest(1)[0].layer == ESSENTIAL.layer
