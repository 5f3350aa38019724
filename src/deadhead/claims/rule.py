"""Whether numbers show a statement: the one rule for a study's records and for a paper's own tables.

A statement speaks of certain cases: 24 pairs of languages, 16 comparisons, the five targets. Evidence that
has all of them, and no others, is *whole*, as a printed table is; then its mean or its count is the very
number the statement is about, and only repeats (seeds, draws) make it uncertain. A printed number has no
repeats, nor has a study of one seed: both are taken as they stand, so that equal numbers get equal verdicts.
Evidence that has some of the cases, or others, is a *sample*, and has the 95 % interval of a sample.

    holds                  the interval lies within what the statement allows
    does not hold          it lies outside
    compatible, not shown  it reaches over the border: there are too few cases, or they differ too much
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from deadhead.results.statistics import sign_test

from .strength import FEWEST, LEVEL, SLACK, interval
from .verdict import FAILS, HOLDS, UNSHOWN, Shown

# How far a number may be from the stated one and still be it.
ABOUT = 0.25  # of the stated number: a gain of 0.15 and one of 1.78 points allow no common distance
BLEU = 0.5  # what three draws can tell apart, if they scatter as the paper's do (0.668 % of 28: +-0.46)
HEADS = 0.5  # heads: less than lies between the two models, 7.52 and 6.58, and between 7.52 and luck, 6.5
CASES = 0.02  # of the cases: one pair of 96 more or less is the same count, two are another
RHO = 0.1  # a rho has two printed decimals; a tenth keeps +0.12 and -0.10 apart
POINT = 1.0  # points: scores this close are comparable
WEAK = 0.3  # a rho below it explains less than a tenth of the variance
ROUNDED = 0.01  # what rounding to two decimals can make of a difference of two printed numbers


def as_stated(
    values: Sequence[float],
    stated: float,
    within: float,
    whole: bool = False,
    noise: float | None = None,
) -> Shown:
    """Whether a mean is the number stated, give or take `within`. `noise`: half the interval that repeats give it."""
    width, how = _width(values, whole, noise)
    if width is None:
        return Shown(UNSHOWN, within - abs(fmean(values) - stated), how)
    mean = fmean(values)
    return between(mean - width, mean + width, stated - within, stated + within, how)


def above(
    values: Sequence[float], border: float, whole: bool = False, noise: float | None = None
) -> Shown:
    """Whether a mean is above a border."""
    width, how = _width(values, whole, noise)
    mean = fmean(values) - border
    if width is None:
        return Shown(UNSHOWN, mean, how)
    if mean - width > SLACK:
        return Shown(HOLDS, mean - width, how)
    return (
        Shown(FAILS, mean + width, how)
        if mean + width <= SLACK
        else Shown(UNSHOWN, mean - width, how)
    )


def every(
    leads: Sequence[float],
    whole: bool = False,
    ties: bool = False,
    noise: Sequence[float | None] = (),
) -> Shown:
    """Whether every one of some differences is above 0 (with `ties`: or 0).

    One that is not refutes it, but only if it is beyond chance itself. `noise`: half the interval that repeats give
    each difference, None where nothing was repeated. Then only the whole of the cases is taken as it stands, save
    for rounding. A sample also refutes it by its mean, which has to be above 0 as well.
    """
    least = min(leads)
    cases = _cases(len(leads), whole)
    if least >= -SLACK if ties else least > 0:
        enough = whole or sign_test(len(leads), 0) < LEVEL
        return Shown(
            HOLDS if enough else UNSHOWN,
            least,
            cases if enough else f"{cases}: as many would agree by chance",
        )
    widths = [
        ROUNDED if width is None and whole else width for width in noise or [None] * len(leads)
    ]
    clear = [
        lead
        for lead, width in zip(leads, widths, strict=True)
        if width is not None and lead + width < -SLACK
    ]
    if clear:
        return Shown(FAILS, min(clear), cases)
    if not whole and above(leads, 0.0).verdict == FAILS:
        return Shown(FAILS, least, f"{cases}: their mean, with its interval, is beyond the border")
    return Shown(UNSHOWN, least, f"{cases}: no counterexample is beyond chance by its own repeats")


def count_as_stated(count: int, cases: int, wanted: int, of: int, whole: bool = False) -> Shown:
    """Whether a count is the share stated (88 of 96); the margin is in cases."""
    share = wanted / of
    low, high, how = _share(count, cases, whole)
    found = between(low, high, share - CASES, share + CASES, how)
    return Shown(found.verdict, cases * found.margin, how)


def at_least(count: int, cases: int, share: float, whole: bool = False) -> Shown:
    """Whether so many cases are a share of them or more (14 of 16); the margin is in cases."""
    low, high, how = _share(count, cases, whole)
    if low >= share - SLACK:
        return Shown(HOLDS, cases * (low - share), how)
    return Shown(
        FAILS if high < share - SLACK else UNSHOWN,
        cases * ((high if high < share else low) - share),
        how,
    )


def most(count: int, cases: int, whole: bool = False) -> Shown:
    """Whether so many cases are more than half of them."""
    return at_least(count, cases, (cases // 2 + 1) / cases if whole else 0.5 + SLACK, whole)


def level(
    differences: Sequence[float], within: float, whole: bool = False, noise: float | None = None
) -> Shown:
    """Whether some differences favour neither side: they go both ways, and their mean is 0, give or take `within`."""
    found = as_stated(differences, 0.0, within, whole, noise)
    more, less = [v for v in differences if v > 0], [-v for v in differences if v < 0]
    if found.verdict == HOLDS and abs(len(more) - len(less)) > len(differences) % 2:
        return Shown(
            FAILS if whole else UNSHOWN, -min(more if len(more) > len(less) else less), found.how
        )
    return found


def worst(several: Iterable[Shown]) -> Shown:
    """What is shown of a statement of several parts: it fails with one of them, and is shown only with all."""
    found = list(several)
    return next(
        min((one for one in found if one.verdict == verdict), key=lambda one: one.margin)
        for verdict in (FAILS, UNSHOWN, HOLDS)
        if any(one.verdict == verdict for one in found)
    )


def at_face(holds: bool, margin: float, whole: bool) -> Shown:
    """A statement of an order, which has no interval: what breaks it refutes it, and only the whole of its cases show it."""
    how = "all the cases it speaks of" if whole else "not all the cases it speaks of"
    return Shown((HOLDS if whole else UNSHOWN) if holds else FAILS, margin, how)


def over_repeats(
    groups: Iterable[Sequence[float]], shared: bool = False, sides: int = 1
) -> float | None:
    """Half of the 95 % interval of the mean of some means, out of the repeats behind each; None where nothing was repeated.

    `shared`: the same trainings are behind all of them, so that their errors do not cancel out.
    `sides`: 2 where the mean is one of differences, and the groups are those of both sides.
    """
    from scipy.stats import t

    several = [group for group in groups if len(group) > 1]
    if not several:
        return None
    errors = [stdev(group) / len(group) ** 0.5 for group in several]
    if shared:
        return float(t.ppf(1 - LEVEL / 2, min(map(len, several)) - 1)) * fmean(errors)
    freedom = sum(len(group) - 1 for group in several)
    return (
        sides
        * float(t.ppf(1 - LEVEL / 2, freedom))
        * sum(error**2 for error in errors) ** 0.5
        / len(errors)
    )


def by_repeats(cells: Iterable[Sequence[float]], weight: float = 1.0) -> float | None:
    """Half of the 95 % interval of a sum or difference of some cells' means, each times `weight`; None where nothing was repeated.

    Student's, with one variance for all of them: so a cell without repeats has the scatter of the others.
    """
    from scipy.stats import t

    groups = list(cells)
    freedom = sum(len(group) - 1 for group in groups)
    if not freedom:
        return None
    variance = (
        sum((len(group) - 1) * stdev(group) ** 2 for group in groups if len(group) > 1) / freedom
    )
    return (
        abs(weight)
        * float(t.ppf(1 - LEVEL / 2, freedom))
        * (variance * sum(1 / len(group) for group in groups)) ** 0.5
    )


def _width(values: Sequence[float], whole: bool, noise: float | None) -> tuple[float | None, str]:
    """Half of the interval of a mean, and in words where it comes from; None where there is none."""
    n = len(values)
    if whole:
        repeats = "no repeats" if noise is None else f"95 % interval +-{noise:.2f} by repeats"
        return noise or 0.0, f"{_cases(n, whole)}, {repeats}"
    if n < FEWEST:
        return None, f"n = {n}: no interval"
    return interval(values), f"95 % interval +-{interval(values):.2f}, n = {n}"


def between(low: float, high: float, floor: float, ceiling: float, how: str = "") -> Shown:
    """Whether an interval lies within two borders."""
    inside = min(low - floor, ceiling - high)
    if inside >= -SLACK:
        return Shown(HOLDS, inside, how)
    outside = max(floor - high, low - ceiling)
    return Shown(FAILS, -outside, how) if outside > SLACK else Shown(UNSHOWN, inside, how)


def _share(count: int, cases: int, whole: bool) -> tuple[float, float, str]:
    """The interval of a share, and in words where it comes from."""
    from scipy.stats import binomtest

    if whole:
        return count / cases, count / cases, _cases(cases, whole)
    low, high = binomtest(count, cases).proportion_ci(1 - LEVEL)
    return (
        float(low),
        float(high),
        f"95 % interval {cases * low:.0f} to {cases * high:.0f} of {cases}",
    )


def _cases(n: int, whole: bool) -> str:
    return (
        f"n = {n}"
        if not whole
        else f"all {n} cases it speaks of"
        if n > 1
        else "the one case it speaks of"
    )
