"""Findings about removals: which cost little, which cost much, and whether the choice matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan

from deadhead.report.labels import metric_words, unit_of
from deadhead.report.tables.significance import RATE
from deadhead.results import Mean, Study
from deadhead.results.removals import scored_on, seeds_of
from deadhead.results.statistics import deviation, two_means
from deadhead.strategies import STRATEGIES
from deadhead.tasks.metrics import sign

SMALL = 1.0  # points that count as little


def removal_sentences(study: Study, tests: list[str]) -> list[str]:
    """Sentences about the removals of a study; `tests` says which cells of a table differ."""
    removals = study.removals
    return [
        *_least_and_most(study, removals),
        *_best_and_worst(study, removals),
        *tests,
        *_choice_matters(removals),
        *_extremes(study, removals),
    ]


def _words(removal: Mean) -> str:
    """The removed heads, behind "without"."""
    strategy, amount = removal.label("strategy"), removal.label("amount")
    if strategy not in STRATEGIES:
        return f"the heads of {removal.label('remove')}"
    return STRATEGIES[str(strategy)].in_words(amount)


def _comparable(removals: Sequence[Mean]) -> list[Mean]:
    """The largest group that was scored on the same: means over other tasks are other numbers."""
    groups: dict[frozenset[object], list[Mean]] = {}
    for removal in removals:
        groups.setdefault(scored_on(removal), []).append(removal)
    _, largest = max(groups.items(), key=lambda group: (len(group[1]), len(group[0])))
    return largest


def _least_and_most(study: Study, removals: Sequence[Mean]) -> list[str]:
    """The largest removal that costs little (or the one that costs least), and the worst."""
    if not removals or removals[0].base is None:
        return []
    comparable = _comparable(removals)
    best = _least(study, comparable)
    assert best.base is not None  # as of the first
    one_metric = len(best.labels("task")) == 1 or len(study.metrics) == 1
    text = (
        f"Without {_words(best)}, the mean "
        f"{metric_words(best.metric) if one_metric else 'score'} is {best.value:.1f}, "
        f"against {best.base.value:.1f} unpruned {_evidence(study, best)}"
    )
    gains = best.gains("language")
    if len(gains) > 1:
        low, high = _ends(gains)
        text += f"; languages change by {gains[low]:+.1f} ({low}) to {gains[high]:+.1f} ({high})"
    worst = max(comparable, key=lambda removal: removal.loss)
    if worst is not best and worst.loss > max(SMALL, best.loss):
        return [f"{text}. Without {_words(worst)}, it is {worst.value:.1f}."]
    return [f"{text}."]


def _least(study: Study, removals: Sequence[Mean]) -> Mean:
    """The largest removal that costs little, else the one that costs least."""
    little = [removal for removal in removals if removal.loss <= SMALL]
    if little:
        return max(little, key=lambda removal: (_size(study, removal), -removal.loss))
    return min(removals, key=lambda removal: removal.loss)


def _size(study: Study, removal: Mean) -> float:
    """The removed share of the weights: amounts are percents, heads or layers."""
    cost = study.summaries[removal.trials[0]].cost
    before, after = cost.get("parameters"), cost.get("parameters after")
    if isinstance(before, int) and isinstance(after, int) and before:
        return 1 - after / before
    return 0.0


def _ends(gains: Mapping[str, float]) -> tuple[str, str]:
    return min(gains, key=lambda name: gains[name]), max(gains, key=lambda name: gains[name])


def _evidence(study: Study, removal: Mean) -> str:
    """The evidence for a number: repetitions, languages, tasks, spread and test."""
    languages, tasks = len({*removal.languages}), len(removal.labels("task"))
    over = [f"{languages} languages"] if languages > 1 else []
    over += [f"{tasks} tasks"] if tasks > 1 else []
    text = f" over {' and '.join(over)}" if over else ""
    repeats = removal.repeats
    if len(repeats) == 1:
        return f"(one trial{text})"
    drawn = removal.label("draw") is not None and len(study.labels("draw")) > 1
    p = two_means(repeats, seeds_of(removal.base))
    test = "" if isnan(p) else f", t-test {p_words(p)}"
    count = f"{len(repeats)} {'masks' if drawn else 'repetitions'}"
    return f"({count}{text}, sd {deviation(repeats):.1f}{test})"


def p_words(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _best_and_worst(study: Study, removals: Sequence[Mean]) -> list[str]:
    """The removals with the highest and the lowest mean, if there is no unpruned model."""
    if len(removals) < 2 or removals[0].base is not None:
        return []
    comparable = _comparable(removals)
    up = sign(comparable[0].metric)
    ends = ("highest", "lowest")[::up]
    best = max(comparable, key=lambda removal: up * removal.value)
    worst = min(comparable, key=lambda removal: up * removal.value)
    return [
        f"Of {len(comparable)} removals, without {_words(best)} the mean is {ends[0]}, "
        f"{best.value:.1f} {_evidence(study, best)}, and without {_words(worst)} {ends[1]}, "
        f"{worst.value:.1f}; the study has no unpruned model to compare with."
    ]


def _choice_matters(removals: Sequence[Mean]) -> list[str]:
    """Lowest-ranked heads against the same number of random ones."""
    by = {(r.label("strategy"), r.label("amount")): r for r in removals}
    amounts = [a for strategy, a in by if strategy == "lowest" and isinstance(a, int | float)]
    for amount in sorted(amounts, reverse=True):
        lowest = by["lowest", amount]
        other = by.get(("random_k", amount)) or by.get(("highest", amount))
        if other is None:
            continue
        ours, theirs = lowest.repeats, other.repeats
        difference, p = lowest.value - other.value, two_means(ours, theirs)
        if ours == theirs:
            return [f"Without {_words(lowest)} every score is as without {_words(other)}."]
        text = (
            f"The mean is {abs(difference):.1f}{unit_of([lowest.metric])} "
            f"{'higher' if difference >= 0 else 'lower'} "
            f"without {_words(lowest)} than without {_words(other)}"
        )
        if sign(lowest.metric) < 0:
            text += f", and lower is better ({metric_words(lowest.metric)})"
        if isnan(p):
            return [f"{text}; with so few trials this may be luck."]
        verdict = "a difference" if p < RATE else "no difference is shown"
        return [f"{text} (t-test {p_words(p)}: {verdict})."]
    return []


def _extremes(study: Study, removals: Sequence[Mean]) -> list[str]:
    """Languages and tasks that lose most and least by the removal that costs most."""
    sentences: list[str] = []
    for who, axis in (("Languages", "language"), ("Tasks", "task")):
        mixed = [removal for removal in removals if len(removal.gains(axis)) > 1]
        worst = max(mixed, key=lambda removal: removal.loss, default=None)
        if worst is None or (who == "Languages" and worst is _least(study, _comparable(removals))):
            continue  # the first sentence has this range already
        what = f"without {_words(worst)}"
        sentences += extremes(worst.gains(axis), what, who, unit_of([worst.metric]))
    return sentences


def extremes(gains: Mapping[str, float], what: str, who: str, unit: str) -> list[str]:
    if len(gains) < 2:
        return []
    low, high = _ends(gains)
    return [
        f"{who}: {what} the change ranges from {gains[low]:+.1f}{unit} ({low}) to "
        f"{gains[high]:+.1f} ({high})."
    ]
