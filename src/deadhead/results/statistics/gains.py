"""What pruning gains: in which families, and whether it is more than luck.

The best of k trials is better than one trial even if pruning does nothing. So the best of k
prunings is compared with the best of k *unpruned* models that differ only in their seed: if pruning
were only another seed, the two would be equally good, and either would be ahead as often.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from deadhead.errors import DataError

from .chance import SLACK

ALL = 16  # groups up to which all signs are tried: 65,536
DRAWS = 20_000


def family_means(
    gains: Iterable[tuple[str, str, float]], families: Mapping[str, str] | None = None
) -> dict[str, tuple[float, int]]:
    """The mean gain over pairs within one family, and their number, for every family and branch.

    gains: source, target and gain of each pair.
    families: of each language, branches after commas (`IE, Germanic`); the papers' own by default.

    >>> family_means([("en", "de", 0.2), ("en", "fa", 0.6), ("en", "zh", 9.0)])
    {'IE': (0.4, 2), 'Germanic': (0.2, 1)}
    """
    if families is None:
        from deadhead.tasks.languages import languages

        families = {code: language.family for code, language in languages().items()}
    by_family: dict[str, list[float]] = {}
    for source, target, gain in gains:
        if source == target:
            continue
        branches = [
            [part.strip() for part in families.get(code, "").split(",") if part.strip()]
            for code in (source, target)
        ]
        for one, other in zip(*branches, strict=False):
            if one != other:
                break
            by_family.setdefault(one, []).append(gain)
    return {name: (float(np.mean(values)), len(values)) for name, values in by_family.items()}


def expected_best(scores: Sequence[float], k: int) -> float:
    """The mean of the best of k, over all ways to take k of these scores.

    >>> expected_best([1.0, 2.0, 4.0], 2)   # of 1 and 2, 1 and 4, 2 and 4: (2 + 4 + 4) / 3
    3.333...
    """
    if not 1 <= k <= len(scores):
        raise DataError(
            f"`k` expects 1 to {len(scores)}, the number of scores, got {k}.",
            f"choose `k` from 1 to {len(scores)}",
        )
    ways = math.comb(len(scores), k)
    return sum(score * math.comb(i, k - 1) for i, score in enumerate(sorted(scores))) / ways


class SeedComparison(NamedTuple):
    """The best of the pruned trials against the best of the same number of unpruned seeds."""

    gain: float  # best pruned trial over the unpruned model
    by_luck: float  # best of as many unpruned seeds over it
    excess: float  # gain - by_luck
    p: float  # probability of at least this excess if pruning were only another seed


def compare_with_seeds(
    whole: float, pruned: Sequence[float], seeds: Sequence[float]
) -> SeedComparison:
    """Whether the best pruned trial beats the best unpruned seed, for one pair of languages.

    p is exact: of all ways to call as many of the scores pruned, the share in which the best of
    these is ahead of the best of the others by as much. Where there are more seeds than pruned
    trials, `by_luck` is the expected best of as many.

    >>> compare_with_seeds(80.0, [81.0, 84.0], [80.5, 82.0])[:3]
    (4.0, 2.0, 2.0)
    """
    k = len(pruned)
    if not k or len(seeds) < k:
        raise DataError(
            f"{k} pruned trials need as many unpruned seeds, got {len(seeds)}.",
            "add controls: [seeds] to the search",
        )
    gain, by_luck = max(pruned) - whole, expected_best(seeds, k) - whole
    return SeedComparison(gain, by_luck, gain - by_luck, _chance(list(pruned), list(seeds)))


def _chance(one: list[float], other: list[float]) -> float:
    """P(best of a random `one` - best of the rest >= the observed lead), over all divisions."""
    lead = max(one) - max(other)
    pool = sorted([*one, *other], reverse=True)
    n, total = len(pool), math.comb(len(pool), len(one))
    p = 0.0
    for size, sign in ((len(one), 1), (len(other), -1)):
        for j in range(1, size + 1):  # this side has the best overall and the next j - 1
            if sign * (pool[0] - pool[j]) >= lead - SLACK:
                p += math.comb(n - j - 1, size - j) / total
    return min(1.0, p)


class Excess(NamedTuple):
    """How far the best pruned trial is ahead of the best seed, over many pairs."""

    mean: float
    low: float  # the 95 % interval of the mean, by drawing pairs again
    high: float
    p: float  # probability of a mean this far from 0 if either side were ahead as often
    pairs: int
    groups: int  # groups are independent of each other


def beyond_luck(
    excess: Sequence[float], groups: Sequence[Hashable] | None = None, *, seed: int = 0
) -> Excess:
    """Whether pruning gains more than luck over many pairs of languages.

    groups: names what each pair shares with others. Pairs that share trainings (one model scored on
    eight targets) are not eight experiments; they are drawn, and change their sign, together.
    """
    if not len(excess):
        raise DataError("there are no pairs to compare.", "run a search with controls: [seeds]")
    members: dict[Hashable, list[float]] = {}
    names = range(len(excess)) if groups is None else groups
    for name, value in zip(names, excess, strict=True):
        members.setdefault(name, []).append(value)
    sums = np.array([sum(values) for values in members.values()])
    sizes = np.array([len(values) for values in members.values()], float)
    mean, n = float(sums.sum() / sizes.sum()), len(sums)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, n, (DRAWS, n))
    low, high = np.quantile(sums[drawn].sum(1) / sizes[drawn].sum(1), [0.025, 0.975])
    exact = n <= ALL
    signs = _signs(n) if exact else rng.choice([-1.0, 1.0], (DRAWS, n))
    hits = int((np.abs(signs @ sums) >= abs(sums.sum()) - SLACK).sum())
    p = hits / len(signs) if exact else (hits + 1) / (DRAWS + 1)
    pairs = len(excess)
    return Excess(mean=mean, low=float(low), high=float(high), p=p, pairs=pairs, groups=n)


def _signs(n: int) -> np.ndarray:
    return np.where((np.arange(2**n)[:, None] >> np.arange(n)) & 1, 1.0, -1.0)
