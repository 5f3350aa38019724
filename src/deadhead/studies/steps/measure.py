"""The step `measure`: measure the model besides its scores, before and after training."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from deadhead.errors import unknown_name
from deadhead.measures import MEASURES, measure
from deadhead.registry.options import problems
from deadhead.studies.fields import TARGETS, Field, Problem, options_by_name
from deadhead.studies.step import Read, Step
from deadhead.studies.store import shapes
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
        for _, problem in problems(name, MEASURES[name], options):
            yield (), problem.message


def _canonical(value: Any) -> list[Any]:
    """Sorted, since the order of measures changes no number."""
    measures = sorted(options_by_name(value).items())
    return [{name: options} if options else name for name, options in measures]


def _is_embeddings(value: Any) -> bool:
    if type(value) is not dict or not shapes.are_numbers([value.get("silhouette")]):
        return False
    points, centroids = value.get("points", {}), value.get("centroids", {})
    if type(points) is not dict or not all(shapes.are_rows(rows, 2) for rows in points.values()):
        return False
    return (
        type(centroids) is dict
        and shapes.are_rows(centroids.get("distances", []))
        and shapes.are_texts(centroids.get("languages", []))
    )


HEADS = shapes.maps_heads_to_numbers
# by how a measure is drawn
VALID = {"map": HEADS, "maps": shapes.is_dict_of(HEADS), "points": _is_embeddings}


def _is_stage(value: Any) -> bool:
    """Whether these are the measures of one stage, by name; null where there are none."""
    if type(value) is not dict:
        return value is None
    known = {name: item for name, item in value.items() if name in MEASURES}
    return all(VALID[MEASURES[name].drawn_as](item) for name, item in known.items())


MEASURE = Field(
    name="measure",
    about="what is measured besides the scores: names, each alone or with options",
    check=_check,
    canonical=_canonical,
    example="[entropy, weights]",
)


class Measure(Step):
    name = "measure"
    about = "measure what `measure` names"
    fields = (MEASURE, TARGETS)
    needs = ("measure",)
    details = (("measures", shapes.is_dict_of(_is_stage)),)
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
