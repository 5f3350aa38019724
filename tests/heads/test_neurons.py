"""Feed-forward neurons: masked = pruned = reloaded = padded, with and without heads."""

import copy
from typing import Any

import pytest
import torch
from identity import prune_as_masked

from deadhead.heads import discover, gated, head_means, load, prune, save
from deadhead.heads.discover import find_every_site
from deadhead.heads.load_pruned import PickInput
from deadhead.verify.inputs import prompt_for
from slow import slow_but
from tiny_models import answers, apart, batch_of, build, finite_difference, limit, uneven

# Each has a form of its own: two matrices beside each other or in two modules, Conv1D, a gate of
# its own or in the same matrix, shared layers, the batch as the second axis, several blocks.
FAMILIES: list[tuple[str, dict[str, Any]]] = [
    ("bert", {}),
    ("bert", {"chunk_size_feed_forward": 4}),
    ("gpt2", {}),
    ("llama", {}),
    ("t5", {}),
    ("t5", {"feed_forward_proj": "gated-gelu"}),
    ("bart", {}),
    ("distilbert", {}),
    ("gpt_neox", {}),
    ("phi3", {}),
    ("modernbert", {}),
    ("vit", {}),
    ("albert", {}),
    ("xlnet", {}),
    ("falcon", {}),
    ("clip", {}),
    ("lfm2", {}),
    ("fnet", {}),
]
IDS = [" ".join([family, *map(str, overrides.values())]) for family, overrides in FAMILIES]


def some_neurons(layout, *, empty=True):
    """Another share of each layer; all of the first one if there are several."""
    chosen = {}
    for nth, layer in enumerate(layout.feed_forwards):
        whole = empty and nth == 0 and len(layout.feed_forwards) > 1
        step = 1 if whole else 2 + nth % 2
        chosen[layer.block, layer.layer] = list(layer.kept[(0 if whole else nth % 3) :: step])
    return chosen


@pytest.mark.parametrize(
    ("family", "overrides"), slow_but("bert gpt2 llama phi3 t5 xlnet", FAMILIES), ids=IDS
)
def test_masked_is_pruned_is_reloaded_is_padded(family, overrides, tmp_path):
    model = build(family, **overrides)
    neurons = some_neurons(discover(model, neurons=True))
    prune_as_masked(model, [], tmp_path, neurons=neurons)


@pytest.mark.parametrize("family", ["t5", "gpt2", "phi3"])
def test_heads_and_neurons_together(family, tmp_path):
    model = build(family)
    heads, neurons = uneven(model), some_neurons(discover(model, neurons=True))
    whole = answers(model)
    with gated(model, closed=heads):
        without_heads = answers(model)
    with gated(model, neurons=neurons):
        without_neurons = answers(model)
    with gated(model, closed=heads, neurons=neurons):
        masked, prompt = answers(model), prompt_for(model)
        tokens = model.generate(**prompt, max_new_tokens=5, do_sample=False) if prompt else None
    assert min(apart(masked, other) for other in (whole, without_heads, without_neurons)) > 0.1
    # heads first, then neurons: a later cut keeps what an earlier one has noted
    in_two_steps = prune(prune(copy.deepcopy(model), heads), neurons=neurons)
    prune(model, heads, neurons=neurons)
    assert apart(masked, answers(model)) < limit(model)
    assert apart(masked, answers(in_two_steps)) < limit(model)
    assert in_two_steps.config.deadhead == model.config.deadhead
    if tokens is not None:
        generated = model.generate(**prompt, max_new_tokens=5, do_sample=False)
        assert torch.equal(tokens, generated)
    save(in_two_steps, tmp_path)
    assert apart(masked, answers(load(tmp_path).eval())) < limit(model)


@pytest.mark.parametrize("family", ["llama", "phi3", "gpt2"])
def test_pruning_twice_keeps_the_numbers(family):
    model, place = build(family), ("decoder", 1)
    once = prune(copy.deepcopy(model), neurons={place: [0, 5, 17, 18, 30]})
    prune(model, neurons={place: [5, 17]})
    prune(model, neurons={place: torch.tensor([0, 30, 18])})
    assert discover(model, neurons=True).feed_forwards[1].removed == (0, 5, 17, 18, 30)
    assert apart(answers(model), answers(once)) == 0
    assert model.config.deadhead["removed_neurons"] == {"decoder": {"1": "0, 5, 17-18, 30"}}


@pytest.mark.parametrize("family", ["llama", "t5"])
def test_means_fill_neurons_in_gates_and_in_the_bias(family, tmp_path):
    model = build(family)
    neurons, heads = some_neurons(discover(model, neurons=True)), uneven(model)
    means = head_means(model, [batch_of(model)], neurons=True)
    with gated(model, closed=heads, neurons=neurons):
        zeros = answers(model)
    # the config of Llama has a switch for biases of these matrices
    forms = ("compact", "padded") if family == "llama" else ("compact",)
    masked = prune_as_masked(model, heads, tmp_path, forms, neurons=neurons, fill=means)
    assert apart(zeros, masked) > 0.1
    assert model.config.deadhead["filled_feed_forward_biases"] == {
        block: [layer for b, layer in neurons if b == block] for block, _ in neurons
    }


@pytest.mark.parametrize("family", ["gpt2", "modernbert"])
def test_gradients_of_neuron_gates_are_finite_differences(family):
    model = build(family)
    layer = discover(model, neurons=True).feed_forwards[1]
    place, batch = (layer.block, layer.layer), batch_of(model)
    gates = torch.full((layer.size,), 0.9, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(answers(model)[0].shape, generator=torch.Generator().manual_seed(3))

    def loss():
        with gated(model, neuron_gates={place: gates}):
            return (model(**batch)[0] * weights).mean()

    (gradient,) = torch.autograd.grad(loss(), gates)
    for number in (0, 13, layer.size - 1):
        slope = finite_difference(loss, gates, number)
        assert abs(gradient[number]) > 1e-8
        assert abs(gradient[number] - slope) < 1e-6 * abs(slope) + 1e-9


def test_gates_of_each_example_and_of_a_pruned_model():
    model = build("llama")
    place = ("decoder", 0)
    gates = torch.rand(2, 48, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with gated(model, neuron_gates={place: gates}):
        both = answers(model)
    with gated(model, neuron_gates={place: gates[1]}):
        second = answers(model)
    assert apart([both[0][1]], [second[0][1]]) < 1e-12
    assert apart([both[0][0]], [second[0][0]]) > 1e-3
    with gated(model, neurons={place: [3, 4]}, neuron_gates={place: gates}):
        closed = answers(model)
    prune(model, neurons={place: [3, 4]})  # the gates keep their numbers
    with gated(model, neuron_gates={place: gates}):
        assert apart(closed, answers(model)) < limit(model)
    assert apart(closed, both) > 1e-3


class _SplitsByConfig(torch.nn.Module):
    """A feed-forward layer whose code needs the number of neurons from the config."""

    def __init__(self, old, config):
        super().__init__()
        self.gate_up_proj, self.down_proj, self.config = old.gate_up_proj, old.down_proj, config

    def forward(self, x):
        size = self.config.intermediate_size
        gate, up = self.gate_up_proj(x).split([size, size], dim=-1)
        return self.down_proj(torch.nn.functional.silu(gate) * up)


def test_code_that_needs_the_old_number_of_neurons_is_spread():
    model = build("phi3")
    unpruned = answers(model)
    for layer in model.model.layers:
        layer.mlp = _SplitsByConfig(layer.mlp, model.config)
    assert apart(unpruned, answers(model)) == 0
    neurons = some_neurons(discover(model, neurons=True))
    with gated(model, neurons=neurons):
        masked = answers(model)
    prune(model, neurons=neurons)
    sites = find_every_site(model)[2:]
    assert all(
        any(isinstance(hook, PickInput) for hook in site.out._forward_pre_hooks.values())
        for site in sites
    )
    assert apart(masked, unpruned) > 0.1
    assert apart(masked, answers(model)) < limit(model)
