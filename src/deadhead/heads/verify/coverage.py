"""Which architectures of the installed transformers work: prove a tiny model of each type.

The table this gives is a measurement, not a promise.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from deadhead.errors import DeadheadError, NoAttention
from deadhead.heads.discover import discover

from .proof import Proof, prove, sample
from .tiny import NotApplicable, batch_for, one_line, prompt_for, tiny


@dataclass(frozen=True)
class Row:
    """One line of the coverage table."""

    model_type: str
    status: str  # pass, refused or n/a
    reason: str = ""


def model_types() -> list[str]:
    from transformers import CONFIG_MAPPING

    return sorted(CONFIG_MAPPING)


def coverage(types: Iterable[str] | None = None) -> Iterator[Row]:
    """Prove one model type after the other; yields each row as soon as it is known."""
    for model_type in model_types() if types is None else types:
        yield measure(model_type)


def measure(model_type: str) -> Row:
    """Prove a tiny model of this type twice: with uneven layers, and with a layer without heads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = tiny(model_type)
            layout = discover(model)
        except (NotApplicable, NoAttention) as reason:
            return Row(model_type, "n/a", one_line(reason))
        except DeadheadError as reason:
            return Row(model_type, "refused", one_line(reason))
        try:
            batch, prompt = batch_for(model), prompt_for(model)
            samples = (sample(layout, whole) for whole in (False, True))
            proofs = [prove(model, batch, heads, generate=prompt) for heads in samples]
        except DeadheadError as reason:
            return Row(model_type, "refused", one_line(reason))
        except Exception as problem:  # whatever the model's own code raises for our inputs
            error = f"{type(problem).__name__}: {one_line(problem)}"
            text = f"not proved: the tiny model could not be run: {error}"
            return Row(model_type, "refused", text)
    failed = next((proof for proof in proofs if not proof.holds), None)
    if failed is not None:
        return Row(model_type, "refused", f"the proof does not hold: {_differences(failed)}")
    return Row(model_type, "pass", f"{len(layout)} heads in {', '.join(layout.blocks)}")


def _differences(proof: Proof) -> str:
    return ", ".join(
        f"{name} {value:.1e}" if isinstance(value, float) else f"{name} {value}"
        for name, value in proof.to_dict().items()
    )
