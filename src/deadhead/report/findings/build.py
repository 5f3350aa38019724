"""What a study found, in up to three plain sentences with their numbers: the first that it has something to say to.

They are honest about how much stands behind them: repetitions, the spread, the control for luck.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isnan
from statistics import fmean
from typing import Any

from deadhead.report.labels import joined, metric_words
from deadhead.report.tables.grid import alike, whose
from deadhead.report.tables.searches import searches
from deadhead.report.tables.significance import RATE
from deadhead.results import Search, Study
from deadhead.results.cells import CHANCE, PRUNING, Cell
from deadhead.results.from_record import ranking_of
from deadhead.results.statistics import deviation, ranking_rho, sign_test, two_means
from deadhead.strategies import STRATEGIES
from deadhead.studies.store.records import Record

from .measures import collapsed, measured, scored

Scores = Mapping[str, float]  # by language
MOST = 3
SMALL = 1.0  # points that are called little
FEW = 3  # cells named in a sentence


@dataclass(frozen=True)
class Removal:
    """One removal over all it was tried on, beside the unpruned model on the same."""

    cell: Cell  # one of its cells
    full: float | None  # None where the study has no unpruned model
    fulls: tuple[
        float, ...
    ]  # the same, one for each seed; empty where seeds were not scored on the same
    scores: tuple[float, ...]  # one for each repetition: the mean over languages and tasks
    by_language: Mapping[str, float]  # gain over the unpruned model
    by_task: Mapping[str, float]
    on: frozenset[Any]  # what it was scored on: labels and languages

    @property
    def tasks(self) -> int:
        return len({dict(labels).get("task") for labels, _ in self.on})

    @property
    def score(self) -> float:
        return fmean(self.scores)

    @property
    def loss(self) -> float:
        return 0.0 if self.full is None else self.full - self.score


def findings(
    study: Study, records: Mapping[str, Record], tables: Sequence[Mapping[str, Any]] = ()
) -> list[str]:
    """Up to three sentences; none where nothing is done."""
    if any("arm" in cell.axes for cell in study.cells):
        found = searches(study, {})
        made = [
            *_searched(found),
            *_chosen(found),
            *_extremes(_by_target(found), "with the best of k prunings", "Languages"),
        ]
    else:
        tried = removals(study)
        made = [
            *_costs_least(study, tried),
            *_best_and_worst(study, tried),
            *_tested(tables),
            *_choice_matters(tried),
            *_hardest(tried),
        ]
    theirs_are_ours = not any(whose(study, rows) for rows in study.published.values())
    made += [*(_published(tables) if theirs_are_ours else ()), *_alike(records), *measured(records)]
    made += scored(study) if len(made) < MOST else []
    made = [*collapsed(study), *made]
    trials = {cell.trial: cell.state for cell in study.cells}
    done = sum(state == "done" for state in trials.values())
    if made and done < len(trials):
        made[0] = (
            f"So far, with {done} of {len(trials)} trials done: {made[0][0].lower() if made[0][1:2].islower() else made[0][0]}{made[0][1:]}"
        )
    return made[:MOST]


def removals(study: Study) -> list[Removal]:
    """Every removal of the recipe, beside the unpruned model where there is one, in the recipe's order."""
    seeds: dict[Any, list[Scores]] = {}
    held: dict[str, dict[Any, dict[Any, Scores]]] = {}
    first: dict[str, Cell] = {}
    done = [cell for cell in study.cells if cell.state == "done"]
    names = set[str]().union(*(cell.axes for cell in done)).difference(CHANCE)
    for shared in alike(done, names):
        cells = list(
            {cell.trial: cell for cell in shared}.values()
        )  # draws of what is not drawn are one trial
        key = _key(cells[0])
        if cells[0].unpruned:
            seeds.setdefault(key, []).extend(cell.scores for cell in cells)
            continue
        label = str(cells[0].axes.get("remove"))
        first.setdefault(label, cells[0])
        repetitions = held.setdefault(label, {})
        for cell in cells:
            repetitions.setdefault(_repetition(cell), {})[key] = cell.scores
    return [
        one
        for label, several in held.items()
        if (one := _removal(first[label], list(several.values()), seeds)) is not None
    ]


def _mean(several: Sequence[Scores]) -> Scores:
    """The mean over seeds in each language that all of them were scored in."""
    shared = set(several[0]).intersection(*several)
    return {language: fmean(scores[language] for scores in several) for language in shared}


def _key(cell: Cell) -> Any:
    return frozenset(
        (name, value) for name, value in cell.axes.items() if name not in (*PRUNING, "seed")
    )


def _repetition(cell: Cell) -> Any:
    return cell.axes.get("seed"), cell.axes.get("draw")


def _removal(
    cell: Cell, several: Sequence[Mapping[Any, Scores]], seeds: Mapping[Any, Sequence[Scores]]
) -> Removal | None:
    """Over what every repetition and the unpruned model (if there is any) were scored on, so that means are of the same."""
    full = {key: _mean(scores) for key, scores in seeds.items()}
    sides = [*several, *([full] if full else [])]
    keys = set(sides[0]).intersection(*sides)
    shared = [
        (key, language)
        for key in keys
        for language in set(sides[0][key]).intersection(*(side[key] for side in sides))
    ]
    if not shared:
        return None
    scores = [fmean([side[key][language] for key, language in shared]) for side in several]
    if not full:
        return Removal(cell, None, (), tuple(scores), {}, {}, frozenset(shared))
    gains: dict[str, list[float]] = {}
    of_tasks: dict[str, list[float]] = {}
    for key, language in shared:
        gain = fmean([side[key][language] for side in several]) - full[key][language]
        gains.setdefault(language, []).append(gain)
        of_tasks.setdefault(str(dict(key).get("task")), []).append(gain)
    by_language, by_task = (
        {name: fmean(values) for name, values in held.items()} for held in (gains, of_tasks)
    )
    whole = fmean(full[key][language] for key, language in shared)
    counts = {len(seeds[key]) for key, _ in shared}
    fulls = [
        fmean(seeds[key][nth][language] for key, language in shared)
        for nth in range(counts.pop() if len(counts) == 1 else 0)
    ]
    return Removal(
        cell, whole, tuple(fulls), tuple(scores), by_language, by_task, frozenset(shared)
    )


def words(cell: Cell) -> str:
    """A removal in words."""
    strategy = cell.axes.get("strategy")
    if strategy not in STRATEGIES:
        return f"the heads of {cell.axes.get('remove')}"
    return STRATEGIES[str(strategy)].in_words(cell.axes.get("amount"))


def _costs_least(study: Study, found: Sequence[Removal]) -> list[str]:
    """The largest removal that costs little, or the one that costs least, and the one that costs most: means, and what is in them."""
    if not found or found[0].full is None:
        return []
    found = _comparable(found)
    one = _least(found)
    metric = metric_words(one.cell.metric) if one.tasks == 1 or len(study.metrics) == 1 else "score"
    text = f"Without {words(one.cell)} mean {metric} is {one.score:.1f}, against {one.full:.1f} unpruned {_behind(study, one)}{_range(one)}."
    worst = max(found, key=lambda other: other.loss)
    if worst is not one and worst.loss > max(SMALL, one.loss):
        text += f" Without {words(worst.cell)} it is {worst.score:.1f}."
    return [text]


def _least(found: Sequence[Removal]) -> Removal:
    """The largest removal that costs little, else the one that costs least."""
    little = [one for one in found if one.loss <= SMALL]
    return (
        max(little, key=lambda one: (_size(one.cell), -one.loss))
        if little
        else min(found, key=lambda one: one.loss)
    )


def _range(one: Removal) -> str:
    """From which language to which the change runs: a mean may hide both gains and losses."""
    gains = one.by_language
    if len(gains) < 2:
        return ""
    low, high = min(gains, key=lambda name: gains[name]), max(gains, key=lambda name: gains[name])
    return f"; languages change by {gains[low]:+.1f} ({low}) to {gains[high]:+.1f} ({high})"


def _tested(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many cells of the first table with tests differ from the unpruned model, by the test that colours them."""
    for table in tables:
        tested = [
            (cell, joined(*row, *column))
            for row, cells in zip(table["rows"], table["cells"], strict=True)
            for column, cell in zip(table["columns"], cells, strict=True)
            if cell["p"] is not None
        ]
        if tested:
            differ = [name for cell, name in tested if cell["mark"]]
            named = "; ".join(differ[:FEW]) + (
                f" and {len(differ) - FEW} more" if len(differ) > FEW else ""
            )
            verb = "differ" if len(differ) > 1 else "differs"
            return [
                f'{len(differ) or "None"} of the {len(tested)} tested cells of the table "{table["title"]}" {verb} from the unpruned '
                f"model at a false discovery rate of {100 * RATE:g} %{': ' if differ else ''}{named}."
            ]
    return []


def _comparable(found: Sequence[Removal]) -> list[Removal]:
    """The removals that were scored on the same, of which there are most: a mean over other tasks is another number."""
    groups: dict[frozenset[Any], list[Removal]] = {}
    for one in found:
        groups.setdefault(one.on, []).append(one)
    return max(groups.values(), key=lambda several: (len(several), len(several[0].on)))


def _size(cell: Cell) -> float:
    """The share of the weights that went with the heads, since some removals are counted in percent and some in heads or layers."""
    cost = {} if cell.summary is None else cell.summary.cost
    before, after = (cost.get(name) for name in ("parameters", "parameters after"))
    return (
        1 - after / before if isinstance(before, int) and isinstance(after, int) and before else 0.0
    )


def _behind(study: Study, one: Removal) -> str:
    """How much stands behind a number."""
    languages = len({language for _, language in one.on})
    over = f" over {languages} languages" if languages > 1 else ""
    over += f"{' and' if over else ' over'} {one.tasks} tasks" if one.tasks > 1 else ""
    if len(one.scores) == 1:
        return f"(one trial{over})"
    repeated = (
        "masks" if "draw" in one.cell.axes and len(study.labels("draw")) > 1 else "repetitions"
    )
    return f"({len(one.scores)} {repeated}{over}, sd {deviation(one.scores):.1f}{_p(one.scores, one.fulls)})"


def _p(one: Sequence[float], other: Sequence[float]) -> str:
    p = two_means(one, other)
    return "" if isnan(p) else f", t-test {p_words(p)}"


def p_words(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _best_and_worst(study: Study, found: Sequence[Removal]) -> list[str]:
    """Where no unpruned model stands beside them: the removals with the highest and the lowest mean."""
    if len(found) < 2 or found[0].full is not None:
        return []
    found = _comparable(found)
    best, worst = max(found, key=lambda one: one.score), min(found, key=lambda one: one.score)
    return [
        f"Of {len(found)} removals, without {words(best.cell)} the mean is highest, {best.score:.1f} {_behind(study, best)}, and without "
        f"{words(worst.cell)} lowest, {worst.score:.1f}; there is no unpruned model beside them."
    ]


def _choice_matters(found: Sequence[Removal]) -> list[str]:
    """Ranked against random heads, as many of them."""
    by = {(one.cell.axes.get("strategy"), one.cell.axes.get("amount")): one for one in found}
    for amount in sorted(
        (a for s, a in by if s == "lowest" and isinstance(a, int | float)), reverse=True
    ):
        other = by.get(("random_k", amount)) or by.get(("highest", amount))
        if other is not None:
            lowest = by["lowest", amount]
            difference, p = lowest.score - other.score, two_means(lowest.scores, other.scores)
            side = "above" if difference >= 0 else "below"
            text = f"Without {words(lowest.cell)} the mean is {abs(difference):.1f} points {side} that without {words(other.cell)}"
            if isnan(p):
                return [f"{text}; with so few trials this may be luck."]
            return [
                f"{text} (t-test {p_words(p)}: {'a difference' if p < RATE else 'no difference is shown'})."
            ]
    return []


def _hardest(found: Sequence[Removal]) -> list[str]:
    """Languages and tasks, where the removal that costs most was tried on several."""
    ranges = []
    for who, gains in (
        ("Languages", lambda one: one.by_language),
        ("Tasks", lambda one: one.by_task),
    ):
        several = [one for one in found if len(gains(one)) > 1]
        one = max(several, key=lambda one: one.loss, default=None)
        if one is not None and (
            who == "Tasks" or one is not _least(_comparable(found))
        ):  # of which the range was told already
            ranges += _extremes(gains(one), f"without {words(one.cell)}", who)
    return ranges


def _extremes(gains: Mapping[str, float | None], what: str, who: str) -> list[str]:
    known = {name: gain for name, gain in gains.items() if gain is not None}
    if len(known) < 2:
        return []
    low, high = min(known, key=lambda name: known[name]), max(known, key=lambda name: known[name])
    return [
        f"{who}: {what} the change runs from {known[low]:+.1f} points ({low}) to {known[high]:+.1f} ({high})."
    ]


def _gain(pair: Search) -> float | None:
    pick = pair.lowest.picks.get("test") if pair.lowest else None
    return None if pick is None else pick.gain


def _by_target(found: Sequence[Search]) -> dict[str, float | None]:
    """The mean gain of each target language."""
    gains: dict[str, list[float]] = {}
    for pair in found:
        if (gain := _gain(pair)) is not None:
            gains.setdefault(pair.target, []).append(gain)
    return {target: fmean(several) for target, several in gains.items()}


def _searched(found: Sequence[Search]) -> list[str]:
    """Pruning against as many unpruned seeds, or, without that control, against the one unpruned model."""
    held = [
        (pair, _gain(pair), pair.arms["seeds"].picks.get("test"))
        for pair in found
        if "seeds" in pair.arms
    ]
    both = [
        (gain, pick.gain, pair)
        for pair, gain, pick in held
        if gain is not None and pick is not None
    ]
    if both:
        wins, losses = sum(a > b for a, b, _ in both), sum(a < b for a, b, _ in both)
        p = sign_test(wins, losses)
        k = max((len(pair.lowest.scores) for _, _, pair in both if pair.lowest), default=0)
        verdict = (
            "no more than luck"
            if p >= 0.05
            else "more than luck"
            if wins > losses
            else "worse than luck"
        )
        return [
            f"The best of {k} lowest-k prunings beats the best of {k} unpruned seeds in {wins} of {len(both)} pairs of languages "
            f"(sign test {p_words(p)}): {verdict}."
        ]
    gains = [gain for pair in found if (gain := _gain(pair)) is not None]
    if not gains:
        return []
    better = sum(gain > 0 for gain in gains)
    return [
        f"The best of the lowest-k prunings beats the unpruned model in {better} of {len(gains)} pairs, by {fmean(gains):+.2f} points in the mean; "
        "without a control of as many unpruned seeds this cannot be told from luck."
    ]


def _chosen(found: Sequence[Search]) -> list[str]:
    """What is left of the gain when the test set does not choose k."""
    rows = [
        pair.lowest.picks
        for pair in found
        if pair.lowest and {"test", "dev"} <= pair.lowest.picks.keys()
    ]
    if not rows:
        return []
    on: Callable[[str], float] = lambda rule: fmean(picks[rule].gain for picks in rows)  # noqa: E731
    seeds = [
        pick.gain
        for pair in found
        if "seeds" in pair.arms and (pick := pair.arms["seeds"].picks.get("test"))
    ]
    beside = f"; as many unpruned seeds gain {fmean(seeds):+.2f}" if len(seeds) == len(rows) else ""
    return [
        f"Chosen on the test set, pruning gains {on('test'):+.2f} points in the mean of {len(rows)} pairs{beside}; "
        f"chosen on dev, pruning gains {on('dev'):+.2f}."
    ]


def _published(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = [
        cell
        for table in tables
        for row in table["cells"]
        for cell in row
        if cell["ours"] is not None and cell["published"] is not None
    ]
    if not cells:
        return []
    apart = [cell["ours"] - cell["published"] for cell in cells]
    near = sum(abs(one) <= SMALL for one in apart)
    return [
        f"{near} of {len(cells)} numbers are within one point of the published ones; the mean difference is {fmean(apart):+.1f} points."
    ]


def _alike(records: Mapping[str, Record]) -> list[str]:
    """How alike the rankings of languages are: of each way to rank by itself."""
    found: dict[str, dict[str, Mapping[str, float]]] = {}
    for record in records.values():
        ranking = ranking_of(record)
        if ranking is not None and len(ranking.languages) == 1:
            way = joined(ranking.ranker, record.trial.get("model"), record.trial.get("task"))
            found.setdefault(way, {}).setdefault(ranking.language, ranking.scores)
    ways = {way: rhos for way, several in found.items() if (rhos := _rhos(several))}
    if not ways:
        return []
    count = max(len({name for pair in rhos for name in pair}) for rhos in ways.values())
    text = f"Rankings of {count} languages agree with Spearman's rho "
    means = {way: fmean(rhos.values()) for way, rhos in ways.items()}
    if len(ways) == 1:
        (rhos,) = ways.values()
        low = min(rhos, key=lambda pair: rhos[pair])
        return [
            f"{text}{fmean(means.values()):.2f} in the mean, least for {low[0]} and {low[1]} ({rhos[low]:.2f})."
        ]
    least, most = min(means, key=lambda way: means[way]), max(means, key=lambda way: means[way])
    names = _telling(list(ways))
    return [
        f"{text}from {means[least]:.2f} ({names[least]}) to {means[most]:.2f} ({names[most]}) in the mean over pairs, by way of ranking."
    ]


def _rhos(several: Mapping[str, Mapping[str, float]]) -> dict[tuple[str, str], float]:
    return {
        (a, b): rho
        for a, b in combinations(several, 2)
        if not isnan(rho := ranking_rho(several[a], several[b]))
    }


def _telling(ways: Sequence[str]) -> dict[str, str]:
    """Ways to rank without what all of them share."""
    parts = {way: way.split(", ") for way in ways}
    shared = set.intersection(*(set(several) for several in parts.values()))
    return {
        way: joined(*(part for part in several if part not in shared))
        for way, several in parts.items()
    }
