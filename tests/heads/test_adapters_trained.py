"""LoRA adapters of peft on a pruned model: they train, are saved and loaded beside it, and are merged."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model

from deadhead.heads import discover, head_means, load, prune, save
from tiny_models import answers, apart, batch_of, build, limit

# peft suspects a lost shard in an adapter of a layer without heads
pytestmark = pytest.mark.filterwarnings("ignore:.*invalid shape", "ignore:fan_in_fan_out")

PROJECTIONS = {
    "bert": ["query", "key", "value", "dense"],
    "gpt2": ["c_attn", "c_proj", "c_fc"],
    "llama": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    "t5": ["q", "k", "v", "o", "wi", "wo"],
}


def pruned(family: str):
    """A model that lost heads and neurons unevenly, a layer without heads, and means in its biases."""
    model = build(family, **({"num_hidden_layers": 3} if family == "llama" else {}))
    layout = discover(model, neurons=True)
    block = layout.blocks[0]
    heads = [*layout.of(block)[0].heads, *layout.of(block)[-1].groups[0]]
    first, *_, last = [f for f in layout.feed_forwards if f.block == block]
    neurons = {(block, first.layer): first.kept[:3], (block, last.layer): last.kept[-5:]}
    means = head_means(model, [batch_of(model)], neurons=True)
    return prune(model, heads, neurons=neurons, fill=means)


def with_adapters(model, family: str):
    torch.manual_seed(0)
    config = LoraConfig(r=2, lora_alpha=8, target_modules=PROJECTIONS[family])
    return get_peft_model(model, config)


def train(model, batch: dict[str, Any]) -> list[float]:
    """The loss against random targets, of each step."""
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=0.02)
    targets = None
    losses = []
    for _ in range(6):
        output = model(**batch)[0]
        if targets is None:
            targets = torch.randn(output.shape, generator=torch.Generator().manual_seed(1))
        loss = (output - targets).pow(2).mean()
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return losses


@pytest.mark.parametrize("family", PROJECTIONS)
def test_adapters_train_and_come_back_with_the_pruned_model(family, tmp_path):
    model = pruned(family)
    batch, near = batch_of(model), limit(model)
    batch.pop("labels", None)
    save(model, tmp_path / "model")
    before, weights = answers(model, batch), copy.deepcopy(model.state_dict())
    adapted = with_adapters(model, family)
    start = {n: p.detach().clone() for n, p in adapted.named_parameters() if p.requires_grad}
    losses = train(adapted, batch)
    assert losses[-1] < 0.97 * losses[0]
    now = dict(adapted.named_parameters())
    assert sum(not torch.equal(now[name], old) for name, old in start.items()) > len(start) / 2
    trained = answers(adapted, batch)
    assert apart(trained, before) > 1e-3
    adapted.save_pretrained(tmp_path / "adapter")
    assert [file.suffix for file in (tmp_path / "adapter").glob("adapter_model*")] == [
        ".safetensors"
    ]
    # the saved model was not touched, and both together give what was trained
    again = load(tmp_path / "model", dtype="float64").eval()
    assert apart(answers(again, batch), before) < near
    again = PeftModel.from_pretrained(again, tmp_path / "adapter").eval()
    assert apart(answers(again, batch), trained) < near
    # merged: the same answers, saved and loaded too
    merged = again.merge_and_unload()
    assert apart(answers(merged, batch), trained) < near
    merged = load(save(merged, tmp_path / "merged"), dtype="float64").eval()
    assert apart(answers(merged, batch), trained) < near
    assert discover(merged).removed == discover(model).removed
    # without its adapters the model is as it was
    with adapted.disable_adapter():
        assert apart(answers(adapted, batch), before) < near
    plain = adapted.unload().state_dict()
    assert plain.keys() == weights.keys()
    assert all(torch.equal(plain[name], value) for name, value in weights.items())


@pytest.mark.parametrize("family", PROJECTIONS)
def test_an_adapter_of_the_whole_model_does_not_fit_a_pruned_one(family, tmp_path):
    whole = build(family, **({"num_hidden_layers": 3} if family == "llama" else {}))
    with_adapters(copy.deepcopy(whole), family).save_pretrained(tmp_path / "adapter")
    PeftModel.from_pretrained(whole, tmp_path / "adapter")  # it fits what it was trained on
    model = pruned(family)
    with pytest.raises(RuntimeError, match="size mismatch"):
        PeftModel.from_pretrained(model, tmp_path / "adapter")
