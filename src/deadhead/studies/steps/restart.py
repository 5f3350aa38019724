"""The step `restart`: the next step begins with the weights that the trial began with."""

from collections.abc import Sequence

from deadhead.studies.step import Step
from deadhead.studies.trial import Trial

from .state import State


class Restart(Step):
    """Back to the first weights; a ranking stays."""

    name = "restart"
    restarts = True
    lasting = False

    def misplaced(self, steps: Sequence[Step], place: int) -> str | None:
        if any(step.ranks for step in steps[:place]):
            return None
        return "a restart keeps nothing but a ranking, and no step before it makes one."

    def run(self, state: State, trial: Trial) -> None:
        state.model = state.weights = None
        state.epochs, state.removed, state.kept = [], [], {}
        state.details.pop("measures", None)


STEP = Restart()
