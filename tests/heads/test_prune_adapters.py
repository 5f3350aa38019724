"""LoRA adapters around the projections of a model, whole or pruned: heads keep their numbers, gates and cuts stay exact."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from peft import LoraConfig, get_peft_model

from deadhead.errors import UnsupportedModel
from deadhead.heads import discover, gated, load, prune, save
from tiny_models import answers, apart, batch_of, build, limit

FAMILIES = {
    "bert": ("query", "key", "value", "dense"),
    "t5": ("q", "k", "v", "o"),
    "llama": ("q_proj", "k_proj", "v_proj", "o_proj"),
}
CASES = [
    (family, names) for family, every in FAMILIES.items() for names in (every[:1], every[3:], every)
]
IDS = [f"{family} {' '.join(names)}" for family, names in CASES]


def small(family: str):
    return build(
        family, **({"num_hidden_layers": 3} if family == "llama" else {})
    )  # which has but two groups of heads a layer


def cut_heads(model) -> list[str]:
    """Uneven, with the first layer of each block emptied."""
    layout = discover(model)
    heads = [h for block in layout.blocks for h in layout.of(block)[0].heads]
    return [
        *map(str, heads),
        *(str(h) for block in layout.blocks for h in layout.of(block)[-1].groups[0]),
    ]


def some(model) -> list[str]:
    layout = discover(model)
    return [str(h) for block in layout.blocks for h in layout.of(block)[-1].groups[-1]]


def adapted(model, names: tuple[str, ...]):
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # torch warns of the empty matrices of a layer without heads
        wrapped = get_peft_model(
            model, LoraConfig(r=2, lora_alpha=8, target_modules=list(names), lora_dropout=0.0)
        )
    generator = torch.Generator().manual_seed(5)
    for name, parameter in wrapped.named_parameters():
        if "lora_" in name:  # B begins as zeros, which would hide everything
            parameter.data = torch.randn(parameter.shape, generator=generator).to(model.dtype) * 0.3
    return wrapped.eval()


def heads_of(model) -> list[tuple[object, ...]]:
    return [
        (a.block, a.layer, a.size, a.kept, a.width, a.group) for a in discover(model).attentions
    ]


def test_a_head_of_a_pruned_model_keeps_its_number():
    model = prune(build("bert"), ["encoder.0.0"])
    batch = batch_of(model)
    with gated(model, closed=["encoder.0.1"]):
        expected = answers(model, batch)
    wrapped = get_peft_model(
        model, LoraConfig(target_modules=["query"])
    ).eval()  # as it begins, an adapter changes nothing
    assert [str(h) for h in discover(wrapped).removed] == ["encoder.0.0"]
    with gated(wrapped, closed=["encoder.0.1"]):
        assert apart(answers(wrapped, batch), expected) < limit(model)


@pytest.mark.parametrize(("family", "names"), CASES, ids=IDS)
def test_adapters_on_a_pruned_model(family, names):
    model = small(family)
    prune(model, cut_heads(model))
    before, batch, unpruned, near = heads_of(model), batch_of(model), answers(model), limit(model)
    wrapped = adapted(model, names)
    assert heads_of(wrapped) == before
    merged = copy.deepcopy(wrapped).merge_and_unload()
    assert heads_of(merged) == before
    assert apart(answers(wrapped, batch), unpruned) > 1e-3
    assert apart(answers(wrapped, batch), answers(merged, batch)) < near
    with gated(wrapped, closed=some(wrapped)), gated(merged, closed=some(merged)):
        closed = answers(merged, batch)
        assert apart(answers(wrapped, batch), closed) < near
    assert apart(closed, answers(merged, batch)) > 1e-3
    with wrapped.disable_adapter():
        assert apart(answers(wrapped, batch), unpruned) < near
    assert apart(answers(wrapped.unload(), batch), unpruned) < near  # the adapters taken off again
    assert apart(answers(prune(merged, some(merged)), batch), closed) < near


@pytest.mark.parametrize("family", FAMILIES)
def test_adapters_and_then_pruning(family):
    model = small(family)
    batch, near = batch_of(model), limit(model)
    wrapped = adapted(model, FAMILIES[family])
    with gated(wrapped, closed=cut_heads(wrapped)):
        expected = answers(wrapped, batch)
    with pytest.raises(UnsupportedModel, match="expected a model without adapters") as problem:
        prune(wrapped, cut_heads(wrapped))
    assert "merge_and_unload()" in str(problem.value.hint)
    model = wrapped.merge_and_unload()
    assert apart(answers(prune(model, cut_heads(model)), batch), expected) < near


def test_a_merged_model_is_saved_and_loaded(tmp_path):
    model = build("t5")
    prune(model, cut_heads(model))
    merged = adapted(model, FAMILIES["t5"]).merge_and_unload()
    with pytest.raises(UnsupportedModel, match="expected a model without adapters"):
        save(adapted(copy.deepcopy(merged), ("q",)), tmp_path / "out")
    again = load(save(merged, tmp_path / "out")).eval()
    assert heads_of(again) == heads_of(merged)
    assert apart(answers(again), answers(merged)) < limit(merged)
