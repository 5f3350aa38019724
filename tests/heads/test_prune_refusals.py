"""Everything `prune` refuses: one clear error with the hint, and the model left as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

import deadhead
from architectures.tiny import tiny
from deadhead.errors import DeadheadError, GroupError, HeadError, UnsupportedModel
from deadhead.heads import discover, gated, prune, save
from deadhead.layout import Head
from deadhead.ranking import Ranking
from tiny_models import answers, apart, build, hooks, uneven


@contextmanager
def refused(model, kind: type[DeadheadError], text: str) -> Iterator[None]:
    """The error has its words and its hint; weights, hooks, config and answers are those of before."""
    real = not any(p.is_meta or not p.is_floating_point() for p in model.parameters())
    state, hooks_before, config = dict(model.state_dict()), hooks(model), model.config.to_dict()
    before = answers(model) if real else []
    kept = {k: v.clone() for k, v in state.items()}
    with pytest.raises(kind) as error:
        yield
    assert text in error.value.message, error.value.message
    assert error.value.hint
    after = dict(model.state_dict())
    assert after.keys() == kept.keys()
    assert all(v.is_meta or torch.equal(v, kept[k]) for k, v in after.items())
    assert hooks(model) == hooks_before
    assert model.config.to_dict() == config
    if real:
        assert apart(before, answers(model)) == 0


WRONG: list[tuple[Any, str]] = [
    (["encoder.2.0"], "expected a layer of encoder, got 2"),
    (["encoder.0.4"], "expected one of the 4 heads of its layer, got 4"),
    ([Head("encoder", -1, 0)], "expected a layer of encoder, got -1"),
    ([Head("encoder", 0, -1)], "expected one of the 4 heads of its layer, got -1"),
    (["decoder.0.0"], "expected a block of the model, got 'decoder'"),
    (["encoder.0.1", "encoder.0.1"], "expected each head once"),
    (["encoder.0.1", Head("encoder", 0, 1)], "expected each head once"),
    (["third head"], "expected a head, got 'third head'"),
    ([7], "expected a head, got 7"),
    ({2: [0]}, "expected a layer of encoder, got 2"),
    ({0: [0, 0]}, "expected each head once"),
    ({0: [9]}, "expected one of the 4 heads of its layer, got 9"),
]


@pytest.mark.parametrize(("heads", "text"), WRONG, ids=[text for _, text in WRONG])
def test_heads_that_are_not_there(heads, text):
    model = build("bert")
    with refused(model, HeadError, text):
        prune(model, heads)


def test_a_head_already_gone():
    model = prune(build("bert"), ["encoder.0.1"])
    with refused(model, HeadError, "removed before"):
        prune(model, ["encoder.0.1"])
    prune(model, ["encoder.0.2"])  # its neighbour kept its number
    assert discover(model)["encoder", 0].kept == (0, 3)


def test_a_dict_does_not_name_a_block():
    model = build("marian")
    with refused(model, HeadError, "expected heads with a block (encoder, decoder, cross)"):
        prune(model, {0: [1]})


def test_every_head_of_every_layer():
    model = build("bert")
    with refused(model, HeadError, "every head of every layer"):
        prune(model, list(discover(model)))
    prune(model, list(discover(model))[1:])
    with refused(model, HeadError, "every head of every layer"):
        prune(model, list(discover(model)))
    assert len(discover(model)) == 1


def test_a_key_value_group_is_not_split():
    model = build("llama", num_key_value_heads=2)
    with refused(model, GroupError, "heads 0-1 read one key/value head"):
        prune(model, ["decoder.0.2", "decoder.0.3", "decoder.1.0"])
    whole = build("llama", num_key_value_heads=4)
    prune(whole, ["decoder.1.0"])  # without groups the same head may go
    assert len(discover(whole)) == 7


def test_a_quantised_model():
    model = build("bert")
    dense = model.bert.encoder.layer[1].attention.self.query
    dense.weight = nn.Parameter(
        torch.zeros(dense.weight.shape, dtype=torch.int8), requires_grad=False
    )
    with refused(model, UnsupportedModel, "expected plain weights, got torch.int8"):
        prune(model, ["encoder.0.1"])


def test_a_model_quantised_beyond_recognition():
    """Some quantisers replace every linear layer; the message is still about that, not about the architecture."""
    model = build("bert")
    model.hf_quantizer = object()
    for layer in model.bert.encoder.layer:
        layer.attention.self.query = nn.Identity()
    with pytest.raises(UnsupportedModel, match="a quantised model"):
        prune(model, ["encoder.0.1"])


def test_a_model_on_the_meta_device():
    model = build("bert").to("meta")
    assert len(discover(model)) == 8  # looking is fine
    with refused(model, UnsupportedModel, "meta device"):
        prune(model, ["encoder.0.1"])


class Adapted(nn.Module):
    """What an adapter of low rank looks like: the old layer inside, two small matrices beside it."""

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.base_layer = layer
        self.lora_A, self.lora_B = (
            nn.Linear(32, 2, bias=False).double(),
            nn.Linear(2, 32, bias=False).double(),
        )

    @property
    def weight(self) -> torch.Tensor:
        return self.base_layer.weight

    @property
    def bias(self) -> torch.Tensor:
        return self.base_layer.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base_layer(x) + self.lora_B(self.lora_A(x))


def test_a_model_with_adapters_is_gated_but_not_cut(tmp_path):
    model = build("bert")
    for layer in model.bert.encoder.layer:
        layer.attention.self.query = Adapted(layer.attention.self.query)
        layer.attention.output.dense = Adapted(layer.attention.output.dense)
    whole = answers(model)
    with gated(model, closed=["encoder.0.1"]):
        assert apart(whole, answers(model)) > 1e-2
    with refused(model, UnsupportedModel, "expected a model without adapters"):
        prune(model, ["encoder.0.1"])
    with refused(model, UnsupportedModel, "expected a model without adapters"):
        save(model, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("how", ["one parameter", "one module"])
def test_projections_tied_to_another_layer(how):
    model = build("bert")
    first, second = (layer.attention.self for layer in model.bert.encoder.layer)
    if how == "one module":
        second.key = first.key
    else:
        second.key.weight = first.key.weight
    for layer in (0, 1):
        with refused(model, UnsupportedModel, "expected a projection of its own"):
            prune(model, [Head("encoder", layer, 1)])


def test_an_untied_layer_of_a_tied_model_may_still_be_cut():
    model = build("bert", num_hidden_layers=3)
    layers = [layer.attention.self for layer in model.bert.encoder.layer]
    layers[1].key = layers[0].key
    with gated(model, closed=["encoder.2.0"]):
        masked = answers(model)
    prune(model, ["encoder.2.0"])
    assert apart(masked, answers(model)) < 1e-9


def test_albert_loses_a_head_from_all_its_layers():
    model = build("albert", num_hidden_layers=4)
    whole = answers(model)
    with gated(model, closed=["encoder.0.2"]):
        masked = answers(model)
    prune(model, ["encoder.0.2"])
    assert apart(masked, answers(model)) < 1e-9
    assert apart(whole, masked) > 1e-2
    with refused(model, HeadError, "expected a layer of encoder, got 1"):
        prune(model, ["encoder.1.0"])


def test_exactly_the_listed_heads_are_removed():
    for family in ("bert", "llama", "marian"):
        model = build(family)
        removed, before = uneven(model), len(discover(model))
        assert len(discover(prune(model, removed))) == before - len(removed)


def test_the_error_about_a_split_group_names_a_call_that_works():
    model = build("llama")
    layout = discover(model)
    ranking = Ranking(
        scores={head: float(head.index % 2) + 0.1 * head.layer for head in layout},
        layout=layout,
        method="gradient",
    )
    with pytest.raises(GroupError) as problem:
        deadhead.prune(model, ranking.lowest(1))
    call = re.search(r"prune\(model, .*ranking\.scores\)\)", str(problem.value.hint))
    assert call is not None
    known = {
        "deadhead": deadhead,
        "prune": deadhead.prune,
        "discover": discover,
        "model": model,
        "ranking": ranking,
        "K": 2,
    }
    eval(call[0], known)
    assert len(discover(model)) == 6


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
def test_only_heads_are_heads(heads):
    model = tiny("bert")
    with pytest.raises(HeadError):
        prune(model, heads)
    assert len(discover(model)) == 8


def test_whole_numbers_of_torch_and_numpy_are_numbers():
    import numpy as np

    model = prune(tiny("bert"), {np.int64(0): torch.tensor([1, 2])})
    assert discover(model)["encoder", 0].kept == (0, 3)


def test_no_pruning_under_gates():
    model = tiny("bert")
    with (
        gated(model, closed=["encoder.0.0"]),
        pytest.raises(UnsupportedModel, match="expected a model without gates"),
    ):
        prune(model, ["encoder.0.1"])
    assert len(discover(prune(model, ["encoder.0.1"]))) == 7
