"""Weight change against changes made by hand, in every way projections are kept."""

import copy

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2Model,
    LlamaConfig,
    LlamaModel,
    XLNetConfig,
    XLNetModel,
)

from deadhead import prune
from deadhead.errors import HeadError
from deadhead.measures import MeasureInputs, measure
from deadhead.measures.weights import change, head_weights

GIVEN = MeasureInputs(lambda split, most: [], lambda split, most: {})


@pytest.fixture
def bert():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=8,
    )
    return BertModel(config).eval()


@torch.no_grad()
def test_by_hand(bert):
    """Head 2 of layer 1 owns rows 4 and 5. One of 16 query entries moves by 3, all keys by -1."""
    began = head_weights(bert)
    attention = bert.encoder.layer[1].attention.self
    attention.query.weight[4, 7] += 3
    attention.key.weight[4:6] -= 1
    result = change(began, head_weights(bert))
    assert result["encoder.1.2"] == pytest.approx((3 / 16 + 1 + 0) / 3)
    assert sum(result.values()) == pytest.approx(result["encoder.1.2"])  # no other head moved
    attention.query.bias[5] += 2  # biases do not count
    assert change(began, head_weights(bert)) == result


@torch.no_grad()
def test_heads_keep_their_names_when_others_are_cut(bert):
    began = head_weights(bert)
    prune(bert, ["encoder.0.0", "encoder.0.2", *(f"encoder.1.{i}" for i in range(4))])
    result = change(began, head_weights(bert))
    assert result == {"encoder.0.1": 0.0, "encoder.0.3": 0.0}
    bert.encoder.layer[0].attention.self.value.weight[2:] += (
        0.5  # rows of the second head that is left, which is head 3
    )
    result = change(began, head_weights(bert))
    assert result == pytest.approx({"encoder.0.1": 0.0, "encoder.0.3": 0.5 / 3})


@torch.no_grad()
def test_fused_grouped_and_bare_projections():
    torch.manual_seed(0)
    fused = GPT2Model(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=4)).eval()
    began = head_weights(fused)
    fused.h[0].attn.c_attn.weight[:, 8 + 2 : 8 + 4] += 1  # columns of the keys of head 1
    assert change(began, head_weights(fused)) == pytest.approx(
        {**dict.fromkeys(heads(4), 0.0), "decoder.0.1": 1 / 3}
    )
    prune(fused, ["decoder.0.0"])
    assert change(began, head_weights(fused)) == pytest.approx(
        {"decoder.0.1": 1 / 3, "decoder.0.2": 0.0, "decoder.0.3": 0.0}
    )

    config = LlamaConfig(
        vocab_size=20,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    grouped = LlamaModel(config).eval()
    began = head_weights(grouped)
    grouped.layers[0].self_attn.k_proj.weight[2:] += (
        1  # the second key head, which heads 2 and 3 read
    )
    assert change(began, head_weights(grouped)) == pytest.approx(
        dict(zip(heads(4), [0, 0, 1 / 3, 1 / 3], strict=True))
    )

    bare = XLNetModel(XLNetConfig(vocab_size=20, d_model=8, n_layer=1, n_head=4, d_inner=8)).eval()
    began = head_weights(bare)
    bare.layer[0].rel_attn.v[:, 3] += 1
    result = change(began, head_weights(bare))
    assert list(result.values()) == pytest.approx([0, 0, 0, 1 / 3])
    prune(bare, [next(iter(result))])
    assert list(change(began, head_weights(bare)).values()) == pytest.approx([0, 0, 1 / 3])


def heads(count):
    return [f"decoder.0.{i}" for i in range(count)]


def test_as_a_measure(bert):
    assert set(measure("weights")(bert, GIVEN).values()) == {0.0}  # nothing was trained
    moved = copy.deepcopy(bert)
    with torch.no_grad():
        moved.encoder.layer[0].attention.self.value.weight += 1
    inputs = MeasureInputs(GIVEN.batches, GIVEN.texts, start=head_weights(bert))
    result = measure("weights")(moved, inputs)
    assert [result[f"encoder.{layer}.0"] for layer in (0, 1)] == pytest.approx([1 / 3, 0])


def test_what_cannot_be_compared_is_reported(bert):
    whole = head_weights(bert)
    with pytest.raises(HeadError, match=r"encoder\.1\.0/q"):
        change(
            {name: tensor for name, tensor in whole.items() if not name.startswith("encoder.1.0")},
            whole,
        )
    with pytest.raises(HeadError, match="other shapes"):
        change({name: tensor[:1] for name, tensor in whole.items()}, whole)
