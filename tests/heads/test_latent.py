"""Heads whose keys are expanded from a few numbers, or that read the keys of another layer."""

import pytest
import torch
from identity import prune_as_masked

from architectures.tiny import tiny
from deadhead.files.hub import quiet
from deadhead.heads import discover, prune, sites
from deadhead.heads.discover import find_sites
from deadhead.verify.inputs import batch_for, prompt_for
from deadhead.verify.proof import prove, sample
from tiny_models import build


def proof_of(model, *, whole, **options):
    with quiet():
        heads = sample(discover(model), whole)
        return prove(model, batch_for(model), heads, generate=prompt_for(model), **options)


@pytest.mark.parametrize("rank", [16, None])
def test_latent_attention_loses_the_rows_of_its_heads(rank, tmp_path):
    """rank: of the queries, which may be compressed too."""
    model = build("deepseek_v3", q_lora_rank=rank)
    core = model.model.layers[0].self_attn
    query = core.q_proj if rank is None else core.q_b_proj
    compressed = core.kv_a_proj_with_mqa.weight.clone()
    layout = discover(model)
    assert (len(layout), layout.attentions[0].width) == (8, 6)
    prune_as_masked(model, ["decoder.0.1", "decoder.0.2", *layout.attentions[1].heads], tmp_path)
    assert (query.weight.shape[0], core.kv_b_proj.weight.shape[0]) == (2 * 12, 2 * 14)
    assert core.o_proj.weight.shape[1] == 12
    assert torch.equal(core.kv_a_proj_with_mqa.weight, compressed)
    assert not core.o_proj._forward_pre_hooks  # the layer computes with fewer heads


@pytest.mark.parametrize("whole", [False, True])
def test_the_proof_holds_for_latent_attention(whole):
    proof = proof_of(build("deepseek_v3"), whole=whole, mean_fill=whole)
    assert proof.holds
    assert proof.generated is True


def test_the_proof_fails_if_the_rows_of_keys_and_values_are_mistaken(monkeypatch):
    rows = sites._projection_rows

    def shifted(site, role, *args):
        right = rows(site, role, *args)
        return {name: row.roll(1, 0) for name, row in right.items()} if role == "kv" else right

    monkeypatch.setattr(sites, "_projection_rows", shifted)
    assert not proof_of(build("deepseek_v3"), whole=False).holds


def test_a_layer_without_heads_still_chooses_tokens_for_later_layers():
    with quiet():
        model = tiny("glm_moe_dsa", indexer_types=["full", "shared"])
    first, second = (layer.self_attn for layer in model.model.layers)
    assert (first.indexer is None, second.indexer is None) == (False, True)
    assert model.config.index_topk < batch_for(model)["input_ids"].shape[1]
    assert proof_of(model, whole=True).holds


def test_keys_that_later_layers_read_stay_whole():
    model = build("gemma4_text")
    cores = [site.core for site in find_sites(model)]
    assert [hasattr(core, "k_proj") for core in cores] == [True, True, False, False]
    shapes = [core.k_proj.weight.shape for core in cores[:2]]
    assert proof_of(model, whole=True).holds

    prune(model, sample(discover(model), True))
    assert [core.k_proj.weight.shape for core in cores[:2]] == shapes
    assert cores[0].q_proj.weight.shape[0] == 0
    assert 0 < cores[2].q_proj.weight.shape[0] < cores[2].q_proj.weight.shape[1]


def test_values_that_a_part_reads_for_all_heads_stay_whole():
    model = build("doge")
    core = model.model.layers[0].self_attn
    shape = core.v_proj.weight.shape
    assert proof_of(model, whole=False).holds
    prune(model, ["decoder.0.0", "decoder.0.1"])
    assert (core.v_proj.weight.shape, core.q_proj.weight.shape[0]) == (shape, 16)


def test_neurons_that_are_judged_against_each_other_are_refused():
    layout = discover(build("gemma3n_text"), neurons=True)
    reasons = [why for why in layout.skipped.values() if "keeps the highest" in why]
    assert len(reasons) == 2
    assert len(layout.feed_forwards) == 2
