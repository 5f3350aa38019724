"""A refit: what it computes, against two models run by hand, and what it makes up for."""

import copy
import json

import pytest
import torch
import transformers
from refit_by_hand import (
    REMOVED,
    batches,
    build,
    is_same,
    logits,
    neurons_of,
    refit_by_hand,
    state,
    tokens_to_fit,
)

from deadhead.heads import discover, load, prune, save
from deadhead.shrinking.refitting import plan_refit, refit


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_it_is_what_two_models_by_hand_give(family, monkeypatch):
    ridge = 0.1
    monkeypatch.setattr("deadhead.shrinking.solve.RIDGES", (ridge,))
    monkeypatch.setattr("deadhead.shrinking.solve._rounding_ridge", lambda *_: 1.0)
    model, data = build(family), batches()
    before = logits(model, data[0])
    report = refit(model, data, REMOVED[family], candidates="refit", progress=False)
    assert [layer.candidate for layer in report.layers] == ["refit 1e-01"] * 2
    by_hand = refit_by_hand(family, ridge, "residual")
    assert torch.allclose(logits(model, data[0]), logits(by_hand, data[0]), atol=1e-8)
    other = refit_by_hand(family, ridge, "output")
    for wrong in (before, logits(other, data[0])):
        assert float((logits(model, data[0]) - wrong).abs().max()) > 1e-3


@torch.no_grad()
def repeat_head(model, family):
    """Make the first head of layer 1 the same as the second, but for the output projection."""
    inner = model.base_model.encoder.layer[1].attention.self
    width = inner.query.weight.shape[0] // model.config.num_attention_heads
    for module in (inner.query, inner.key, inner.value):
        module.weight[:width] = module.weight[width : 2 * width]
        module.bias[:width] = module.bias[width : 2 * width]


def test_a_head_that_others_can_give_is_recovered_exactly():
    model, data = build("bert"), batches()
    repeat_head(model, "bert")
    expected = [logits(model, batch) for batch in data]
    cut = prune(copy.deepcopy(model), ["encoder.1.0"])
    assert float((logits(cut, data[0]) - expected[0]).abs().max()) > 1e-2
    (layer,) = refit(model, data, ["encoder.1.0"], progress=False).layers
    assert layer.error_refitted < 1e-12 < 1e-3 < layer.error_cut
    for batch, value in zip(data, expected, strict=True):
        assert float((logits(model, batch) - value).abs().max()) < 1e-6


@pytest.mark.parametrize("family", ["bert", "llama", "gpt2"])
def test_heads_and_neurons_of_all_layers(family, tmp_path):
    model, data = build(family), batches()
    whole, neurons = copy.deepcopy(model), neurons_of(model)
    cut = prune(copy.deepcopy(model), REMOVED[family], neurons=neurons)
    report = refit(model, data, REMOVED[family], neurons, progress=False)
    assert [(layer.layer, layer.kind) for layer in report.layers] == [
        (n, kind) for n in range(2) for kind in ("heads", "neurons")
    ]
    assert all(0 < layer.error_refitted <= layer.error_cut for layer in report.layers)
    assert not report.notes
    assert report.tokens > 5 * report.held_out_tokens > 0
    assert discover(model, neurons=True) == discover(cut, neurons=True)
    far, near = (
        sum(float((logits(m, b) - logits(whole, b)).square().sum()) for b in data)
        for m in (cut, model)
    )
    assert near < 0.8 * far
    for form in ("compact", "padded"):
        save(model, tmp_path / form, form=form)
        again = (
            load(tmp_path / form).double()
            if form == "compact"
            else type(model).from_pretrained(tmp_path / form).double()
        )
        assert float((logits(again, data[0]) - logits(model, data[0])).abs().max()) < 1e-9


def test_an_emptied_layer_keeps_the_mean_of_what_it_gave():
    model, data = build("llama"), batches()
    heads = [head for head in discover(model) if head.layer == 0]
    (layer,) = refit(model, data, heads, progress=False).layers
    assert layer.candidate == "weighted mean"
    assert layer.error_refitted < layer.error_cut
    assert float(model.base_model.layers[0].self_attn.o_proj.bias.detach().abs().max()) > 0


@pytest.mark.parametrize("family", ["t5", "bart", "albert", "gemma2", "xlnet"])
def test_other_structures(family):
    """Encoder and decoder, shared layers, an output that a norm reads, and no projection module."""
    model, data = build(family), batches()
    for batch in data if family in ("t5", "bart") else []:
        batch["decoder_input_ids"] = batch["input_ids"].flip(0)
    heads = [head for a in discover(model).attentions for head in a.groups[0]]
    cut = prune(copy.deepcopy(model), heads)
    report = refit(model, data, heads, progress=False)
    assert {layer.target for layer in report.layers} <= {"residual", "output"}
    if family == "xlnet":
        assert not report.layers
        assert "not a module" in report.notes[0]
        assert is_same(state(model), state(cut))
        return
    assert len(report.layers) == len(discover(model).attentions)
    assert all(layer.error_refitted <= layer.error_cut for layer in report.layers)
    assert {layer.target for layer in report.layers} == {
        "output" if family == "gemma2" else "residual"
    }
    assert bool(report.notes) == (family == "gemma2")
    if family == "albert":  # both layers use its only projection
        assert report.tokens == 2 * tokens_to_fit(data)


def test_layers_that_the_data_do_not_run_are_only_cut():
    model, data = build("bart"), batches()
    encoder = transformers.BartModel.get_encoder(model.base_model)
    model.forward = lambda **batch: encoder(
        batch["input_ids"], attention_mask=batch["attention_mask"]
    )
    report = refit(model, data, ["encoder.0.0", "decoder.0.0"], progress=False)
    assert [layer.block for layer in report.layers] == ["encoder"]
    assert "decoder layer 0 is cut, but not refitted: the data do not run it" in report.notes[0]
    assert len(discover(model)["decoder", 0].kept) == discover(model)["decoder", 0].size - 1


class Doubled(torch.nn.Linear):
    """A projection whose output is not its weight times its input."""

    def forward(self, value):
        return 2 * super().forward(value)


def test_a_projection_of_another_kind_is_only_cut():
    model, data = build("bert"), batches()
    out = model.base_model.encoder.layer[0].attention.output.dense
    out.__class__ = Doubled
    cut = prune(copy.deepcopy(model), REMOVED["bert"])
    report = refit(model, data, REMOVED["bert"], progress=False)
    assert [layer.layer for layer in report.layers] == [1]
    assert "layer 0 is cut, but not refitted: its output is not its weight" in report.notes[0]
    first = "encoder.layer.0.attention.output.dense.weight"
    weights, expected = (dict(m.base_model.named_parameters()) for m in (model, cut))
    assert weights[first].equal(expected[first])
    assert json.loads(json.dumps(report.to_dict()))["layers"][0]["candidate"]


@pytest.mark.parametrize("candidates", [("refit",), ()])
def test_a_plan_that_is_tried_gives_what_it_gives_when_applied(candidates):
    model, data = build("llama"), batches()
    before, weights = logits(model, data[0]), state(model)
    plan = plan_refit(model, data, REMOVED["llama"], candidates=candidates, progress=False)
    with plan.tried():
        tried = logits(model, data[0])
    assert is_same(state(model), weights)
    assert torch.equal(logits(model, data[0]), before)
    plan.apply()
    assert torch.allclose(logits(model, data[0]), tried, atol=1e-9)
    assert float((tried - before).abs().max()) > 1e-3
