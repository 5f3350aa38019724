"""The lowest-k search of the papers and its controls, derived afterwards from trials that are all kept.

A search prunes the 1, 2, ... k lowest heads and keeps the best. The best of k trials is better than
one trial even if pruning does nothing, so each arm has the same budget: the lowest heads, the highest,
random ones, and the *unpruned* model with k other seeds. If `lowest` does not beat `seeds`, it was luck.
Which k is best may be chosen on the test set (as in the paper), on dev, or on the source's dev.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deadhead.studies.recipe.expand import label
from deadhead.studies.store import folder as place
from deadhead.studies.store.records import Summary, summaries
from deadhead.studies.study import described
from deadhead.tasks import task_of

OF_AN_ARM = ("arm", "k", "remove", "draw")  # labels in which the trials of one search differ


@dataclass(frozen=True)
class Pick:
    """The trial a rule chose."""

    k: int
    score: float
    gain: float  # over the unpruned model


@dataclass(frozen=True)
class Arm:
    """One arm of one search, scored in one language."""

    labels: Mapping[str, Any]  # what tells this search from others
    arm: str  # lowest, highest, random, seeds
    language: str
    metric: str
    full: float  # of the unpruned model
    scores: Mapping[int, float]  # test scores by k
    picks: Mapping[str, Pick]  # by the rule that chose: test, dev, source dev, stop
    missing: int  # trials of this arm that are not done
    trials: Mapping[int, str] = field(default_factory=dict)  # ids by k; 0 is the unpruned model


def best(scores: Mapping[int, float]) -> int:
    """The k of the highest score, the smallest among equals."""
    return min(scores, key=lambda k: (-scores[k], k))


def until_fall(full: float, scores: Mapping[int, float]) -> dict[int, float]:
    """The trials the paper's rule would have run: up to the first k whose score is below that of the k before."""
    before, run = full, {}
    for k in sorted(scores):
        run[k] = scores[k]
        if scores[k] < before:
            break
        before = scores[k]
    return run


def picks(
    full: float,
    test: Mapping[int, float],
    dev: Mapping[int, float],
    source_dev: Mapping[int, float],
) -> dict[str, Pick]:
    """What each rule chooses; a rule that lacks a score of some trial chooses nothing."""
    if not test:
        return {}
    chosen = {"test": best(test), "stop": best(until_fall(full, test))}
    for name, scores in (("dev", dev), ("source dev", source_dev)):
        if scores.keys() == test.keys():
            chosen[name] = best(scores)
    return {name: Pick(k, test[k], test[k] - full) for name, k in chosen.items()}


def arms(folder: str | Path) -> list[Arm]:
    """Every arm of every search in a study, in every language scored; searches without their unpruned model are left out."""
    home = place.inside(Path(folder))
    return arms_among(described(home)["cells"], summaries(home))


def arms_among(cells: list[Any], known: Mapping[str, Summary]) -> list[Arm]:
    """The same, of cells and records that were read already: reading very many takes a while."""
    found: list[Arm] = []
    for group, trials in _groups(cells).items():
        full = known.get(trials.pop(("full", 0), ""))
        if full is None or full.state != "done":
            continue
        for arm in dict.fromkeys(name for name, _ in trials):
            done = {
                k: known[trial]
                for (name, k), trial in trials.items()
                if name == arm and trial in known and known[trial].state == "done"
            }
            lost = sum(name == arm for name, _ in trials) - len(done)
            found += [
                _arm(dict(group), arm, language, full, done, lost)
                for language in full.trial.get("targets", ())
            ]
    return found


def _groups(cells: list[Any]) -> dict[tuple[tuple[str, Any], ...], dict[tuple[str, int], str]]:
    groups: dict[tuple[tuple[str, Any], ...], dict[tuple[str, int], str]] = {}
    for labels, trial in cells:
        if "arm" in labels and "k" in labels:
            group = tuple(
                (name, label(value)) for name, value in labels.items() if name not in OF_AN_ARM
            )
            groups.setdefault(group, {})[labels["arm"], labels["k"]] = trial
    return groups


def _arm(
    group: dict[str, Any],
    arm: str,
    language: str,
    full: Summary,
    done: Mapping[int, Summary],
    missing: int,
) -> Arm:
    metric = task_of(full.trial["task"]).metric
    source = next(iter(_sources(full.trial)), "")
    test, dev, source_dev = (
        _scores(done, f"{place}/{metric}")
        for place in (f"{language}/test", f"{language}/dev", f"{source}/dev")
    )
    told = full.metrics.get(f"{language}/test/{metric}")
    base = float("nan") if told is None else told
    ids = {0: full.id, **{k: one.id for k, one in done.items()}}
    return Arm(
        group, arm, language, metric, base, test, picks(base, test, dev, source_dev), missing, ids
    )


def _scores(done: Mapping[int, Summary], name: str) -> dict[int, float]:
    return {
        k: one.metrics[name] for k, one in done.items() if one.metrics.get(name) is not None
    }  # what was no number is null


def _sources(trial: Mapping[str, Any]) -> Iterator[str]:
    found = trial.get("source", trial.get("train", ()))
    yield from [found] if isinstance(found, str) else found
