"""Kwon et al.: the numbers of the authors' own code, on a tiny BERT classifier.

kwon_authors.json was made by their code (github.com/WoosukKwon/retraining-free-pruning, commit
806ac5a, with scipy's LSMR instead of cupy's) in transformers 4.49 and float64, with the weights and
data below in batches of 32, at half of the MACs. Their own numbers in float32 differ from these by
7e-6 (Fisher, relative) and 2e-6 (scales); the tolerances leave room for other kernels.
"""

import json
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from deadhead.display.progress import silent
from deadhead.heads.discover import find_every_site, layout_of
from deadhead.layout import Kind
from deadhead.shrinking import REPAIRS, Curve, choose
from deadhead.shrinking.budgets import budgets_for
from deadhead.shrinking.costs import Full, costs
from deadhead.shrinking.methods import Kwon
from deadhead.shrinking.projection import columns_of
from deadhead.shrinking.scales import plan_scales
from deadhead.shrinking.statistics import collect

AUTHORS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "kwon_authors.json").read_text(encoding="utf-8")
)
LAYERS, HEADS, WIDTH, NEURONS, WORDS, TOKENS, EXAMPLES = 3, 4, 16, 24, 40, 10, 180
SIZES = {"heads": HEADS, "neurons": NEURONS}


def numbers(name, *shape):
    """Numbers from -0.5 to 0.5 that integers alone decide, so they are the same everywhere."""
    bits = np.arange(int(np.prod(shape)), dtype=np.uint64) + np.uint64(zlib.crc32(name.encode()))
    bits *= np.uint64(2654435761)
    bits ^= bits >> np.uint64(15)
    bits = (bits * np.uint64(2246822519)) & np.uint64(0xFFFFFFFF)
    bits ^= bits >> np.uint64(13)
    return ((bits & np.uint64(0xFFFF)) / 0x10000 - 0.5).reshape(shape)


@pytest.fixture
def model():
    config = BertConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=NEURONS, max_position_embeddings=16, num_labels=2,
    )  # fmt: skip
    bert = BertForSequenceClassification(config).eval()
    with torch.no_grad():
        for name, value in bert.named_parameters():
            new = numbers(name, *value.shape)
            if "LayerNorm.weight" in name:
                new = 1 + new / 2
            elif name.endswith("bias"):
                new = new / 2
            else:
                new = new * (2 if "embeddings" in name else 1.2)
            value.copy_(torch.tensor(new))
    return bert


def batches(size=45):
    """The examples in other batches than those of the method, which has its own."""
    lengths = 4 + ((numbers("lengths", EXAMPLES) + 0.5) * (TOKENS - 3)).astype(int)
    examples = {
        "input_ids": ((numbers("ids", EXAMPLES, TOKENS) + 0.5) * WORDS).astype(int),
        "attention_mask": (np.arange(TOKENS) < lengths[:, None]).astype(int),
        "labels": (numbers("labels", EXAMPLES) > 0).astype(int),
    }
    return [
        {name: torch.tensor(rows[begin : begin + size]) for name, rows in examples.items()}
        for begin in range(0, EXAMPLES, size)
    ]


def chosen(model):
    """The choice at half of the MACs."""
    sites = find_every_site(model)
    layers = costs(model, sites, batches()[0], (1, TOKENS))
    kinds: tuple[Kind, ...] = ("heads", "neurons")
    half = {"macs": Fraction(1, 2)}
    budgets = budgets_for(
        half, kinds=kinds, layout=layout_of(sites), costs=layers, full=Full.of(model, layers),
        repair=REPAIRS["scales"],
    )  # fmt: skip
    return choose(model, batches(), "kwon", budgets=budgets, progress=False)


def kept(choice):
    """The units of each layer, 1 for those that stay."""
    assert choice is not None
    flags = {kind: np.ones((LAYERS, size), dtype=int) for kind, size in SIZES.items()}
    for head in choice.heads:
        flags["heads"][head.layer, head.index] = 0
    for (_, layer), removed in choice.neurons.items():
        flags["neurons"][layer, list(removed)] = 0
    return {kind: ["".join(map(str, row)) for row in rows] for kind, rows in flags.items()}


def test_scores_are_those_of_the_authors(model):
    model.requires_grad_(False)
    sites = find_every_site(model)
    statistics = collect(model, sites, batches(), by_batch=True, progress=silent)
    groups = -(-EXAMPLES // 32)
    scale = EXAMPLES / groups / groups  # theirs are plain sums of squares
    for (kind, _, layer), facts in statistics.places.items():
        assert facts.by_batch is not None
        assert len(facts.by_batch) == groups
        scores = facts.by_batch.square().sum(0) / scale
        assert scores.tolist() == pytest.approx(AUTHORS["fisher"][kind][layer], rel=1e-3)


def test_units_are_those_of_the_authors(model):
    choice = chosen(model)
    assert kept(choice) == AUTHORS["kept"]
    assert kept(choice.teacher) == AUTHORS["teacher"]


def test_scales_are_those_of_the_authors(model):
    choice = chosen(model)
    plan = plan_scales(model, batches(), choice, progress=False)
    assert plan.report.notes == ()
    assert [(s.cut.site.kind, s.cut.site.layer) for s in plan.solutions] == [
        ("neurons", 0), ("heads", 1), ("neurons", 1), ("heads", 2), ("neurons", 2),
    ]  # fmt: skip
    for solution in plan.solutions:
        site = solution.cut.site
        old = site.out.weight.detach()[:, columns_of(solution.cut)]
        factors = torch.linalg.vecdot(solution.weight, old, dim=0) / old.square().sum(0)
        theirs = torch.tensor(AUTHORS["scales"][site.kind][site.layer])[[*solution.cut.left]]
        expected = theirs.repeat_interleave(site.width)
        torch.testing.assert_close(factors, expected, rtol=1e-3, atol=1e-3)
        torch.testing.assert_close(solution.bias, site.out.bias)


def test_a_scale_that_is_too_large_ends_the_search(model, monkeypatch):
    monkeypatch.setattr("deadhead.shrinking.scales.LARGEST", 2.9)  # neuron 16 of layer 1 has 2.98
    plan = plan_scales(model, batches(), chosen(model), progress=False)
    assert [(s.cut.site.kind, s.cut.site.layer) for s in plan.solutions] == [
        ("neurons", 0), ("heads", 1),
    ]  # fmt: skip
    (note,) = plan.report.notes
    assert "feed-forward projection of encoder layer 1" in note
    plan.apply()
    assert torch.isfinite(model(**batches()[0]).logits).all()


def test_the_search_for_units_is_exact():
    """Also in layers with many neurons, where the search of other methods only comes near."""
    draw = np.random.default_rng(0)
    curves, saving, steps = [], {}, {}
    for kind, size, price in (("heads", 6, 90.0), ("neurons", 300, 1.0)):
        for layer in range(4):
            own = np.sort(draw.lognormal(-layer, 1.5, size)) * price
            units = tuple((number,) for number in range(size))
            curve = Curve((kind, "encoder", layer), units, tuple(own.cumsum()))
            curves.append(curve)
            saving[curve.place] = [price * n for n in range(size + 1)]
            steps.setdefault(kind, []).extend(own)
    total = 0.5 * sum(table[-1] for table in saving.values())
    heads, neurons = (np.append(0, np.sort(steps[kind]).cumsum()) for kind in SIZES)
    expected = min(
        heads[count] + neurons[max(0, int(np.ceil(total - 90 * count)))]
        for count in range(len(heads))
        if total - 90 * count < len(neurons)
    )
    counts = Kwon().allocated(curves, saving, total)
    assert sum(saving[place][count] for place, count in counts.items()) >= total
    costs_of = {curve.place: (0.0, *curve.costs) for curve in curves}
    assert sum(costs_of[place][n] for place, n in counts.items()) == pytest.approx(expected)
