"""Single heads of models whose heads share key/value heads: these are copied, and nothing else
changes.
"""

from typing import Any

import pytest
import torch
from folders import config_of, edit_record
from identity import prune_as_masked

from deadhead.errors import FolderError, GroupError, UnknownName, UnsupportedModel
from deadhead.heads import discover, gated, head_means, load, prune, save
from deadhead.heads.discover import find_sites
from deadhead.heads.summary import cache_bytes
from deadhead.measures.weights import head_weights
from tiny_models import answers, apart, batch_of, build

EIGHT = {"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 4}
# Heads 0 to 3 read one key/value head, 4 to 7 the other. Layer 0 keeps 1 and 4 of them, layer 1
# keeps 2 and 4.
REMOVED = ["decoder.0.0", "decoder.0.1", "decoder.0.3", "decoder.1.1", "decoder.1.2"]
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", EIGHT),
    "qwen3, norms of each head": ("qwen3", EIGHT),
    "olmo2, norms of all heads": ("olmo2", EIGHT),
    "qwen2, biases": ("qwen2", EIGHT),
    "phi3, fused": ("phi3", EIGHT),
    "falcon, fused by groups": (
        "falcon",
        {"new_decoder_architecture": True, "num_attention_heads": 8, "num_kv_heads": 2},
    ),
    "gpt_bigcode, one key/value head": ("gpt_bigcode", {"multi_query": True, "n_head": 8}),
}


def grouped(kind="llama"):
    family, sizes = KINDS[kind]
    return build(family, **sizes)


def closed(model, heads, **how):
    with gated(model, closed=heads, **how):
        return answers(model)


@pytest.mark.parametrize("kind", KINDS)
def test_masked_is_pruned_is_reloaded(kind, tmp_path):
    model = grouped(kind)
    prune_as_masked(model, REMOVED, tmp_path, groups="expand")
    assert [str(head) for head in discover(model).removed] == REMOVED


@pytest.mark.parametrize("kind", ["llama", "phi3, fused"])
def test_generation_with_a_cache(kind):
    model = grouped(kind)
    prompt = {"input_ids": batch_of(model)["input_ids"][:1], "max_new_tokens": 8}
    how = {"do_sample": False, "use_cache": True, "pad_token_id": 0}
    with gated(model, closed=REMOVED):
        tokens = model.generate(**prompt, **how)
    assert not torch.equal(model.generate(**prompt, **how), tokens)
    assert torch.equal(prune(model, REMOVED, groups="expand").generate(**prompt, **how), tokens)


def test_the_groups_are_even_with_the_fewest_copies():
    model = prune(grouped(), REMOVED, groups="expand")
    first, second = find_sites(model)
    assert first.keys_of(first.kept) == (0, 1, 1, 1, 1)  # 1 and 4 heads: each has its own
    assert second.keys_of(second.kept) == (0, 1, 1)  # 2 and 4 heads: two share one
    assert second.groups == ((0, 3), (4, 5), (6, 7))
    attentions = [layer.self_attn for layer in model.model.layers]
    assert [a.num_key_value_groups for a in attentions] == [1, 2]
    assert [a.k_proj.out_features for a in attentions] == [5 * 4, 3 * 4]
    key, *copies = attentions[0].k_proj.weight.view(5, 4, -1)
    assert all(torch.equal(copied, copies[0]) for copied in copies)
    assert not torch.equal(key, copies[0])


def test_even_groups_need_no_copies():
    even = ["decoder.0.1", "decoder.0.6"]
    model, other = prune(grouped(), even, groups="expand"), prune(grouped(), even)
    assert discover(model) == discover(other)
    assert not any(site.key_heads for site in find_sites(model))
    assert "heads_per_key_value_head" not in model.config.deadhead


def test_the_mean_of_removed_heads_fills_their_place(tmp_path):
    model = grouped()
    means, zeros = head_means(model, [batch_of(model)]), closed(model, REMOVED)
    masked = prune_as_masked(model, REMOVED, tmp_path, ["compact"], groups="expand", fill=means)
    assert apart(masked, zeros) > 0.01


def test_trained_copies_are_followed_when_more_heads_go(tmp_path):
    model = prune(grouped(), REMOVED, groups="expand")
    with torch.no_grad():
        for site in find_sites(model):
            for role in "kv":
                weight = site.parts[role].module.weight
                weight += torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
    more = ["decoder.0.5", "decoder.1.4"]
    masked = closed(model, more)
    with pytest.raises(GroupError, match="heads 4-5 read one key/value head"):
        prune(model, more)
    assert apart(answers(model), masked) > 0.01
    prune(model, more, groups="expand")
    assert apart(answers(model), masked) < 1e-9
    first, second = find_sites(model)
    assert (first.keys_of(first.kept), second.keys_of(second.kept)) == (
        (0, 1, 1, 1),
        (0, 0, 1, 1, 1),
    )
    assert apart(answers(load(save(model, tmp_path))), masked) < 1e-9
    with pytest.raises(UnsupportedModel, match="equal copies of each key/value head"):
        save(model, tmp_path / "padded", form="padded")
    prune(model, discover(model).attentions[0].heads, groups="expand")  # a layer with copies goes
    assert len(discover(model)) == 5


def test_the_weights_of_heads_are_those_of_their_copies():
    model = grouped()
    before = head_weights(model)
    after = head_weights(prune(model, REMOVED, groups="expand"))
    assert {name.partition("/")[0] for name in after} == {str(head) for head in discover(model)}
    assert all(torch.equal(value, before[name]) for name, value in after.items())
    assert not torch.equal(after["decoder.0.2/k"], after["decoder.0.4/k"])


@pytest.mark.parametrize("kind", ["llama", "phi3, fused"])
def test_the_bytes_of_the_cache_are_counted(kind):
    def cached(model):
        tokens = torch.arange(3, 10)[None]
        layers = model(input_ids=tokens, use_cache=True).past_key_values.layers
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in layers) // 7

    model = grouped(kind)
    before = cached(model)
    assert cache_bytes(model) == before > 0
    prune(model, [*REMOVED, *(f"decoder.1.{i}" for i in (0, 3, 4, 5, 6, 7))], groups="expand")
    assert cache_bytes(model) == cached(model) != before or kind == "phi3, fused"
    assert cache_bytes(build("bert")) == 0


def test_a_refusal_names_both_ways_out():
    model = grouped()
    with pytest.raises(
        GroupError, match=r"heads 0-3 read one key/value head(.|\n)*--groups expand"
    ):
        prune(model, REMOVED)
    with pytest.raises(UnknownName, match="expant"):
        prune(model, REMOVED, groups="expant")


@pytest.mark.parametrize("share", [0, 3, "x", [1]])
def test_a_damaged_record_of_copies(share, tmp_path):
    save(prune(grouped(), REMOVED, groups="expand"), tmp_path)
    shares = config_of(tmp_path)["deadhead"]["heads_per_key_value_head"]
    assert shares == {"decoder": {"0": 1, "1": 2}}
    edit_record(tmp_path, heads_per_key_value_head={"decoder": {"0": 1, "1": share}})
    with pytest.raises(FolderError, match=r"do not fit|damaged"):
        load(tmp_path)
