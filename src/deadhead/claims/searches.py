"""Which searches a claim speaks of: by task, model and setting, from one source language."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from deadhead.results import Search

from .evidence import Evidence
from .rule import over_repeats
from .strength import LEVEL, by_luck, interval, luck_p
from .subjects import MULTI as MBERT
from .subjects import XLM, Models, anything, is_mbert, is_xlmr, multilingual

TASKS = {"POS": "pos", "NER": "ner", "SF": "slots"}
CROSS, MULTI = "cross-lingual", "multi-lingual"
PAPER_LRP = "lrp rule=alpha-beta"  # the LRP of the paper's time; the epsilon rule is of 2024 and ranks heads differently
OF = {
    "mbert": Models(
        "mBERT",
        (MBERT,),
        (
            is_mbert,
            lambda model: multilingual(model) and not is_xlmr(model),
            lambda model: not is_xlmr(model),
        ),
    ),
    "xlm-r": Models(
        "XLM-R",
        (XLM,),
        (
            is_xlmr,
            lambda model: multilingual(model) and not is_mbert(model),
            lambda model: not is_mbert(model),
        ),
    ),
}
BOTH = Models(
    "mBERT and XLM-R",
    (MBERT, XLM),
    (lambda model: is_mbert(model) or is_xlmr(model), multilingual, anything),
)
MODELS = {name: kind.own[0] for name, kind in OF.items()}


def single(evidence: Evidence, task: str = "", rank: str = "gradient") -> list[Search]:
    """Searches from one source language with all of the target's data, ranked so, or as printed."""
    return [
        s
        for s in evidence.pairs
        if "lowest" in s.arms
        and s.parts is None
        and (s.rank == rank or (not s.rank and rank == "gradient"))
        and task in ("", s.task)
        and set(s.train.split("+")) - {""} <= {s.source, s.target}
        and (s.source != s.target or s.setting == "mono-lingual")
    ]


def paired(evidence: Evidence, task: str) -> list[Search]:
    """Those from one language to another; for slots the paper counts the source alone as well."""
    return [s for s in single(evidence, task) if s.setting != "mono-lingual" or task == "slots"]


def noise(found: Sequence[Search]) -> float | None:
    """Half the interval that repeats with other seeds give the mean gain; one training is behind several targets."""
    return over_repeats((s.arms["lowest"].repeats for s in found), shared=True)


def lead_noise(found: Sequence[Search], arm: str) -> list[float | None]:
    """Half the interval that repeats with other seeds give the lead of the lowest-k search over another arm, in each search."""
    both = [(s.arms["lowest"].repeats, s.arms[arm].repeats) for s in found]
    return [
        over_repeats([[one - other for one, other in zip(*pair, strict=True)]]) for pair in both
    ]


def chance(found: Sequence[Search], arm: str = "lowest") -> str:
    """What luck alone would give the best of an arm's trials against one unpruned model, and what unpruned seeds did."""
    told = by_luck(_better(found, arm), [s.arms[arm].budget for s in found])
    seeds = with_seeds(found, arm)
    if not seeds:
        return told
    return f"{told}; the best of as many unpruned seeds gains {fmean(seeds):+.2f} on average, in {sum(v > 0 for v in seeds)} of {len(seeds)}"


def lucky_count(found: Sequence[Search]) -> bool:
    """Whether luck alone would help as many pairs."""
    return luck_p(_better(found), [s.arms["lowest"].budget for s in found]) >= LEVEL


def lucky_mean(found: Sequence[Search]) -> bool:
    """Whether the best of as many unpruned seeds gains as much on average, or so nearly that it is not clear; False without that control."""
    leads = [gain(one) - other for one, other in zip(found, with_seeds(found), strict=False)]
    return bool(leads) and fmean(leads) <= (interval(leads) if len(leads) > 1 else 0.0)


def with_seeds(found: Sequence[Search], arm: str = "lowest") -> list[float]:
    """What the best of as many unpruned seeds gains in each search; nothing where one lacks them."""
    if not all("seeds" in s.arms and s.arms["seeds"].budget == s.arms[arm].budget for s in found):
        return []
    return [gain(s, "seeds") for s in found]


def _better(found: Sequence[Search], arm: str = "lowest") -> int:
    return sum(gain(s, arm) > 0 for s in found)


def gain(search: Search, arm: str = "lowest") -> float:
    return search.arms[arm].gain
