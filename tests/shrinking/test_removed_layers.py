"""Whole layers: a useless one goes first, the repair helps, and an error leaves the model alone."""

import copy
from functools import cache

import pytest
import torch
from refit_by_hand import is_same, marks, state
from transformers import (
    BertConfig,
    BertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from deadhead.errors import DeadheadError, UnknownName
from deadhead.heads import load, save
from deadhead.shrinking import read_layers, shrink
from deadhead.shrinking.depth import Depth, State
from deadhead.shrinking.held_out import mean_loss, split_examples

QUIET = {"progress": False, "on": (2, 8)}
LAYERS, USELESS = 4, 2


@cache
def _built(family):
    torch.manual_seed(0)
    shared = {"vocab_size": 40, "initializer_range": 0.3, "pad_token_id": 0}
    size = {"hidden_size": 16, "num_hidden_layers": LAYERS, "num_attention_heads": 2}
    if family == "bert":
        model = BertForMaskedLM(BertConfig(intermediate_size=24, **size, **shared))
        layers = model.bert.encoder.layer
        outs = [layers[USELESS].attention.output.dense, layers[USELESS].output.dense]
    elif family == "llama":
        model = LlamaForCausalLM(LlamaConfig(intermediate_size=24, **size, **shared))
        layers = model.model.layers
        outs = [layers[USELESS].self_attn.o_proj, layers[USELESS].mlp.down_proj]
    else:
        size = {"d_model": 16, "num_layers": LAYERS, "num_heads": 2, "d_kv": 8, "d_ff": 24}
        config = T5Config(decoder_start_token_id=0, vocab_size=40, initializer_factor=2.0, **size)
        model = T5ForConditionalGeneration(config)
        layer = model.decoder.block[USELESS].layer
        outs = [layer[0].SelfAttention.o, layer[1].EncDecAttention.o, layer[2].DenseReluDense.wo]
    with torch.no_grad():
        for out in outs:  # this layer adds nothing
            for parameter in out.parameters():
                parameter.zero_()
    return model.double().eval()


def build(family="llama"):
    return copy.deepcopy(_built(family))


def data(family="llama"):
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 40, (48, 8), generator=draw)
    mask = torch.ones_like(ids)
    mask[::3, 6:] = 0
    ids = ids * mask
    batch = {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}
    return [{name: value[i : i + 8] for name, value in batch.items()} for i in range(0, 48, 8)]


def layers_left(model):
    config = model.config
    numbers = [getattr(config, name, 0) for name in ("num_hidden_layers", "num_decoder_layers")]
    return max(numbers) if config.model_type != "t5" else numbers[1]


@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
def test_a_useless_layer_goes_first_and_nothing_changes(family):
    model, whole, batch = build(family), build(family), data(family)[0]
    report = shrink(model, data(family), layers=1, loss="self", **QUIET)
    block = {"bert": "encoder", "llama": "decoder", "t5": "decoder"}[family]
    assert report.removed_layers == (f"{block}.{USELESS}",)
    assert layers_left(model) == LAYERS - 1
    with torch.no_grad():
        torch.testing.assert_close(model(**batch).logits, whole(**batch).logits)
    assert report.losses["refitted"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
def test_the_repair_helps_and_is_what_is_saved(family, tmp_path):
    model = build(family)
    report = shrink(model, data(family), layers=3, loss="self", **QUIET)
    assert report.losses["refitted"] < report.losses["cut"]
    assert report.layers
    again = load(save(model, tmp_path / "model")).eval()
    with torch.no_grad():
        batch = data(family)[0]
        torch.testing.assert_close(again(**batch).logits, model(**batch).logits)
    names = {name for name, _ in build(family).named_parameters()}
    assert {name for name, _ in model.named_parameters()} < names  # no new biases


def test_the_tried_model_is_the_smaller_one():
    model, batches = build(), data()
    depth = Depth(model, batches)
    streams = depth.streams(State())
    new = depth.without(State(), streams, ("decoder", 1))
    with depth.tried(new), torch.no_grad():
        tried = model(**batches[0]).logits
    (solution,) = new.solutions["decoder", 0]
    assert 0 <= solution.error_refitted < solution.error_cut
    report = shrink(model, batches, layers=[1], repair="none", **QUIET)
    with torch.no_grad():
        model.model.layers[0].mlp.down_proj.weight.copy_(solution.weight)
        torch.testing.assert_close(model(**batches[0]).logits, tried)
    assert report.removed_layers == ("decoder.1",)


def test_similarity_removes_the_layer_that_changes_least():
    report = shrink(build(), data(), layers="25%", method="similarity", **QUIET)
    assert report.removed_layers == (f"decoder.{USELESS}",)


@pytest.mark.parametrize(
    "options", [{"layers": [1, 3]}, {"layers": 2, "method": "similarity"}, {"layers": "3,2"}]
)
def test_several_layers_without_a_search(options):
    model = build()
    report = shrink(model, data(), loss="self", **options, **QUIET)
    assert len(report.removed_layers) == 2 == layers_left(model)
    assert report.losses["refitted"] < report.losses["cut"]


def test_layers_then_heads_and_neurons():
    model = build()
    report = shrink(model, data(), layers=1, heads=0.5, neurons=0.5, **QUIET)
    sizes = {name: report.sizes[name] for name in ("layers", "heads", "neurons")}
    assert sizes == {"layers": (4, 3), "heads": (8, 3), "neurons": (96, 36)}
    assert report.sizes["parameters"][1] == sum(p.numel() for p in model.parameters())
    held_out = split_examples(data())[1]
    assert mean_loss(model, held_out) == pytest.approx(report.losses["refitted"])


def test_a_share_between_two_numbers_says_what_was_done():
    report = shrink(build(), data(), layers=0.3, **QUIET)
    assert len(report.removed_layers) == 1
    assert any("0.3 of 4 layers: removed 1" in note for note in report.notes)


@pytest.mark.parametrize(
    ("value", "read"),
    [("3", 3), (3, 3), ("3,7", ("3", "7")), ([3, 7], ("3", "7")), ("decoder.3", ("decoder.3",))],
)
def test_what_people_write(value, read):
    assert read_layers(value) == read


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"layers": 4}, "at most 3 layers, got 4"),
        ({"layers": 40}, "at most 3 layers, got 40"),
        ({"layers": 0.01}, "expects to remove something"),
        ({"layers": "most"}, "expected a layer of the model"),
        ({"layers": []}, "`layers` expects"),
        ({"layers": "3,"}, "got '3,'"),
        ({"layers": "1, decoder.1"}, "each layer once, got decoder.1 2 times"),
        ({"layers": [0, 1, 2, 3]}, "got all 4"),
        ({"layers": [7]}, "decoder.0 to decoder.3"),
        ({"layers": 0}, "expected a target, got none"),
        ({"layers": 1, "macs": 0.5, "heads": 1}, "heads and neurons together, got heads and macs"),
        ({"layers": 1, "repair": "scales"}, "one of the repairs"),
        ({"layers": 1, "method": "kwon"}, "no method of choosing layers 'kwon'"),
        ({"layers": 1, "heads": 1, "method": "similarity"}, "chooses layers alone"),
        ({"heads": 1, "method": "similarity"}, "no method of choosing 'similarity'"),
    ],
)
def test_refusals_change_nothing(options, text):
    model = build()
    before, config = state(model), model.config.to_dict()
    with pytest.raises((DeadheadError, UnknownName)) as caught:
        shrink(model, data(), **options, **QUIET)
    assert text in str(caught.value)
    assert is_same(state(model), before)
    assert model.config.to_dict() == config


def test_an_error_at_the_end_changes_nothing():
    model, calls = build(), []

    def score(given):
        calls.append(len(given.model.layers))
        if len(given.model.layers) < LAYERS:
            raise KeyboardInterrupt

    before, config, clean = state(model), model.config.to_dict(), marks(model)
    with pytest.raises(KeyboardInterrupt):
        shrink(model, data(), layers=2, score=score, **QUIET)
    assert calls == [4, 4, 2]
    assert is_same(state(model), before)
    assert model.config.to_dict() == config
    assert marks(model) == clean
    assert [layer.self_attn.layer_idx for layer in model.model.layers] == [0, 1, 2, 3]
