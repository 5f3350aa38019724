"""The lowest-k search of the papers and its controls, computed from the records of all trials.

A search prunes the 1, 2, ... k lowest heads and keeps the best. The best of k trials is better than
one trial even if pruning does nothing, so each arm has the same budget: the lowest heads, the
highest, random ones, and the *unpruned* model with k other seeds. If `lowest` does not beat
`seeds`, the gain was luck. The best k may be chosen on the test set (as in the paper), on dev, or
on the source's dev.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite, nan
from statistics import fmean
from typing import Any

from deadhead.studies.trial import CONTROLS, label
from deadhead.tasks import points
from deadhead.tasks.metrics import sign

from .cells import Cell, as_tuple, is_target, rank_label
from .means import group_by
from .model import Arm, Merged, Pick, Search

ARMS = ("full", "lowest", *CONTROLS)
OF_AN_ARM = ("arm", "k", "remove", "draw")  # labels in which the trials of one search differ
WAYS = {"gradient merge=md": "MD", "gradient merge=sd": "SD"}  # to merge rankings
Group = tuple[tuple[str, Any], ...]  # the labels of a search


def best(scores: Mapping[int, float], up: int = 1) -> int:
    """The k of the best score, the smallest among equals; `up` is the sign of the metric."""
    highest = max(up * score for score in scores.values())
    return min([k for k, score in scores.items() if up * score == highest])


def until_fall(full: float, scores: Mapping[int, float], up: int = 1) -> dict[int, float]:
    """The trials the paper's rule would run: up to the first k that is worse than the k before."""
    before, run = full, {}
    for k in sorted(scores):
        run[k] = scores[k]
        if up * scores[k] < up * before:
            break
        before = scores[k]
    return run


def picks(
    full: float,
    test: Mapping[int, float],
    dev: Mapping[int, float],
    source_dev: Mapping[int, float],
    up: int = 1,
) -> dict[str, Pick]:
    """What each rule chooses; a rule that lacks a score of some trial chooses nothing."""
    if not test:
        return {}
    chosen = {"test": best(test, up), "stop": best(until_fall(full, test, up), up)}
    for name, scores in (("dev", dev), ("source dev", source_dev)):
        if scores.keys() == test.keys():
            chosen[name] = best(scores, up)
    return {name: Pick(k, test[k], up * (test[k] - full)) for name, k in chosen.items()}


def searches_among(cells: Iterable[Cell]) -> Iterator[Search]:
    """Every search in every language it is for, in points, if its unpruned model has a score."""
    searches: dict[Group, dict[str, dict[int, Cell]]] = {}  # labels -> arm -> k -> cell
    for cell in cells:
        if "arm" in cell.labels and "k" in cell.labels:
            labels = cell.labels.items()
            group = tuple((name, label(v)) for name, v in labels if name not in OF_AN_ARM)
            arms = searches.setdefault(group, {})
            arms.setdefault(cell.labels["arm"], {})[cell.labels["k"]] = cell
    for group, arms in searches.items():
        full = arms.pop("full", {}).get(0)
        if full is not None and full.summary is not None and full.state == "done":
            arms = {"lowest": arms.pop("lowest"), **arms} if "lowest" in arms else arms
            for language in full.summary.trial.get("targets", ()):
                yield from _search(group, full, arms, language)


def _search(
    group: Group, full: Cell, arms: Mapping[str, Mapping[int, Cell]], language: str
) -> Iterator[Search]:
    """The search in a language, if it is for this language and its unpruned model has a score."""
    common = full.common(language)
    scored = {name: _arm(name, full, language, cells) for name, cells in arms.items()}
    unpruned = next((arm.full for arm in scored.values()), nan)
    if isfinite(unpruned) and is_target(common["source"], common["train"], language):
        lowest = (c for k, c in arms.get("lowest", {}).items() if k and c.state == "done")
        ranked = next((cell.summary.trial for cell in lowest if cell.summary is not None), {})
        trials = (arm.trials[k] for arm in scored.values() for k in sorted(arm.trials))
        yield Search(
            **common,
            unpruned=unpruned,
            arms=scored,
            rank=rank_label(ranked),
            trials=tuple(dict.fromkeys(trials)),
            group=group,
        )


def _arm(name: str, full: Cell, language: str, cells: Mapping[int, Cell]) -> Arm:
    assert full.summary is not None
    trial, metric = full.summary.trial, full.metric
    done = {k: c.summary for k, c in cells.items() if c.summary is not None and c.state == "done"}
    source = next(iter(as_tuple(trial.get("source", trial.get("train")))), "")

    def scores(split: str) -> dict[int, float]:
        """Scores by k; a score that was not a number is null in its record."""
        values = {k: summary.metrics.get(f"{split}/{metric}") for k, summary in done.items()}
        return {k: points(metric, value) for k, value in values.items() if value is not None}

    test = scores(f"{language}/test")
    stored = full.summary.metrics.get(f"{language}/test/{metric}")
    base = nan if stored is None else points(metric, stored)
    dev = scores(f"{language}/dev"), scores(f"{source}/dev")
    return Arm(
        arm=name,
        metric=metric,
        full=base,
        scores=test,
        tried=tuple(test),
        picks=picks(base, test, *dev, up=sign(metric)),
        missing=len(cells) - len(done),
        trials={0: full.trial, **{k: summary.id for k, summary in done.items()}},
    )


def pairs_among(searches: Iterable[Search]) -> tuple[Search, ...]:
    """The pairs of languages, which findings and claims count, if they have a score."""
    return over_seeds(search for search in finished(searches) if search.is_pair)


def finished(searches: Iterable[Search]) -> Iterator[Search]:
    """The searches whose lowest-k arm has a score, without the arms that have none."""
    for search in searches:
        arms = {name: arm for name, arm in search.arms.items() if "test" in arm.picks}
        if "lowest" in arms:
            yield search if len(arms) == len(search.arms) else replace(search, arms=arms)


def over_seeds(searches: Iterable[Search]) -> tuple[Search, ...]:
    """The searches, the mean of those that differ only in their seed."""
    return tuple(map(_mean_search, group_by(searches, "pair").values()))


def _mean_search(group: Sequence[Search]) -> Search:
    first = group[0]
    if len(group) == 1:
        return first
    names = [name for name in first.arms if all(name in search.arms for search in group)]
    return replace(
        first,
        unpruned=fmean(search.unpruned for search in group),
        arms={name: _mean_arm([search.arms[name] for search in group]) for name in names},
        trials=tuple(trial for search in group for trial in search.trials),
    )


def _mean_arm(arms: Sequence[Arm]) -> Arm:
    """The mean choice by each rule, with the gain of each seed as a repeat."""
    rules = [rule for rule in arms[0].picks if all(rule in arm.picks for arm in arms)]
    picks = {rule: _mean_pick([arm.picks[rule] for arm in arms]) for rule in rules}
    shortest = min(arms, key=lambda arm: arm.budget)
    return replace(shortest, picks=picks, repeats=tuple(arm.gain for arm in arms))


def _mean_pick(picks: Sequence[Pick]) -> Pick:
    ks = [pick.k for pick in picks if pick.k is not None]
    scores, gains = (fmean(getattr(pick, name) for pick in picks) for name in ("score", "gain"))
    return Pick(fmean(ks) if ks else None, scores, gains)


def merged_among(searches: Iterable[Search]) -> Iterator[Merged]:
    """Trainings on several languages scored in another language.

    EC is the best over the rankings of one language each; it needs those of all of them.
    """
    groups: dict[tuple[str, str, frozenset[str], str], list[tuple[Search, Arm]]] = {}
    for search in searches:
        train, lowest = frozenset(search.train.split("+")), search.lowest
        if len(train) > 1 and search.target not in train and lowest and "test" in lowest.picks:
            key = (search.model, search.task, train, search.target)
            groups.setdefault(key, []).append((search, lowest))
    for (model, task, train, target), group in groups.items():
        scores: dict[str, float] = {}
        for search, lowest in group:
            way = WAYS.get(search.rank, "EC" if search.source in train else "")
            if way:
                score = lowest.picks["test"].score
                better = max if sign(lowest.metric) > 0 else min
                scores[way] = better(scores.get(way, score), score)
        if {search.source for search, _ in group if search.rank == "gradient"} != train:
            scores.pop("EC", None)
        first = group[0][0]
        trials = (trial for _, lowest in group for trial in lowest.trials.values())
        yield Merged(
            model=model,
            task=task,
            kind=first.kind,
            train=first.train,
            target=target,
            unpruned=first.unpruned,
            scores=scores,
            trials=tuple(dict.fromkeys(trials)),
            budget=min(len(lowest.scores) for _, lowest in group),
            up=sign(group[0][1].metric),
        )
