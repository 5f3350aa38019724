"""Cut out is closed: for families of every kind, uneven, whole layers, twice in a row, in
generation.
"""

import contextlib
import copy
import pickle
import warnings
from typing import Any

import pytest
import torch
from identity import prune_as_masked
from transformers import BertLMHeadModel

from deadhead.files.hub import quiet
from deadhead.heads import discover, gated, load_pruned, prune
from deadhead.layout import Head
from deadhead.verify.inputs import prompt_for
from slow import slow_but
from tiny_models import answers, apart, batch_of, build, build_class, hooks, limit, uneven

KINDS: dict[str, dict[str, Any]] = {
    "bert": {},
    "albert": {},
    "gpt2": {},
    "gpt_neox": {},
    "falcon": {"new_decoder_architecture": False, "multi_query": False},
    "falcon multi-query": {
        "new_decoder_architecture": False,
        "multi_query": True,
        "num_kv_heads": 1,
    },
    "falcon grouped": {"new_decoder_architecture": True, "num_kv_heads": 2},
    "llama": {"num_key_value_heads": 2},
    "llama multi-query": {"num_key_value_heads": 1},
    "t5": {},
    "umt5": {},
    "deberta": {},
    "deberta-v2": {},
    "codegen": {},
    "bloom": {},
    "marian": {},
    "xlnet": {},
    "olmo2": {"num_key_value_heads": 2},
    "longformer": {},
    "led": {},
    "gpt_bigcode": {"multi_query": True},
    "gpt_bigcode many": {"multi_query": False},
    "gpt_oss": {},
    "fsmt": {},
    "modernbert": {},
    "phi3": {"num_key_value_heads": 2},
    "prophetnet": {},
    "whisper": {},
    "clip": {},
}
SPEAKERS = [
    "gpt2",
    "llama",
    "gpt_neox",
    "bloom",
    "codegen",
    "falcon grouped",
    "gpt_bigcode",
    "marian",
    "t5",
    "fsmt",
    "led",
    "whisper",
    "olmo2",
]
# with these, `make test` tries every form of attention; with the others only uneven cuts
FAST = "albert bert codegen deberta gpt2 llama marian t5 xlnet"


def built(kind, **more):
    model = build(kind.split()[0], **KINDS[kind], **more)
    if hasattr(model, "set_experts_implementation"):
        # the grouped products of experts are for small floats only
        model.set_experts_implementation("eager")
    return model


def closed(model, heads):
    with gated(model, closed=heads):
        return answers(model)


@pytest.mark.parametrize("kind", KINDS)
def test_masked_is_pruned_with_uneven_counts(kind):
    model = built(kind)
    prune_as_masked(model, uneven(model))


@pytest.mark.parametrize("kind", slow_but(FAST, KINDS))
def test_masked_is_pruned_with_layers_emptied_at_once_and_in_steps(kind):
    """Every layer of every block but the last is emptied; of a single layer, one group stays."""
    model = built(kind)
    layout, whole, again = discover(model), answers(model), copy.deepcopy(model)
    groups = [a.groups for block in layout.blocks for a in layout.of(block)[:-1]]
    groups = groups or [layout.attentions[0].groups[1:]]
    removed = [head for of in groups for group in of for head in group]
    masked = closed(model, removed)
    prune(model, removed)
    assert apart(masked, answers(model)) < limit(model)
    assert apart(whole, masked) > 1e-2
    first = [head for of in groups if len(of) > 1 for head in of[1]]
    prune(again, first)
    assert apart(masked, answers(again)) > 1e-3 or not first
    prune(again, [head for head in removed if head not in first])
    assert apart(masked, answers(again)) < limit(model)
    assert discover(again) == discover(model)
    shapes = [{k: v.shape for k, v in m.state_dict().items()} for m in (model, again)]
    assert shapes[0] == shapes[1]


def test_equally_many_of_each_group_may_go():
    model = build("llama", num_key_value_heads=2)
    removed = ["decoder.0.0", "decoder.0.3", "decoder.1.1", "decoder.1.2"]
    masked = closed(model, removed)
    prune(model, removed)
    assert apart(masked, answers(model)) < 1e-9
    assert model.get_submodule("model.layers.0.self_attn.k_proj").weight.shape == (16, 32)


def test_the_dict_of_transformers_4():
    first, other = build("bert"), build("bert")
    prune(first, {0: [1, 2], 1: [0]})
    prune(other, ["encoder.0.1", Head("encoder", 0, 2), "encoder.1.0"])
    assert apart(answers(first), answers(other)) == 0
    assert len(discover(first)) == 5


def test_an_emptied_layer_computes_no_queries_keys_or_values():
    model = prune(build("bert"), {0: [0, 1, 2, 3]})
    calls: list[int] = []
    for number, layer in enumerate(model.bert.encoder.layer):
        for name in ("query", "key", "value"):
            projection = getattr(layer.attention.self, name)
            projection.register_forward_hook(lambda *_, number=number: calls.append(number))
    answers(model)
    assert calls == [1, 1, 1]
    attention = model.bert.encoder.layer[0].attention
    # the output bias alone
    assert sum(p.numel() for n, p in attention.named_parameters() if "LayerNorm" not in n) == 32


def generated(model, **how):
    prompt = {
        k: v.to(model.dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v
        for k, v in (prompt_for(model) or {}).items()
    }
    with warnings.catch_warnings(action="ignore"), quiet():
        torch.manual_seed(0)
        return model.generate(**prompt, max_new_tokens=8, do_sample=False, **how)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("kind", slow_but(FAST, SPEAKERS))
def test_generation_with_cache(kind, beams):
    """Layer 0 of every block (so also of the cross attention) is emptied, the rest is thinned."""
    model = built(kind)
    layout, free = discover(model), generated(model, num_beams=beams)
    layers = [layout.of(block) for block in layout.blocks]
    removed = [head for of in layers for head in (*of[0].heads, *of[1].groups[0])]
    with gated(model, closed=removed):
        text = generated(model, num_beams=beams)
    prune(model, removed)
    assert torch.equal(text, generated(model, num_beams=beams, use_cache=True))
    assert torch.equal(text, generated(model, num_beams=beams, use_cache=False))
    assert not torch.equal(text, free)


@torch.no_grad()
@pytest.mark.parametrize("emptied", [0, 1])
def test_the_cache_of_a_bert_decoder_with_cross_attention(emptied):
    model = build_class(BertLMHeadModel, is_decoder=True, add_cross_attention=True)
    removed = [Head(block, emptied, i) for block in ("cross", "decoder") for i in range(4)]
    removed.append(Head("cross", 1 - emptied, 2))
    ids, draw = torch.arange(5, 15).view(2, 5), torch.Generator().manual_seed(0)
    source = torch.randn(2, 6, 32, dtype=torch.float64, generator=draw)

    def logits(tokens, **how):
        return model(tokens, encoder_hidden_states=source, **how).logits

    with gated(model, closed=removed):
        expected = logits(ids)
    prune(model, removed)
    assert (logits(ids) - expected).abs().max() < 1e-9
    past = model(ids[:, :3], encoder_hidden_states=source, use_cache=True).past_key_values
    later = logits(ids[:, 3:], past_key_values=past, use_cache=True)
    assert (later - expected[:, 3:]).abs().max() < 1e-9
    assert (logits(ids[:, 3:]) - expected[:, 3:]).abs().max() > 1e-2  # the past matters


@torch.no_grad()
def cached(model):
    """The logits of the last words with the first in the cache; one example is padded left."""
    ids, mask = torch.arange(5, 21).view(2, 8), torch.ones(2, 8, dtype=torch.long)
    mask[1, :2] = 0
    past = model(ids[:, :6], attention_mask=mask[:, :6], use_cache=True).past_key_values
    return model(ids[:, 6:], attention_mask=mask, past_key_values=past, use_cache=True).logits


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_an_emptied_first_layer_keeps_time_for_the_others(kind, monkeypatch):
    """Later steps ask the first layer how long the past is."""
    model, forgetful = built(kind), built(kind)
    removed = [f"decoder.0.{i}" for i in range(4)]
    with gated(model, closed=removed):
        expected = cached(model)
    prune(model, removed)
    assert (cached(model) - expected).abs().max() < limit(model)
    static = generated(model, cache_implementation="static", disable_compile=True)
    assert torch.equal(generated(model), static)
    silent = load_pruned.silent_forward
    monkeypatch.setattr(
        load_pruned,
        "silent_forward",
        lambda self, out, alone, hidden_states, *_, **__: silent(self, out, alone, hidden_states),
    )
    prune(forgetful, removed)
    with contextlib.suppress(RuntimeError):  # shapes that do not fit are a difference, too
        assert (cached(forgetful) - expected).abs().max() > 1e-2


@pytest.mark.parametrize("kind", ["bert", "gpt2", "t5", "deberta", "xlnet", "olmo2"])
def test_copies_pickles_and_state_dicts(kind):
    """Layer 0 emptied and the next one thinned: a copy, a pickle and a state dict are equal."""
    model, other = built(kind), built(kind, seed=5)
    layout = discover(model)
    removed = [*layout.attentions[0].heads, *layout.attentions[1].groups[0]]
    prune(model, removed)
    prune(other, removed)
    expected = answers(model)
    assert apart(expected, answers(other)) > 1e-2
    other.load_state_dict(model.state_dict())
    twin, thawed = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    for again in (other, twin, thawed):
        assert apart(expected, answers(again)) == 0
        assert discover(again) == discover(model)
    assert apart(expected, answers(model)) > 1e-3


def test_a_pruned_model_can_be_compiled():
    model = build("bert")
    compiled, batch = torch.compile(model, backend="aot_eager"), batch_of(model)
    answers(compiled, batch)  # compiled before it is cut
    prune(model, {0: range(4), 1: [2]})
    assert apart(answers(model), answers(compiled, batch)) < 1e-9


def test_a_config_may_be_shared():
    first = build("bert")
    other = type(first)(first.config).eval()
    config, before, untouched = first.config, first.config.to_dict(), hooks(other)
    expected = answers(other)
    prune(first, {0: [1]})
    assert other.config is config is not first.config
    assert config.to_dict() == before
    assert first.bert.encoder.layer[0].attention.self.config is first.config
    assert first.config.deadhead["removed"] == {"encoder": {"0": [1]}}
    assert first.config.num_attention_heads == 4
    assert apart(expected, answers(other)) == 0
    assert hooks(other) == untouched


def test_a_bias_table_that_happens_to_be_as_large_as_a_head_is_wide():
    """umT5: 4 buckets x 2 heads left = 8 numbers, the width of a head; it is still a table."""
    model = build("umt5", relative_attention_num_buckets=4)
    removed = ["encoder.0.0", "encoder.0.1", "encoder.0.3"]
    masked = closed(model, removed)
    prune(prune(model, removed[:2]), removed[2:])
    assert apart(masked, answers(model)) < 1e-9
    attention = model.encoder.block[0].layer[0].SelfAttention
    assert attention.relative_attention_bias.weight.shape == (4, 1)
