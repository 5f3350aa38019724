"""The Transformer is the one of the paper: its parts, heads, missing biases; cut, saved, loaded."""

import math

import pytest
import torch
from toy_pair import TINY

from deadhead import discover, gated, load, prune, save
from deadhead.errors import UnknownName
from deadhead.training import Settings, finetune
from deadhead.training.evaluation import predict
from deadhead.translation import SIZES, Size, build, size_of

PROJECTIONS = ("q_proj.bias", "k_proj.bias", "v_proj.bias", "out_proj.bias")


def projections(model):
    return {name: p for name, p in model.named_parameters() if name.endswith(PROJECTIONS)}


def test_the_sizes_are_those_of_the_paper(tokenizer):
    assert SIZES["transformer-base"] == Size(layers=6, heads=8, width=512, inner=2048, dropout=0.1)
    model = build("transformer-mini", tokenizer)
    assert {block: discover(model).layers(block) for block in discover(model).blocks} == {
        "encoder": 6,
        "decoder": 6,
        "cross": 6,
    }
    assert len(discover(model)) == 144
    with pytest.raises(UnknownName, match="transformer-base"):
        size_of("transformer-bas")


def test_parameters_are_those_of_a_transformer_without_projection_biases(tokenizer):
    size = Size(layers=3, heads=2, width=16, inner=40)
    model = build(size, tokenizer)
    d, f, n = size.width, size.inner, size.layers
    norm, feed = 2 * d, 2 * d * f + d + f
    expected = (
        len(tokenizer) * d
        + n * (4 * d * d + feed + 2 * norm)
        + n * (8 * d * d + feed + 3 * norm)
        + 2 * norm
    )
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == expected
    stored = projections(model)
    assert len(stored) == 9 * n + 3 * n
    assert all(not p.requires_grad and not p.any() for p in stored.values())


def test_norms_come_first_and_positions_are_sinusoids(model, toy):
    """One encoder layer by hand."""
    layer = model.model.encoder.layers[0]
    x = torch.randn(1, 5, TINY.width)
    attended, _ = layer.self_attn(layer.self_attn_layer_norm(x))
    middle = x + attended
    expected = middle + layer.fc2(torch.relu(layer.fc1(layer.final_layer_norm(middle))))
    assert torch.allclose(layer(x, None), expected, atol=1e-6)
    half = TINY.width // 2
    table = model.model.encoder.embed_positions.weights
    for position, i in ((1, 0), (7, 3), (40, half - 1)):
        angle = position / 10000 ** (i / (half - 1))
        assert table[position, i] == pytest.approx(math.sin(angle), abs=1e-5)
        assert table[position, half + i] == pytest.approx(math.cos(angle), abs=1e-5)


def test_weights_depend_on_the_seed_alone(tokenizer):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = build(TINY, tokenizer, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    two, other = build(TINY, tokenizer, seed=3), build(TINY, tokenizer, seed=4)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), two.parameters(), strict=True))
    assert not torch.equal(first.model.shared.weight, other.model.shared.weight)


def test_biases_stay_zero_through_training_cutting_and_loading(model, tokenizer, toy, tmp_path):
    prune(model, ["encoder.0.1", "cross.1.2"])
    save(model, tmp_path / "m", tokenizer)
    again = load(tmp_path / "m")
    assert len(projections(again)) == 24
    finetune(again, toy(20), Settings(tokens=300, rate=1e-2, epochs=1), progress=False)
    assert all(not p.requires_grad and not p.any() for p in projections(again).values())
    assert not torch.equal(
        again.model.encoder.layers[0].fc1.bias, model.model.encoder.layers[0].fc1.bias
    )  # others are trained


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize(
    "heads",
    [
        ["encoder.0.0", "encoder.1.3", "decoder.0.2", "cross.0.1"],
        [f"decoder.0.{i}" for i in range(4)],
    ],
)
def test_masked_pruned_and_reloaded_give_equal_translations(
    heads, beams, model, tokenizer, toy, tmp_path
):
    data = toy(24, seed=5)

    def printed(model):
        return predict(model, data, tokenizer=tokenizer, beams=beams).texts

    whole = printed(model)
    with gated(model, closed=heads):
        masked = printed(model)
    save(prune(model, heads), tmp_path / "m", tokenizer)
    assert masked == printed(model) == printed(load(tmp_path / "m"))
    assert masked != whole
    assert len(set(masked)) > 1
