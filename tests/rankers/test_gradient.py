"""Gradient and Taylor scores against finite differences, single examples and real gates."""

from itertools import pairwise

import pytest
import torch
from ranker_cases import KINDS, by_real_gates, scores_of

from architectures.tiny import tiny
from deadhead.heads import discover, gated
from deadhead.rankers import rank
from deadhead.rankers.gate_gradients import open_gates
from deadhead.rankers.gradient import Gradient
from deadhead.rankers.loss import example_losses
from deadhead.ranking.scores import spread, unit_layers


def apart(first, other):
    return max(abs(first[head] - other[head]) for head in first)


@pytest.mark.parametrize("unit", ["per_example", "per_token"])
@pytest.mark.parametrize("kind", KINDS)
def test_batched_equals_one_by_one(case, kind, unit):
    setup = case(kind)
    together, alone = (
        rank(setup.model, [setup.batch], "gradient", unit=unit),
        rank(setup.model, setup.singles(), "gradient", unit=unit),
    )
    assert apart(together.raw, alone.raw) < 1e-12
    assert apart(together.scores, alone.scores) < 1e-10
    assert min(together.raw.values()) > 1e-5  # the twin: there is something to be equal


@pytest.mark.parametrize("kind", KINDS)
def test_equals_gates_that_multiply(case, kind):
    setup = case(kind)
    raw = rank(setup.model, [setup.batch], "gradient").raw
    tokens = int(setup.batch["attention_mask"].sum())
    by_gates = {
        head: sum(map(abs, values)) / tokens
        for head, values in by_real_gates(setup.model, setup.batch).items()
    }
    assert apart(raw, by_gates) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_gate_gradient_equals_finite_difference(case, kind):
    setup = case(kind)
    if kind == "causal":
        setup.model = tiny(
            "gpt2"
        ).double()  # llama's norms compute in float32, too coarse for small steps
    single = setup.singles()[0]
    raw = rank(setup.model, [single], "gradient").raw
    tokens = int(single["attention_mask"].sum())
    step = 1e-5
    for head in discover(setup.model):
        losses = []
        for gate in (1 + step, 1 - step):
            with (
                torch.no_grad(),
                gated(setup.model, {head: torch.tensor(gate, dtype=torch.float64)}),
            ):
                losses.append(float(example_losses(setup.model, single)))
        assert abs(abs(losses[0] - losses[1]) / (2 * step) / tokens - raw[head]) < 1e-7


def test_per_batch_is_the_gradient_of_the_mean_over_tokens(case):
    setup = case("tag")
    gates = torch.ones(2, 4, dtype=torch.float64, requires_grad=True)
    with gated(setup.model, gates):
        logits = setup.model(**setup.batch).logits
        torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), setup.batch["labels"].flatten()
        ).backward()
    raw = rank(setup.model, [setup.batch], "gradient", unit="per_batch").raw
    tokens = int(setup.batch["attention_mask"].sum())
    assert max(abs(raw[h] - abs(float(gates.grad[h.layer, h.index])) / tokens) for h in raw) < 1e-12
    assert (
        apart(raw, rank(setup.model, [setup.batch], "gradient").raw) > 1e-3
    )  # signs cancel inside a batch


def test_cumulative_is_the_running_total_that_is_never_cleared(case):
    """As the widely copied script does it: |g1|, |g1 + g2| ... instead of |g1|, |g2| ..."""
    setup = case("classify")
    layout, singles = discover(setup.model), setup.singles()
    gates = torch.ones(2, 4, dtype=torch.float64, requires_grad=True)
    importance, tokens = torch.zeros(2, 4, dtype=torch.float64), 0
    for row in singles:
        with gated(setup.model, gates):
            setup.model(**row).loss.backward()
        importance += gates.grad.abs()  # and no gates.grad.zero_()
        tokens += int(row["attention_mask"].sum())
    raw = rank(setup.model, singles, "gradient", unit="cumulative").raw
    assert max(abs(raw[h] - float(importance[h.layer, h.index]) / tokens) for h in layout) < 1e-12
    assert apart(raw, rank(setup.model, singles, "gradient").raw) > 1e-3
    assert (
        apart(raw, rank(setup.model, singles[::-1], unit="cumulative").raw) > 1e-3
    )  # early examples count more


def test_normalisation_is_that_of_the_paper(case):
    setup = case("classify")
    ranking = rank(setup.model, [setup.batch], "gradient")
    matrix = torch.tensor(ranking.matrix(raw=True))
    unit = matrix / (matrix.norm(dim=1, keepdim=True) + 1e-20)
    expected = (unit - unit.min()) / (unit.max() - unit.min())
    torch.testing.assert_close(torch.tensor(ranking.matrix()), expected, rtol=0, atol=1e-12)
    assert rank(setup.model, [setup.batch], "gradient", normalize=False).scores == spread(
        ranking.raw
    )
    assert rank(setup.model, [setup.batch], "gradient", rescale=False).scores == unit_layers(
        ranking.raw
    )
    assert rank(
        setup.model, [setup.batch], "gradient", normalize=False, rescale=False
    ).scores == dict(ranking.raw)


@pytest.mark.parametrize("kind", KINDS)
def test_taylor_is_gradient_by_example_and_tokens(case, kind):
    setup = case(kind)
    gradient = rank(setup.model, [setup.batch], "gradient", normalize=False, rescale=False)
    taylor = rank(setup.model, [setup.batch], "taylor", unit="per_example", last_layer="tokens")
    assert taylor.scores == gradient.scores
    finished = rank(
        setup.model,
        [setup.batch],
        "taylor",
        unit="per_example",
        last_layer="tokens",
        normalize=True,
        rescale=True,
    )
    assert finished.scores == rank(setup.model, [setup.batch], "gradient").scores


def test_taylor_divides_the_last_layer_of_a_classifier_by_sentences(case):
    setup = case("classify")
    by_tokens = rank(
        setup.model, [setup.batch], "gradient", unit="per_token", normalize=False, rescale=False
    )
    taylor = rank(setup.model, [setup.batch], "taylor")
    factor = int(setup.batch["attention_mask"].sum()) / len(setup.batch["labels"])
    for head in taylor.scores:
        assert taylor[head] == pytest.approx(
            by_tokens[head] * (factor if head.layer == 1 else 1), rel=1e-12
        )
    tagger = case("tag")
    same = rank(tagger.model, [tagger.batch], "taylor").scores
    assert (
        same
        == rank(
            tagger.model,
            [tagger.batch],
            "gradient",
            unit="per_token",
            normalize=False,
            rescale=False,
        ).scores
    )


def test_shared_weights_have_one_score_over_all_their_uses():
    from transformers import AlbertConfig, AlbertForSequenceClassification

    from architectures.configs import shrunk
    from architectures.tiny import randomise

    model = AlbertForSequenceClassification(
        shrunk(AlbertConfig, {"num_labels": 2, "num_hidden_layers": 3})
    )
    randomise(model, 0)
    model = model.double().eval()
    batch = {
        "input_ids": torch.arange(3, 15).reshape(2, 6),
        "attention_mask": torch.ones(2, 6),
        "labels": torch.tensor([0, 1]),
    }
    raw = rank(model, [batch], "gradient").raw
    assert len(raw) == 4
    assert (
        apart(raw, {h: sum(map(abs, v)) / 12 for h, v in by_real_gates(model, batch).items()})
        < 1e-12
    )


def test_nothing_is_computed_below_the_first_gate_nor_for_weights(case):
    setup = case("classify")
    reached = []
    setup.model.requires_grad_(False)
    embedded = setup.model.bert.embeddings.register_forward_hook(
        lambda m, a, out: reached.append(out.requires_grad)
    )
    with open_gates(setup.model) as gates:
        gates.examples = 4
        losses = example_losses(setup.model, setup.batch)
        grads = torch.autograd.grad(losses.sum(), list(gates.gates.values()))
    embedded.remove()
    assert reached == [False]
    assert [tuple(g.shape) for g in grads] == [(4, 4), (4, 4)]
    assert all(p.grad is None for p in setup.model.parameters())


def test_progress_reaches_the_end_step_by_step(case):
    setup, steps = case("classify"), []
    scores_of(
        Gradient(),
        setup.model,
        setup.singles(),
        progress=lambda done, total, note="": steps.append((done, total)),
    )
    assert steps[-1] == (4, 4)
    assert all(a < b for a, b in pairwise(steps))
