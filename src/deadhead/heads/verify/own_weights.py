"""Prove on a model's own weights that masked, pruned and reloaded are the same."""

from __future__ import annotations

from typing import Any

from deadhead.heads.discover import discover

from .proof import Proof, prove, sample
from .tiny import batch_for, prompt_for


def prove_model(model: Any) -> dict[str, Proof]:
    """Four proofs: some heads of every layer, or all of one, removed with and without means."""
    layout = discover(model)
    batch = _on_device(batch_for(model), model)
    prompt = _on_device(prompt_for(model), model)
    choices = {"uneven": sample(layout, False), "a layer emptied": sample(layout, True)}
    return {
        f"{title}, mean fill" if mean_fill else title: prove(
            model, batch, heads, generate=prompt, mean_fill=mean_fill
        )
        for mean_fill in (False, True)
        for title, heads in choices.items()
        if heads
    }


def _on_device(inputs: dict[str, Any] | None, model: Any) -> Any:
    if inputs is None:
        return None
    return {k: v.to(model.device) if hasattr(v, "to") else v for k, v in inputs.items()}
