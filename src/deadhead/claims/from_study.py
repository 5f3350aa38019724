"""Evidence out of study folders: their scores, searches, rankings and measures.

Most comes from the index of the records. Records are opened one by one only for what the index does not
keep: the share of heads a removal takes (one record for each), measures, and one ranking for each language. No
number is made that no claim asks for: of the scores only those of the usual metric, outside of searches or unpruned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.results.scores import Pair, Score, Studied, one_label
from deadhead.results.search import Arm
from deadhead.studies.recipe.expand import label
from deadhead.studies.store.folder import StudyError
from deadhead.studies.store.records import Record, Summary, read_within
from deadhead.tasks import points, task_of

from .evidence import Best, Evidence, Fact, Measured, Merged, Ranked, Search

FIRST = "@1"  # behind a split: the weights after the first epoch
TRIES = 8  # records without a ranking, damaged say, after which no more are opened for it
WAYS = {"gradient merge=md": "MD", "gradient merge=sd": "SD"}


def measured(folders: Iterable[str | Path | Studied]) -> Evidence:
    """All that some studies found, pooled; a trial that several of them ran counts once."""
    whole = sum((_one(Studied.at(folder)) for folder in folders), Evidence())
    searches: dict[Any, Search] = {}
    for one in whole.searches:
        key = one.pair, one.trials[:1]
        searches[key] = _both(searches[key], one) if key in searches else one
    return Evidence(
        tuple(dict.fromkeys(whole.facts)),
        tuple(searches.values()),
        tuple({(m.model, m.task, m.train, m.target): m for m in whole.merged}.values()),
        tuple({(m.trial, m.name, m.stage): m for m in whole.measured}.values()),
        tuple(_joined(whole.rankings)),
    )


def _joined(rankings: Iterable[Ranked]) -> Iterator[Ranked]:
    """One ranking of a language by a method: the mean of those there are, or of those of one and the same heads."""
    groups: dict[Any, list[Ranked]] = {}
    for one in {one.trial: one for one in rankings}.values():
        groups.setdefault((one.model, one.task, one.language, one.method), []).append(one)
    for several in groups.values():
        first = min(several, key=lambda one: one.trial)  # whatever the order of the studies
        alike = [one.scores for one in several if one.scores.keys() == first.scores.keys()]
        yield (
            replace(
                first,
                scores={head: fmean(scores[head] for scores in alike) for head in first.scores},
            )
            if len(alike) > 1
            else first
        )


def _both(one: Search, other: Search) -> Search:
    """A search that two studies ran, with the arms of both."""
    return replace(
        one,
        arms={**other.arms, **one.arms},
        trials=tuple(dict.fromkeys((*one.trials, *other.trials))),
    )


def _one(study: Studied) -> Evidence:
    ordered = sorted(
        study.known.items()
    )  # a folder lists its files in any order, and one ranking is read for each language
    known = {name: one for name, one in ordered if one.state == "done"}
    record = cache(partial(_read, study.home))
    found = [pair for pair in study.pairs if isfinite(pair.unpruned)]
    return Evidence(
        tuple(_facts(study, record)),
        tuple(_searches(found)),
        tuple(_merged(found)),
        tuple(_measures(known, record)),
        tuple(_rankings(known, record)),
    )


def _read(home: Path, trial: str) -> Record | None:
    """A record; None where the file is damaged or gone, which says nothing about the others."""
    try:
        return read_within(home, trial)
    except StudyError:
        return None


def _facts(study: Studied, record: Callable[[str], Record | None]) -> Iterator[Fact]:
    """The scores of all but the pruned trials of searches, which are searches and no facts."""
    shares: dict[tuple[str, str], float | None] = {}
    seen: dict[
        str, tuple[str, bool, bool]
    ] = {}  # the split it is judged by: what was scored on test is not judged by dev
    for row in study.scores(("", "full"), _metric):
        if row.trial not in seen:
            summary = study.known[row.trial]
            judged = (
                "test"
                if any(_is_test(name, value) for name, value in summary.metrics.items())
                else "dev"
            )
            failed = one_label(summary.metrics, row.train.split("+"), judged, row.metric)
            seen[row.trial] = judged, _one_epoch(summary, record), failed
        judged, short, failed = seen[row.trial]
        split, _, epoch = row.split.partition("@")
        if split != judged or (epoch and short):
            continue
        if (row.model, row.remove) not in shares:
            shares[row.model, row.remove] = _share(row, study.known[row.trial], record)
        yield Fact(
            row.model,
            _base(row.task),
            row.source,
            row.target,
            row.remove,
            shares[row.model, row.remove],
            points(row.metric, row.value),
            row.setting,
            1 if epoch == "1" else None,
            row.trial,
            _kind(row.task),
            failed,
        )


def _one_epoch(summary: Summary, record: Callable[[str], Record | None]) -> bool:
    """Whether it was trained for one epoch alone, which no later one can be held against; its settings are asked only if nothing moved."""
    early = [(name, value) for name, value in summary.metrics.items() if FIRST in name]
    if not early or any(
        value != summary.metrics.get(name.replace(FIRST, "")) for name, value in early
    ):
        return False
    one = record(summary.id)
    return one is not None and (one.trial.get("finetune") or {}).get("epochs") == 1


def _is_test(name: str, value: float | None) -> bool:
    return value is not None and name.count("/") == 2 and name.split("/")[1] == "test"


def _share(row: Score, summary: Summary, record: Callable[[str], Record | None]) -> float | None:
    """The percentage of heads that are gone: as asked, or counted in the record."""
    if row.remove == "none":
        return 0.0
    if row.strategy == "random":
        return float(row.amount)
    whole, one = summary.cost.get("heads before"), record(row.trial)
    return 100 * len(one.removed) / whole if whole and one is not None else None


@cache
def _metric(task: str) -> str:
    """The metric a task is told by; none where its task file is not here."""
    try:
        return task_of(task).metric
    except DeadheadError:
        return ""


@cache
def _base(task: str) -> str:
    """The task without the corpus: `slots-atis` is `slots`."""
    try:
        return task_of(task).name
    except DeadheadError:
        return task


@cache
def _kind(task: str) -> str:
    try:
        return task_of(task).kind
    except DeadheadError:
        return ""


def _searches(found: Iterable[Pair]) -> Iterator[Search]:
    for pair in found:
        if pair.lowest is None:
            continue
        several = {"lowest": pair.lowest, **pair.controls}
        arms = {name: _best(arm) for name, arm in several.items() if "test" in arm.picks}
        if "lowest" in arms:
            trials = [arm.trials[k] for arm in several.values() for k in sorted(arm.trials)]
            yield Search(
                pair.model,
                _base(pair.task),
                pair.source,
                pair.target,
                pair.setting,
                points(pair.lowest.metric, pair.unpruned),
                arms,
                pair.rank,
                pair.parts,
                pair.train,
                tuple(dict.fromkeys(trials)),
                _kind(pair.task),
            )


def _best(arm: Arm) -> Best:
    """The paper's choice: the best trial by the score on test."""
    pick = arm.picks["test"]
    values = tuple(points(arm.metric, score) for score in arm.scores.values())
    return Best(points(arm.metric, pick.gain), pick.k, values, tuple(arm.scores))


def _merged(found: Iterable[Pair]) -> Iterator[Merged]:
    """Trainings on several languages scored in another: MD, SD, and EC, the best over rankings of one of them each."""
    groups: dict[tuple[str, str, frozenset[str], str], list[Pair]] = {}
    for pair in found:
        learnt = frozenset(pair.train.split("+"))
        if (
            len(learnt) > 1
            and pair.target not in learnt
            and pair.lowest is not None
            and "test" in pair.lowest.picks
        ):
            groups.setdefault((pair.model, _base(pair.task), learnt, pair.target), []).append(pair)
    for (model, task, learnt, target), group in groups.items():
        best: dict[str, float] = {}
        for pair in group:
            way = WAYS.get(pair.rank, "EC" if pair.source in learnt else "")
            if way and pair.lowest is not None:
                score = points(pair.lowest.metric, pair.lowest.picks["test"].score)
                best[way] = max(best.get(way, score), score)
        if {pair.source for pair in group if pair.rank == "gradient"} != learnt:
            best.pop("EC", None)  # not every language's ranking was tried
        metric = group[0].lowest.metric if group[0].lowest else ""
        trials = tuple(
            dict.fromkeys(
                trial for pair in group if pair.lowest for trial in pair.lowest.trials.values()
            )
        )
        yield Merged(
            model,
            task,
            group[0].train,
            target,
            points(metric, group[0].unpruned),
            best,
            trials,
            min(len(p.lowest.scores) for p in group if p.lowest),
            _kind(group[0].task),
        )


def _measures(
    known: Mapping[str, Summary], record: Callable[[str], Record | None]
) -> Iterator[Measured]:
    for trial, summary in known.items():
        one = record(trial) if summary.trial.get("measure") else None
        if one is None:
            continue
        task = str(summary.trial.get("task"))
        fields = (
            str(summary.trial.get("model")),
            _base(task),
            str(label(summary.trial.get("remove", "none"))),
        )
        for stage, by_name in _dict(one.details.get("measures")).items():
            for name, told in _dict(by_name).items():
                values = _whole(_dict(told)) if name == "embeddings" else _numbers(told)
                if values:
                    yield Measured(trial, *fields, name, stage, values, one.removed, _kind(task))


def _whole(embeddings: dict[str, Any]) -> dict[str, Any]:
    """What was found about embeddings, if all of it is there."""
    rows = _dict(embeddings.get("centroids")).get("distances") or []
    whole = _is_number(embeddings.get("silhouette")) and all(
        _is_number(d) for row in rows for d in row
    )
    return embeddings if whole and rows else {}


def _rankings(
    known: Mapping[str, Summary], record: Callable[[str], Record | None]
) -> Iterator[Ranked]:
    seen: set[tuple[str, ...]] = set()
    without: Counter[tuple[str, ...]] = Counter()  # records that were opened for it in vain
    for trial, summary in known.items():
        told, source, task = (summary.trial.get(name) for name in ("rank", "source", "task"))
        fields = str(summary.trial.get("model")), _base(str(task))
        key = (*fields, str(source), str(told))
        if not told or not source or key in seen or without[key] == TRIES:
            continue  # no ranking, or the same that another trial had
        one = record(trial)
        ranking = _dict(one.details.get("ranking")) if one is not None else {}
        scores = _numbers(ranking.get("scores"))
        if scores:
            seen.add(key)
            yield Ranked(
                trial,
                *fields,
                "+".join(ranking.get("languages", ())),
                _method(ranking, told),
                scores,
                _kind(str(task)),
            )
        else:
            without[key] += 1


def _method(ranking: Mapping[str, Any], asked: Any) -> str:
    """The method of a ranking, of LRP with its rule: `lrp rule=alpha-beta`, as searches tell it."""
    method, rule = str(ranking.get("method", "")), _dict(asked).get("rule")
    return f"{method} rule={rule}" if rule else method


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _numbers(value: Any) -> dict[str, float]:
    """The numbers by head; what was none (NaN) is null in a record, and left out."""
    return {name: number for name, number in _dict(value).items() if _is_number(number)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
