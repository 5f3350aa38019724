"""Integrated gradients: the scores add up to what closing all heads does to the loss."""

import pytest
import torch
from ranker_cases import KINDS
from test_attribution import other_tokens
from transformers import BertModel

from architectures.tiny import tiny
from deadhead.errors import DeadheadError
from deadhead.heads import captured, discover, gated, head_means
from deadhead.rankers import rank
from deadhead.rankers.loss import example_losses
from deadhead.verify.inputs import batch_for


@torch.no_grad()
def rise(model, batches, fills, closed=None):
    """The rise of the mean loss when all heads are closed."""
    total = 0.0
    for batch, fill in zip(batches, fills, strict=True):
        total -= float(example_losses(model, batch).sum())
        with gated(model, closed=closed or list(discover(model)), fill=fill):
            total += float(example_losses(model, batch).sum())
    return total / sum(len(batch["labels"]) for batch in batches)


@pytest.mark.parametrize("kind", KINDS)
def test_the_scores_add_up_and_more_steps_are_nearer(case, kind):
    setup = case(kind)
    batches = [setup.batch, *setup.singles()[:1]]
    mean = head_means(setup.model, batches)
    for fill, filling in {"mean": mean, **({"zero": "zero"} if kind == "tag" else {})}.items():
        expected, errors = rise(setup.model, batches, [filling] * 2), []
        for steps in (4, 16, 64):
            ranking = rank(setup.model, batches, "attribution", fill=fill, steps=steps)
            assert ranking.details["rise"] == pytest.approx(expected, abs=1e-6)
            assert ranking.details["sum of scores"] == pytest.approx(sum(ranking.scores.values()))
            errors.append(abs(ranking.details["sum of scores"] - expected))
        assert errors[0] > errors[1] > 2 * errors[2] or errors[1] < 1e-6
        assert errors[2] < 0.01 * abs(expected)
        once = rank(setup.model, batches, "attribution", fill=fill)
        assert abs(sum(once.scores.values()) - expected) > 10 * errors[2]


@pytest.mark.parametrize("kind", ["seq2seq", "causal"])
def test_between_the_corrupt_and_the_clean_run(case, kind):
    setup = case(kind)
    corrupt = other_tokens(setup.batch)
    with torch.no_grad(), captured(setup.model) as run:
        example_losses(setup.model, corrupt)
    ranking = rank(setup.model, [setup.batch], "attribution", corrupt=[corrupt], steps=64)
    expected = rise(setup.model, [setup.batch], [run])
    assert ranking.details["rise"] == pytest.approx(expected, abs=1e-6)
    assert sum(ranking.scores.values()) == pytest.approx(expected, rel=1e-2)
    pair = [
        rank(
            setup.model,
            [setup.batch],
            "attribution",
            corrupt=[corrupt],
            steps=2,
            checkpointing=kept,
        )
        for kept in (False, True)
    ]
    for head in ranking.scores:
        assert pair[0][head] == pytest.approx(pair[1][head], abs=1e-7)


def test_a_linear_model_needs_one_step_and_gives_what_ablation_gives():
    model = BertModel(tiny("bert", num_hidden_layers=1).config).double().eval()
    for name in ("attention.output.LayerNorm", "output.LayerNorm", "intermediate"):
        model.encoder.layer[0].set_submodule(name, torch.nn.Identity())
    model.encoder.layer[0].output.dense = torch.nn.Identity()
    batch = batch_for(model)
    batch["labels"] = torch.zeros(len(batch["input_ids"]), dtype=torch.long)

    def loss(outputs, batch):
        return outputs[0][:, :, :5].sum((1, 2))

    ranking = rank(model, [batch], "attribution", loss=loss, fill="zero", steps=1)
    exact = rank(model, [batch], "ablation", loss=loss)
    assert max(map(abs, exact.scores.values())) > 1e-3
    for head in exact.scores:
        assert ranking[head] == pytest.approx(exact[head], abs=1e-12)
    assert ranking.details["sum of scores"] == pytest.approx(ranking.details["rise"], abs=1e-12)


def test_closed_heads_count_as_removed_and_a_distance_needs_no_probe(case):
    setup = case("tag")
    heads = list(discover(setup.model))
    ranking = rank(
        setup.model,
        [setup.batch],
        "attribution",
        loss="self",
        fill="zero",
        steps=16,
        closed=heads[:2],
    )
    assert len(ranking.scores) == len(heads) - 2
    assert ranking.details["loss"] == 0  # the distance of the model to itself
    assert ranking.details["rise"] > 0.01
    assert sum(ranking.scores.values()) == pytest.approx(ranking.details["rise"], rel=1e-3)
    with pytest.raises(DeadheadError, match="`steps` of attribution expects"):
        rank(setup.model, [setup.batch], "attribution", steps=0)
