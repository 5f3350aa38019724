"""The proof with feed-forward neurons, and that it can fail."""

import importlib

import pytest
import torch
from torch import nn

from deadhead.files.hub import quiet
from deadhead.heads import discover, load_pruned
from deadhead.heads.parts import Part
from deadhead.heads.prune import prune
from deadhead.verify.inputs import batch_for, prompt_for
from deadhead.verify.proof import prove, prove_model, sample, sample_neurons
from tiny_models import build


def test_projectors_between_two_models_have_no_neurons():
    with quiet():
        layout = discover(build("qwen3_vl"), neurons=True)
    paths = [layer.path for layer in layout.feed_forwards]
    assert "visual.blocks.0.mlp" in paths
    assert "language_model.layers.1.mlp" in paths
    assert not [path for path in paths if "merger" in path]
    places = [(layer.block, layer.layer) for layer in layout.feed_forwards]
    assert places == [(attention.block, attention.layer) for attention in layout.attentions]


def test_layers_of_a_bare_list_are_layers():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = build("bert").bert.encoder.layer[0].attention
            self.fc1, self.fc2 = nn.Linear(32, 48), nn.Linear(48, 32)

    layout = discover(nn.Sequential(Layer(), Layer(), nn.Linear(32, 32)), neurons=True)
    assert [layer.path for layer in layout.feed_forwards] == ["0", "1"]
    assert [layer.layer for layer in layout.feed_forwards] == [0, 1]


def test_a_sample_is_uneven_and_empties_a_layer():
    layout = discover(build("t5"), neurons=True)
    uneven, emptied = sample_neurons(layout, False), sample_neurons(layout, True)
    for block in ("encoder", "decoder"):
        counts = [len(uneven[block, layer]) for layer in (0, 1)]
        assert 0 < counts[1] < counts[0] < 48
        assert len(emptied[block, 0]) == 48
        assert emptied[block, 1] == uneven[block, 1]


def proof_of(family, *units, whole=False, mean_fill=False):
    """The proof for some heads, some neurons or both; neurons without a name."""
    model = build(family)
    layout = discover(model, neurons=True)
    with quiet():
        return prove(
            model,
            batch_for(model),
            sample(layout, whole) if "heads" in units else (),
            neurons=None if units == ("heads",) else sample_neurons(layout, whole),
            generate=prompt_for(model),
            mean_fill=mean_fill,
        )


def test_the_proof_counts_heads_and_neurons():
    neurons, both = proof_of("gpt2"), proof_of("gpt2", "heads", "neurons")
    assert neurons.holds
    assert both.holds
    assert (neurons.removed, both.removed) == (64 + 43, 64 + 43 + 4)
    assert neurons.generated is True
    assert neurons.effect > 0.1


@pytest.mark.parametrize(("family", "roles"), [("llama", {"gate"}), ("phi3", {"up"})])
def test_the_proof_fails_when_the_first_matrix_is_cut_wrongly(family, roles, monkeypatch):
    """As many rows as there should be, but the first ones instead of the right ones."""
    present = Part.present
    assert proof_of(family).holds

    def wrong(part, *left):
        right = present(part, *left)
        return torch.arange(len(right)) if set(part.rows) == roles else right

    monkeypatch.setattr(Part, "present", wrong)
    proof = proof_of(family)
    assert not proof.holds
    assert proof.pruned > 1e-3


def test_the_proof_fails_when_only_the_heads_are_cut(monkeypatch):
    def heads_alone(model, heads, **_):
        return prune(model, heads)

    monkeypatch.setattr("deadhead.verify.proof.prune", heads_alone)
    assert not proof_of("llama", "heads", "neurons").holds
    proof = proof_of("llama")
    assert not proof.holds
    assert proof.pruned == proof.effect > 0


@pytest.mark.parametrize("unit", ["heads", "neurons"])
def test_the_proof_fails_when_the_output_bias_of_an_emptied_layer_is_lost(unit, monkeypatch):
    assert proof_of("gpt2", unit, whole=True).holds
    monkeypatch.setattr(
        load_pruned, "bias_alone", lambda out, x: x.new_zeros(*x.shape[:-1], len(out.bias))
    )
    assert not proof_of("gpt2", unit, whole=True).holds


@pytest.mark.parametrize("unit", ["heads", "neurons"])
def test_the_proof_fails_when_the_means_are_lost(unit, monkeypatch):
    assert proof_of("llama", unit, mean_fill=True).holds
    module = importlib.import_module("deadhead.heads.prune")
    monkeypatch.setattr(module, "fill_bias", lambda site, kept, means: None)
    proof = proof_of("llama", unit, mean_fill=True)
    assert not proof.holds
    assert proof.pruned == proof.effect > 0.1
    assert proof_of("llama", unit).holds


def test_own_weights_prove_heads_neurons_and_both():
    with quiet():
        proofs, heads_alone = prove_model(build("bert")), prove_model(build("mixtral"))
        neurons_alone = prove_model(build("convbert"))
    cases = [f"{unit}, {case}" for case in ("uneven", "empty layer") for unit in UNITS]
    assert sorted(proofs) == sorted(
        [*cases, *(f"{case}, means" for case in cases if not case.startswith("both"))]
    )
    for some in (proofs, heads_alone, neurons_alone):
        assert all(proof.holds for proof in some.values())
    assert {name.split(",")[0] for name in heads_alone} == {"heads", "single heads"}
    assert {name.split(",")[0] for name in neurons_alone} == {"neurons"}


UNITS = ("heads", "neurons", "both")
