"""Layers that were cut keep the numbers and places of their heads."""

import pytest
import torch
from transformers import BigBirdConfig, BigBirdModel

from architectures.tiny import tiny
from deadhead.heads import discover, load, prune, save


def big_bird():
    torch.manual_seed(0)
    config = BigBirdConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        vocab_size=99, block_size=4, num_random_blocks=1, max_position_embeddings=64,
        attention_type="block_sparse",
    )  # fmt: skip
    return BigBirdModel(config).eval()


@torch.no_grad()
def test_big_bird_keeps_its_numbers_when_it_turns_to_full_attention(tmp_path):
    model = big_bird()
    prune(model, ["encoder.0.1"])
    ids = torch.randint(3, 90, (2, 7))
    text = model(
        ids
    ).last_hidden_state  # so short an input makes it change its attention layers for good
    assert [len(a.kept) for a in discover(model).attentions] == [3, 4]
    save(model, tmp_path / "m")
    assert torch.equal(load(tmp_path / "m")(ids).last_hidden_state, text)
    prune(model, ["encoder.0.2"])
    assert discover(model)["encoder", 0].kept == (0, 3)


@torch.no_grad()
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_attentions_keep_their_place_beside_an_emptied_layer(family):
    model = tiny(family)
    model.set_attn_implementation("eager")
    prune(model, {0: range(4)})
    ids = torch.randint(3, 90, (2, 6))
    result = model(ids, output_attentions=True).attentions
    assert [a.shape[1] for a in result] == [0, 4]
