"""The step `measure`: measure the model besides its scores, before and after training."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from deadhead.errors import unknown_name
from deadhead.measures import MEASURES, measure
from deadhead.studies.fields import TARGETS, Field, Problem, option_problems, options_by_name
from deadhead.studies.step import Read, Step
from deadhead.studies.trial import Trial

from .state import State
from .training import at_both_epochs


def _check(value: Any) -> Iterator[Problem]:
    items = value if isinstance(value, list) else [value]
    is_list = all(
        isinstance(item, str)
        or (isinstance(item, dict) and all(isinstance(o, dict | None) for o in item.values()))
        for item in items
    )
    if not items or not is_list:
        example = "a measure with options is {embeddings: {sentences: 200}}"
        yield (), f"expected a list of names, such as [{', '.join(MEASURES)}]; {example}."
        return
    for name, options in options_by_name(items).items():
        if name not in MEASURES:
            yield (), unknown_name("measure", name, MEASURES).message
            continue
        for _, message in option_problems(name, MEASURES[name], options):
            yield (), message


def _canonical(value: Any) -> list[Any]:
    """Sorted, since the order of measures changes no number."""
    measures = sorted(options_by_name(value).items())
    return [{name: options} if options else name for name, options in measures]


# What is measured besides the scores: names, each alone or with options.
MEASURE = Field(name="measure", check=_check, canonical=_canonical, example="[entropy, weights]")


class Measure(Step):
    """Measure what `measure` names."""

    name = "measure"
    fields = (MEASURE, TARGETS)
    needs = ("measure",)
    inspects = True
    uses_languages = True
    lasting = False

    def reads(self, trial: Trial, place: int) -> Iterator[Read]:
        languages = {"training data": trial.languages(place), "target texts": trial.targets}
        for name, options in trial.measures.items():
            split = options.get("split", "dev")
            yield from product([trial.task], languages.get(MEASURES[name].reads, []), [split])

    def run(self, state: State, trial: Trial) -> None:
        from . import models

        model, inputs = models.model(state, trial), models.measure_inputs(state, trial)
        measures = {name: measure(name, **options) for name, options in trial.measures.items()}
        stages = state.details.setdefault("measures", {})
        now = "after" if "finetune" in trial.before(state.at) else "before"

        def inspect(first: bool) -> None:
            state.tell(f"measuring {', '.join(measures)}")
            stages["first" if first else now] = {
                name: measure(model, inputs) for name, measure in measures.items()
            }

        at_both_epochs(state, model, inspect)


STEP = Measure()
