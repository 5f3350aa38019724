"""Heads removed with their mean output as a fill: the output bias adds what they contributed on
average.
"""

import copy
from typing import Any

import pytest
import torch
import transformers
from folders import edit_record
from identity import prune_as_masked

from deadhead.errors import FolderError, HeadError, UnsupportedModel
from deadhead.heads import discover, gated, load, prune, save
from deadhead.heads.means import HeadMeans, head_means
from deadhead.verify.proof import sample
from slow import slow_but
from tiny_models import answers, apart, batch_of, build, build_class, refused, uneven

# a bias in every output projection, in none, in a shared layer, and in no module at all
FAMILIES = ["bert", "gpt2", "llama", "t5", "albert", "marian", "xlnet", "gpt_neox_japanese"]


def means_of(model):
    return head_means(model, [batch_of(model)])


def masked(model, heads, fill, batch=None):
    with gated(model, closed=heads, fill=fill):
        return answers(model, batch)


def last_head(layout):
    """The last head of the last layer, if it can be removed alone."""
    layers = [a for a in layout.attentions if a.group == 1 and len(a.heads) > 1]
    return [layers[-1].heads[-1]] if layers else []


@pytest.mark.parametrize("family", slow_but("albert gpt2 t5 xlnet", FAMILIES))
def test_masked_is_pruned_is_reloaded_twice(family, tmp_path):
    model = build(family)
    for choose in (lambda layout: sample(layout, whole=True), last_head):
        if not (heads := choose(discover(model))):
            continue
        means, zeros = means_of(model), masked(model, heads, "zero")
        again = prune_as_masked(model, heads, tmp_path, ["compact"], near=1e-6, fill=means)
        assert apart(again, zeros) > 1e-3


def test_the_bias_gains_the_mean_contribution():
    model, before = build("bert"), build("bert").bert.encoder.layer[1].attention.output.dense
    values = torch.randn(4, 8, generator=torch.Generator().manual_seed(0)).double()
    means = means_of(model)
    means = HeadMeans(values={**means.values, ("encoder", 1): values}, kept=means.kept)
    prune(model, {1: [0, 2]}, fill=means)
    after = model.bert.encoder.layer[1].attention.output.dense
    constant = sum(before.weight[:, h * 8 : h * 8 + 8] @ values[h] for h in (0, 2))
    assert torch.allclose(after.bias, before.bias + constant)
    assert after.weight.shape == (32, 16)
    assert model.config.deadhead["filled_output_biases"] == {"encoder": [1]}


def test_half_precision_is_rounded_once():
    whole = build("llama")
    means = means_of(whole)
    model, exact = (copy.deepcopy(whole).bfloat16() for _ in range(2))
    for either in (model, exact.double()):
        prune(either, ["decoder.0.0", "decoder.0.2"], fill=means)
    bias, expected = (m.model.layers[0].self_attn.o_proj.bias for m in (model, exact))
    assert bias.dtype == torch.bfloat16
    assert torch.equal(bias, expected.bfloat16())


def test_an_added_bias_trains_and_a_frozen_model_stays_frozen():
    model, frozen = build("llama"), build("llama").requires_grad_(False)
    for either in (frozen, model):
        prune(either, ["decoder.0.0", "decoder.0.1"], fill=means_of(build("llama")))
    assert not any(p.requires_grad for p in frozen.parameters())
    model(**batch_of(model)).logits.square().mean().backward()
    first, second = (layer.self_attn.o_proj for layer in model.model.layers)
    assert first.bias.grad.abs().max() > 1e-6
    assert second.bias is None


def test_a_bias_that_the_config_says_is_absent_trains_once_it_is_filled(tmp_path):
    model = build_class(transformers.MarianMTModel, pad_token_id=0, projection_bias=False)
    for name, parameter in model.named_parameters():
        if "attn" in name and name.endswith("bias"):
            parameter.data.zero_()
            parameter.requires_grad_(False)
    prune(model, ["encoder.0.1"], fill=means_of(model))
    save(model, tmp_path)
    again = load(tmp_path)
    filled = "model.encoder.layers.0.self_attn.out_proj.bias"
    for either in (model, again):
        trains = {n for n, p in either.named_parameters() if "attn.out_proj.bias" in n}
        trains = {n for n in trains if either.get_parameter(n).requires_grad}
        assert trains == {filled}
    assert torch.equal(again.get_parameter(filled), model.get_parameter(filled))


def test_a_copy_of_xlnet_has_a_bias_of_its_own():
    model = build("xlnet")
    prune(model, ["encoder.0.0"], fill=means_of(model))
    expected, twin = answers(model), copy.deepcopy(model)
    with refused(model, UnsupportedModel, "outside of the projection"):
        prune(model, discover(model).of("encoder")[0].heads, drop_output_bias=True)
    model.transformer.layer[0].rel_attn.o_bias.data.zero_()
    assert apart(expected, answers(twin)) == 0
    assert apart(expected, answers(model)) > 1e-3
    twin(**batch_of(twin)).logits.sum().backward()
    assert twin.transformer.layer[0].rel_attn.o_bias.grad.abs().max() > 0


REFUSED: list[tuple[Any, str]] = [
    (
        lambda model: means_of(prune(copy.deepcopy(model), ["encoder.0.3"])),
        "encoder layer 0: expected the means of its heads, got none of 3",
    ),
    (lambda model: means_of(build("gpt2")), "means of another"),
    (lambda model: "mean", "expects the means of heads, got 'mean'"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[text for _, text in REFUSED])
def test_a_wrong_fill_is_refused_and_changes_nothing(make, message):
    model = build("bert")
    fill = make(model)
    with refused(model, HeadError, message):
        prune(model, ["encoder.0.3"], fill=fill)


def test_a_fill_and_a_dropped_bias_exclude_each_other():
    model = build("bert")
    means = means_of(model)
    with refused(model, HeadError, "`fill` or `drop_output_bias`, got both"):
        prune(model, ["encoder.0.3"], fill=means, drop_output_bias=True)


def test_a_shared_output_bias_is_refused():
    model = build("bert")
    layers = model.bert.encoder.layer
    layers[0].attention.output.dense.bias = layers[1].attention.output.dense.bias
    means = means_of(model)
    with refused(model, UnsupportedModel, "another module uses too"):
        prune(model, ["encoder.0.3"], fill=means)
    prune(model, ["encoder.0.3"])  # which leaves the bias alone


@pytest.mark.parametrize(
    ("name", "switch"), [("BertForSequenceClassification", None), ("LlamaForCausalLM", True)]
)
def test_the_padded_form_loads_everywhere(name, switch, tmp_path):
    cls = getattr(transformers, name)
    model = build_class(cls, pad_token_id=0)
    prune(model, uneven(model), fill=means_of(model))
    expected = answers(model)
    save(model, tmp_path, form="padded")
    padded = cls.from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert apart(expected, answers(padded)) < 1e-9
    assert getattr(padded.config, "attention_bias", None) is switch
    assert getattr(model.config, "attention_bias", None) is (False if switch else None)
    again = load(tmp_path).eval()
    assert apart(expected, answers(again)) < 1e-9
    assert discover(again) == discover(model)
    save(again, tmp_path / "compact")
    assert apart(expected, answers(load(tmp_path / "compact").eval())) < 1e-9


def test_the_padded_form_is_refused_if_the_architecture_has_no_such_bias(tmp_path):
    model = build("t5")
    prune(model, ["encoder.0.0"], fill=means_of(model))
    with pytest.raises(UnsupportedModel, match="padded form expects an architecture whose output"):
        save(model, tmp_path / "out", form="padded")
    assert not (tmp_path / "out").exists()


def test_damaged_records_of_fills(tmp_path):
    model = build("llama")
    prune(model, ["decoder.1.0", "decoder.1.1"], fill=means_of(model))
    save(model, tmp_path)
    for listed, message in (([1], "list of filled biases"), ({}, r"o_proj\.bias has no place")):
        edit_record(tmp_path, filled_output_biases=listed)
        with pytest.raises(FolderError, match=message):
            load(tmp_path)
