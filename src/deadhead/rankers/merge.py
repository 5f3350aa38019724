"""Merge rankings of different source languages: by their data or by their scores.

`merge(rankings, "md")` adds up the measured values before scaling, as if the languages' data had
been one set; `"sd"` adds up the finished scores. `"ranks"` and `"maximum"` are further ways.
"""

from collections.abc import Callable, Mapping, Sequence

from deadhead.errors import DataError, unknown_name
from deadhead.layout import Head
from deadhead.ranking import Ranking, check_same_heads
from deadhead.ranking.scores import normalised, total

from .methods import RANKERS

Merge = Callable[[Sequence[Ranking]], dict[Head, float]]


def _measured(rankings: Sequence[Ranking]) -> list[Mapping[Head, float]]:
    hint = 'merge with "sd" or "ranks"'
    for ranking in rankings:
        if ranking.method not in RANKERS or not RANKERS[ranking.method].raw_adds_up:
            message = f"md adds up gradients, which {ranking.method} does not measure."
            raise DataError(message, hint)
        if ranking.raw is None:
            message = f"the ranking {ranking.name} has no values before scaling, which md adds up."
            raise DataError(message, hint)
    return [ranking.raw for ranking in rankings if ranking.raw is not None]


def _mean_ranks(rankings: Sequence[Ranking]) -> dict[Head, float]:
    from scipy.stats import rankdata

    heads = list(rankings[0].scores)
    ranks = rankdata([[r.scores[head] for head in heads] for r in rankings], axis=1)
    return dict(zip(heads, ranks.mean(0).tolist(), strict=True))


def _highest(rankings: Sequence[Ranking]) -> dict[Head, float]:
    return {head: max(ranking.scores[head] for ranking in rankings) for head in rankings[0].scores}


MERGES: Mapping[str, Merge] = {
    "md": lambda rankings: normalised(total(_measured(rankings))),
    "ranks": _mean_ranks,
    "maximum": _highest,
    "sd": lambda rankings: total([ranking.scores for ranking in rankings]),
}


def merge(rankings: Sequence[Ranking], how: str = "md") -> Ranking:
    """Merge rankings of the same heads, by one of MERGES.

    md: sum of the values before scaling, then scaled as gradient scores are. ranks: mean of the
    ranks. maximum: the largest score of each head. sd: sum of the scores.
    """
    if how not in MERGES:
        raise unknown_name("way to merge", how, MERGES)
    check_same_heads(rankings)
    methods = sorted({ranking.method for ranking in rankings})
    if len(methods) > 1 and how != "ranks":
        message = f"scores of different methods ({', '.join(methods)}) are not on one scale."
        raise DataError(message, 'merge with "ranks", or rank by one method')
    first, names = rankings[0], sorted({name for r in rankings for name in r.options})
    apart = [n for n in names if any(r.options.get(n) != first.options.get(n) for r in rankings)]
    if apart and how != "ranks":
        sets = (", ".join(f"{name}={r.options.get(name)!r}" for name in apart) for r in rankings)
        raise DataError(
            f"scores measured with different options ({'; '.join(dict.fromkeys(sets))}) are not on "
            "one scale.",
            'merge with "ranks", or rank again with the same options',
        )
    same_model = len({r.model for r in rankings}) == 1
    return Ranking(
        scores=MERGES[how](rankings),
        layout=first.layout,
        method="+".join(methods),
        options={name: value for name, value in first.options.items() if name not in apart},
        model=first.model if same_model else "+".join(r.model for r in rankings),
        data={
            "merged": how,
            "of": [dict(r.data) for r in rankings],
            "lang": "+".join(str(r.data.get("lang", "?")) for r in rankings),
        },
        seed=first.seed,
        versions=dict(first.versions),
        raw=total(_measured(rankings)) if how == "md" else None,
    )
