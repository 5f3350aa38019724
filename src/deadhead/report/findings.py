"""Up to three sentences about a study, with how much evidence there is for each."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import inf, isnan
from statistics import fmean
from typing import Any

from deadhead.layout import Head
from deadhead.measures.measure import trials_in_words
from deadhead.results import Mean, Search, Study
from deadhead.results.searches import WAYS
from deadhead.results.statistics import (
    THIRDS,
    deviation,
    entropy_change,
    head_changes,
    ranking_rho,
    sign_test,
    two_means,
)
from deadhead.strategies import STRATEGIES
from deadhead.tasks.metrics import sign

from .labels import joined, metric_words, removal_words, split_words, unit_of
from .tables.cells import RATE, labelled_cells

Sentences = Iterator[str]
Table = Mapping[str, Any]
MOST = 3
NAMED = 3  # cells of a table that a sentence names
FAILED = 4  # removals with failed trainings that a sentence names
SMALL = 1.0  # points that count as little
NEAR = 1.0  # points between our number and a published one


def findings(study: Study, tables: Sequence[Table] = ()) -> list[str]:
    """Up to three sentences; none before a trial is done."""
    sentences = [*_failed(study), *(table["best"] for table in tables if "best" in table)]
    sentences += _searches(study) if study.is_search else _removals(study, tables)
    sentences += [*_published(tables), *_alike(study), *_measured(study)]
    if len(sentences) < MOST:
        sentences += _scored(study)
    return [_so_far(study, sentences[0]), *sentences[1:MOST]] if sentences else []


def _so_far(study: Study, sentence: str) -> str:
    """The sentence, with the number of done trials if some are missing."""
    done, trials = study.states["done"], study.states.total()
    if done == trials:
        return sentence
    is_word = sentence[1:2].islower()  # not a name in capitals
    rest = (sentence[0].lower() if is_word else sentence[0]) + sentence[1:]
    return f"So far, with {done} of {trials} trials done: {rest}"


def _named(names: Sequence[str], most: int, by: str) -> str:
    """The first names in a row, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return by.join(names[:most]) + more


def _failed(study: Study) -> Sentences:
    """Trials whose model predicts one label for everything: there the training failed."""
    cells = [cell for cell in study.trials.values() if cell.state == "done"]
    failed = [cell for cell in cells if cell.one_label(cell.split)]
    if failed:
        labels = (str(cell.axes.get("remove", "none")) for cell in failed)
        names = _named(list(dict.fromkeys(map(removal_words, labels))), FAILED, ", ")
        yield (
            f"{len(failed)} of {len(cells)} trials predict one label for everything in the "
            f"language they learnt ({names}): the training failed there, which is not what pruning "
            "costs. A lower learning rate or another seed may help."
        )


def _removals(study: Study, tables: Sequence[Table]) -> Sentences:
    removals = study.removals
    if not removals:
        yield from tested(tables)
        return
    groups: dict[frozenset[Any], list[Mean]] = {}
    for removal in removals:
        groups.setdefault(removal.scored_on, []).append(removal)
    # Means over other tasks are other numbers: compare what was scored on the same.
    _, comparable = max(groups.items(), key=lambda group: (len(group[1]), len(group[0])))
    least = _least(study, comparable) if removals[0].base is not None else None
    if least is not None:
        yield _least_and_most(study, comparable, least)
    else:
        yield from _best_and_worst(study, comparable)
    yield from tested(tables)
    yield from _choice_matters(removals)
    for who, axis in (("Languages", "language"), ("Tasks", "task")):
        mixed = [removal for removal in removals if len(removal.gains(axis)) > 1]
        worst = max(mixed, key=lambda removal: removal.loss, default=None)
        # The first sentence has the languages of the removal that costs least.
        if worst is not None and (axis == "task" or worst is not least):
            what, unit = f"without {_words(worst)}", unit_of([worst.metric])
            yield from _extremes(worst.gains(axis), what, who, unit)


def _words(removal: Mean) -> str:
    """The removed heads, behind "without"."""
    strategy = removal.label("strategy")
    if strategy not in STRATEGIES:
        return f"the heads of {removal.label('remove')}"
    return STRATEGIES[strategy].in_words(removal.label("amount"))


def _least(study: Study, removals: Sequence[Mean]) -> Mean:
    """The largest removal that costs little, else the one that costs least."""

    def remaining(removal: Mean) -> float:
        return study.trials[removal.numbers[0].trial].parameters or inf

    little = [removal for removal in removals if removal.loss <= SMALL]
    if little:
        return min(little, key=lambda removal: (remaining(removal), removal.loss))
    return min(removals, key=lambda removal: removal.loss)


def _least_and_most(study: Study, removals: Sequence[Mean], best: Mean) -> str:
    """The largest removal that costs little (or the one that costs least), and the worst."""
    assert best.base is not None
    one_metric = len(best.labels("task")) == 1 or len(study.metrics) == 1
    text = (
        f"Without {_words(best)}, the mean {metric_words(best.metric) if one_metric else 'score'} "
        f"is {best.value:.1f}, against {best.base.value:.1f} unpruned {_evidence(study, best)}"
    )
    gains = best.gains("language")
    if len(gains) > 1:
        low, high = _ends(gains)
        text += f"; languages change by {gains[low]:+.1f} ({low}) to {gains[high]:+.1f} ({high})"
    worst = max(removals, key=lambda removal: removal.loss)
    if worst is not best and worst.loss > max(SMALL, best.loss):
        text += f". Without {_words(worst)}, it is {worst.value:.1f}"
    return f"{text}."


def _ends(numbers: Mapping[Any, float]) -> tuple[Any, Any]:
    """The names of the lowest and of the highest number."""
    return min(numbers, key=numbers.__getitem__), max(numbers, key=numbers.__getitem__)


def _evidence(study: Study, removal: Mean) -> str:
    """The evidence for a number: repetitions, languages, tasks, spread and test."""
    counts = {
        "languages": len({number.language for number in removal.numbers}),
        "tasks": len(removal.labels("task")),
    }
    over = " and ".join(f"{number} {what}" for what, number in counts.items() if number > 1)
    over = f" over {over}" if over else ""
    repeats = removal.repeats
    if len(repeats) == 1:
        return f"(one trial{over})"
    drawn = removal.label("draw") is not None and len(study.labels("draw")) > 1
    p = two_means(repeats, removal.base.seeds if removal.base else ())
    test = "" if isnan(p) else f", t-test {_p_words(p)}"
    count = f"{len(repeats)} {'masks' if drawn else 'repetitions'}"
    return f"({count}{over}, sd {deviation(repeats):.1f}{test})"


def _p_words(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def _best_and_worst(study: Study, removals: Sequence[Mean]) -> Sentences:
    """The removals with the highest and the lowest mean, where there is no unpruned model."""
    if len(removals) > 1:
        up = sign(removals[0].metric)
        ends = ("highest", "lowest")[::up]
        best = max(removals, key=lambda removal: up * removal.value)
        worst = min(removals, key=lambda removal: up * removal.value)
        yield (
            f"Of {len(removals)} removals, without {_words(best)} the mean is {ends[0]}, "
            f"{best.value:.1f} {_evidence(study, best)}, and without {_words(worst)} {ends[1]}, "
            f"{worst.value:.1f}; the study has no unpruned model to compare with."
        )


def tested(tables: Sequence[Table]) -> Sentences:
    """How many cells of the first table with tests differ from the unpruned model."""
    for table in tables:
        cells = [
            (cell, joined(*labels))
            for labels, cell in labelled_cells(table)
            if cell["p"] is not None
        ]
        if cells:
            differ = [name for cell, name in cells if cell["mark"]]
            names = f": {_named(differ, NAMED, '; ')}" if differ else ""
            yield (
                f"{len(differ) or 'None'} of the {len(cells)} tested cells of the table "
                f'"{table["title"]}" differ{"" if len(differ) > 1 else "s"} from the unpruned '
                f"model at a false discovery rate of {100 * RATE:g} %{names}."
            )
            return


def _choice_matters(removals: Sequence[Mean]) -> Sentences:
    """Lowest-ranked heads against the same number of random ones, or of the highest."""
    by = {(removal.label("strategy"), removal.label("amount")): removal for removal in removals}
    amounts = [a for strategy, a in by if strategy == "lowest" and isinstance(a, int | float)]
    for amount in sorted(amounts, reverse=True):
        lowest = by["lowest", amount]
        other = by.get(("random_k", amount)) or by.get(("highest", amount))
        if other is None:
            continue
        if lowest.repeats == other.repeats:
            yield f"Without {_words(lowest)} every score is as without {_words(other)}."
            return
        difference, p = lowest.value - other.value, two_means(lowest.repeats, other.repeats)
        text = (
            f"The mean is {abs(difference):.1f}{unit_of([lowest.metric])} "
            f"{'higher' if difference >= 0 else 'lower'} "
            f"without {_words(lowest)} than without {_words(other)}"
        )
        if sign(lowest.metric) < 0:
            text += f", and lower is better ({metric_words(lowest.metric)})"
        verdict = "a difference" if p < RATE else "no difference is shown"
        luck = "; with so few trials this may be luck."
        yield text + (luck if isnan(p) else f" (t-test {_p_words(p)}: {verdict}).")
        return


def _extremes(gains: Mapping[Any, float], what: str, who: str, unit: str) -> Sentences:
    if len(gains) > 1:
        low, high = _ends(gains)
        yield (
            f"{who}: {what} the change ranges from {gains[low]:+.1f}{unit} ({low}) to "
            f"{gains[high]:+.1f} ({high})."
        )


def _searches(study: Study) -> Sentences:
    merged, unit = study.merged, unit_of(study.metrics)
    # Merged rankings count once, beside the best ranking of a single source.
    pairs = [p for p in study.pairs if p.rank not in WAYS] if merged else study.cases
    by_target: dict[str, list[float]] = {}
    for pair in pairs:
        by_target.setdefault(pair.target, []).append(pair.gain())
    for one in merged:
        by_target.setdefault(one.target, []).extend(one.gains.values())
    means = {target: fmean(gains) for target, gains in by_target.items() if gains}
    yield from _against_luck(pairs, unit)
    ways = dict.fromkeys(way for one in merged for way in one.scores)
    cases = f"cases with several sources ({', '.join(ways)} into each target)"
    yield from _without_control(
        [gain for one in merged for gain in one.gains.values()], cases, unit
    )
    yield from _chosen_on_dev(pairs, unit)
    yield from _extremes(means, "with the best of k prunings", "Languages", unit)


def _against_luck(pairs: Sequence[Search], unit: str) -> Sentences:
    """Pruning against the same number of unpruned seeds, or without that control."""
    both = [(pair.gain(), pair.gain("seeds")) for pair in pairs if "seeds" in pair.arms]
    if not both:
        yield from _without_control([pair.gain() for pair in pairs], _cases(pairs), unit)
        return
    wins, losses = (sum(up * gain > up * seeds for gain, seeds in both) for up in (1, -1))
    p = sign_test(wins, losses)
    verdict = "no more" if p >= 0.05 else "more" if wins > losses else "worse"
    k = max(pair.arms["lowest"].budget for pair in pairs if "seeds" in pair.arms)
    yield (
        f"The best of {k} lowest-k prunings beats the best of {k} unpruned seeds in {wins} of "
        f"{len(both)} {_cases(pairs)} (sign test {_p_words(p)}): {verdict} than luck."
    )


def _without_control(gains: Sequence[float], cases: str, unit: str) -> Sentences:
    if gains:
        better = sum(gain > 0 for gain in gains)
        yield (
            f"The best of the lowest-k prunings beats the unpruned model in {better} of "
            f"{len(gains)} {cases}, by {fmean(gains):+.2f}{unit} on average. Without a control of "
            "the same number of unpruned seeds, this may be luck."
        )


def _cases(pairs: Sequence[Search]) -> str:
    pure = all(pair.is_pair and pair.parts is None for pair in pairs)
    return "pairs of languages" if pure else "cases"


def _chosen_on_dev(pairs: Sequence[Search], unit: str) -> Sentences:
    """What remains of the gain if the test set does not choose k."""
    chosen = [(pair, pair.arms["lowest"].picks.get("dev")) for pair in pairs]
    gains = [(pair.gain(), pick.gain) for pair, pick in chosen if pick is not None]
    if gains:
        test, dev = (fmean(column) for column in zip(*gains, strict=True))
        seeds = [pair.gain("seeds") for pair in pairs if "seeds" in pair.arms]
        control = f"; the same number of unpruned seeds gains {fmean(seeds):+.2f}" if seeds else ""
        yield (
            f"If the test set chooses k, pruning gains {test:+.2f}{unit} on average over "
            f"{len(gains)} {_cases(pairs)}{control if len(seeds) == len(gains) else ''}. If dev "
            f"chooses, pruning gains {dev:+.2f}."
        )


def _published(tables: Sequence[Table]) -> Sentences:
    """How close our numbers are to the published ones."""
    cells = [cell for table in tables for row in table["cells"] for cell in row]
    differences = [
        cell["ours"] - cell["published"]
        for cell in cells
        if cell["ours"] is not None and cell["published"] is not None
    ]
    if differences:
        near = sum(abs(difference) <= NEAR for difference in differences)
        yield (
            f"{near} of {len(differences)} numbers are within one point of the published ones; the "
            f"mean difference is {fmean(differences):+.1f} points."
        )


def _alike(study: Study) -> Sentences:
    """How alike the rankings of languages are, for each method by itself."""
    rhos: dict[tuple[str, ...], dict[tuple[str, str], float]] = {}
    for method, scores in study.heads.by_method.items():
        for a, b in combinations(scores, 2):
            if not isnan(rho := ranking_rho(scores[a], scores[b])):
                rhos.setdefault(method, {})[a, b] = rho
    if not rhos:
        return
    count = max(len({name for pair in pairs for name in pair}) for pairs in rhos.values())
    text = f"Rankings of {count} languages agree with Spearman's rho "
    if len(rhos) == 1:
        (pairs,) = rhos.values()
        (a, b), _ = _ends(pairs)
        mean, least = fmean(pairs.values()), pairs[a, b]
        yield f"{text}{mean:.2f} on average, least for {a} and {b} ({least:.2f})."
        return
    means = {method: fmean(pairs.values()) for method, pairs in rhos.items()}
    low, high = _ends(means)
    shared = set.intersection(*map(set, rhos))
    names = {method: joined(*(part for part in method if part not in shared)) for method in rhos}
    yield (
        f"{text}from {means[low]:.2f} ({names[low]}) to {means[high]:.2f} ({names[high]}), the "
        "means over pairs for each ranking method."
    )


def _measured(study: Study) -> Sentences:
    """A sentence of each measure about what the trials measured."""
    done = [trial for trial in study.opened.values() if trial.done]
    for name, measure in study.heads.measures.items():
        stages = ({s: of[name] for s, of in trial.measures.items() if name in of} for trial in done)
        sentence = _entropy(study) if name == "entropy" else measure.finding(list(stages))
        if sentence:
            yield sentence


def _entropy(study: Study) -> str | None:
    """How far the entropy of heads moves: the mean over all heads hides it, since signs differ."""
    moved: list[float] = []
    by_third: dict[str, list[float]] = {}
    early = 0
    for trial in study.opened.values():
        before, later = trial.before_and_later("entropy")
        changes = head_changes(before, later) if trial.done else {}
        if changes:
            layers = 1 + max(Head.parse(name).layer for name in (*before, *trial.removed))
            for third, change in entropy_change(before, later, layers=layers).items():
                by_third.setdefault(third, []).append(change)
            moved.append(fmean(changes.values()))
            early += "first" in trial.measures
    if not moved:
        return None
    when = "one epoch" if early == len(moved) else "training"
    thirds = ", ".join(f"{t} {fmean(by_third[t]):.3f}" for t in THIRDS if t in by_third)
    return (
        f"The attention entropy of a head changes by {fmean(moved):.3f} nats in {when} (mean "
        f"absolute change, {trials_in_words(len(moved))}); by layers: {thirds}."
    )


def _scored(study: Study) -> Sentences:
    """The scores themselves, if all trials remove the same and have the same metric."""
    cells = [cell for cell in study.trials.values() if cell.scores]
    metrics = {cell.metric for cell in cells}
    if len(study.labels("remove")) > 1 or len(metrics) != 1:
        return
    scores = study.means(("language",))
    means = {language: mean.value for (language,), mean in scores.items() if mean.numbers}
    split = " / ".join(map(split_words, dict.fromkeys(cell.split for cell in cells)))
    mean = f"{fmean(means.values()):.1f} ({trials_in_words(len(cells))})"
    text = f"Mean {metric_words(metrics.pop())} on {split} is {mean}"
    if len(means) > 1:
        low, high = _ends(means)
        text += f", highest in {high} ({means[high]:.1f}) and lowest in {low} ({means[low]:.1f})"
    yield f"{text}."
