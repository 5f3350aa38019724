"""Where feed-forward layers are, which ones are skipped and why, and what is refused."""

from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import nn

from deadhead.errors import HeadError, UnknownArchitecture
from deadhead.heads import captured, discover, gated, head_means, prune
from tiny_models import build, refused


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("bert", {"encoder": [0, 1]}),
        ("gpt2", {"decoder": [0, 1]}),
        ("t5", {"encoder": [0, 1], "decoder": [0, 1]}),
        ("clip", {"vision": [0, 1], "text": [0, 1]}),
        ("xlm", {"encoder": [0, 1]}),  # whose layers are in another list than their attention
        ("fnet", {"encoder": [0, 1]}),  # without heads
    ],
)
def test_layers_have_the_names_of_their_attention(family, expected):
    layout = discover(build(family), neurons=True)
    layers: dict[str, list[int]] = {}
    for layer in layout.feed_forwards:
        layers.setdefault(layer.block, []).append(layer.layer)
    assert layers == expected
    assert all(layer.kept == tuple(range(layer.size)) for layer in layout.feed_forwards)


def test_experts_are_skipped_and_dense_layers_work():
    model = build("jamba")
    layout = discover(model, neurons=True)
    assert [(f.block, f.layer) for f in layout.feed_forwards] == [("decoder", 0)]
    (reason,) = (why for path, why in layout.skipped.items() if "feed_forward" in path)
    assert "mixture of experts" in reason
    with pytest.raises(HeadError, match=r"a layer with neurons, got \('decoder', 1\)") as problem:
        prune(model, neurons={("decoder", 1): [0]})
    assert "decoder 0" in str(problem.value.hint)
    prune(model, neurons={("decoder", 0): [0]})
    assert discover(model, neurons=True).feed_forwards[0].removed == (0,)


def test_a_model_of_experts_alone_says_so_and_keeps_its_heads():
    model = build("mixtral")
    assert discover(model, neurons=True).feed_forwards == ()
    assert len(discover(model, neurons=True)) == len(discover(model)) > 0
    with pytest.raises(UnknownArchitecture, match="mixture of experts"):
        prune(model, neurons={("decoder", 0): [0]})
    prune(model, discover(model)["decoder", 0].groups[0])


class _Between(nn.Module):
    """A feed-forward layer with something between its two matrices."""

    def __init__(self, old, between, name):
        super().__init__()
        self.up_proj, self.down_proj, self.name = old.up_proj, old.down_proj, name
        setattr(self, name, between)

    def forward(self, x):
        return self.down_proj(getattr(self, self.name)(self.up_proj(x)))


@pytest.mark.parametrize(
    ("between", "name"),
    [
        (nn.LayerNorm(48), "norm"),
        (nn.PReLU(48), "act"),
        (nn.Linear(48, 48), "more"),
        (nn.LayerNorm(32), "ffn_layernorm"),  # as wide as the model: only its name shows
    ],
)
def test_weights_between_the_matrices_are_skipped(between, name):
    model = build("llama", intermediate_size=between.weight.shape[0])
    model.model.layers[0].mlp = _Between(model.model.layers[0].mlp, between.double(), name)
    layout = discover(model, neurons=True)
    assert [f.layer for f in layout.feed_forwards] == [1]
    assert f"{name}.weight seems to work on all neurons" in layout.skipped["model.layers.0.mlp"]


def test_an_activation_of_one_number_is_fine_and_widths_must_fit():
    model = build("llama")
    first, second = model.model.layers
    first.mlp = _Between(first.mlp, nn.PReLU().double(), "act")
    second.mlp.up_proj = nn.Linear(32, 40).double()
    layout = discover(model, neurons=True)
    assert [f.layer for f in layout.feed_forwards] == [0]
    assert "reads 48 neurons, and its first gives 48, 40" in layout.skipped["model.layers.1.mlp"]


PLACE = ("encoder", 0)
WRONG: list[tuple[Any, str]] = [
    ({PLACE: [48]}, "expected one of its 48 neurons, got 48"),
    ({PLACE: [3, 5, 3]}, "expected each neuron once, got 3 twice"),
    ({PLACE: [5]}, "expected neurons that are left, got 5"),
    ({PLACE: "3"}, "expected a list of neurons, got '3'"),
    ({PLACE: torch.tensor([True, False])}, "expected a list of neurons"),  # a mask
    ({("encoder", 9): [0]}, "a layer with neurons, got ('encoder', 9)"),
    ([PLACE], "expected neurons by layer"),
]


@pytest.mark.parametrize("call", [prune, gated])
@pytest.mark.parametrize(("neurons", "words"), WRONG, ids=[words for _, words in WRONG])
def test_neurons_that_are_not_there(neurons, words, call):
    model = prune(build("bert"), neurons={PLACE: [5]})
    with refused(model, HeadError, words), ExitStack() as stack:
        if call is gated:
            stack.enter_context(gated(model, neurons=neurons))
        else:
            prune(model, neurons=neurons)


@pytest.mark.parametrize("gates", [torch.ones(3), torch.ones(1, 1, 48), [1.0] * 48])
def test_gates_of_the_wrong_shape(gates):
    model = build("bert")
    text = "neuron_gates of encoder layer 0 expect a tensor of 48"
    with refused(model, HeadError, text), gated(model, neuron_gates={PLACE: gates}):
        pass


def test_fills_that_have_no_neurons():
    model = build("bert")
    batch, neurons = {"input_ids": torch.full((1, 4), 5)}, {PLACE: [1]}
    means = head_means(model, [batch])
    with refused(model, HeadError, "expected means of neurons too"):
        prune(model, neurons=neurons, fill=means)
    with captured(model) as run:
        model(**batch)
    for fill, text in ((means, "expected means of neurons too"), (run, "got a captured run")):
        with refused(model, HeadError, text), gated(model, neurons=neurons, fill=fill):
            pass


def test_pruning_needs_what_it_removes():
    for call in (discover, lambda model: prune(model, ["encoder.0.0"])):
        with pytest.raises(UnknownArchitecture):
            call(build("fnet"))
