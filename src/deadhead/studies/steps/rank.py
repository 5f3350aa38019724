"""The step `rank`: score every head on the source languages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from deadhead.errors import unknown_name
from deadhead.rankers import RANKERS, ranker
from deadhead.rankers.merge import MERGES
from deadhead.registry.options import problems
from deadhead.studies.fields import (
    SEED,
    SOURCE,
    SPLIT_NAMES,
    Field,
    Problem,
    among,
    check_counts,
    divided,
)
from deadhead.studies.step import Read, Step
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
    for name, problem in problems(method, RANKERS[method], divided(value, OWN)[1]):
        yield (name,), problem.message
    if not among(value.get("merge", "md"), MERGES):
        yield ("merge",), unknown_name("way to merge", value["merge"], MERGES).message
    yield from check_counts(value, "examples", "batch")
    if not among(value.get("split", "dev"), SPLIT_NAMES):
        yield ("split",), unknown_name("split", value["split"], SPLIT_NAMES).message


# The ranking method, its options and its data.
RANK = Field(
    name="rank",
    check=_check,
    default=DEFAULT,
    canonical=lambda value: {**DEFAULT, **value},
    needs_step=False,
)


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The field `rank` of a trial."""

    options: Mapping[str, Any]  # those of the method
    method: str = "gradient"
    split: str = "dev"
    examples: int | None = None
    batch: int = 32
    merge: str = "md"  # how rankings on several languages become one

    @classmethod
    def parse(cls, value: Mapping[str, Any] | None) -> Ranking:
        own, options = divided(value, OWN)
        return cls(options=options, **own)


OWN = tuple(name for name in Ranking.__dataclass_fields__ if name != "options")


class Rank(Step):
    """Score the heads on `source`."""

    name = "rank"
    fields = (SOURCE, RANK, SEED)
    ranks = True
    uses_languages = True

    def reads(self, trial: Trial, place: int) -> Iterator[Read]:
        split = Ranking.parse(trial.get("rank")).split
        yield from product([trial.task], trial.languages(place), [split])

    def passes(self, trial: Trial, place: int) -> Iterator[tuple[Read, float, int | None]]:
        spec = Ranking.parse(trial.get("rank"))
        count = ranker(spec.method, **spec.options).passes
        yield from ((read, count, spec.examples) for read in self.reads(trial, place))

    def run(self, state: State, trial: Trial) -> None:
        from deadhead.rankers import rank
        from deadhead.tasks import batches

        from . import models

        model = models.model(state, trial)
        spec = Ranking.parse(trial.get("rank"))
        languages, labels = trial.languages(state.at), models.labels_of(model, trial)
        data = models.encoded(state, trial, languages, spec.split, labels, examples=spec.examples)
        facts = {"task": trial.task, "lang": "+".join(languages), "split": spec.split}
        facts["fingerprint"] = data.data.fingerprint
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
