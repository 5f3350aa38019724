"""Cases that a second look found: each was wrong once."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertModel, BigBirdConfig, BigBirdModel, XLNetModel

from deadhead import Head, discover, gated, load, prune, save
from deadhead.errors import DeadheadError, FolderError, HeadError, UnsupportedModel
from deadhead.heads.verify.bench import _flops, bench, inputs
from deadhead.heads.verify.tiny import tiny


def big_bird() -> Any:
    torch.manual_seed(0)
    config = BigBirdConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=99, block_size=4,
        num_random_blocks=1, max_position_embeddings=64, attention_type="block_sparse",
    )  # fmt: skip
    return BigBirdModel(config).eval()


@torch.no_grad()
def test_big_bird_keeps_its_numbers_when_it_turns_to_full_attention(tmp_path: Path) -> None:
    model = big_bird()
    prune(model, ["encoder.0.1"])
    ids = torch.randint(3, 90, (2, 7))
    said = model(
        ids
    ).last_hidden_state  # so short an input makes it change its attention layers for good
    assert [len(a.kept) for a in discover(model).attentions] == [3, 4]
    save(model, tmp_path / "m")
    assert torch.equal(load(tmp_path / "m")(ids).last_hidden_state, said)
    prune(model, ["encoder.0.2"])
    assert discover(model)["encoder", 0].kept == (0, 3)


@pytest.mark.parametrize("value", [torch.rand(4), torch.tensor([0.0]), "0.5", None])
def test_a_head_has_one_number(value: Any) -> None:
    model = tiny("bert")
    with (
        pytest.raises(HeadError, match=r"the gate of encoder\.0\.1 expects one number"),
        gated(model, {Head("encoder", 0, 1): value}),
    ):
        pass


@torch.no_grad()
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_attentions_keep_their_place_beside_an_emptied_layer(family: str) -> None:
    model = tiny(family)
    model.set_attn_implementation("eager")
    prune(model, {0: range(4)})
    ids = torch.randint(3, 90, (2, 6))
    found = model(ids, output_attentions=True).attentions
    assert [a.shape[1] for a in found] == [0, 4]


@pytest.mark.parametrize(
    "heads",
    [
        {0: [1.7]},
        {0: "12"},
        {0: 3},
        {0: None},
        [("encoder", 0, 1.0)],
        [("encoder", 0, "1")],
        5,
        None,
        "encoder.0.1",
    ],
)
def test_only_heads_are_heads(heads: Any) -> None:
    model = tiny("bert")
    with pytest.raises(HeadError):
        prune(model, heads)
    assert len(discover(model)) == 8


def test_whole_numbers_of_torch_and_numpy_are_numbers() -> None:
    import numpy as np

    model = prune(tiny("bert"), {np.int64(0): torch.tensor([1, 2])})  # type: ignore[dict-item]
    assert discover(model)["encoder", 0].kept == (0, 3)


def test_no_pruning_under_gates() -> None:
    model = tiny("bert")
    with (
        gated(model, closed=["encoder.0.0"]),
        pytest.raises(UnsupportedModel, match="expected a model without gates"),
    ):
        prune(model, ["encoder.0.1"])
    assert len(discover(prune(model, ["encoder.0.1"]))) == 7


def test_a_wrapped_model_remembers(tmp_path: Path) -> None:
    model = tiny("bert")
    prune(torch.nn.DataParallel(model), ["encoder.0.1"])
    model.save_pretrained(tmp_path)
    assert len(discover(load(tmp_path))) == 7


@torch.no_grad()
def test_xlnet_comes_back_in_half_precision(tmp_path: Path) -> None:
    model = XLNetModel(tiny("xlnet").config).to(torch.bfloat16).eval()
    ids = torch.randint(3, 90, (2, 6))
    save(model, tmp_path)
    again = load(tmp_path).eval()
    assert {p.dtype for p in again.parameters()} == {torch.bfloat16}
    assert torch.equal(again(ids).last_hidden_state, model(ids).last_hidden_state)


def test_a_subfolder_is_read_whole(tmp_path: Path) -> None:
    save(prune(BertModel(tiny("bert").config), ["encoder.0.1"]), tmp_path / "inner")
    assert len(discover(load(tmp_path, subfolder="inner"))) == 7


@pytest.mark.parametrize(
    ("field", "value"),
    [("model_type", ["bert"]), ("num_hidden_layers", "two"), ("num_attention_heads", 0), ("architectures", {"a": 1}), ("architectures", ["BertConfig"]), ("deadhead", 5)],
)  # fmt: skip
def test_a_damaged_config_is_one_clear_error(tmp_path: Path, field: str, value: Any) -> None:
    import json

    save(copy.deepcopy(tiny("bert")), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {field: value}))
    with pytest.raises(FolderError):
        load(tmp_path)
    (tmp_path / "config.json").write_text("null")
    with pytest.raises(FolderError):
        load(tmp_path)


@pytest.mark.parametrize("device", ["foo", "meta"])
def test_bench_on_a_device_that_is_none(device: str) -> None:
    with pytest.raises(DeadheadError, match="no device"):
        bench("a", "b", device=device)


def test_arithmetic_of_the_attention_is_counted() -> None:
    """Counted by hand: two products of length x length x width in each layer, beside what the weights do."""
    config = BertConfig(
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        vocab_size=40,
    )
    model, length = BertModel(config, add_pooling_layer=False).eval(), 16
    weights = sum(
        p.numel()
        for name, p in model.named_parameters()
        if p.dim() == 2 and "embeddings" not in name
    )
    assert (
        _flops(model, inputs(model, 1, length))
        == 2 * length * weights + 3 * 2 * 2 * length * length * 24
    )
