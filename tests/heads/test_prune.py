"""Cut out is closed: for families of every kind, uneven, whole layers, twice in a row, in generation and in training."""

from __future__ import annotations

import contextlib
import copy
import pickle
import warnings
from typing import Any

import pytest
import torch

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

# with these, `make test` tries every form of attention; with the others only uneven cuts
FAST = "albert bert codegen deberta gpt2 llama marian t5 xlnet"


def built(kind: str, **more):
    model = build(kind.split()[0], **KINDS.get(kind, {}), **more)
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation(
            "eager"
        )  # the grouped products of experts are for small floats only
    return model


def closed(model, heads) -> list[torch.Tensor]:
    with gated(model, closed=heads):
        return answers(model)


@pytest.mark.parametrize("kind", KINDS)
def test_masked_is_pruned_with_uneven_counts(kind):
    model = built(kind)
    cut_heads, whole, size = (
        uneven(model),
        answers(model),
        sum(p.numel() for p in model.parameters()),
    )
    masked = closed(model, cut_heads)
    assert prune(model, cut_heads) is model
    assert apart(masked, answers(model)) < limit(model)
    assert apart(whole, masked) > 1e-2
    assert sum(p.numel() for p in model.parameters()) < size
    assert discover(model).removed == tuple(
        sorted(cut_heads, key=list(discover(built(kind))).index)
    )


@pytest.mark.parametrize("kind", slow_but(FAST, KINDS))
def test_masked_is_pruned_with_layers_emptied(kind):
    """Every layer of every block but the last is emptied; where there is one layer only, all but one group goes."""
    model = built(kind)
    layout, whole = discover(model), answers(model)
    cut_heads = [h for b in layout.blocks for a in layout.of(b)[:-1] for h in a.heads] or [
        h for g in layout.attentions[0].groups[1:] for h in g
    ]
    masked = closed(model, cut_heads)
    prune(model, cut_heads)
    assert apart(masked, answers(model)) < limit(model)
    assert apart(whole, masked) > 1e-2


@pytest.mark.parametrize("kind", slow_but(FAST, KINDS))
def test_pruned_twice_is_pruned_once(kind):
    model, other = built(kind), built(kind)
    layout = discover(model)
    firsts = [h for a in layout.attentions if len(a.groups) > 1 for h in a.groups[0]]
    rest = [
        h for a in layout.attentions[:1] for g in a.groups[1:3] for h in g
    ]  # numbered as the model was born
    prune(other, [*firsts, *rest])
    prune(model, firsts)
    halfway = answers(model)
    if rest:
        prune(model, rest)
    assert apart(answers(other), answers(model)) < limit(model)
    assert apart(halfway, answers(model)) > 1e-3
    assert {k: v.shape for k, v in other.state_dict().items()} == {
        k: v.shape for k, v in model.state_dict().items()
    }
    assert discover(model) == discover(other)


@pytest.mark.parametrize("kind", ["bert", "gpt2", "deberta", "t5", "codegen", "xlnet", "olmo2"])
def test_a_layer_thinned_first_and_emptied_later(kind):
    model = built(kind)
    layout = discover(model)
    first = layout.attentions[0]
    masked = closed(model, first.heads)
    prune(model, first.groups[1])
    prune(model, [h for h in first.heads if h not in first.groups[1]])
    assert apart(masked, answers(model)) < limit(model)
    assert discover(model).attentions[0].kept == ()


def test_equally_many_of_each_group_may_go():
    model = build("llama", num_key_value_heads=2)
    cut_heads = ["decoder.0.0", "decoder.0.3", "decoder.1.1", "decoder.1.2"]
    whole, masked = answers(model), closed(model, cut_heads)
    prune(model, cut_heads)
    assert apart(masked, answers(model)) < 1e-9
    assert apart(whole, masked) > 1e-2
    assert model.get_submodule("model.layers.0.self_attn.k_proj").weight.shape == (16, 32)


def test_the_dict_of_transformers_4():
    first, other = build("bert"), build("bert")
    prune(first, {0: [1, 2], 1: [0]})
    prune(other, ["encoder.0.1", Head("encoder", 0, 2), "encoder.1.0"])
    assert apart(answers(first), answers(other)) == 0
    assert len(discover(first)) == 5


def test_an_emptied_layer_computes_no_queries_keys_or_values():
    model = build("bert")
    prune(model, {0: [0, 1, 2, 3]})
    attention = model.bert.encoder.layer[0].attention
    calls: list[str] = []
    for name in ("query", "key", "value"):
        getattr(attention.self, name).register_forward_hook(
            lambda *_, name=name: calls.append(name)
        )
    model.bert.encoder.layer[1].attention.self.query.register_forward_hook(
        lambda *_: calls.append("next layer")
    )
    answers(model)
    assert calls == ["next layer"]
    assert (
        sum(p.numel() for n, p in attention.named_parameters() if "LayerNorm" not in n) == 32
    )  # the output bias alone


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


def generated(model, **how) -> torch.Tensor:
    prompt = {
        k: v.to(model.dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v
        for k, v in (prompt_for(model) or {}).items()
    }
    with warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        return model.generate(**prompt, max_new_tokens=8, do_sample=False, **how)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("kind", slow_but(FAST, SPEAKERS))
def test_generation_with_cache(kind, beams):
    """Layer 0 of every block (so also of the cross attention) is emptied, the rest is thinned."""
    model = built(kind)
    layout, free = discover(model), generated(model, num_beams=beams)
    cut_heads = [h for b in layout.blocks for h in layout.of(b)[0].heads] + [
        h for b in layout.blocks for h in layout.of(b)[1].groups[0]
    ]
    with gated(model, closed=cut_heads):
        text = generated(model, num_beams=beams)
    prune(model, cut_heads)
    assert torch.equal(text, generated(model, num_beams=beams, use_cache=True))
    assert torch.equal(text, generated(model, num_beams=beams, use_cache=False))
    assert not torch.equal(text, free)


@pytest.mark.parametrize("emptied", [0, 1])
def test_the_cache_of_a_bert_decoder_with_cross_attention(emptied):
    from transformers import BertLMHeadModel

    model = build_class(BertLMHeadModel, is_decoder=True, add_cross_attention=True)
    cut_heads = [
        *(Head("cross", emptied, i) for i in range(4)),
        *(Head("decoder", emptied, i) for i in range(4)),
        Head("cross", 1 - emptied, 2),
    ]
    ids, source = (
        torch.arange(5, 15).view(2, 5),
        torch.randn(2, 6, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
    )
    with torch.no_grad():
        with gated(model, closed=cut_heads):
            expected = model(ids, encoder_hidden_states=source).logits
        prune(model, cut_heads)
        assert (model(ids, encoder_hidden_states=source).logits - expected).abs().max() < 1e-9
        past = model(ids[:, :3], encoder_hidden_states=source, use_cache=True).past_key_values
        later = model(
            ids[:, 3:], encoder_hidden_states=source, past_key_values=past, use_cache=True
        ).logits
        assert (later - expected[:, 3:]).abs().max() < 1e-9
        assert (
            model(ids[:, 3:], encoder_hidden_states=source).logits - expected[:, 3:]
        ).abs().max() > 1e-2  # the past matters


@torch.no_grad()
def cached(model) -> torch.Tensor:
    """The logits of the last words, read with the first ones in the cache; the second example is padded on the left."""
    ids, mask = torch.arange(5, 21).view(2, 8), torch.ones(2, 8, dtype=torch.long)
    mask[1, :2] = 0
    past = model(ids[:, :6], attention_mask=mask[:, :6], use_cache=True).past_key_values
    return model(ids[:, 6:], attention_mask=mask, past_key_values=past, use_cache=True).logits


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_an_emptied_first_layer_keeps_time_for_the_others(kind, monkeypatch):
    """Later steps ask the first layer how long the past is."""
    model, forgetful = built(kind), built(kind)
    cut_heads = [f"decoder.0.{i}" for i in range(4)]
    with gated(model, closed=cut_heads):
        expected = cached(model)
    prune(model, cut_heads)
    assert (cached(model) - expected).abs().max() < limit(model)
    silent = load_pruned.silent_forward
    monkeypatch.setattr(
        load_pruned,
        "silent_forward",
        lambda self, out, alone, hidden_states, *_, **__: silent(self, out, alone, hidden_states),
    )
    prune(forgetful, cut_heads)
    with contextlib.suppress(RuntimeError):  # shapes that do not fit are a difference, too
        assert (cached(forgetful) - expected).abs().max() > 1e-2


def test_a_static_cache_works_with_an_emptied_layer():
    model = build("llama")
    prune(model, [f"decoder.0.{i}" for i in range(4)])
    assert torch.equal(
        generated(model), generated(model, cache_implementation="static", disable_compile=True)
    )


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "marian"])
def test_the_kernel_may_be_changed_after_pruning(kind, kernel):
    model = built(kind)
    layout = discover(model)
    cut_heads = [*layout.attentions[0].heads, *layout.attentions[1].groups[0]]
    masked = closed(model, cut_heads)
    prune(model, cut_heads)
    model.set_attn_implementation(kernel)
    assert (
        apart(masked, answers(model)) < 1e-5
    )  # the eager kernel of Llama computes its softmax in float32


@pytest.mark.parametrize("kind", ["bert", "gpt2", "t5", "deberta", "xlnet", "olmo2"])
def test_copies_pickles_and_state_dicts(kind):
    """Layer 0 emptied and the next one thinned: a copy, a pickle and a state dict say the same, and stand alone."""
    model = built(kind)
    layout = discover(model)
    cut_heads = [*layout.attentions[0].heads, *layout.attentions[1].groups[0]]
    other = built(kind, seed=5)
    prune(model, cut_heads)
    prune(other, cut_heads)
    expected = answers(model)
    assert apart(expected, answers(other)) > 1e-2
    other.load_state_dict(model.state_dict())
    twin, thawed = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    for again in (other, twin, thawed):
        assert apart(expected, answers(again)) == 0
        assert discover(again) == discover(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    assert apart(expected, answers(twin)) == 0
    assert apart(expected, answers(model)) > 1e-3


def test_a_pruned_model_can_be_compiled():
    model = build("bert")
    compiled, batch = torch.compile(model, backend="aot_eager"), batch_of(model)
    answers(compiled, batch)  # compiled before it is cut
    prune(model, ["encoder.0.0", "encoder.0.1", "encoder.0.2", "encoder.0.3", "encoder.1.2"])
    assert apart(answers(model), answers(compiled, batch)) < 1e-9


def test_a_config_may_be_shared():
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        vocab_size=99,
    )
    before = config.to_dict()
    first, other = BertModel(config).eval(), BertModel(config).eval()
    untouched, hooks_before = answers(other), hooks(other)
    prune(first, {0: [1]})
    assert config.to_dict() == before
    assert other.config is config
    assert first.config is not config
    assert first.encoder.layer[0].attention.self.config is first.config
    assert first.config.deadhead["removed"] == {"encoder": {"0": [1]}}
    assert first.config.num_attention_heads == 4
    assert apart(untouched, answers(other)) == 0
    assert hooks(other) == hooks_before
    assert len(discover(other)) == 8


def test_removing_nothing_changes_nothing():
    model = build("bert")
    config, hooks_before, whole = model.config, hooks(model), answers(model)
    assert prune(model, []) is model
    assert model.config is config
    assert hooks(model) == hooks_before
    assert apart(whole, answers(model)) == 0


def test_a_bias_table_that_happens_to_be_as_large_as_a_head_is_wide():
    """umT5: 4 buckets x 2 heads left = 8 numbers, the width of a head; it is still a table over heads."""
    model = build("umt5", relative_attention_num_buckets=4)
    cut_heads = ["encoder.0.0", "encoder.0.1", "encoder.0.3"]
    masked = closed(model, cut_heads)
    prune(model, cut_heads[:2])
    prune(model, cut_heads[2:])
    assert apart(masked, answers(model)) < 1e-9
    assert model.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight.shape == (
        4,
        1,
    )
