"""Findings about searches: is the best of k prunings better than luck?"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from deadhead.report.labels import unit_of
from deadhead.report.tables.pairs import picked
from deadhead.results import Search, Study
from deadhead.results.statistics import sign_test

from .removals import extremes, p_words

gain_of = picked("lowest", "test", "gain")
gain_of_seeds = picked("seeds", "test", "gain")
gain_on_dev = picked("lowest", "dev", "gain")


def search_sentences(study: Study) -> list[str]:
    pairs, unit = study.searches, unit_of(study.metrics)
    by_target: dict[str, list[float]] = {}
    for pair in pairs:
        if (gain := gain_of(pair)) is not None:
            by_target.setdefault(pair.target, []).append(gain)
    means = {target: fmean(gains) for target, gains in by_target.items()}
    return [
        *_against_luck(pairs, unit),
        *_chosen_on_dev(pairs, unit),
        *extremes(means, "with the best of k prunings", "Languages", unit),
    ]


def _against_luck(pairs: Sequence[Search], unit: str) -> list[str]:
    """Pruning against the same number of unpruned seeds, or without that control."""
    gains = [
        (pair, gain, gain_of_seeds(pair)) for pair in pairs if (gain := gain_of(pair)) is not None
    ]
    both = [(pair, gain, seeds) for pair, gain, seeds in gains if seeds is not None]
    if both:
        wins = sum(gain > seeds for _, gain, seeds in both)
        losses = sum(gain < seeds for _, gain, seeds in both)
        p = sign_test(wins, losses)
        verdict = "no more" if p >= 0.05 else "more" if wins > losses else "worse"
        k = max(len(pair.arms["lowest"].scores) for pair, _, _ in both)
        return [
            f"The best of {k} lowest-k prunings beats the best of {k} unpruned seeds in {wins} of "
            f"{len(both)} pairs of languages (sign test {p_words(p)}): {verdict} than luck."
        ]
    if not gains:
        return []
    better = sum(gain > 0 for _, gain, _ in gains)
    return [
        f"The best of the lowest-k prunings beats the unpruned model in {better} of {len(gains)} "
        f"pairs, by {fmean(gain for _, gain, _ in gains):+.2f}{unit} on average. Without a "
        "control of the same number of unpruned seeds, this may be luck."
    ]


def _chosen_on_dev(pairs: Sequence[Search], unit: str) -> list[str]:
    """What is left of the gain if the test set does not choose k."""
    both = [(gain_of(pair), gain_on_dev(pair)) for pair in pairs]
    gains = [(test, dev) for test, dev in both if test is not None and dev is not None]
    if not gains:
        return []
    seeds = [gain for pair in pairs if (gain := gain_of_seeds(pair)) is not None]
    control = f"; the same number of unpruned seeds gains {fmean(seeds):+.2f}" if seeds else ""
    return [
        f"If the test set chooses k, pruning gains {fmean(test for test, _ in gains):+.2f}{unit} "
        f"on average over {len(gains)} pairs{control if len(seeds) == len(gains) else ''}. If dev "
        f"chooses, pruning gains {fmean(dev for _, dev in gains):+.2f}."
    ]
