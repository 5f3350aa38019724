"""The proof holds on sound code; and it fails when the code does."""

import copy
from dataclasses import replace

import torch

from deadhead.files.hub import quiet
from deadhead.heads import discover, load
from deadhead.heads.means import head_means
from deadhead.heads.parts import Part
from deadhead.verify.inputs import batch_for, prompt_for
from deadhead.verify.proof import prove, sample
from tiny_models import build


def proof_of(family, *, whole=False, generate=False, mean_fill=False):
    model = build(family)
    with quiet():
        return prove(
            model,
            batch_for(model),
            sample(discover(model), whole),
            generate=prompt_for(model) if generate else None,
            mean_fill=mean_fill,
        )


def test_the_proof_holds_and_touches_nothing():
    model = build("gpt2")
    before = copy.deepcopy(model.state_dict())
    with quiet():
        proof = prove(
            model, batch_for(model), sample(discover(model), False), generate=prompt_for(model)
        )
    assert proof.holds
    assert proof.generated is True
    assert proof.effect > 0.1
    assert proof.to_dict()["holds"] is True
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert len(discover(model)) == 8


def wrong_keys(part, heads, keys):
    """As many rows as there should be, but of the keys the first ones instead of the right ones."""
    right = PRESENT(part, heads, keys)
    return torch.arange(len(right)) if set(part.rows) == {"k"} else right


PRESENT = Part.present


def keep_the_gate_open(gate, context):
    return context


def test_the_proof_fails_when_keys_are_cut_wrongly(monkeypatch):
    assert proof_of("bert").holds
    monkeypatch.setattr(Part, "present", wrong_keys)
    proof = proof_of("bert")
    assert not proof.holds
    assert proof.pruned > 1e-3


def test_the_proof_fails_when_gates_do_nothing(monkeypatch):
    monkeypatch.setattr("deadhead.heads.gates._Gate.__call__", keep_the_gate_open)
    proof = proof_of("bert")
    assert not proof.holds
    assert proof.effect == 0


def test_the_proof_fails_when_the_means_are_zero(monkeypatch):
    def zero_means(model, batches, *, neurons):
        means = head_means(model, batches, neurons=neurons)
        values = {place: torch.zeros_like(value) for place, value in means.values.items()}
        return replace(means, values=values)

    monkeypatch.setattr("deadhead.verify.proof.head_means", zero_means)
    proof = proof_of("bert", mean_fill=True)
    assert not proof.holds
    assert proof.effect == 0


def test_the_proof_fails_when_a_gate_is_left_behind(monkeypatch):
    from deadhead.heads import gates

    attach = gates.attach

    def sticky(site, change):
        attach(site, lambda context: context * 1.001)  # never taken out again
        return attach(site, change)

    monkeypatch.setattr(gates, "attach", sticky)
    proof = proof_of("bert")
    assert proof.left_behind > 0
    assert not proof.holds


def test_the_proof_fails_when_a_folder_gives_back_something_else(monkeypatch):
    def noisy(folder):
        model = load(folder)
        with torch.no_grad():
            model.get_input_embeddings().weight.add_(0.01)
        return model

    monkeypatch.setattr("deadhead.verify.proof.load", noisy)
    proof = proof_of("bert")
    assert proof.reloaded > 0
    assert not proof.holds
