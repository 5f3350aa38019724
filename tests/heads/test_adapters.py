"""LoRA adapters of peft on whole and pruned models: heads keep their numbers, cuts stay exact,
adapters train.
"""

import copy

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model

from deadhead.errors import UnsupportedModel
from deadhead.heads import discover, gated, head_means, load, prune, save
from tiny_models import answers, apart, batch_of, build, limit

# torch warns of the empty matrices of a layer without heads; peft suspects a lost shard there
pytestmark = pytest.mark.filterwarnings("ignore")

ATTENTION = {
    "bert": ("query", "key", "value", "dense"),
    "gpt2": ("c_attn", "c_proj"),
    "t5": ("q", "k", "v", "o"),
    "llama": ("q_proj", "k_proj", "v_proj", "o_proj"),
}
FEED_FORWARD = {
    "bert": (),  # `dense` is there, too
    "gpt2": ("c_fc",),
    "t5": ("wi", "wo"),
    "llama": ("gate_proj", "up_proj", "down_proj"),
}
CASES = [
    (family, names)
    for family in ("bert", "t5", "llama")
    for names in (ATTENTION[family][:1], ATTENTION[family][3:], ATTENTION[family])
]


def small(family):
    """A layer of Llama has but two groups of heads."""
    return build(family, **({"num_hidden_layers": 3} if family == "llama" else {}))


def cut_heads(model):
    """Uneven, with the first layer of each block emptied."""
    layout = discover(model)
    layers = [layout.of(block) for block in layout.blocks]
    return [str(h) for of in layers for h in (*of[0].heads, *of[-1].groups[0])]


def last_groups(model):
    layout = discover(model)
    return [str(h) for block in layout.blocks for h in layout.of(block)[-1].groups[-1]]


def fresh(model, names):
    """Adapters as they begin, which change nothing."""
    torch.manual_seed(0)
    return get_peft_model(model, LoraConfig(r=2, lora_alpha=8, target_modules=list(names)))


def adapted(model, names):
    wrapped = fresh(model, names)
    generator = torch.Generator().manual_seed(5)
    for name, parameter in wrapped.named_parameters():
        if "lora_" in name:  # B begins as zeros, which would hide everything
            parameter.data = torch.randn(parameter.shape, generator=generator).to(model.dtype) * 0.3
    return wrapped.eval()


def heads_of(model):
    return [
        (a.block, a.layer, a.size, a.kept, a.width, a.group) for a in discover(model).attentions
    ]


@pytest.mark.parametrize(("family", "names"), CASES, ids=str)
def test_adapters_on_a_pruned_model(family, names):
    model = small(family)
    prune(model, cut_heads(model))
    before, batch, unpruned, near = heads_of(model), batch_of(model), answers(model), limit(model)
    wrapped = adapted(model, names)
    merged = copy.deepcopy(wrapped).merge_and_unload()
    assert heads_of(wrapped) == heads_of(merged) == before
    assert apart(answers(wrapped, batch), unpruned) > 1e-3
    assert apart(answers(wrapped, batch), answers(merged, batch)) < near
    heads = last_groups(wrapped)
    with gated(wrapped, closed=heads), gated(merged, closed=heads):
        closed = answers(merged, batch)
        assert apart(answers(wrapped, batch), closed) < near
    assert apart(closed, answers(merged, batch)) > 1e-3
    with wrapped.disable_adapter():
        assert apart(answers(wrapped, batch), unpruned) < near
    assert apart(answers(wrapped.unload(), batch), unpruned) < near
    assert apart(answers(prune(merged, heads), batch), closed) < near


@pytest.mark.parametrize("family", ["bert", "t5", "llama"])
def test_adapters_are_gated_and_refused_until_they_are_merged(family, tmp_path):
    model = small(family)
    batch = batch_of(model)
    wrapped = adapted(model, ATTENTION[family])
    heads = cut_heads(wrapped)
    with gated(wrapped, closed=heads):
        expected = answers(wrapped, batch)
    assert apart(expected, answers(wrapped, batch)) > 1e-2
    for refused in (lambda: prune(wrapped, heads), lambda: save(wrapped, tmp_path / "out")):
        with pytest.raises(UnsupportedModel, match="expected a model without adapters") as problem:
            refused()
        assert "merge_and_unload()" in str(problem.value.hint)
    assert not (tmp_path / "out").exists()
    model = prune(wrapped.merge_and_unload(), heads)
    assert apart(answers(model, batch), expected) < limit(model)


def train(model, batch):
    """The first and the last loss of a few steps against random targets."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.02)
    targets, losses = None, []
    for _ in range(6):
        output = model.train()(**batch)[0]
        if targets is None:
            targets = torch.randn(output.shape, generator=torch.Generator().manual_seed(1))
        loss = (output - targets).pow(2).mean()
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return losses[0], losses[-1]


@pytest.mark.parametrize("family", ATTENTION)
def test_adapters_train_and_are_loaded_with_the_pruned_model(family, tmp_path):
    """The model lost heads and neurons unevenly, and has means in its biases."""
    model = small(family)
    layout = discover(model, neurons=True)
    first, *_, last = [f for f in layout.feed_forwards if f.block == layout.blocks[0]]
    neurons = {(f.block, f.layer): f.kept[:3] for f in (first, last)}
    means = head_means(model, [batch_of(model)], neurons=True)
    prune(model, cut_heads(model), neurons=neurons, fill=means)
    batch, near = batch_of(model), limit(model)
    save(model, tmp_path / "model")
    before, weights = answers(model, batch), copy.deepcopy(model.state_dict())
    adapted_model = fresh(model, (*ATTENTION[family], *FEED_FORWARD[family]))
    start, end = train(adapted_model, batch)
    assert end < 0.97 * start
    trained = answers(adapted_model, batch)
    assert apart(trained, before) > 1e-3
    adapted_model.save_pretrained(tmp_path / "adapter")
    # the saved model was not touched, and both together give what was trained
    again = load(tmp_path / "model", dtype="float64").eval()
    assert apart(answers(again, batch), before) < near
    again = PeftModel.from_pretrained(again, tmp_path / "adapter").eval()
    assert apart(answers(again, batch), trained) < near
    merged = load(save(again.merge_and_unload(), tmp_path / "merged"), dtype="float64").eval()
    assert apart(answers(merged, batch), trained) < near
    assert discover(merged).removed == discover(model).removed
    unloaded = adapted_model.unload().state_dict()
    assert unloaded.keys() == weights.keys()
    assert all(torch.equal(unloaded[name], value) for name, value in weights.items())
