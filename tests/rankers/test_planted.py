"""A planted truth: the methods must find the heads that do nothing and the one that does nearly all.

(l0 and shapley ask what a head adds to others; `planted_truth.py` plants what they can find.)
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from deadhead.heads.discover import find_sites
from deadhead.rankers import rank

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *(
        ("gradient", {"unit": unit})
        for unit in ("per_example", "per_batch", "per_token", "cumulative")
    ),
    ("gradient", {"normalize": False}),
    ("taylor", {}),
    ("taylor", {"unit": "per_example", "normalize": True}),
    ("lrp", {}),
    ("ablation", {}),
    ("entropy", {}),
    ("entropy", {"average": "sentence", "smoothing": 1e-4}),
    ("confidence", {}),
]


@pytest.mark.parametrize(
    ("method", "options"), VARIANTS, ids=["-".join([m, *map(str, o.values())]) for m, o in VARIANTS]
)
def test_useless_last_essential_first(planted, method, options):
    ranking = rank(planted.model, planted.batches, method, **options)
    assert set(ranking.lowest(len(planted.useless))) == set(planted.useless)
    assert ranking.highest(1) == (planted.essential,)


def test_accuracy_falls_with_the_essential_head_alone(planted):
    ranking = rank(planted.model, planted.batches, "ablation", measure="accuracy")
    assert ranking.details["accuracy"] > 0.95
    assert ranking.highest(1) == (planted.essential,)
    assert ranking[planted.essential] > 0.3
    assert all(ranking[head] == 0 for head in planted.useless)


@pytest.mark.parametrize("method", ["gradient", "ablation", "entropy"])
def test_twin_other_heads_made_useless_are_found_instead(planted, method):
    """The ranking follows the weights, not the places: with the plants moved, the answer moves."""
    with torch.no_grad():
        for site in find_sites(planted.model):
            for part, axis in (
                (site.out, 1),
                (site.core.query, 0),
                (site.core.key, 0),
                (site.core.value, 0),
            ):
                whole = part.weight.unflatten(axis, (4, 8))
                part.weight.copy_(whole.flip(axis).flatten(axis, axis + 1))
                if axis == 0:
                    part.bias.copy_(part.bias.unflatten(0, (4, 8)).flip(0).flatten())
    ranking = rank(planted.model, planted.batches, method)
    assert set(ranking.lowest(3)) == {
        head._replace(index=3 - head.index) for head in planted.useless
    }
    assert ranking.highest(1) == (planted.essential._replace(index=3 - planted.essential.index),)
