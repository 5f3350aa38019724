"""Prove on a model's own weights that masked, pruned and reloaded are the same."""

from typing import Any

from deadhead.heads.discover import discover

from .inputs import batch_for, prompt_for
from .proof import Proof, prove, sample, sample_neurons, sample_single


def prove_model(model: Any) -> dict[str, Proof]:
    """Some heads of every layer, or all of one, removed with and without means; the same for its
    neurons; then both without means; then single heads of groups that share key/value heads. What
    the model does not have is left out: where every block has one layer, none is emptied.
    """
    layout = discover(model, neurons=True)
    batch = _on_device(batch_for(model), model)
    prompt = _on_device(prompt_for(model), model)
    proofs: dict[str, Proof] = {}
    tried: dict[str, Any] = {}
    for case, whole in (("uneven", False), ("empty layer", True)):
        units = {"heads": sample(layout, whole), "neurons": sample_neurons(layout, whole)}
        there: dict[str, Any] = {name: unit for name, unit in units.items() if unit}
        new = {name: unit for name, unit in there.items() if unit != tried.get(name)}
        for name, unit in new.items():
            for fill in (False, True):
                title = f"{name}, {case}, means" if fill else f"{name}, {case}"
                choice: dict[str, Any] = {name: unit, "mean_fill": fill}
                proofs[title] = prove(model, batch, **choice, generate=prompt)
        if new and len(there) > 1:
            proofs[f"both, {case}"] = prove(model, batch, **there, generate=prompt)
        tried = there
    if single := sample_single(layout):
        title = "single heads, key/value heads copied"
        proofs[title] = prove(model, batch, single, generate=prompt, groups="expand")
    return proofs


def _on_device(inputs: dict[str, Any] | None, model: Any) -> Any:
    if inputs is None:
        return None
    return {k: v.to(model.device) if hasattr(v, "to") else v for k, v in inputs.items()}
