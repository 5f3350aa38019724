"""The step `pretrain`: train a translation model from scratch, with a vocabulary of its own."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deadhead.studies.fields import Field, Problem, check_seed, is_whole, under
from deadhead.studies.step import Step
from deadhead.studies.trial import Trial

from .state import State
from .training import Training, TrainingStep, check, train, write_out

PRESET = "weak-link-transformer"  # of a pretraining that names none


def _check(value: Any) -> Iterator[Problem]:
    from deadhead.translation.vocabulary import MIN_SIZE

    if isinstance(value, dict):
        if not is_whole(value.get("vocabulary", MIN_SIZE), MIN_SIZE):
            expected = f"a number of sub-words, {MIN_SIZE} or more"
            yield ("vocabulary",), f"expected {expected}, got {value['vocabulary']!r}."
        yield from under(("seed",), check_seed(value.get("seed", 0)))
    yield from check(value, ("vocabulary", "seed"))


# The settings of training from scratch, with the size of the vocabulary.
PRETRAIN = Field(name="pretrain", check=_check, needs_step=False)


class Pretrain(TrainingStep):
    """Train a translation model from scratch."""

    name = "pretrain"
    # Its seed is one of its settings, so that later steps can be repeated on one trained model.
    fields = (PRETRAIN,)
    builds_model = True

    def misplaced(self, steps: Sequence[Step], place: int) -> str | None:
        if place == 0 and not any(step.name in ("restart", "rank_each") for step in steps):
            return None
        rule = "it comes first, once, and cannot be combined with restart or rank_each"
        return f"pretrain builds the model: {rule}."

    def conflicts(
        self, steps: Sequence[Step], values: Mapping[str, Sequence[Any]]
    ) -> Iterator[tuple[str, str]]:
        from deadhead.tasks import task_of
        from deadhead.translation import SIZES

        for model in values.get("model", ()):
            if model not in SIZES:
                known = f"known sizes: {', '.join(SIZES)}"
                yield "axes", f"pretrain needs a size, and {model!r} is not a size; {known}."
        for task in values.get("task", ()):
            if task_of(str(task)).kind != "translate":
                yield "axes", f"pretrain trains a translation model, and {task} is no translation."

    def write_out(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        from deadhead.translation import VOCABULARY

        value = {"preset": PRESET, **(fields.get("pretrain") or {})}
        own = {"seed": value.pop("seed", 0), "vocabulary": value.pop("vocabulary", VOCABULARY)}
        return {"pretrain": {**write_out(value, fields), **own}}

    def run(self, state: State, trial: Trial) -> None:
        from . import models

        training = Training.parse(trial.get("pretrain"))
        seed = training.options["seed"]
        model = models.from_scratch(state, trial, seed, training.vocabulary)
        train(state, trial, model, training, seed)


STEP = Pretrain()
