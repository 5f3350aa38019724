"""Which searches a claim is about: by task, model and setting, from one source language."""

from collections import Counter
from collections.abc import Callable, Sequence
from statistics import fmean

from deadhead.results import Merged, Search
from deadhead.results.searches import over_seeds

from .claim import MODELS, of_models
from .evidence import Evidence
from .from_papers import printed
from .rule import LEVEL, by_luck, interval, luck_p, over_repeats

TASKS = {"POS": "pos", "NER": "ner", "SF": "slots"}
CROSS, MULTI = "cross-lingual", "multi-lingual"
# The LRP of the paper's time; the epsilon rule is of 2024 and ranks heads differently.
PAPER_LRP = "lrp rule=alpha-beta"


def single(evidence: Evidence, task: str = "", rank: str = "gradient") -> list[Search]:
    """The pairs of two languages with all of the target's data.

    rank: the ranking they used. Printed ones do not name it, and used `gradient`.
    """
    return [s for s in evidence.pairs if "+" not in s.source and _of(s, task, rank)]


def of_setting(evidence: Evidence, task: str, setting: str) -> list[Search]:
    return [s for s in single(evidence, task) if s.setting == setting]


def paired(evidence: Evidence, task: str) -> list[Search]:
    """Those of a task; for slots the paper counts the source scored in itself as well."""
    known = evidence.searches if task == "slots" else ()
    alone = [s for s in known if s.setting == "mono-lingual" and _of(s, task, "gradient")]
    return [*single(evidence, task), *over_seeds(alone)]


def _of(search: Search, task: str, rank: str) -> bool:
    used = search.rank or "gradient"
    return task in ("", search.task) and search.parts is None and used == rank


def all_pairs(
    searches: Sequence[Search],
    select: Callable[[Evidence], Sequence[Search]],
    both_models: bool = False,
) -> bool:
    """Whether these are the pairs that `select` takes from the paper's tables."""
    # The tables have the same pairs for each of the two models.
    tables = (
        printed("contributions")
        if both_models
        else of_models(printed("contributions"), (MODELS["mbert"],))
    )
    ours, theirs = (
        Counter((s.task, s.source, s.target, s.setting) for s in group)
        for group in (searches, select(tables))
    )
    return ours == theirs


def all_targets(merged: Sequence[Merged]) -> bool:
    """Whether these are the targets of their tasks in the paper's table of several sources."""
    tasks = {one.task for one in merged}
    theirs = [one for one in printed("contributions").merged if one.task in tasks]
    ours, printed_ones = (Counter((m.task, m.target) for m in group) for group in (merged, theirs))
    return ours == printed_ones


def noise(searches: Sequence[Search]) -> float | None:
    """Half the interval that other seeds give the mean gain; one training has several targets."""
    return over_repeats((s.arms["lowest"].repeats for s in searches), shared=True)


def lead_noise(searches: Sequence[Search], arm: str) -> list[float | None]:
    """Half the interval that other seeds give the lead of the lowest-k search over another arm."""
    pairs = [(s.arms["lowest"].repeats, s.arms[arm].repeats) for s in searches]
    leads = [[low - other for low, other in zip(*pair, strict=True)] for pair in pairs]
    return [over_repeats([repeats]) for repeats in leads]


def chance(searches: Sequence[Search]) -> str:
    """What luck alone would give the best trials of searches, and what unpruned seeds gained."""
    words, seeds = by_luck(gaining(searches), _budgets(searches)), gains_of_seeds(searches)
    if not seeds:
        return words
    gains = f"{fmean(seeds):+.2f} on average, in {sum(v > 0 for v in seeds)} of {len(seeds)}"
    return f"{words}; the best of as many unpruned seeds gains {gains}"


def lucky_count(searches: Sequence[Search]) -> bool:
    """Whether luck alone would help this number of pairs."""
    return luck_p(gaining(searches), _budgets(searches)) >= LEVEL


def lucky_mean(searches: Sequence[Search]) -> bool:
    """Whether the best of as many unpruned seeds gains the same on average, within the interval.

    False without that control.
    """
    seeds = gains_of_seeds(searches)
    leads = [s.gain() - other for s, other in zip(searches, seeds, strict=False)]
    return bool(leads) and fmean(leads) <= (interval(leads) if len(leads) > 1 else 0.0)


def gains_of_seeds(searches: Sequence[Search]) -> list[float]:
    """What the best of as many unpruned seeds gains in each search; empty if one has no seeds."""
    arms = [(s.arms["lowest"], s.arms.get("seeds")) for s in searches]
    known = all(seeds is not None and seeds.budget == low.budget for low, seeds in arms)
    return [s.gain("seeds") for s in searches] if known else []


def gaining(searches: Sequence[Search]) -> int:
    """How many searches gain by cutting the lowest heads."""
    return sum(s.gain() > 0 for s in searches)


def _budgets(searches: Sequence[Search]) -> list[int]:
    return [s.arms["lowest"].budget for s in searches]
