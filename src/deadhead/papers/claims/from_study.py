"""Evidence from study folders: what claims use of the scores, searches, rankings and measures."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from deadhead.results import Measurement, RankedHeads, Score, Search, Study
from deadhead.results.cells import as_dict
from deadhead.results.records import is_number
from deadhead.results.searches import finished

from .evidence import Evidence

FIRST = "@1"  # behind a split: the weights after the first epoch


def measured(folders: Iterable[str | Path | Study]) -> Evidence:
    """The evidence of some studies together; a trial that several of them ran counts once."""
    studies = [Study.open(folder) for folder in folders]
    searches: dict[Any, Search] = {}
    for search in (search for study in studies for search in finished(study.searches)):
        key = search.pair, search.trials[:1]
        if key in searches:  # two studies ran it: keep the arms of both
            first = searches[key]
            trials = tuple(dict.fromkeys((*first.trials, *search.trials)))
            search = replace(first, arms={**search.arms, **first.arms}, trials=trials)
        searches[key] = search
    measures = (one for study in studies for one in study.measures if _complete(one))
    merged = (one for study in studies for one in study.merged)
    rankings = [ranking for study in studies for ranking in study.rankings]
    return Evidence(
        scores=tuple(dict.fromkeys(score for study in studies for score in usable(study))),
        searches=tuple(searches.values()),
        merged=tuple({(m.model, m.task, m.train, m.target): m for m in merged}.values()),
        measures=tuple({(m.trial, m.name, m.stage): m for m in measures}.values()),
        rankings=tuple(_means(rankings)),
    )


def usable(study: Study) -> Iterator[Score]:
    """The scores that claims are judged by: on test, or on dev where nothing was scored on test."""
    splits: dict[str, str] = {}
    short: dict[str, bool] = {}
    for score in study.scores:
        if score.trial not in splits:
            metrics = study.summaries[score.trial].metrics.items()
            tested = any("/test/" in name and value is not None for name, value in metrics)
            splits[score.trial] = "test" if tested else "dev"
        if score.split.partition("@")[0] != splits[score.trial]:
            continue
        if score.epoch is not None and score.trial not in short:
            short[score.trial] = _one_epoch(study, score.trial)
        if score.epoch is None or not short[score.trial]:
            yield score


def _one_epoch(study: Study, trial: str) -> bool:
    """Whether a trial was trained for one epoch only, so that no later epoch can be compared.

    Its record is opened only if no score changed after the first epoch.
    """
    metrics = study.summaries[trial].metrics
    early = {name: value for name, value in metrics.items() if FIRST in name}
    if any(value != metrics.get(name.replace(FIRST, "")) for name, value in early.items()):
        return False
    record = study.record(trial)
    return record is not None and (record.trial.get("finetune") or {}).get("epochs") == 1


def _complete(measure: Measurement) -> bool:
    """Whether all numbers of the embeddings are there; other measures leave out missing heads."""
    if measure.name != "embeddings":
        return True
    rows = as_dict(measure.values.get("centroids")).get("distances") or []
    numbers = [measure.values.get("silhouette"), *(value for row in rows for value in row)]
    return bool(rows) and all(map(is_number, numbers))


def _means(rankings: Sequence[RankedHeads]) -> Iterator[RankedHeads]:
    """One ranking of each language by each method: the mean of those that rank the same heads."""
    groups: dict[Any, list[RankedHeads]] = {}
    for ranking in {ranking.trial: ranking for ranking in rankings}.values():
        key = (ranking.model, ranking.task, ranking.language, ranking.method)
        groups.setdefault(key, []).append(ranking)
    for group in groups.values():
        first = min(group, key=lambda ranking: ranking.trial)  # in any order of studies
        same = [one.scores for one in group if one.scores.keys() == first.scores.keys()]
        mean = {head: fmean(scores[head] for scores in same) for head in first.scores}
        yield replace(first, scores=mean) if len(same) > 1 else first
