"""Everything `prune` refuses: one clear error with the hint, and the model left as it was."""

import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import deadhead
from deadhead.errors import GroupError, HeadError, UnsupportedModel
from deadhead.heads import discover, gated, prune
from deadhead.layout import Head
from deadhead.ranking import Ranking
from tiny_models import answers, apart, build, refused

WRONG: list[tuple[Any, str]] = [
    (["encoder.2.0"], "expected a layer of encoder, got 2"),
    (None, "expected a list of heads, got None"),
    ({2: [0]}, "expected a layer of encoder, got 2"),
    ({0: [1.7]}, "expected a head, got Head("),
    ({0: "12"}, "expected a list of heads for layer 0, got '12'"),
]


@pytest.mark.parametrize(("heads", "text"), WRONG, ids=[text for _, text in WRONG])
def test_heads_that_are_not_there(heads, text):
    model = build("bert")
    with refused(model, HeadError, text):
        prune(model, heads)


def test_whole_numbers_of_torch_and_numpy_are_numbers():
    model = prune(build("bert"), {np.int64(0): torch.tensor([1, 2])})
    assert discover(model)["encoder", 0].kept == (0, 3)


def test_a_head_that_was_removed_before():
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
    prune(model, list(discover(model))[1:])
    with refused(model, HeadError, "every head of every layer"):
        prune(model, list(discover(model)))


def test_the_hint_about_a_split_group_names_a_call_that_works():
    model = build("llama")
    layout = discover(model)
    scores = {head: float(head.index % 2) + 0.1 * head.layer for head in layout}
    ranking = Ranking(scores=scores, layout=layout, method="gradient")
    with pytest.raises(GroupError) as problem:
        prune(model, ranking.lowest(1))
    call = re.search(r"prune\(model, .*ranking\.scores\)\)", str(problem.value.hint))
    assert call is not None
    known = {"prune": prune, "discover": discover, "model": model, "ranking": ranking, "K": 2}
    eval(call[0], {**known, "deadhead": deadhead})
    assert len(discover(model)) == 6


def test_quantised_models():
    model = build("bert")
    dense = model.bert.encoder.layer[1].attention.self.query
    packed = torch.zeros(dense.weight.shape, dtype=torch.int8)
    dense.weight = nn.Parameter(packed, requires_grad=False)
    with refused(model, UnsupportedModel, "expected plain weights, got torch.int8"):
        prune(model, ["encoder.0.1"])
    model.hf_quantizer = object()  # some quantisers replace every linear layer
    for layer in model.bert.encoder.layer:
        layer.attention.self.query = nn.Identity()
    with pytest.raises(UnsupportedModel, match="a quantised model"):
        prune(model, ["encoder.0.1"])


def test_a_model_on_the_meta_device():
    model = build("bert").to("meta")
    assert len(discover(model)) == 8  # looking is fine
    with refused(model, UnsupportedModel, "meta device"):
        prune(model, ["encoder.0.1"])


@pytest.mark.parametrize("how", ["one parameter", "one module"])
def test_projections_tied_to_another_layer(how):
    model = build("bert", num_hidden_layers=3)
    first, second, _ = (layer.attention.self for layer in model.bert.encoder.layer)
    if how == "one module":
        second.key = first.key
    else:
        second.key.weight = first.key.weight
    for layer in (0, 1):
        with refused(model, UnsupportedModel, "expected a projection of its own"):
            prune(model, [Head("encoder", layer, 1)])
    with gated(model, closed=["encoder.2.0"]):
        masked = answers(model)
    assert apart(masked, answers(prune(model, ["encoder.2.0"]))) < 1e-9  # which is not tied


def test_no_pruning_under_gates():
    model = build("bert")
    with (
        gated(model, closed=["encoder.0.0"]),
        refused(model, UnsupportedModel, "expected a model without gates"),
    ):
        prune(model, ["encoder.0.1"])
    assert len(discover(prune(model, ["encoder.0.1"]))) == 7
