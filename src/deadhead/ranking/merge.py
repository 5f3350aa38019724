"""Rankings of several source languages made one (A-8): by their data, by their scores, or each by itself.

`merge(rankings, "md")` adds up what was measured before it was scaled, as if the languages' data had
been one set; `"sd"` adds up the finished scores. The third way, EC, keeps them apart: prune by each
and keep the best result (`best_of`), which is a search over trained models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from deadhead.errors import DataError, unknown_name
from deadhead.layout import Head

from . import Ranking, same_heads
from .scores import highest_of, normalised, ranks, total

Merge = Callable[[Sequence[Ranking]], dict[Head, float]]


ADDED_UP = ("gradient", "taylor")  # the methods whose values before scaling are sums over the data


def _measured(rankings: Sequence[Ranking]) -> list[Mapping[Head, float]]:
    odd = next((r for r in rankings if r.method not in ADDED_UP), None)
    if odd is not None:
        raise DataError(
            f"md adds up gradients, which {odd.method} does not measure.",
            'merge with "sd" or "ranks"',
        )
    missing = next((r for r in rankings if r.raw is None), None)
    if missing is not None:
        raise DataError(
            f"the ranking {missing.name} keeps no values from before scaling, which md adds up.",
            'merge with "sd" or "ranks"',
        )
    return [r.raw for r in rankings if r.raw is not None]


MERGES: Mapping[str, Merge] = {
    "md": lambda rankings: normalised(total(_measured(rankings))),
    "ranks": lambda rankings: {
        h: s / len(rankings) for h, s in total([ranks(r.scores) for r in rankings]).items()
    },
    "maximum": lambda rankings: highest_of([r.scores for r in rankings]),
    "sd": lambda rankings: total([r.scores for r in rankings]),
}


def merge(rankings: Sequence[Ranking], how: str = "md") -> Ranking:
    """One ranking out of several of the same heads, by one of MERGES.

    md: sum of the values before scaling, then scaled as gradient scores are. ranks: mean of the ranks.
    maximum: the largest score of each head. sd: sum of the scores.
    """
    if how not in MERGES:
        raise unknown_name("way to merge", how, MERGES)
    same_heads(rankings)
    methods = {r.method for r in rankings}
    if len(methods) > 1 and how != "ranks":
        raise DataError(
            f"scores of different methods ({', '.join(sorted(methods))}) are not on one scale.",
            'merge with "ranks"',
        )
    first = rankings[0]
    agreed = {
        name: value
        for name, value in first.options.items()
        if all(r.options.get(name) == value for r in rankings)
    }
    apart = sorted({name for r in rankings for name in r.options} - set(agreed))
    if apart and how != "ranks":
        met = "; ".join(
            dict.fromkeys(
                ", ".join(f"{name}={r.options.get(name)!r}" for name in apart) for r in rankings
            )
        )
        raise DataError(
            f"scores measured with different options ({met}) are not on one scale.",
            'merge with "ranks", or rank anew',
        )
    return Ranking(
        scores=MERGES[how](rankings),
        layout=first.layout,
        method=first.method if len(methods) == 1 else "+".join(sorted(methods)),
        options=agreed,  # those that all of them were measured with
        model=first.model
        if len({r.model for r in rankings}) == 1
        else "+".join(r.model for r in rankings),
        data={
            "merged": how,
            "of": [dict(r.data) for r in rankings],
            "lang": "+".join(str(r.data.get("lang", "?")) for r in rankings),
        },
        seed=first.seed,
        versions=dict(first.versions),
        raw=total(_measured(rankings)) if how == "md" else None,
    )


class Best(NamedTuple):
    """What EC found: the ranking whose k lowest heads are best removed, and the score of every trial."""

    ranking: Ranking
    k: int
    score: float
    trials: dict[tuple[str, int], float]  # by the name of the ranking and k


def best_of(
    rankings: Sequence[Ranking], score: Callable[[tuple[Head, ...]], float], most: int = 12
) -> Best:
    """EC: try the 1 to `most` lowest heads of every ranking, and keep the best result; of equals the first.

    `score` is asked what the model is worth without these heads, for instance by pruning, fine-tuning and
    scoring a fresh one. Equal sets of heads are tried once.
    """
    same_heads(rankings)
    if most < 1:
        raise DataError(f"most={most}: there is nothing to try.", "give a whole number above 0")
    names = [r.name for r in rankings]
    if len(set(names)) < len(names):
        names = [f"{number} {name}" for number, name in enumerate(names)]
    known: dict[frozenset[Head], float] = {}
    trials: dict[tuple[str, int], float] = {}
    best: Best | None = None
    for name, ranking in zip(names, rankings, strict=True):
        for k in range(1, min(most, len(ranking.order)) + 1):
            heads = ranking.order[:k]
            if frozenset(heads) not in known:
                known[frozenset(heads)] = score(heads)
            value = trials[name, k] = known[frozenset(heads)]
            if best is None or value > best.score:
                best = Best(ranking, k, value, trials)
    if best is None:
        raise DataError(
            "none of the rankings has a head to remove.", "rank a model that has heads left"
        )
    return best
