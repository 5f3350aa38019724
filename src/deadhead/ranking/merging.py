"""Rankings of several source languages made one (A-8): by their data, by their scores, or each by itself.

`merge(rankings, "md")` adds up what was measured before it was scaled, as if the languages' data had
been one set; `"sd"` adds up the finished scores. The third way, EC, keeps them apart: prune by each
and keep the best result, which is a search over trained models, for which `candidates` gives the orders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..errors import DataError, unknown_name
from ..layout import Head
from . import Ranking, same_heads
from .scores import highest_of, normalised, ranks, total

Merge = Callable[[Sequence[Ranking]], dict[Head, float]]


ADDED_UP = ("gradient", "taylor")  # the methods whose values before scaling are sums over the data


def _measured(rankings: Sequence[Ranking]) -> list[Mapping[Head, float]]:
    odd = next((r for r in rankings if r.method not in ADDED_UP), None)
    if odd is not None:
        raise DataError(f"md adds up gradients, which {odd.method} does not measure.", 'merge with "sd" or "ranks"')
    missing = next((r for r in rankings if r.raw is None), None)
    if missing is not None:
        raise DataError(f"the ranking {missing.name} keeps no values from before scaling, which md adds up.", 'merge with "sd" or "ranks"')
    return [r.raw for r in rankings if r.raw is not None]


MERGES: Mapping[str, Merge] = {
    "md": lambda rankings: normalised(total(_measured(rankings))),
    "ranks": lambda rankings: {h: s / len(rankings) for h, s in total([ranks(r.scores) for r in rankings]).items()},
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
        raise DataError(f"scores of different methods ({', '.join(sorted(methods))}) are not on one scale.", 'merge with "ranks"')
    first = rankings[0]
    agreed = {name: value for name, value in first.options.items() if all(r.options.get(name) == value for r in rankings)}
    apart = sorted({name for r in rankings for name in r.options} - set(agreed))
    if apart and how != "ranks":
        met = "; ".join(dict.fromkeys(", ".join(f"{name}={r.options.get(name)!r}" for name in apart) for r in rankings))
        raise DataError(f"scores measured with different options ({met}) are not on one scale.", 'merge with "ranks", or rank anew')
    return Ranking(
        scores=MERGES[how](rankings),
        layout=first.layout,
        method=first.method if len(methods) == 1 else "+".join(sorted(methods)),
        options=agreed,  # those that all of them were measured with
        model=first.model if len({r.model for r in rankings}) == 1 else "+".join(r.model for r in rankings),
        data={"merged": how, "of": [dict(r.data) for r in rankings], "lang": "+".join(str(r.data.get("lang", "?")) for r in rankings)},
        seed=first.seed,
        versions=dict(first.versions),
        raw=total(_measured(rankings)) if how == "md" else None,
    )


def candidates(rankings: Sequence[Ranking]) -> list[tuple[str, tuple[Head, ...]]]:
    """For EC: of each ranking its name and its heads, the first to prune first."""
    same_heads(rankings)
    return [(r.name, r.order) for r in rankings]
