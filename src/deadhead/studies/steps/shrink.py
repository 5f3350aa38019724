"""The step `shrink`: remove heads and neurons without training, and repair the rest."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

from deadhead.errors import DeadheadError
from deadhead.shrinking import REPAIRS, check_method, kinds_of, method_names, read_targets
from deadhead.studies.fields import (
    SEED,
    SOURCE,
    SPLIT_NAMES,
    Field,
    Problem,
    Spec,
    check_counts,
    check_seed,
    is_whole,
    one_of,
    under,
    unknown,
)
from deadhead.studies.step import Pass, Read, Step
from deadhead.studies.trial import Trial

from .state import State, counting

TARGETS = ("heads", "neurons", "macs", "parameters")  # no speed-up: it depends on the machine
FUNCTION = ("on", "method", "repair", "loss", "seed")  # options of `shrink`
OLD = "compensation"  # the name of `repair` in recipes of 0.1: it is in the ids of their trials
DATA = ("split", "examples", "batch")  # about the calibration data
WORDS = {"repair": REPAIRS, OLD: REPAIRS, "loss": ("self",), "split": SPLIT_NAMES}
EXAMPLE = "none, or a target and options such as {heads: 0.5, method: fisher}"
EXAMPLES = 2000
# What a record keeps from the report; the seconds are in the costs.
RECORDED = ("choice", "loss", "losses", "tried", "sizes", "shape", "layers", "examples", "notes")


def _check(value: Any) -> Iterator[Problem]:
    if value == "none":
        return
    if not isinstance(value, dict):
        yield (), f"expected {EXAMPLE}, got {value!r}."
        return
    if "speedup" in value:
        message = "a study has no target speedup, which depends on the machine; use macs."
        yield ("speedup",), message
        return
    names = [name for name in value if name != OLD]
    yield from unknown(names, (*TARGETS, *FUNCTION, *DATA), "option of shrink")
    if OLD in value and "repair" in value:
        yield (OLD,), "`compensation` is the old name of `repair`: give one of them."
    known = {"method": method_names(), **WORDS}
    chosen = (name for name in known if name in value)
    wrong = [p for name in chosen for p in one_of(value[name], known[name], name, (name,))]
    yield from wrong
    yield from check_counts(value, "examples", "batch")
    yield from under(("seed",), check_seed(value.get("seed", 0)))
    on = value.get("on", [1, 1])
    if not isinstance(on, list) or len(on) != 2 or not all(is_whole(n, 1) for n in on):
        yield ("on",), f"expected examples and tokens of each, such as [32, 128], got {on!r}."
    try:
        targets = read_targets({name: value.get(name) for name in TARGETS})
        if not wrong:
            method, loss = value.get("method", "auto"), value.get("loss")
            check_method(method, kinds_of(targets), loss)
    except DeadheadError as problem:
        yield (), problem.message


# What to remove without training, and how: a target and options of `shrink`, or none.
SHRINK = Field(
    name="shrink",
    check=_check,
    canonical=lambda value: None if value == "none" else value,
    single=True,
    example="{heads: 0.5}",
)


@dataclass(frozen=True, kw_only=True)
class Shrinking(Spec):
    """The field `shrink` of a trial, with the options of the function `shrink`."""

    split: str = "train"
    examples: int = EXAMPLES
    batch: int = 32

    @classmethod
    def parse(cls, value: Mapping[str, Any] | None) -> Self:
        spec = super().parse(value)
        if OLD in spec.options:
            spec.options["repair"] = spec.options.pop(OLD)
        return spec


class Shrink(Step):
    """Remove heads and neurons without training, and repair the rest."""

    name = "shrink"
    fields = (SOURCE, SHRINK, SEED)
    needs = ("shrink",)
    prunes = True
    uses_languages = True

    def is_idle(self, values: Mapping[str, Any]) -> bool:
        return values.get("shrink") is None

    def reads(self, trial: Trial, place: int) -> Iterator[Read]:
        split = Shrinking.parse(trial.get("shrink")).split
        yield from product([trial.task], trial.languages(place), [split])

    def passes(self, trial: Trial, place: int) -> Iterator[Pass]:
        examples = Shrinking.parse(trial.get("shrink")).examples
        yield from ((read, 3, examples) for read in self.reads(trial, place))

    def run(self, state: State, trial: Trial) -> None:
        from deadhead.shrinking import shrink
        from deadhead.tasks import batches

        from . import models

        model = models.model(state, trial)
        spec = Shrinking.parse(trial.get("shrink"))
        data = models.encoded(state, trial, spec.split, examples=spec.examples)
        # no layers: a study follows heads by their numbers
        options = {"seed": trial.seed_of(state.at), "layers": 0, **spec.options}
        report = shrink(
            model,
            [*batches(data, size=spec.batch, device=models.device())],
            progress=counting(state.tell, "shrinking"),
            **options,
        )
        state.kept.pop("first", None)  # they are weights of the whole model
        state.removed += [str(head) for head in report.choice.heads]
        facts = report.to_dict()
        state.cost["heads before"], _ = report.sizes["heads"]
        state.cost["parameters after"] = models.count(model)
        state.cost |= {f"{name} s": round(s, 3) for name, s in facts.pop("seconds").items()}
        state.details["shrink"] = {name: facts[name] for name in RECORDED}


STEP = Shrink()
