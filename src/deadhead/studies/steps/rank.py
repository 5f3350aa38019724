"""The step `rank`: score every head on the source languages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from deadhead.studies.fields import SEED, SOURCE, Field, _rank
from deadhead.studies.step import Read, Step
from deadhead.studies.store.shapes import are_texts, is_text, maps_heads_to_numbers
from deadhead.studies.trial import Trial

from .progress import throttled
from .state import State

DEFAULT = {"method": "gradient", "split": "dev"}
RANK = Field(
    name="rank",
    about="the ranking method, its options and its data",
    check=_rank,
    types=(dict,),
    default=DEFAULT,
    canonical=lambda value: {**DEFAULT, **value},
    needs_step=False,
)


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The field `rank` of a trial."""

    options: Mapping[str, Any]  # of the method
    method: str = "gradient"
    split: str = "dev"
    examples: int | None = None
    batch: int = 32
    merge: str = "md"  # of rankings on several languages

    @classmethod
    def parse(cls, value: Mapping[str, Any] | None) -> Ranking:
        own = {name: item for name, item in (value or {}).items() if name in OWN}
        rest = {name: item for name, item in (value or {}).items() if name not in OWN}
        return cls(options=rest, **own)


OWN = tuple(name for name in Ranking.__dataclass_fields__ if name != "options")


def _is_ranking(value: Any) -> bool:
    if type(value) is not dict or not maps_heads_to_numbers(value.get("scores")):
        return False
    return (
        is_text(value.get("method", ""))
        and are_texts(value.get("languages", []))
        and is_text(value.get("merge") or "")
    )


class Rank(Step):
    name = "rank"
    about = "score the heads on `source`"
    fields = (SOURCE, RANK, SEED)
    details = (("ranking", _is_ranking),)
    ranks = True
    uses_languages = True

    def reads(self, trial: Trial, place: int) -> Iterator[Read]:
        split = Ranking.parse(trial.get("rank")).split
        yield from product([trial.task], trial.languages(place), [split])

    def run(self, state: State, trial: Trial) -> None:
        from deadhead.rank_data import keeps_order
        from deadhead.rankers import rank
        from deadhead.tasks import batches

        from . import models

        model = models.model(state, trial)
        spec = Ranking.parse(trial.get("rank"))
        languages, labels = trial.languages(state.at), models.labels_of(model, trial)
        data = models.encoded(state, trial, languages, spec.split, labels, spec.examples)
        facts = {
            "task": trial.task,
            "lang": "+".join(languages),
            "split": spec.split,
            "fingerprint": data.data.fingerprint,
        }
        say = throttled(state.tell)

        def progress(done: int, total: int, note: str = "") -> None:
            say(f"ranking {done}/{total} {note}".strip())

        state.ranking = rank(
            model,
            batches(
                data, size=spec.batch, sort=not keeps_order(spec.options), device=models.device()
            ),
            spec.method,
            seed=trial.seed_of(state.at),
            progress=progress,
            data=facts,
            **spec.options,
        )


STEP = Rank()
