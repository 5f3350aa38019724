"""The step `finetune`: train the model, and score it after every epoch."""

from deadhead.measures import MEASURES
from deadhead.studies.fields import SEED
from deadhead.studies.trial import Trial

from .state import State
from .training import FINETUNE, FinetuneField, Training, TrainingStep, train


class Finetune(FinetuneField, TrainingStep):
    """Train on the languages of `source`, or of `train` where no ranking follows."""

    name = "finetune"
    fields = (FINETUNE, SEED)

    def run(self, state: State, trial: Trial) -> None:
        from . import models

        model = models.model(state, trial)
        state.kept.pop("first", None)
        is_first = "finetune" not in trial.before(state.at)
        measured = trial.measures if "measure" in trial.steps[state.at :] else ()
        if is_first and any(MEASURES[name].needs_start for name in measured):
            from deadhead.measures.weights import head_weights

            state.kept["began"] = head_weights(model)
        training = Training.parse(trial.get("finetune"))
        train(state, trial, model, training, trial.seed_of(state.at))


STEP = Finetune()
