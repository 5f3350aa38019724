"""Which architectures of the installed transformers work: prove a tiny model of each type.

The table this gives is a measurement, not a promise.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

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
    mean_fill: str = ""  # pass, or why not, with the mean output of removed heads as a fill


def model_types() -> list[str]:
    from transformers import CONFIG_MAPPING

    return sorted(CONFIG_MAPPING)


def coverage(types: Iterable[str] | None = None) -> Iterator[Row]:
    """Prove one model type after the other; yields each row as soon as it is known."""
    for model_type in model_types() if types is None else types:
        yield measure(model_type)


def measure(model_type: str) -> Row:
    """Prove a tiny model of this type: with uneven layers and with a layer without heads, both
    with nothing and with means in place of the removed heads.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = tiny(model_type)
            layout = discover(model)
        except (NotApplicable, NoAttention) as reason:
            return Row(model_type, "n/a", one_line(reason))
        except DeadheadError as reason:
            return Row(model_type, "refused", one_line(reason))
        problem = _problem(model, mean_fill=False)
        if problem is not None:
            return Row(model_type, "refused", problem)
        heads = f"{len(layout)} heads in {', '.join(layout.blocks)}"
        return Row(model_type, "pass", heads, _problem(model, mean_fill=True) or "pass")


def _problem(model: Any, *, mean_fill: bool) -> str | None:
    """Why the proof does not hold for a tiny model; None if it does."""
    try:
        layout, batch, prompt = discover(model), batch_for(model), prompt_for(model)
        for whole in (False, True):
            heads = sample(layout, whole)
            proof = prove(model, batch, heads, generate=prompt, mean_fill=mean_fill)
            if not proof.holds:
                return f"the proof does not hold: {_differences(proof)}"
    except DeadheadError as reason:
        return one_line(reason)
    except Exception as problem:  # whatever the model's own code raises for our inputs
        error = f"{type(problem).__name__}: {one_line(problem)}"
        return f"not proved: the tiny model could not be run: {error}"
    return None


def _differences(proof: Proof) -> str:
    return ", ".join(
        f"{name} {value:.1e}" if isinstance(value, float) else f"{name} {value}"
        for name, value in proof.to_dict().items()
    )
