"""The step `rank`: score every head on the source languages."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from deadhead.errors import unknown_name
from deadhead.rankers import RANKERS, ranker
from deadhead.rankers.merge import MERGES
from deadhead.studies.fields import (
    SEED,
    SOURCE,
    SPLIT_NAMES,
    Field,
    Problem,
    Spec,
    among,
    check_counts,
    one_of,
    option_problems,
)
from deadhead.studies.step import Pass, Read, Step
from deadhead.studies.trial import Trial

from .state import State, counting

DEFAULT = {"method": "gradient", "split": "dev"}


def _check(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield (), "expected a mapping such as {method: gradient, split: dev}."
        return
    method = value.get("method", "gradient")
    if not among(method, RANKERS):
        yield ("method",), unknown_name("ranking method", method, RANKERS).message
        return
    yield from option_problems(method, RANKERS[method], Ranking.parse(value).options)
    yield from one_of(value.get("merge", "md"), MERGES, "way to merge", ("merge",))
    yield from check_counts(value, "examples", "batch")
    yield from one_of(value.get("split", "dev"), SPLIT_NAMES, "split", ("split",))


# The ranking method, its options and its data.
RANK = Field(
    name="rank",
    check=_check,
    default=DEFAULT,
    canonical=lambda value: {**DEFAULT, **value},
    needs_step=False,
)


@dataclass(frozen=True, kw_only=True)
class Ranking(Spec):
    """The field `rank` of a trial, with the options of its method."""

    method: str = "gradient"
    split: str = "dev"
    examples: int | None = None
    batch: int = 32
    merge: str = "md"  # how rankings on several languages become one


class Rank(Step):
    """Score the heads on `source`."""

    name = "rank"
    fields = (SOURCE, RANK, SEED)
    ranks = True
    uses_languages = True

    def reads(self, trial: Trial, place: int) -> Iterator[Read]:
        split = Ranking.parse(trial.get("rank")).split
        yield from product([trial.task], trial.languages(place), [split])

    def passes(self, trial: Trial, place: int) -> Iterator[Pass]:
        spec = Ranking.parse(trial.get("rank"))
        count = ranker(spec.method, **spec.options).passes
        yield from ((read, count, spec.examples) for read in self.reads(trial, place))

    def run(self, state: State, trial: Trial) -> None:
        from deadhead.rankers import rank
        from deadhead.tasks import batches

        from . import models

        model = models.model(state, trial)
        spec = Ranking.parse(trial.get("rank"))
        data = models.encoded(state, trial, spec.split, examples=spec.examples)
        facts = {"task": trial.task, "lang": "+".join(trial.languages(state.at))}
        facts |= {"split": spec.split, "fingerprint": data.data.fingerprint}
        sort = not ranker(spec.method, **spec.options).in_file_order
        state.ranking = rank(
            model,
            batches(data, size=spec.batch, sort=sort, device=models.device()),
            spec.method,
            seed=trial.seed_of(state.at),
            progress=counting(state.tell, "ranking"),
            data=facts,
            **spec.options,
        )


STEP = Rank()
