"""Layers whose weights are the same parameters (Zamba): one set of heads, tied before and after."""

import copy
import importlib.util

import pytest
import torch
from torch import nn
from transformers import Zamba2Config, Zamba2ForCausalLM, ZambaConfig, ZambaForCausalLM

from architectures.tiny import randomise
from deadhead import discover, gated, head_means, load, prune, save, shrink
from deadhead.errors import UnsupportedModel
from deadhead.heads.discover import find_every_site
from deadhead.heads.summary import cache_bytes

SIZES = {
    "vocab_size": 60,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "mamba_d_state": 4,
    "mamba_expand": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
HEADS = ("decoder.1.0", "decoder.1.3")
NEURONS = {("decoder", 1): [2, 3, 11]}


def zamba(**changes):
    """Layer 1 and layer 3 have the same parameters."""
    blocks = ["mamba", "hybrid", "mamba", "hybrid"]
    sizes = {**SIZES, "n_mamba_heads": 2, "layers_block_type": blocks, **changes}
    return randomised(ZambaForCausalLM(ZambaConfig(num_hidden_layers=4, **sizes)))


def zamba2():
    """Layers 0 and 2 have the same parameters, and so do layers 1 and 3."""
    sizes = {**SIZES, "mamba_headdim": 8, "n_mamba_heads": 4, "num_mem_blocks": 2}
    config = Zamba2Config(layers_block_type=["hybrid"] * 4, num_hidden_layers=4, **sizes)
    return randomised(Zamba2ForCausalLM(config))


def randomised(model):
    randomise(model, 0)
    return model.double().eval()


def batch(seed=0):
    ids = torch.randint(3, 60, (3, 7), generator=torch.Generator().manual_seed(seed))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


@torch.no_grad()
def answer(model):
    return model(**batch()).logits


def tied_names(model):
    """The names of each parameter that has several."""
    names: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), set()).add(name)
    return {frozenset(group) for group in names.values() if len(group) > 1}


def numbers(model):
    return sum(p.numel() for p in model.parameters())


def places(layers):
    return [(layer.layer, layer.size, layer.shared_by) for layer in layers]


def test_tied_layers_are_one_layer():
    model = zamba()
    layout = discover(model, neurons=True)
    assert places(layout.attentions) == [(1, 4, 2)]
    assert places(layout.feed_forwards) == [(1, 24, 2)]
    assert places(discover(zamba2()).attentions) == [(0, 4, 2), (1, 4, 2)]
    untied = model.model.layers[3].shared_transf.feed_forward.up_proj
    untied.weight = nn.Parameter(untied.weight.detach().clone())
    layout = discover(model, neurons=True)
    assert places(layout.attentions) == [(1, 4, 2)]
    assert places(layout.feed_forwards) == [(1, 24, 1), (3, 24, 1)]
    apart = zamba(tie_word_embeddings=False)  # then transformers ties no layers either
    assert places(discover(apart).attentions) == [(1, 4, 1), (3, 4, 1)]


# Zamba has no config with biases, so that the padded form has no place for a fill
@pytest.mark.parametrize(("fill", "form"), [(0, "compact"), (1, "compact"), (0, "padded")])
def test_masked_is_pruned_is_reloaded(tmp_path, fill, form):
    model = zamba()
    before, ties, size = answer(model), tied_names(model), numbers(model)
    means = head_means(model, [batch()], neurons=True) if fill else None
    with gated(model, closed=HEADS, neurons=NEURONS, fill=means or "zero"):
        masked = answer(model)
    assert not torch.allclose(masked, before, atol=1e-3)
    prune(model, HEADS, neurons=NEURONS, fill=means)
    torch.testing.assert_close(answer(model), masked)
    # counted once: q, k, v and o of two heads, three matrices of three neurons, two new biases
    assert numbers(model) == size - 2 * 8 * (3 * 32 + 16) - 3 * 3 * 16 + fill * 2 * 16
    assert len(tied_names(model)) == len(ties) + 2 * fill
    model.tie_weights()
    torch.testing.assert_close(answer(copy.deepcopy(model)), masked)

    loaded = load(save(model, tmp_path / "small", form=form))
    torch.testing.assert_close(answer(loaded.eval()), masked)
    assert discover(loaded, neurons=True) == discover(model, neurons=True)
    assert tied_names(loaded) == tied_names(model)
    assert numbers(loaded) == numbers(model)
    loaded.tie_weights()
    torch.testing.assert_close(answer(loaded), masked)


def loaded_without_deadhead(folder):
    """The model as the loader in its folder loads it."""
    spec = importlib.util.spec_from_file_location("load_pruned_of_zamba", folder / "load_pruned.py")
    loader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loader)
    return loader.load(folder).eval()


def test_a_block_without_heads_generates_with_a_cache(tmp_path):
    model = zamba2()
    heads = [f"decoder.0.{n}" for n in range(4)] + ["decoder.1.2"]
    prompt = {"input_ids": batch()["input_ids"], "max_new_tokens": 5, "do_sample": False}
    whole, cache = answer(model), cache_bytes(model)
    with gated(model, closed=heads):
        masked, tokens = answer(model), model.generate(**prompt)
    assert not torch.allclose(masked, whole, atol=1e-3)
    prune(model, heads)
    torch.testing.assert_close(answer(model), masked)
    assert torch.equal(model.generate(**prompt), tokens)
    # for each token, a key and a value of width 8 in 8 bytes; in four layers of four heads
    assert cache == 4 * 4 * 2 * 8 * 8
    assert cache_bytes(model) == 2 * 2 * 8 + 2 * 3 * 2 * 8 * 8
    folder = save(model, tmp_path / "small")
    for loaded in (load(folder).eval(), loaded_without_deadhead(folder)):
        torch.testing.assert_close(answer(loaded), masked)
        assert torch.equal(loaded.generate(**prompt), tokens)
        assert tied_names(loaded) == tied_names(model)


@pytest.mark.parametrize("differs", ["weights", "code"])
def test_layers_that_are_not_wholly_the_same_are_refused(differs):
    model = zamba()
    attention = model.model.layers[3].shared_transf.self_attn
    if differs == "weights":
        attention.k_proj.weight = nn.Parameter(attention.k_proj.weight.detach().clone())
    else:
        attention.__class__ = type("Other", (type(attention),), {})
    before, layout = answer(model), discover(model)
    assert [a.layer for a in layout.attentions] == [1, 3]
    with pytest.raises(UnsupportedModel, match="got one that another module uses too"):
        prune(model, HEADS)
    assert torch.equal(answer(model), before)
    assert discover(model) == layout


def test_shrink_refits_the_tied_projection():
    model = zamba()
    shrink(model, [batch(seed) for seed in range(4)], heads=0.5, neurons=0.5, progress=False)
    sites = find_every_site(model)
    assert [len(site.kept) for site in sites] == [2, 12]
    assert all(len(site.uses) == 2 for site in sites)  # still tied
    assert torch.isfinite(answer(model)).all()
