"""Whether numbers show a statement: one rule for a study's records and for a paper's own tables.

A statement is about certain cases: 24 pairs of languages, 16 comparisons, the five targets.
Evidence that has all of them, and no others, is *whole*, as a printed table is; then its mean or
its count is the number that the statement is about, and only repeats (seeds, draws) make it
uncertain. A printed number has no repeats, nor has a study of one seed: both are taken as exact, so
that equal numbers get equal verdicts. Evidence that has some of the cases, or others, is a
*sample*, and has the 95 % interval of a sample.

    holds                  the interval is within what the statement allows
    does not hold          it is outside
    compatible, not shown  it reaches across the border: too few cases, or too different ones
"""

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from deadhead.results.statistics import sign_test

from .evidence import Mean
from .verdict import FAILS, HOLDS, UNSHOWN, Outcome

LEVEL = 0.05
SLACK = 1e-9  # for sums of decimals
FEWEST = 3  # values for an interval
# How far a number may be from the stated one and still count as equal.
ABOUT = 0.25  # a share of it: gains of 0.15 and of 1.78 points allow no common distance
BLEU = 0.5  # what three draws can separate, if they differ as the paper's do (0.668 % of 28)
HEADS = 0.5  # less than between the two models, 7.52 and 6.58, and between 7.52 and luck, 6.5
CASES = 0.02  # a share of the cases: one pair of 96 more or less is the same count, two are another
RHO = 0.1  # a rho has two printed decimals; a tenth keeps +0.12 and -0.10 apart
POINT = 1.0  # points: scores this close are comparable
WEAK = 0.3  # a rho below it explains less than a tenth of the variance
ROUNDED = 0.01  # the rounding error of a difference of two numbers with two decimals


def as_stated(
    values: Sequence[float],
    stated: float,
    within: float,
    whole: bool = False,
    noise: float | None = None,
) -> Outcome:
    """Whether a mean is the number stated, give or take `within`.

    noise: half the interval that repeats give it.
    """
    width, basis = _width(values, whole, noise)
    mean = fmean(values)
    if width is None:
        return Outcome(UNSHOWN, within - abs(mean - stated), basis)
    return between(mean - width, mean + width, stated - within, stated + within, basis)


def above(
    values: Sequence[float], border: float, whole: bool = False, noise: float | None = None
) -> Outcome:
    """Whether a mean is above a border."""
    width, basis = _width(values, whole, noise)
    mean = fmean(values) - border
    if width is None:
        return Outcome(UNSHOWN, mean, basis)
    if mean - width > SLACK:
        return Outcome(HOLDS, mean - width, basis)
    if mean + width <= SLACK:
        return Outcome(FAILS, mean + width, basis)
    return Outcome(UNSHOWN, mean - width, basis)


def every(
    leads: Sequence[float],
    whole: bool = False,
    ties: bool = False,
    noise: Sequence[float | None] = (),
) -> Outcome:
    """Whether every difference is above 0 (with `ties`: or 0).

    A difference below 0 refutes it only if it is beyond chance itself. `noise` is half the interval
    that repeats give each difference, None where nothing was repeated; then only whole evidence is
    taken as exact, except for rounding. A sample also refutes it by its mean.
    """
    least = min(leads)
    cases = _cases(len(leads), whole)
    if least >= -SLACK if ties else least > 0:
        if whole or sign_test(len(leads), 0) < LEVEL:
            return Outcome(HOLDS, least, cases)
        return Outcome(UNSHOWN, least, f"{cases}: as many would agree by chance")
    known = noise or [None] * len(leads)
    widths = [ROUNDED if width is None and whole else width for width in known]
    both = zip(leads, widths, strict=True)
    clear = [lead for lead, width in both if width is not None and lead + width < -SLACK]
    if clear:
        return Outcome(FAILS, min(clear), cases)
    if not whole and above(leads, 0.0).verdict == FAILS:
        return Outcome(
            FAILS, least, f"{cases}: their mean, with its interval, is beyond the border"
        )
    return Outcome(
        UNSHOWN, least, f"{cases}: no counterexample is beyond chance by its own repeats"
    )


def count_as_stated(
    count: int, cases: int, stated: float, of: float, whole: bool = False
) -> Outcome:
    """Whether a count is the share stated (88 of 96); the margin is in cases."""
    low, high, basis = _share(count, cases, whole)
    outcome = between(low, high, stated / of - CASES, stated / of + CASES, basis)
    return Outcome(outcome.verdict, cases * outcome.margin, basis)


def at_least(count: int, cases: int, share: float, whole: bool = False) -> Outcome:
    """Whether a count is a share of the cases or more (14 of 16); the margin is in cases."""
    low, high, basis = _share(count, cases, whole)
    if low >= share - SLACK:
        return Outcome(HOLDS, cases * (low - share), basis)
    verdict = FAILS if high < share - SLACK else UNSHOWN
    return Outcome(verdict, cases * ((high if high < share else low) - share), basis)


def most(count: int, cases: int, whole: bool = False) -> Outcome:
    """Whether a count is more than half of the cases."""
    return at_least(count, cases, (cases // 2 + 1) / cases if whole else 0.5 + SLACK, whole)


def level(
    differences: Sequence[float], within: float, whole: bool = False, noise: float | None = None
) -> Outcome:
    """Whether differences favour neither side: both signs, and a mean of 0, up to `within`."""
    outcome = as_stated(differences, 0.0, within, whole, noise)
    more, less = [v for v in differences if v > 0], [-v for v in differences if v < 0]
    if outcome.verdict == HOLDS and abs(len(more) - len(less)) > len(differences) % 2:
        smallest = min(more if len(more) > len(less) else less)
        return Outcome(FAILS if whole else UNSHOWN, -smallest, outcome.basis)
    return outcome


def differences(pairs: Iterable[tuple[Mean, Mean]]) -> tuple[list[float], list[float | None]]:
    """By how much the first mean of each pair leads, and half the interval by their repeats."""
    both = list(pairs)
    leads = [first.value - second.value for first, second in both]
    return leads, [by_repeats(mean.repeats for mean in pair) for pair in both]


def worst(parts: Iterable[Outcome]) -> Outcome:
    """The outcome of a statement with several parts: each of them has to hold."""
    order = (FAILS, UNSHOWN, HOLDS)
    return min(parts, key=lambda part: (order.index(part.verdict), part.margin))


def exactly(holds: bool, margin: float, whole: bool) -> Outcome:
    """A statement about an order, without interval: exceptions refute it, all cases show it."""
    basis = "all the cases it speaks of" if whole else "not all the cases it speaks of"
    return Outcome((HOLDS if whole else UNSHOWN) if holds else FAILS, margin, basis)


def signs(differences: Iterable[float]) -> str:
    """The sign test of some differences, in words."""
    values = list(differences)
    more, less = sum(v > 0 for v in values), sum(v < 0 for v in values)
    return f"sign test {more} to {less}: p = {sign_test(more, less):.2g}"


def lucky_share(budgets: Sequence[float]) -> float:
    """How often the best of some equal trials beats one: the best of 12 wins 12 times of 13."""
    return fmean(budget / (budget + 1) for budget in budgets)


def by_luck(better: int, budgets: Sequence[float]) -> str:
    """How many pairs would gain by luck, in words."""
    expected = lucky_share(budgets) * len(budgets)
    p = luck_p(better, budgets)
    return f"luck alone: {expected:.1f} of {len(budgets)}, as many or more with p = {p:.2g}"


def luck_p(better: int, budgets: Sequence[float]) -> float:
    """The chance that the best of equal trials beats one in this number of pairs or more."""
    from scipy.stats import binom

    return float(binom.sf(better - 1, len(budgets), lucky_share(budgets)))


def interval(values: Sequence[float]) -> float:
    """Half the width of the 95 % interval of a mean."""
    return _quantile(len(values) - 1) * stdev(values) / len(values) ** 0.5


def _quantile(freedom: int) -> float:
    """Half the 95 % interval in standard errors, by Student's t."""
    from scipy.stats import t

    return float(t.ppf(1 - LEVEL / 2, freedom))


def over_repeats(
    groups: Iterable[Sequence[float]], shared: bool = False, sides: int = 1
) -> float | None:
    """Half the 95 % interval of a mean of means, from their repeats; None without repeats.

    shared: the same trainings are behind all of them, so that their errors do not cancel out.
    sides: 2 where the mean is one of differences, and the groups are those of both sides.
    """
    repeated = [group for group in groups if len(group) > 1]
    if not repeated:
        return None
    errors = [stdev(group) / len(group) ** 0.5 for group in repeated]
    if shared:
        return _quantile(min(map(len, repeated)) - 1) * fmean(errors)
    quantile = _quantile(sum(len(group) - 1 for group in repeated))
    return sides * quantile * sum(error**2 for error in errors) ** 0.5 / len(errors)


def joint(*widths: float | None) -> float | None:
    """Half the interval of a difference of independent numbers, from those that are known."""
    known = [width for width in widths if width is not None]
    return sum(width**2 for width in known) ** 0.5 if known else None


def by_repeats(cells: Iterable[Sequence[float]], weight: float = 1.0) -> float | None:
    """Half the 95 % interval of a sum or difference of cell means; None without repeats.

    weight: the factor of each mean. It is Student's interval with one variance for all cells, so
    that a cell without repeats has the variance of the others.
    """
    groups = list(cells)
    freedom = sum(len(group) - 1 for group in groups)
    if not freedom:
        return None
    squares = sum((len(group) - 1) * stdev(group) ** 2 for group in groups if len(group) > 1)
    error = (squares / freedom * sum(1 / len(group) for group in groups)) ** 0.5
    return abs(weight) * _quantile(freedom) * error


def _width(values: Sequence[float], whole: bool, noise: float | None) -> tuple[float | None, str]:
    """Half the interval of a mean, and in words where it comes from; None if there is none."""
    n = len(values)
    if whole:
        repeats = "no repeats" if noise is None else f"95 % interval +-{noise:.2f} by repeats"
        return noise or 0.0, f"{_cases(n, whole)}, {repeats}"
    if n < FEWEST:
        return None, f"n = {n}: no interval"
    return interval(values), f"95 % interval +-{interval(values):.2f}, n = {n}"


def between(low: float, high: float, floor: float, ceiling: float, basis: str = "") -> Outcome:
    """Whether an interval is within two borders."""
    inside = min(low - floor, ceiling - high)
    if inside >= -SLACK:
        return Outcome(HOLDS, inside, basis)
    outside = max(floor - high, low - ceiling)
    return Outcome(FAILS, -outside, basis) if outside > SLACK else Outcome(UNSHOWN, inside, basis)


def _share(count: int, cases: int, whole: bool) -> tuple[float, float, str]:
    """The interval of a share, and in words where it comes from."""
    from scipy.stats import binomtest

    if whole:
        return count / cases, count / cases, _cases(cases, whole)
    low, high = map(float, binomtest(count, cases).proportion_ci(1 - LEVEL))
    return low, high, f"95 % interval {cases * low:.0f} to {cases * high:.0f} of {cases}"


def _cases(n: int, whole: bool) -> str:
    if not whole:
        return f"n = {n}"
    return f"all {n} cases it speaks of" if n > 1 else "the one case it speaks of"
