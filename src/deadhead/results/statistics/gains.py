"""What pruning gains: in how many pairs, in which families, and whether it is more than the luck of many tries.

The best of k trials is better than one trial even if pruning does nothing. So the best of k prunings is set against the
best of k *unpruned* models that differ in their seed alone: were pruning nothing but another seed, the
two would be equally good, and either would be ahead as often.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from deadhead.errors import DataError

from .chance import SLACK, sign_test

ALL = 16  # groups up to which all signs are tried: 65,536
DRAWS = 20_000


class Counted(NamedTuple):
    """How many gain, lose and stay, the mean gain, and the p-value of a sign test (ties left out)."""

    improved: int
    fallen: int
    same: int
    mean: float
    p: float


def improved(gains: Iterable[float]) -> Counted:
    """Count the pairs that pruning improves.

    >>> improved([0.5, 0.2, 0.9, -0.1])[:3]
    (3, 1, 0)
    """
    several = list(gains)
    up, down = sum(gain > 0 for gain in several), sum(gain < 0 for gain in several)
    return Counted(
        up,
        down,
        len(several) - up - down,
        float(np.mean(several)) if several else math.nan,
        sign_test(up, down),
    )


def family_means(
    gains: Iterable[tuple[str, str, float]], families: Mapping[str, str] | None = None
) -> dict[str, tuple[float, int]]:
    """The mean gain, and of how many, over pairs of source and target from one family, for every family and branch.

    families: of each language, branches after commas (`IE, Germanic`); the papers' own if left out.

    >>> family_means([("en", "de", 0.2), ("en", "fa", 0.6), ("en", "zh", 9.0)])
    {'IE': (0.4, 2), 'Germanic': (0.2, 1)}
    """
    if families is None:
        from deadhead.tasks.languages import languages

        families = {code: one.family for code, one in languages().items()}
    found: dict[str, list[float]] = {}
    for source, target, gain in gains:
        if source == target:
            continue
        both = [
            [part.strip() for part in families.get(one, "").split(",") if part.strip()]
            for one in (source, target)
        ]
        for one, other in zip(*both, strict=False):
            if one != other:
                break
            found.setdefault(one, []).append(gain)
    return {name: (float(np.mean(several)), len(several)) for name, several in found.items()}


def expected_best(scores: Sequence[float], k: int) -> float:
    """The mean of the best of k, over all ways to take k of these scores.

    >>> expected_best([1.0, 2.0, 4.0], 2)   # of 1 and 2, 1 and 4, 2 and 4: (2 + 4 + 4) / 3
    3.333...
    """
    if not 1 <= k <= len(scores):
        raise DataError(
            f"the best of {k} was asked for, of {len(scores)} scores.",
            f"ask for 1 to {len(scores)}",
        )
    ways = math.comb(len(scores), k)
    return sum(score * math.comb(i, k - 1) for i, score in enumerate(sorted(scores))) / ways


class Luck(NamedTuple):
    """The best of the pruned against the best of as many unpruned seeds."""

    gain: float  # of the best pruned over the unpruned model
    by_luck: float  # of the best of as many unpruned seeds
    excess: float  # gain - by_luck
    p: float  # the chance of at least this excess were pruned and unpruned alike


def luck(whole: float, pruned: Sequence[float], seeds: Sequence[float]) -> Luck:
    """Whether the best of the pruned is ahead of the best of the unpruned seeds, for one pair of languages.

    p is exact: of all ways to call as many of the scores pruned, the share in which the best of these is ahead of the
    best of the others by as much. Where there are more seeds than pruned trials, `by_luck` is the expected best of as many.

    >>> luck(80.0, [81.0, 84.0], [80.5, 82.0])[:3]
    (4.0, 2.0, 2.0)
    """
    k = len(pruned)
    if not k or len(seeds) < k:
        raise DataError(
            f"{k} pruned trials need as many unpruned seeds; {len(seeds)} were met.",
            "add controls: [seeds] to the search",
        )
    gain, by_luck = max(pruned) - whole, expected_best(seeds, k) - whole
    return Luck(gain, by_luck, gain - by_luck, _chance(list(pruned), list(seeds)))


def _chance(one: list[float], other: list[float]) -> float:
    """P(best of a random `one` - best of the rest >= what was met), over all ways to deal the scores out."""
    met = max(one) - max(other)
    pool = sorted([*one, *other], reverse=True)
    n, total = len(pool), math.comb(len(pool), len(one))
    found = 0.0
    for size, sign in (
        (len(one), 1),
        (len(other), -1),
    ):  # the best overall is on this side, with the next j - 1
        for j in range(1, size + 1):
            if sign * (pool[0] - pool[j]) >= met - SLACK:
                found += math.comb(n - j - 1, size - j) / total
    return min(1.0, found)


class Excess(NamedTuple):
    """How far the best of the pruned is ahead of the best of the seeds, over many pairs."""

    mean: float
    low: float  # of the interval that holds 95 of 100 means when pairs are drawn anew
    high: float
    p: float  # the chance of a mean as far from 0, were either side ahead as often
    pairs: int
    groups: int  # of pairs that are independent of each other


def beyond_luck(
    excess: Sequence[float], groups: Sequence[Hashable] | None = None, *, seed: int = 0
) -> Excess:
    """Whether pruning gains more than luck over many pairs of languages.

    groups: pairs that share trainings (one model scored on eight targets) are not eight experiments; named by
    what they share, they are drawn, and change their sign, together.
    """
    if not len(excess):
        raise DataError("there are no pairs to judge by.", "run a search with controls: [seeds]")
    named = list(groups) if groups is not None else list(range(len(excess)))
    members: dict[Hashable, list[float]] = {}
    for name, value in zip(named, excess, strict=True):
        members.setdefault(name, []).append(value)
    sums = np.array([sum(several) for several in members.values()])
    sizes = np.array([len(several) for several in members.values()], float)
    mean, n = float(sums.sum() / sizes.sum()), len(sums)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, n, (DRAWS, n))
    low, high = np.quantile(sums[drawn].sum(1) / sizes[drawn].sum(1), [0.025, 0.975])
    exact = n <= ALL
    signs = _signs(n) if exact else rng.choice([-1.0, 1.0], (DRAWS, n))
    hits = int((np.abs(signs @ sums) >= abs(sums.sum()) - SLACK).sum())
    p = hits / len(signs) if exact else (hits + 1) / (DRAWS + 1)
    return Excess(mean, float(low), float(high), p, len(excess), n)


def _signs(n: int) -> np.ndarray:
    return np.where((np.arange(2**n)[:, None] >> np.arange(n)) & 1, 1.0, -1.0)
