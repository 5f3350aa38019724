"""Findings about searches: is the best of k prunings better than luck?"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from deadhead.report.labels import unit_of
from deadhead.results import Merged, Search, Study
from deadhead.results.searches import WAYS, finished, over_seeds
from deadhead.results.statistics import sign_test

from .removals import extremes, p_words


def search_sentences(study: Study) -> list[str]:
    merged, unit = study.merged, unit_of(study.metrics)
    # Merged rankings count once, beside the best ranking of a single source.
    pairs = [pair for pair in study.pairs if not merged or pair.rank not in WAYS]
    if not pairs and not merged:  # scored only in languages that they learn
        pairs = list(over_seeds(finished(study.searches)))
    gains = [(pair.target, pair.gain()) for pair in pairs]
    gains += [(m.target, gain) for m in merged for gain in m.gains.values()]
    by_target: dict[str, list[float]] = {}
    for target, gain in gains:
        by_target.setdefault(target, []).append(gain)
    means = {target: fmean(values) for target, values in by_target.items()}
    return [
        *_against_luck(pairs, unit),
        *_several_sources(merged, unit),
        *_chosen_on_dev(pairs, unit),
        *extremes(means, "with the best of k prunings", "Languages", unit),
    ]


def _against_luck(pairs: Sequence[Search], unit: str) -> list[str]:
    """Pruning against the same number of unpruned seeds, or without that control."""
    both = [(pair, pair.gain(), pair.gain("seeds")) for pair in pairs if "seeds" in pair.arms]
    if both:
        wins = sum(gain > seeds for _, gain, seeds in both)
        losses = sum(gain < seeds for _, gain, seeds in both)
        p = sign_test(wins, losses)
        verdict = "no more" if p >= 0.05 else "more" if wins > losses else "worse"
        k = max(pair.arms["lowest"].budget for pair, _, _ in both)
        return [
            f"The best of {k} lowest-k prunings beats the best of {k} unpruned seeds in {wins} of "
            f"{len(both)} {_cases(pairs)} (sign test {p_words(p)}): {verdict} than luck."
        ]
    return _without_control([pair.gain() for pair in pairs], _cases(pairs), unit)


def _several_sources(merged: Sequence[Merged], unit: str) -> list[str]:
    """What pruning gains in each target by each way to merge the rankings of its sources."""
    gains = [gain for one in merged for gain in one.gains.values()]
    ways = dict.fromkeys(way for one in merged for way in one.scores)
    cases = f"cases with several sources ({', '.join(ways)} into each target)"
    return _without_control(gains, cases, unit)


def _without_control(gains: Sequence[float], cases: str, unit: str) -> list[str]:
    if not gains:
        return []
    better = sum(gain > 0 for gain in gains)
    return [
        f"The best of the lowest-k prunings beats the unpruned model in {better} of {len(gains)} "
        f"{cases}, by {fmean(gains):+.2f}{unit} on average. Without a control of the same number "
        "of unpruned seeds, this may be luck."
    ]


def _cases(pairs: Sequence[Search]) -> str:
    pure = all(pair.is_pair and pair.parts is None for pair in pairs)
    return "pairs of languages" if pure else "cases"


def _chosen_on_dev(pairs: Sequence[Search], unit: str) -> list[str]:
    """What is left of the gain if the test set does not choose k."""
    chosen = [(pair, pair.arms["lowest"].picks.get("dev")) for pair in pairs]
    gains = [(pair.gain(), pick.gain) for pair, pick in chosen if pick is not None]
    if not gains:
        return []
    seeds = [pair.gain("seeds") for pair in pairs if "seeds" in pair.arms]
    control = ""
    if len(seeds) == len(gains):
        control = f"; the same number of unpruned seeds gains {fmean(seeds):+.2f}"
    return [
        f"If the test set chooses k, pruning gains {fmean(test for test, _ in gains):+.2f}{unit} "
        f"on average over {len(gains)} {_cases(pairs)}{control}. If dev chooses, pruning gains "
        f"{fmean(dev for _, dev in gains):+.2f}."
    ]
