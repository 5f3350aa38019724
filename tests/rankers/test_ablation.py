"""Ablation against closing each head and running the whole model; replay changes nothing."""

import pytest
import torch
from ranker_cases import KINDS
from transformers import AutoConfig, AutoModelForCausalLM

from architectures.tiny import tiny
from deadhead import patch_effects
from deadhead.heads import captured, discover, gated, head_means
from deadhead.heads.discover import find_sites
from deadhead.rankers import rank
from deadhead.rankers.loss import example_losses
from deadhead.rankers.replay import repeated, replaying
from deadhead.verify.inputs import batch_for


@torch.no_grad()
def the_long_way(model, batches, fill="zero"):
    count = sum(len(batch["labels"]) for batch in batches)

    def total():
        return sum(float(example_losses(model, batch).sum()) for batch in batches) / count

    whole, result = total(), {}
    for head in discover(model):
        with gated(model, closed=[head], fill=fill):
            result[head] = total() - whole
    return result


def assert_same(result, expected):
    assert max(abs(result[head] - expected[head]) for head in expected) < 1e-10
    assert max(map(abs, expected.values())) > 1e-3
    assert len(set(expected.values())) == len(expected)


@pytest.mark.parametrize("tokens", [1, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_closing_each_head(case, kind, tokens):
    setup = case(kind)
    batches = [setup.batch, *setup.singles()[:2]]
    assert_same(
        rank(setup.model, batches, "ablation", tokens=tokens).scores,
        the_long_way(setup.model, batches),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_head_can_be_filled_with_its_mean(case, kind):
    setup = case(kind)
    batches = [setup.batch, *setup.singles()[:2]]
    scores = rank(setup.model, batches, "ablation", fill="mean").scores
    assert_same(scores, the_long_way(setup.model, batches, head_means(setup.model, batches)))
    assert scores != rank(setup.model, batches, "ablation").scores


@pytest.mark.parametrize("family", ["gpt2", "xlnet", "bart", "fsmt"])
def test_replay_knows_no_architecture(family):
    model = tiny(family) if family == "fsmt" else tiny(family).double()
    batch = batch_for(model)
    ids = batch["input_ids"]
    batch["labels"] = batch.pop(
        "decoder_input_ids", torch.where(batch["attention_mask"] == 1, ids, -100)
    )
    result, expected = rank(model, [batch], "ablation").scores, the_long_way(model, [batch])
    assert max(abs(result[head] - expected[head]) for head in expected) < (
        1e-5 if family == "fsmt" else 1e-10
    )
    assert max(map(abs, expected.values())) > 1e-3


def test_layers_below_are_not_run_again(case):
    setup = case("seq2seq")
    calls = []
    for path in (
        "model.encoder.layers.0",
        "model.encoder.layers.1",
        "model.decoder.layers.0",
        "model.decoder.layers.1",
    ):
        layer = setup.model.get_submodule(path)
        layer.fc1.register_forward_pre_hook(lambda m, a, path=path: calls.append(path))
    rank(setup.model, [setup.batch], "ablation")
    runs = {path: calls.count(path) for path in dict.fromkeys(calls)}
    # of 3 blocks x 2 layers x 4 heads, in one pass each layer: below the closed head, only the
    # check and the recording ran
    assert runs["model.encoder.layers.0"] == 2 + 1
    assert runs["model.encoder.layers.1"] == 2 + 2
    assert runs["model.decoder.layers.0"] == 2 + 4
    assert runs["model.decoder.layers.1"] == 2 + 6 + 1  # the recording is replayed once


@torch.no_grad()
def test_a_replay_repeats_the_recorded_outputs(case):
    setup = case("classify")
    whole = setup.model(**setup.batch).logits
    with replaying(setup.model, find_sites(setup.model)) as replay:
        replay.record(lambda batch: setup.model(**batch), setup.batch)
        with replay.start_at(("encoder", 1), 3):
            again = setup.model(**repeated(setup.batch, 3)).logits
    torch.testing.assert_close(again, whole.repeat(3, 1), rtol=0, atol=1e-12)
    assert torch.equal(setup.model(**setup.batch).logits, whole)
    assert all("forward" not in vars(module) for module in setup.model.modules())


def sharing_keys():
    """A decoder whose upper layers read the keys and values of the lower layers."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "gemma3n_text",
        vocab_size=99,
        vocab_size_per_layer_input=99,
        pad_token_id=0,
        hidden_size=32,
        intermediate_size=37,
        hidden_size_per_layer_input=16,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        laurel_rank=8,
        num_hidden_layers=4,
        num_kv_shared_layers=2,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention"] * 2,
        activation_sparsity_pattern=[0.0] * 4,
        initializer_range=0.3,
    )
    return AutoModelForCausalLM.from_config(config).double().eval()


@pytest.mark.parametrize("tokens", [1, None])
def test_layers_that_share_keys_are_all_run_again(tokens):
    model, ids = sharing_keys(), torch.arange(3, 21).reshape(3, 6)
    batch = {"input_ids": ids, "labels": ids}
    scores = rank(model, [batch], "ablation", tokens=tokens).scores
    assert_same(scores, the_long_way(model, [batch]))
    run = lambda batch: model(input_ids=batch["input_ids"]).logits  # noqa: E731
    with torch.no_grad(), replaying(model, find_sites(model)) as replay:
        replay.record(run, batch)
    assert replay.works is False
    effects = patch_effects(
        model,
        {"input_ids": ids},
        {"input_ids": ids.flip(0)},
        lambda outputs, batch: outputs.logits[:, -1, 5],
        tokens=tokens,
    )
    with torch.no_grad():
        with captured(model) as clean:
            run(batch)
        for head in discover(model):
            with gated(model, closed=[head], fill=clean):
                value = float(run({"input_ids": ids.flip(0)})[:, -1, 5].mean())
            assert effects.values[head, None] == pytest.approx(value, abs=1e-10)
    assert max(map(abs, effects.effect.values())) > 1e-3


def test_measures_are_each_others_details(case):
    setup = case("tag")
    by_loss = rank(setup.model, [setup.batch], "ablation")
    by_accuracy = rank(setup.model, [setup.batch], "ablation", measure="accuracy")
    assert by_loss.details["fall in accuracy"] == {str(h): s for h, s in by_accuracy.scores.items()}
    assert by_accuracy.details["rise in loss"] == {str(h): s for h, s in by_loss.scores.items()}
    with torch.no_grad():
        right = (setup.model(**setup.batch).logits.argmax(-1) == setup.batch["labels"]).sum() / (
            setup.batch["labels"] != -100
        ).sum()
    assert by_loss.details["accuracy"] == pytest.approx(float(right))
