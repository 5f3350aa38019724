"""Evidence from study folders: what claims use of the scores, searches, rankings and measures."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from deadhead.results import Measurement, RankedHeads, Search, Study
from deadhead.results.records import is_number
from deadhead.results.searches import finished

from .evidence import Evidence, group_by


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
        scores=tuple(dict.fromkeys(score for study in studies for score in study.usable_scores)),
        searches=tuple(searches.values()),
        merged=tuple({(m.model, m.task, m.train, m.target): m for m in merged}.values()),
        measures=tuple({(m.trial, m.name, m.stage): m for m in measures}.values()),
        rankings=tuple(_means(rankings)),
    )


def _complete(measure: Measurement) -> bool:
    """Whether its numbers are there: embeddings of a single language have no silhouette."""
    return measure.name != "embeddings" or is_number(measure.values.get("silhouette"))


def _means(rankings: Sequence[RankedHeads]) -> Iterator[RankedHeads]:
    """One ranking of each language by each method: the mean of those that rank the same heads."""
    by_trial = {ranking.trial: ranking for ranking in rankings}
    groups = group_by(by_trial.values(), "model", "task", "language", "method")
    for group in groups.values():
        first = min(group, key=lambda ranking: ranking.trial)  # in any order of studies
        same = [one.scores for one in group if one.scores.keys() == first.scores.keys()]
        mean = {head: fmean(scores[head] for scores in same) for head in first.scores}
        yield replace(first, scores=mean) if len(same) > 1 else first
