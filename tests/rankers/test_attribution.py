"""Attribution against finite differences of gates, Taylor scores and ablation with its fill."""

import pytest
import torch
from ranker_cases import KINDS

from architectures.tiny import tiny
from deadhead.errors import DeadheadError
from deadhead.heads import captured, discover, gated, head_means
from deadhead.rankers import rank
from deadhead.rankers.loss import example_losses
from deadhead.verify.inputs import batch_for

# Gates as numbers are read in float32, which has 1 - STEP exactly. The norms of the causal model
# compute in float32, so that its step must be larger.
STEP, TOLERANCE = {"causal": 2**-7}, {"causal": 1e-3}


@torch.no_grad()
def differences(model, batches, fills, step=2**-13, heads=discover):
    """The rise of the mean loss per unit of a gate that closes a little, by central differences."""
    slopes = {}
    for head in heads(model):
        rise = 0.0
        for batch, fill in zip(batches, fills, strict=True):
            for sign in (1, -1):
                with gated(model, {head: 1 - sign * step}, fill=fill):
                    rise += sign * float(example_losses(model, batch).sum())
        slopes[head] = rise / (2 * step) / sum(len(batch["labels"]) for batch in batches)
    return slopes


def assert_same(scores, expected, tolerance):
    assert max(abs(scores[head] - expected[head]) for head in expected) < tolerance
    assert max(map(abs, expected.values())) > 10 * tolerance
    assert len(set(expected.values())) > len(expected) / 2


def other_tokens(batch):
    ids, mask = batch["input_ids"], batch["attention_mask"]
    return {**batch, "input_ids": (ids * 7 % 80 + 9) * mask}


@pytest.mark.parametrize("fill", ["zero", "mean"])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_finite_difference_of_a_small_gate(case, kind, fill):
    setup = case(kind)
    batches = [setup.batch, *setup.singles()[:2]]
    filling = head_means(setup.model, batches) if fill == "mean" else fill
    scores = rank(setup.model, batches, "attribution", fill=fill).scores
    fills = [filling] * len(batches)
    slopes = differences(setup.model, batches, fills, STEP.get(kind, 2**-13))
    assert_same(scores, slopes, TOLERANCE.get(kind, 1e-6))


@pytest.mark.parametrize("family", ["xlnet", "albert"])
def test_layers_in_another_order_or_used_twice(family):
    model = tiny(family).double().eval()
    batch = batch_for(model)

    def loss(outputs, batch):
        return outputs[0][:, 1, :5].sum(-1)

    batch["labels"] = torch.zeros(len(batch["input_ids"]), dtype=torch.long)
    slopes, means = {}, head_means(model, [batch])
    with torch.no_grad():
        for head in discover(model):
            sides = []
            for sign in (1, -1):
                with gated(model, {head: 1 - sign * 2**-13}, fill=means):
                    inputs = {n: v for n, v in batch.items() if n != "labels"}
                    sides.append(float(loss(model(**inputs), batch).mean()))
            slopes[head] = (sides[0] - sides[1]) / 2**-12
    assert_same(rank(model, [batch], "attribution", loss=loss).scores, slopes, 1e-6)


def test_zero_is_taylor_with_its_sign(case):
    """The Taylor score adds up absolute values of what attribution adds up as it is."""
    setup = case("tag")
    singles = setup.singles()
    signed = [rank(setup.model, [row], "attribution", fill="zero").scores for row in singles]
    together = rank(setup.model, [setup.batch], "attribution", fill="zero").scores
    options = {"unit": "per_example", "last_layer": "tokens"}
    taylor = rank(setup.model, [setup.batch], "taylor", **options).scores
    tokens = int(setup.batch["attention_mask"].sum())
    for head in discover(setup.model):
        values = [scores[head] for scores in signed]
        assert together[head] == pytest.approx(sum(values) / len(values), abs=1e-10)
        assert taylor[head] == pytest.approx(sum(map(abs, values)) / tokens, abs=1e-10)
    assert min(together.values()) < 0 < max(together.values())


@pytest.mark.parametrize("kind", ["seq2seq", "causal"])
def test_a_corrupt_run_as_the_fill(case, kind):
    setup = case(kind)
    corrupt = other_tokens(setup.batch)
    with torch.no_grad(), captured(setup.model) as run:
        example_losses(setup.model, corrupt)
    ranking = rank(setup.model, [setup.batch], "attribution", corrupt=[corrupt])
    slopes = differences(setup.model, [setup.batch], [run], STEP.get(kind, 2**-13))
    assert_same(ranking.scores, slopes, TOLERANCE.get(kind, 1e-6))
    assert ranking.options["fill"] == "corrupt"
    assert ranking.data["corrupt"] != ranking.data["fingerprint"]
    unlabelled = {name: value for name, value in corrupt.items() if name != "labels"}
    again = rank(setup.model, [setup.batch], "attribution", corrupt=iter([unlabelled]))
    assert again.scores == ranking.scores
    exact = rank(setup.model, [setup.batch], "ablation", corrupt=[corrupt])
    with torch.no_grad():
        whole = float(example_losses(setup.model, setup.batch).mean())
        for head in list(discover(setup.model))[::5]:
            with gated(setup.model, closed=[head], fill=run):
                rise = float(example_losses(setup.model, setup.batch).mean()) - whole
            assert exact[head] == pytest.approx(rise, abs=1e-10)
    assert exact.scores != ranking.scores


def test_without_labels_it_estimates_the_distance(case):
    """To second order, which is exact enough for heads that do little."""
    setup = case("tag")
    with torch.no_grad():
        for layer in setup.model.roberta.encoder.layer:
            layer.attention.output.dense.weight *= 0.02
    batches = [setup.batch] * 40  # the mean of 160 draws
    estimate = rank(setup.model, batches, "attribution", loss="self", fill="zero")
    exact = rank(setup.model, [setup.batch], "ablation", loss="self")
    assert min(exact.scores.values()) > 0
    for head in exact.scores:
        assert estimate[head] == pytest.approx(exact[head], rel=0.4)
    assert estimate.spearman(exact).rho > 0.9


def test_corrupt_batches_that_cannot_be_used(case):
    setup = case("tag")
    corrupt = [other_tokens(setup.batch)]

    def refuses(message, method="attribution", batches=corrupt, **options):
        with pytest.raises(DeadheadError, match=message):
            rank(setup.model, [setup.batch], method, corrupt=batches, **options)

    refuses("taylor takes no corrupt batches", "taylor")
    refuses("shapley takes no corrupt batches", "shapley")
    refuses("corrupt batches are the fill, but fill is given too", fill="mean")
    refuses("got 1 clean batches and 2 corrupt", batches=corrupt * 2)
    shorter = {name: value[:, :-1] for name, value in corrupt[0].items()}
    refuses("input_ids of clean batch 0 has shape", batches=[shorter])
    refuses("`corrupt` expects a batch or a list of batches, got int", batches=3)
