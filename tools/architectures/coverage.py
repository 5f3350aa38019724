"""Which architectures of the installed transformers work: prove a tiny model of each type.

    PYTHONPATH=tools python -m architectures.coverage > new.json     # every type, for an hour
    PYTHONPATH=tools python -m architectures.coverage bert llama     # these types

`docs/coverage.py` makes the page of the two files for the newest and the oldest transformers.
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

from deadhead.errors import DeadheadError, NoAttention
from deadhead.heads.discover import discover, find_every_site
from deadhead.verify.proof import Proof, prove, sample, sample_neurons, sample_single

from .runnable import inputs_for, runnable
from .tiny import NotApplicable, one_line

NO_EFFECT = "closing them changes no output of the tiny model, so nothing is proved"


@dataclass(frozen=True)
class Row:
    """One line of the coverage table."""

    model_type: str
    status: str  # for its heads: pass, refused or n/a
    reason: str = ""
    mean_fill: str = ""  # pass, or why not, with the mean output of removed heads as a fill
    neurons: str = ""  # pass, or why not, for its neurons alone and together with its heads
    single_heads: str = ""  # pass, or why not, with copied key/value heads; empty if none is shared


def model_types() -> list[str]:
    from transformers import CONFIG_MAPPING

    return sorted(CONFIG_MAPPING)


def measure(model_type: str) -> Row:
    """Prove a tiny model of this type: its heads, then its feed-forward neurons."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = runnable(model_type)
        except NotApplicable as reason:
            return Row(model_type, "n/a", one_line(reason))
        except DeadheadError as reason:
            return Row(model_type, "refused", one_line(reason))
        row = measure_heads(model_type, model)
        return replace(row, neurons=measure_neurons(model, with_heads=row.status == "pass"))


def measure_heads(model_type: str, model: Any) -> Row:
    """Prove its heads: with uneven layers and with a layer without heads, both with nothing and
    with means in place of the removed heads; and with uneven groups, where heads share key/value
    heads.
    """
    try:
        layout = discover(model)
    except NoAttention as reason:
        return Row(model_type, "n/a", one_line(reason))
    except DeadheadError as reason:
        return Row(model_type, "refused", one_line(reason))
    choices = [{"heads": sample(layout, whole)} for whole in (False, True)]
    if (problem := _problem(model, choices)) is not None:
        return Row(model_type, "refused", problem)
    heads = f"{len(layout)} heads in {', '.join(layout.blocks)}"
    filled = [{**choice, "mean_fill": True} for choice in choices]
    row = Row(model_type, "pass", heads, _problem(model, filled) or "pass")
    if not (single := sample_single(layout)):
        return row
    uneven: list[dict[str, Any]] = [
        {"heads": single, "groups": "expand", "mean_fill": fill} for fill in (False, True)
    ]
    return replace(row, single_heads=_problem(model, uneven) or "pass")


def measure_neurons(model: Any, *, with_heads: bool) -> str:
    """Prove its neurons: with uneven layers and with a layer without neurons, alone or with heads
    removed too, with nothing or with means in place of them. Pass, or the reason why not.
    """
    try:
        find_every_site(model, "neurons")  # raises an error with the reason if there are none
        layout = discover(model, neurons=True)
    except DeadheadError as reason:
        return one_line(reason)
    uneven, emptied = ({"neurons": sample_neurons(layout, whole)} for whole in (False, True))
    choices: list[dict[str, Any]] = [uneven, emptied, {**emptied, "mean_fill": True}]
    if with_heads:
        choices.insert(2, {**emptied, "heads": sample(layout, True)})
    problem = _problem(model, choices)
    if problem == NO_EFFECT:  # the layers that the inputs would run may be skipped
        skipped = [reason for reason in layout.skipped.values() if "neuron" in reason]
        problem = f"{problem}; {skipped[0]}" if skipped else problem
    return problem or "pass"


def _problem(model: Any, choices: list[dict[str, Any]]) -> str | None:
    """Why a proof does not hold for a tiny model; None if all do. choices: what is removed."""
    try:
        batch, prompt = inputs_for(model)
        for choice in choices:
            proof = prove(model, batch, **choice, generate=prompt)
            if not proof.effect:
                return NO_EFFECT
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


def main() -> None:
    rows = []
    for model_type in sys.argv[1:] or model_types():
        rows.append(asdict(measure(model_type)))
        print(model_type, rows[-1]["status"], file=sys.stderr)
    versions = {package: version(package) for package in ("transformers", "torch")}
    print(json.dumps({**versions, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
