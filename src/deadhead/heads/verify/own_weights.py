"""Prove on a model's own weights that masked, pruned and reloaded are the same."""

from __future__ import annotations

from typing import Any

from deadhead.heads.discover import discover

from .proof import Proof, prove, sample
from .tiny import batch_for, prompt_for


def prove_model(model: Any) -> dict[str, Proof]:
    """Two proofs: some heads of every layer removed, and all heads of one layer."""
    layout = discover(model)
    batch = _on_device(batch_for(model), model)
    prompt = _on_device(prompt_for(model), model)
    choices = {"uneven": sample(layout, False), "a layer emptied": sample(layout, True)}
    return {
        title: prove(model, batch, heads, generate=prompt)
        for title, heads in choices.items()
        if heads
    }


def _on_device(inputs: dict[str, Any] | None, model: Any) -> Any:
    if inputs is None:
        return None
    return {k: v.to(model.device) if hasattr(v, "to") else v for k, v in inputs.items()}
