"""How much of a finding may be chance: spread over repeats, sign tests, intervals, p-values."""

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from deadhead.results.statistics import sign_test, spread

from .evidence import Mean

LEVEL = 0.05
SLACK = 1e-9  # for sums of decimals
FEWEST = 3  # values for an interval


def spread_words(cells: Sequence[Mean]) -> str:
    """How much repeats of one condition differ, in words. Only printed scores have no trial."""
    if not cells[0].scores[0].trial:
        return "as printed: no spread given for a cell"
    repeated = [cell.repeats for cell in cells if len(cell.scores) > 1 and cell.value]
    if not repeated:
        return "one seed: no spread"
    most = max(map(len, repeated))
    return f"up to {most} repeats a cell, sd {spread(repeated):.2f} % of the mean"


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
    from scipy.stats import t

    return float(t.ppf(1 - LEVEL / 2, len(values) - 1)) * stdev(values) / len(values) ** 0.5


def rho_p(rho: float, n: int) -> float:
    """Two-sided p-value of Spearman's rho over n pairs, by Student's t, from rho alone."""
    from scipy.stats import t

    return float(2 * t.sf(abs(rho) * ((n - 2) / (1 - rho * rho)) ** 0.5, n - 2))
