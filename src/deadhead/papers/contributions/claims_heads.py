"""Claims of Ma et al. 2021 on heads and languages: how many go (C-heads), what gains go with (C-rho, C-p), how alike
rankings are (C-rank), and how it goes with little data (C-low)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import combinations
from statistics import fmean

from deadhead.claims.cases import all_pairs
from deadhead.claims.evidence import Evidence, Rho
from deadhead.claims.from_papers import PAIRS, printed, stated
from deadhead.claims.relations import rhos
from deadhead.claims.rule import HEADS, RHO, above, as_stated, at_face, between, most, worst
from deadhead.claims.scope import about_searches
from deadhead.claims.searches import BOTH, MODELS, OF, PAPER_LRP, TASKS, chance, lucky_count, paired
from deadhead.claims.strength import FEWEST, interval
from deadhead.claims.subjects import ON_POS_AND_NER, is_mbert, is_xlmr
from deadhead.claims.verdict import FAILS, HOLDS, UNSHOWN, Claim, Finding, Shown, judged, missing
from deadhead.results import RankedHeads, Search
from deadhead.results.statistics import overlap, spearman

PAPER = "contributions"
BUDGET = 12  # the most heads the paper's search removes
SOURCES = ("en", "zh", "ar")
ALIKE = 0.5  # rho: a strong correlation (Cohen 1988)
SIXTH = 24 / 144  # the share of heads called highest or lowest


def heads(evidence: Evidence, name: str) -> Finding:
    chosen = partial(paired, task=TASKS[name])
    found = [s for s in chosen(evidence) if s.arms["lowest"].k is not None]
    parts, told, used, lucky = [], [], [], True
    for model in dict.fromkeys(s.model for s in found):
        mine = [s for s in found if s.model == model]
        if len(mine) < FEWEST:
            continue
        hub, whose = _paper_model(model)
        wanted = stated(PAPER, "mean_heads_pruned", task=TASKS[name], model=hub)
        best = [s.arms["lowest"] for s in mine]
        shares = [BUDGET * (one.k or 0) / max(one.tried) for one in best]
        shown = as_stated(shares, wanted, HEADS, all_pairs(mine, chosen))
        any_k = fmean(
            BUDGET * fmean(one.tried) / max(one.tried) for one in best
        )  # were every number of heads as good
        lucky = lucky and abs(fmean(shares) - any_k) <= interval(shares)
        parts.append(shown)
        by_luck = f"{any_k:.3g} by luck alone, were every k best as often"
        told.append(
            f"{model} {fmean(shares):.2f} of {BUDGET} (stated: {wanted:g}{whose}; {shown.how}; {by_luck})"
        )
        used += mine
    if not parts:
        return missing(
            f"the number of heads gone at the best score, of three searches on {TASKS[name]}"
        )
    least = worst(parts)
    return judged(
        Shown(least.verdict, least.margin), "; ".join(told), f"searches: {len(used)}", used, lucky
    )


def _paper_model(model: str) -> tuple[str, str]:
    """The model of the paper whose numbers a model is held against, and how that is told where it is neither."""
    return MODELS["xlm-r" if is_xlmr(model) else "mbert"], "" if is_xlmr(model) or is_mbert(
        model
    ) else " for mBERT"


def _known(evidence: Evidence, task: str = "") -> list[Rho]:
    return [r for r in rhos(evidence) if task in ("", r.task)]


def as_stated_rhos(evidence: Evidence) -> Finding:
    found = (
        [] if evidence.printed else _known(evidence)
    )  # a printed rho is the statement, not evidence for it
    parts, told = [], []
    for r in found:
        hub, whose = _paper_model(r.model)
        wanted = stated(
            PAPER, "spearman_of_gain", of=r.against, task=r.task, setting=r.setting, model=hub
        )
        low, high = (r.rho, r.rho) if r.pairs == PAIRS[r.task] else _interval(r)
        parts.append(between(low, high, wanted - RHO, wanted + RHO))
        told.append(
            f"{r.task} {r.setting} with {r.against}: {r.rho:+.2f} (stated {wanted:+.2f}{whose}, n = {r.pairs}, p = {r.p:.2g})"
        )
    if not found:
        return missing(
            "searches of five pairs in one setting, and rankings of both languages of each"
        )
    tally = ", ".join(
        f"{name} {sum(part.verdict == name for part in parts)}" for name in (HOLDS, UNSHOWN, FAILS)
    )
    strength = f"of {len(found)} values, give or take {RHO:g}: {tally}"
    return judged(worst(parts), "; ".join(told[:8]), strength, _searched(evidence, found))


def _interval(rho: Rho) -> tuple[float, float]:
    """The 95 % interval of a rho over some pairs, by Fisher's transformation."""
    from math import atanh, tanh

    centre, width = atanh(max(min(rho.rho, 0.999), -0.999)), 1.96 / (rho.pairs - 3) ** 0.5
    return tanh(centre - width), tanh(centre + width)


def _searched(evidence: Evidence, found: Iterable[Rho]) -> list[Search]:
    """The searches behind some rhos."""
    places = {(r.model, r.task, r.setting) for r in found}
    return [
        s for s in evidence.pairs if "lowest" in s.arms and (s.model, s.task, s.setting) in places
    ]


def p_values(evidence: Evidence, name: str, low: float, high: float) -> Finding:
    """Whether every rho of a task has a p-value within a range."""
    found = _known(evidence, TASKS[name])
    if not found:
        return missing(
            f"searches on {TASKS[name]} of five pairs in one setting, and rankings of both languages of each"
        )
    inside = [r for r in found if low <= r.p <= high]
    margin = min(min(r.p - low, high - r.p) for r in found)
    numbers = f"{len(inside)} of {len(found)}: " + ", ".join(
        f"rho {r.rho:+.2f} p {r.p:.2g}" for r in found[:8]
    )
    sizes = sorted({r.pairs for r in found})
    whole = all(r.pairs == PAIRS[r.task] for r in found)
    shown = (
        at_face(len(inside) == len(found), margin, whole)
        if whole
        else Shown(UNSHOWN, margin, "of other pairs, p is another")
    )
    return judged(
        shown, numbers, f"n = {', '.join(map(str, sizes))} pairs", _searched(evidence, found)
    )


def shared_heads(rankings: Iterable[RankedHeads]) -> tuple[float, float, float]:
    """Over all pairs of languages: the mean share of the highest and of the lowest sixth of heads in common, and chance."""
    tops, bottoms, chances = [], [], []
    for one, other in combinations(rankings, 2):
        m = max(1, round(SIXTH * len(one.scores)))
        found = overlap(one.scores, other.scores, m)
        tops.append(found.highest / m)
        bottoms.append(found.lowest / m)
        chances.append(found.by_chance / m)
    return fmean(tops), fmean(bottoms), fmean(chances)


def rank(evidence: Evidence) -> Finding:
    groups: dict[tuple[str, str], dict[str, RankedHeads]] = {}
    for one in evidence.rankings:
        if "+" not in one.language and one.method == "gradient":
            groups.setdefault((one.model, one.task), {}).setdefault(one.language, one)
    found = {
        key: shared_heads(by.values())
        for key, by in groups.items()
        if len(by) > 1 and _same_heads(by.values())
    }
    if not found:
        return missing("gradient rankings of two languages on one task")
    margins = [top - 2 * chance for top, _, chance in found.values()]
    # "the lowest vary": more than the highest do
    margins += [
        top - bottom for (model, _), (top, bottom, _) in found.items() if not is_xlmr(model)
    ]
    low = {
        kind: [1 - bottom for (model, _), (_, bottom, _) in found.items() if is_xlmr(model) == kind]
        for kind in (False, True)
    }
    if low[False] and low[True]:
        margins.append(fmean(low[False]) - fmean(low[True]))
    told = ", ".join(
        f"{task} {model}: {100 * top:.0f} % of the highest, {100 * bottom:.0f} % of the lowest"
        for (model, task), (top, bottom, _) in found.items()
    )
    chance = fmean(c for *_, c in found.values())
    strength = f"chance gives {100 * chance:.0f} %; twice that is called strong" + (
        "" if all(low.values()) else "; one model only, so not compared"
    )
    used = [r for key in found for r in groups[key].values()]
    return judged(
        at_face(min(margins) > 0, min(margins), all(low.values())),
        f"shared by two languages: {told}",
        strength,
        used,
    )


def _rho(one: RankedHeads, other: RankedHeads) -> float:
    return spearman(
        [one.scores[head] for head in one.scores], [other.scores[head] for head in one.scores]
    ).rho


def rankers_alike(evidence: Evidence) -> Finding:
    """Whether gradients and relevance put the heads of a language into much the same order."""
    by_method: dict[tuple[str, str, str], dict[str, RankedHeads]] = {}
    for one in evidence.rankings:
        if one.method in ("gradient", PAPER_LRP) and "+" not in one.language:
            by_method.setdefault((one.model, one.task, one.language), {}).setdefault(
                one.method, one
            )
    both = {key: by for key, by in by_method.items() if len(by) == 2 and _same_heads(by.values())}
    if not both:
        return missing("rankings of one language by gradient and by LRP")
    rhos = {
        f"{task} {name}": _rho(by["gradient"], by[PAPER_LRP])
        for (_, task, name), by in both.items()
    }
    whole = {(task, name) for _, task, name in both} == {("ner", name) for name in SOURCES}
    numbers = "rho of the two rankings: " + ", ".join(
        f"{place} {value:+.2f}" for place, value in rhos.items()
    )
    used = [one for by in both.values() for one in by.values()]
    return judged(
        above(list(rhos.values()), ALIKE, whole), numbers, f"above {ALIKE:g} is called alike", used
    )


def _same_heads(rankings: Iterable[RankedHeads]) -> bool:
    return len({frozenset(r.scores) for r in rankings}) == 1


def low(evidence: Evidence) -> Finding:
    found = [
        s
        for s in evidence.pairs
        if s.parts is not None
        and s.parts < 10
        and "lowest" in s.arms
        and s.setting == "multi-lingual"
        and s.source != s.target
    ]
    if len(found) < 4:
        return missing(
            "multi-lingual searches with one to nine tenths of the target's training set, in four cases"
        )
    gains = [s.arms["lowest"].gain for s in found]
    better = sum(value > 0 for value in gains)
    numbers = f"better in {better} of {len(gains)} cases, by {fmean(gains):+.2f} points on average"
    return judged(
        most(better, len(gains), _all_tenths(found)),
        numbers,
        chance(found),
        found,
        lucky_count(found),
    )


def _all_tenths(found: Iterable[Search]) -> bool:
    """Whether these are all the cases of figure 2 (NER, without Urdu) or figure 3 (POS)."""
    targets = {s.target for s in printed().searches if s.source == "en" and s.task == "pos"}
    cases = {
        "pos": {(t, n) for t in targets for n in range(1, 10)},
        "ner": {(t, n) for t in targets - {"ur"} for n in range(1, 10)},
    }
    have: dict[str, set[tuple[str, int | None]]] = {}
    for s in found:
        have.setdefault(s.task if s.source == "en" else "", set()).add((s.target, s.parts))
    return all(cases.get(task) == places for task, places in have.items())


def low_ja(evidence: Evidence) -> Finding:
    mine = [
        s
        for s in evidence.pairs
        if (s.task, s.source, s.target, s.setting) == ("ner", "en", "ja", "multi-lingual")
        and "lowest" in s.arms
    ]
    eighth = [s for s in mine if s.parts == 8]
    whole = [s for s in mine if s.parts in (None, 10)]
    if not eighth or not whole:
        return missing(
            "en to ja on ner, multi-lingual: searches with eight tenths of the Japanese training set, and with all of it"
        )
    pruned, full = eighth[0].unpruned + eighth[0].arms["lowest"].gain, whole[0].unpruned
    numbers = f"pruned with eight tenths {pruned:.2f}, unpruned with all {full:.2f}"
    return judged(
        at_face(pruned >= full, pruned - full, whole=True),
        numbers,
        "one pair",
        [eighth[0], whole[0]],
    )


def _claims() -> Iterable[tuple[str, str, Callable[[Evidence], Finding]]]:
    for name, task in TASKS.items():
        mbert, xlmr = (
            stated(PAPER, "mean_heads_pruned", task=task, model=m) for m in MODELS.values()
        )
        text = f"On {name} the best score has on average {mbert:g} (mBERT) and {xlmr:g} (XLM-R) of up to 12 heads gone."
        yield f"C-heads-{name}", text, partial(heads, name=name)
    text = "Spearman's rho of gains with language distance and with likeness of rankings is as the paper states (24 values)."
    yield "C-rho", text, as_stated_rhos
    border = stated(PAPER, "spearman_p_value_upper_bound")
    for name in ("POS", "NER"):
        yield (
            f"C-p-{name}",
            f"On {name} every rho of gains, with distance or with likeness of rankings, has p < {border:g}.",
            partial(p_values, name=name, low=0.0, high=border),
        )
    low_p, high_p = (stated(PAPER, f"spearman_p_value_{end}") for end in ("low", "high"))
    text = f"On slots every rho of gains, with distance or with likeness of rankings, has p from {low_p:g} to {high_p:g}."
    yield "C-p-SF", text, partial(p_values, name="SF", low=low_p - 0.005, high=high_p + 0.005)
    text = "The highest-ranked heads are much the same in all languages; the lowest vary, in mBERT more than in XLM-R."
    yield "C-rank", text, rank
    yield (
        "C-ranker-alike",
        "Gradients and LRP rank the heads of a language much alike.",
        rankers_alike,
    )
    yield (
        "C-low",
        "With a part of the target's training set the pruned model is mostly the better one.",
        low,
    )
    yield (
        "C-low-ja",
        "From en to ja on NER the pruned model needs a fifth less Japanese data for the score of all of it.",
        low_ja,
    )


UNITS = {
    "C-ranker-alike": "rho",
    "C-heads": "heads",
    "C-rho": "rho",
    "C-p": "p",
    "C-rank": "share",
    "C-low": "cases",
    "C-low-ja": "points",
}
CLAIMS = tuple(
    Claim(
        name,
        PAPER,
        statement,
        about_searches(
            judge,
            OF["mbert"],
            ON_POS_AND_NER if name == "C-low" else None,
            general=name != "C-low-ja",
        )
        if name in ("C-low", "C-low-ja", "C-ranker-alike")
        else about_searches(judge, BOTH, together=True),
        UNITS.get(name) or UNITS[name.rpartition("-")[0]],
    )
    for name, statement, judge in _claims()
)
