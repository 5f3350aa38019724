"""How strategies draw heads: by seed, in whole groups, and exactly the number of heads to draw.

Heads that share a key/value head can only go together, so everything here works on bundles
(`Attention.groups`; of one head each, without grouped queries). A number of heads that no set of
bundles has is refused, with the nearest numbers that some set does have.

Of `random.Random` only the seeding with a text and the method `random()` are used. Python promises
to keep these two, but not `shuffle` and `sample`.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import accumulate, chain
from math import comb
from random import Random
from typing import TypeVar

from deadhead.errors import GroupError, HeadError
from deadhead.layout import Attention, Head

from .strategy import Heads

Bundle = tuple[Head, ...]
Seed = int | str
T = TypeVar("T")


def rng_for(seed: Seed, *where: object) -> Random:
    """One stream per seed and purpose.

    With a bare seed the draws for 10 % and 20 % would share their first heads.
    """
    if not isinstance(seed, int | str):
        message = f"`seed` expects a whole number or a text, got {seed!r}."
        raise HeadError(message, "for instance seed=0")
    return Random("/".join(map(str, (seed, *where))))


def below(rng: Random, n: int) -> int:
    return int(rng.random() * 2**53) * n >> 53


def shuffled(items: Iterable[T], rng: Random) -> list[T]:
    pool = list(items)
    for i in range(len(pool) - 1, 0, -1):
        j = below(rng, i + 1)
        pool[i], pool[j] = pool[j], pool[i]
    return pool


def keep(place: str, attentions: Sequence[Attention], kept: int, seed: Seed) -> Heads:
    left = sum(len(a.kept) for a in attentions)
    if kept > left:
        message = f"{place} cannot keep {kept} heads: it has {left}."
        raise HeadError(message, f"keep {left} or fewer")
    return draw(place, attentions, left - kept, seed)


def draw(place: str, attentions: Sequence[Attention], n: int, seed: Seed) -> Heads:
    """n heads, drawn uniformly from all the sets of whole groups that have n heads."""
    bundles = [bundle for a in attentions for bundle in a.groups]
    sizes = sorted({len(b) for b in bundles})
    by_size = {size: [b for b in bundles if len(b) == size] for size in sizes}
    rng = rng_for(seed, place, n)
    numbers = mixture(place, {size: len(of_size) for size, of_size in by_size.items()}, n, rng)
    drawn: list[Bundle] = []
    for size, number in zip(by_size, numbers, strict=True):
        drawn += shuffled(by_size[size], rng)[:number]
    return frozenset(chain.from_iterable(drawn))


def mixture(place: str, counts: dict[int, int], n: int, rng: Random) -> list[int]:
    """How many bundles of each size to take for n heads, each mixture as likely as it has sets."""
    sizes = list(counts)

    @cache
    def ways(i: int, n: int) -> int:
        """How many sets of bundles of sizes[i:] have n heads."""
        if i == len(sizes):
            return int(n == 0)
        if i + 1 == len(sizes):
            return 0 if n % sizes[i] else comb(counts[sizes[i]], n // sizes[i])
        return sum(ways_with(i, m, n) for m in range(min(counts[sizes[i]], n // sizes[i]) + 1))

    def ways_with(i: int, m: int, n: int) -> int:
        # comb is slow with thousands of heads, and mostly the rest is 0 anyway
        rest = ways(i + 1, n - m * sizes[i])
        return rest and rest * comb(counts[sizes[i]], m)

    if not ways(0, n):
        raise refusal(place, n, reachable(counts))
    numbers = []
    for i, size in enumerate(sizes):
        ticket, m = below(rng, ways(i, n)), 0
        while ticket >= (tickets := ways_with(i, m, n)):
            ticket, m = ticket - tickets, m + 1
        numbers.append(m)
        n -= m * size
    return numbers


def reachable(counts: dict[int, int]) -> list[int]:
    """Every number of heads that some set of bundles has, rising from 0 to all."""
    bits = 1  # bit t is set when some bundles have t heads together
    for size, number in counts.items():
        for _ in range(number):
            bits |= bits << size
    return [t for t in range(bits.bit_length()) if bits >> t & 1]


def prefix(place: str, bundles: Sequence[Bundle], n: int) -> Heads:
    """The first n heads of an order of bundles."""
    ends = list(accumulate(map(len, bundles), initial=0))
    if n not in ends:
        raise refusal(place, n, ends)
    return frozenset(chain.from_iterable(bundles[: ends.index(n)]))


def refusal(place: str, n: int, possible: Sequence[int]) -> HeadError:
    """The error for a number of heads that cannot go; `possible` rises from 0 to all heads."""
    total = possible[-1]
    if n > total:
        message = f"cannot remove {n} heads from {place}: it has {total}."
        return HeadError(message, f"remove {total} or fewer")
    under, over = max(p for p in possible if p < n), min(p for p in possible if p > n)
    return GroupError(
        f"cannot remove exactly {n} heads from {place}: "
        "heads that share key and value go together.",
        f"remove {under} or {over} of its {total} heads "
        f"({100 * under / total:g} or {100 * over / total:g} %), "
        f"which keeps {total - under} or {total - over}; or choose single heads, with copies of "
        'their keys and values: --groups expand, prune(model, heads, groups="expand")',
    )
