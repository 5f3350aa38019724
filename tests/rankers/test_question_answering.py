"""Question answering: labels, and loss="self", the divergence of starts plus that of ends."""

import copy
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers

from deadhead import discover, gated, rank
from deadhead.errors import DataError, UnsupportedModel
from deadhead.layout import Head
from deadhead.rankers.label_free import distance, probe, with_loss
from deadhead.rankers.loss import SPANS, example_losses, output_of
from deadhead.training import distill
from tiny_readers import CONFIGS, SIZES, reader

TEXTS = [[5, 9, 7, 11, 6, 8, 20], [12, 4, 10], [7, 13, 6, 9, 21], [17, 5, 25, 14]]
METHODS: dict[str, dict[str, Any]] = {
    "ablation": {},
    "taylor": {},
    "fisher": {},
    "shapley": {"permutations": 2},
}


@cache
def build(family):
    return reader(family).requires_grad_(False)


def padded(rows=TEXTS, side="right"):
    wide = max(map(len, rows))
    batch: dict[str, list[list[int]]] = {"input_ids": [], "attention_mask": []}
    for row in rows:
        for name, real in (("input_ids", row), ("attention_mask", [1] * len(row))):
            filler = [0 if name == "attention_mask" else 1] * (wide - len(row))
            batch[name].append(filler + real if side == "left" else real + filler)
    return {name: torch.tensor(rows) for name, rows in batch.items()}


def alone():
    return [padded([row]) for row in TEXTS]


def by_hand(model, head):
    """The distance of each text, which is run without padding."""
    values = []
    for batch in alone():
        with torch.no_grad():
            whole = model(**batch)
            with gated(model, closed=[head]):
                less = model(**batch)
        total = 0.0
        for name in SPANS:
            chances, others = (getattr(o, name)[0].softmax(-1) for o in (whole, less))
            total += float((chances * (chances / others).log()).sum())
        values.append(total)
    return values


@pytest.mark.parametrize("family", CONFIGS)
def test_the_distance_is_that_of_starts_plus_that_of_ends(family):
    model = build(family)
    (batch,) = with_loss(model, [padded()], "self", False, 0)
    with torch.no_grad():
        assert example_losses(model, batch).abs().max() < 1e-12  # the unchanged model
        for head in list(discover(model))[::3]:
            with gated(model, closed=[head]):
                values = example_losses(model, batch)
            assert values.tolist() == pytest.approx(by_hand(model, head), rel=1e-9, abs=1e-12)
            assert values.min() > 1e-9


def test_padding_would_change_the_distance_if_it_counted():
    model, head = build("bert"), Head("encoder", 0, 1)
    batch = padded()
    with torch.no_grad():
        whole = model(**batch)
        with gated(model, closed=[head]):
            less = model(**batch)
    without_mask = {"input_ids": batch["input_ids"], "deadhead.target": output_of(whole)}
    values, expected = distance(less, without_mask), by_hand(model, head)
    assert values[0].item() == pytest.approx(expected[0], rel=1e-9)  # the longest text
    for number in (1, 2, 3):
        assert values[number].item() != pytest.approx(expected[number], rel=1e-3)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
@pytest.mark.parametrize("method", METHODS)
def test_batched_is_one_by_one_on_either_padding_side(method, family):
    model, ways = build(family), ([padded()], [padded(side="left")], alone())
    first, left, single = (
        rank(model, way, method, loss="self", progress=False, **METHODS[method]).scores
        for way in ways
    )
    assert len(set(first.values())) > 1
    assert left == pytest.approx(first, rel=1e-7, abs=1e-12)
    assert single == pytest.approx(first, rel=1e-7, abs=1e-12)


def test_probes_measure_the_curvature_of_the_distance():
    draws = 20000
    draw = torch.Generator().manual_seed(3)
    logits = torch.randn(2, 1, 4, generator=draw).double()
    real = torch.tensor([[1, 1, 1, 0]])
    many = logits.repeat(1, draws, 1).requires_grad_()
    outputs = SimpleNamespace(start_logits=many[0], end_logits=many[1])
    batch = {"input_ids": real.repeat(draws, 1), "attention_mask": real.repeat(draws, 1)}
    values = probe(outputs, {**batch, "deadhead.seeds": torch.arange(draws)})
    (slopes,) = torch.autograd.grad(values.sum(), many)
    assert not bool(slopes[..., 3].any())  # no padding is drawn or moved
    rows = slopes.transpose(0, 1).flatten(1)
    chances = [logits[k, 0, :3].softmax(-1) for k in (0, 1)]
    expected = torch.zeros(8, 8, dtype=torch.float64)
    for k, p in enumerate(chances):
        expected[4 * k : 4 * k + 3, 4 * k : 4 * k + 3] = p.diag() - torch.outer(p, p)
    assert torch.allclose(rows.T @ rows / draws, expected, atol=0.02)
    step = 0.01 * torch.randn(2, 1, 4, generator=draw).double()
    near = SimpleNamespace(start_logits=(logits + step)[0], end_logits=(logits + step)[1])
    target = {"deadhead.target": logits.permute(1, 2, 0)}
    whole = {"input_ids": real, "attention_mask": real, **target}
    flat = step.flatten()
    curved = float(0.5 * flat @ expected @ flat)
    assert float(distance(near, whole)) == pytest.approx(curved, rel=0.05)


def test_patches_of_an_image_behind_the_tokens_are_no_padding():
    """LayoutLMv3 gives them logits, too."""
    logits = torch.randn(2, 2, 7, generator=torch.Generator().manual_seed(4)).double()
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
    outputs = SimpleNamespace(start_logits=logits[0], end_logits=logits[1])
    target = logits.permute(1, 2, 0).flip(0)
    batch = {"input_ids": mask, "attention_mask": mask, "deadhead.target": target}
    read = torch.tensor([0, 1, 5, 6])
    expected = sum(
        (p * (p / logits[k, 1, read].softmax(-1)).log()).sum()
        for k, p in enumerate(target[1, read].softmax(0).T)
    )
    assert float(distance(outputs, batch)[1]) == pytest.approx(float(expected), rel=1e-9)


def positions():
    """Where answers start and end, of the texts on the right and on the left of the padding."""
    right = torch.tensor([[1, 4], [2, 2], [0, 0], [3, 1]])
    return right, right + torch.tensor([[0], [4], [2], [3]])


def answered(model, labels):
    """The losses by the formula, each text run without padding."""
    values = []
    for row, (start, end) in zip(TEXTS, labels.tolist(), strict=True):
        outputs = model(input_ids=torch.tensor([row]))
        logs = [getattr(outputs, name)[0].log_softmax(-1) for name in SPANS]
        values.append(-(logs[0][start] + logs[1][end]) / 2)
    return torch.stack(values)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_the_loss_of_labels_is_that_of_starts_and_ends(family):
    model, (right, left) = build(family), positions()
    with torch.no_grad():
        expected = answered(model, right)
        losses = example_losses(model, {**padded(), "labels": right})
        torch.testing.assert_close(losses, expected, rtol=0, atol=1e-12)
        on_the_left = example_losses(model, {**padded(side="left"), "labels": left})
        torch.testing.assert_close(on_the_left, expected, rtol=0, atol=1e-12)
        # of a text without padding it is the loss of transformers
        whole = {"input_ids": torch.tensor([TEXTS[0]])}
        own = model(**whole, start_positions=right[:1, 0], end_positions=right[:1, 1]).loss
        assert float(losses[0]) == pytest.approx(float(own), abs=1e-12)
        moved = example_losses(model, {**padded(), "labels": right.flip(1)})
    assert (moved - losses)[0].abs() > 1e-3


@pytest.mark.parametrize("method", METHODS)
def test_ranked_by_labels_batched_is_one_by_one(method):
    model, (right, left) = build("bert"), positions()
    single = [{**batch, "labels": right[i : i + 1]} for i, batch in enumerate(alone())]
    ways = [{**padded(), "labels": right}], [{**padded(side="left"), "labels": left}], single
    first, *others = (
        rank(model, way, method, progress=False, **METHODS[method]).scores for way in ways
    )
    assert len(set(first.values())) > 1
    for other in others:
        assert other == pytest.approx(first, rel=1e-7, abs=1e-12)


def test_the_gradient_of_a_gate_is_a_finite_difference():
    model, (right, _) = build("bert"), positions()
    batch = {"input_ids": torch.tensor([TEXTS[0]]), "labels": right[:1]}
    head, step = Head("encoder", 0, 1), 1e-5  # in seven tokens, over which the score is a mean
    ranking = rank(model, [batch], "gradient", progress=False, normalize=False, rescale=False)
    losses = []
    for change in (step, -step):
        gates = {"encoder": torch.ones(2, 4).double()}
        gates["encoder"][0, 1] += change
        with torch.no_grad(), gated(model, gates):
            losses.append(float(example_losses(model, batch)))
    slope = abs(losses[0] - losses[1]) / (2 * step)
    assert 7 * ranking.scores[head] == pytest.approx(slope, rel=1e-5)
    assert slope > 1e-6


def test_labels_that_do_not_fit():
    model, batch, (right, _) = build("bert"), padded(), positions()
    with pytest.raises(DataError, match="'start_positions' is not read") as error:
        rank(model, [{**batch, "start_positions": right[:, 0]}], progress=False)
    stack = 'give batch["labels"] = torch.stack([start_positions, end_positions], 1), or use loss='
    assert str(error.value.hint).startswith(stack)
    expected = r"expected labels of shape \(4, 2\), got \(4,\) in batch 1"
    with pytest.raises(DataError, match=expected) as error:
        rank(model, [{**batch, "labels": right}, {**batch, "labels": right[:, 0]}], progress=False)
    assert str(error.value.hint).startswith(stack)
    right[1, 1] = 3  # padding
    with pytest.raises(DataError, match="batch 0 has an answer at position 3, which is no token"):
        rank(model, [{**batch, "labels": right}], progress=False)
    right[1, 1] = -100
    assert rank(model, [{**batch, "labels": right}], progress=False).scores
    with pytest.raises(UnsupportedModel, match="reads with a decoder where an answer starts"):
        rank(build("bart"), [{**padded(), "labels": positions()[0]}], progress=False)


def test_positions_change_nothing_of_what_is_compared_without_labels():
    model, batch, (right, _) = build("bert"), padded(), positions()
    batch |= {"labels": right, "end_positions": right[:, 1]}
    with_positions, without = (
        rank(model, [some], loss="self", progress=False).scores for some in (batch, padded())
    )
    assert with_positions == without


def test_other_outputs_are_refused():
    model = transformers.DPRReader(transformers.DPRConfig(**SIZES, intermediate_size=16)).eval()
    problem = r'returns .*, relevance_logits.*loss="self" \(--loss self\) compares logits, start_'
    for method in ("taylor", "ablation"):
        with pytest.raises(UnsupportedModel, match=problem) as error:
            rank(model, [padded()], method, loss="self", progress=False)
        assert "loss=function of (outputs, batch)" in str(error.value.hint)
    with pytest.raises(UnsupportedModel, match=problem):
        distill(copy.deepcopy(model), model, [padded()], progress=False)
