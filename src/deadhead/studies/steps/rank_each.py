"""The step `rank_each`: train and rank on each source language alone, then merge the rankings."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deadhead.studies.fields import SEED, SOURCE
from deadhead.studies.step import Read
from deadhead.studies.store.folder import prepare
from deadhead.studies.trial import Trial

from .rank import RANK, Ranking
from .state import State
from .training import FINETUNE, FinetuneField, TrainingFailed


class RankEach(FinetuneField):
    """Train and rank on each language of `source` alone, then merge the rankings."""

    name = "rank_each"
    fields = (SOURCE, RANK, FINETUNE, SEED)
    ranks = True
    uses_languages = True

    def part_trials(self, trial: Trial, place: int) -> Iterator[tuple[list[str], dict[str, Any]]]:
        rank = {name: value for name, value in trial.get("rank").items() if name != "merge"}
        for language in trial.languages(place):
            yield ["finetune", "rank"], {**trial.content, "source": language, "rank": rank}

    def reads(self, trial: Trial, place: int) -> Iterator[Read]:
        yield from (read for part in trial.sources for read in part.reads())

    def run(self, state: State, trial: Trial) -> None:
        from deadhead import ranking
        from deadhead.rankers.merge import merge

        with ExitStack() as stack:
            folder = state.folder or prepare(Path(stack.enter_context(TemporaryDirectory())))
            rankings = []
            for part in trial.sources:
                record = state.run(part, folder, part.work, state.tell)
                if record.error is not None:
                    name = f"the ranking on {part.get('source')}"
                    raise TrainingFailed(f"{name} failed:\n{record.error}")
                state.data.update(record.data)
                state.note("corpora", record.details.get("corpora") or {})
                file = folder / "shared" / part.keys[1] / "ranking.json"
                rankings.append(ranking.Ranking.load(file))
        state.ranking = merge(rankings, Ranking.parse(trial.get("rank")).merge)


STEP = RankEach()
