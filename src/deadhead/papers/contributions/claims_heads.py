"""Claims of Ma et al. 2021 on heads and languages.

How many heads go (C-heads), what gains go with (C-rho, C-p), how similar rankings are (C-rank), and
what happens with little data (C-low, C-peak).
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import combinations
from math import atanh, isnan, tanh
from statistics import fmean

from deadhead.errors import DeadheadError
from deadhead.papers.claims import rule
from deadhead.papers.claims.claim import MODELS, Claim, is_xlmr
from deadhead.papers.claims.evidence import Evidence, Rho, group_by
from deadhead.papers.claims.from_papers import PAIRS, printed
from deadhead.papers.claims.searches import (
    CROSS,
    MULTI,
    PAPER_LRP,
    TASKS,
    all_pairs,
    chance,
    gaining,
    lucky_count,
    paired,
    single,
)
from deadhead.papers.claims.verdict import (
    FAILS,
    HOLDS,
    UNSHOWN,
    Finding,
    Outcome,
    judged,
    listed,
    missing,
)
from deadhead.results import RankedHeads, Search
from deadhead.results.statistics import (
    Correlation,
    overlap,
    spearman,
    with_distance,
    with_similarity,
)
from deadhead.tasks.distances import distances

from .claims_gains import ANY_MODEL, BOTH_MODELS, OF_MODEL, ON_BOTH_TASKS, says

FEWEST_PAIRS = 5  # for a rho
DISTANCE = "syntactic"  # one of URIEL's; the paper does not say which it means
Gain = tuple[str, str, float]
BUDGET = 12  # the most heads that the paper's search removes
SOURCES = ("en", "zh", "ar")
SIMILAR = 0.5  # rho: a strong correlation (Cohen 1988)
OFTEN = 0.5  # share of the targets
NEVER = 11  # tenths of a training set
SIXTH = 24 / 144  # the share of heads called highest or lowest


def heads_at_the_best_score(evidence: Evidence, task: str, mbert: float, xlmr: float) -> Finding:
    select = partial(paired, task=task)
    searches = [s for s in select(evidence) if s.arms["lowest"].k is not None]
    parts, texts, used, lucky = [], [], [], True
    for model, mine in group_by(searches, "model").items():
        if len(mine) < rule.FEWEST:
            continue
        expected = xlmr if is_xlmr(model) else mbert
        arms = [s.arms["lowest"] for s in mine]
        shares = [BUDGET * (arm.k or 0) / max(arm.tried) for arm in arms]
        outcome = rule.as_stated(shares, expected, rule.HEADS, all_pairs(mine, select))
        # The mean if every number of heads were best equally often.
        by_luck = fmean(BUDGET * fmean(arm.tried) / max(arm.tried) for arm in arms)
        lucky = lucky and abs(fmean(shares) - by_luck) <= rule.interval(shares)
        parts.append(outcome)
        texts.append(
            f"{model} {fmean(shares):.2f} of {BUDGET} (stated: {expected:g}; "
            f"{outcome.basis}; {by_luck:.3g} by luck alone, were every k best as often)"
        )
        used += mine
    if not parts:
        return missing(f"the number of heads gone at the best score, of three searches on {task}")
    least = rule.worst(parts)
    outcome = Outcome(least.verdict, least.margin)
    return judged(outcome, "; ".join(texts), used, f"searches: {len(used)}", lucky)


@cache
def rhos(evidence: Evidence) -> tuple[Rho, ...]:
    """Those that the evidence states, or those that its searches and rankings give."""
    if evidence.rhos:
        return evidence.rhos
    searches = [s for s in single(evidence) if s.task in TASKS.values()]
    in_setting = [s for s in searches if s.setting in (CROSS, MULTI)]
    rows = []
    for (model, task, setting), group in group_by(in_setting, "model", "task", "setting").items():
        gains = [(s.source, s.target, s.gain()) for s in group]
        place = (model, task, "gradient")
        known = [r for r in evidence.rankings if (r.model, r.task, r.method) == place]
        similarity = _with_similarity(gains, {r.language: r.scores for r in known})
        if similarity is None:
            continue  # URIEL is slow: only for those who have rankings of these languages as well
        correlations = {"uriel distance": _with_distance(gains), "ranking similarity": similarity}
        for against, one in correlations.items():
            if one is not None and one.n >= FEWEST_PAIRS and not isnan(one.rho):
                where = {"model": model, "task": task, "setting": setting, "against": against}
                rows.append(Rho(**where, rho=one.rho, pairs=one.n, p=one.p))
    return tuple(rows)


def _with_distance(gains: Sequence[Gain]) -> Correlation | None:
    """None if URIEL, or its package, is not there."""
    with suppress(DeadheadError):
        if len(gains) >= FEWEST_PAIRS:
            return with_distance(gains, lambda a, b: distances(a, b, [DISTANCE]))[DISTANCE]
    return None


def _with_similarity(
    gains: Sequence[Gain], rankings: Mapping[str, Mapping[str, float]]
) -> Correlation | None:
    ranked = [gain for gain in gains if gain[0] in rankings and gain[1] in rankings]
    with suppress(DeadheadError):
        if len(ranked) >= FEWEST_PAIRS:
            return with_similarity(ranked, rankings)
    return None


def rhos_as_stated(evidence: Evidence) -> Finding:
    # A printed rho is the statement, and no evidence for it.
    known = () if evidence.printed else rhos(evidence)
    if not known:
        return missing(
            "searches of five pairs in one setting, and rankings of both languages of each"
        )
    of_paper = printed("contributions").rhos
    stated_rhos = {(r.model, r.task, r.setting, r.against): r.rho for r in of_paper}
    parts, texts = [], []
    for r in known:
        model = MODELS["xlm-r" if is_xlmr(r.model) else "mbert"]
        expected = stated_rhos[model, r.task, r.setting, r.against]
        low, high = (r.rho, r.rho) if r.pairs == PAIRS[r.task] else _interval(r)
        parts.append(rule.between(low, high, expected - rule.RHO, expected + rule.RHO))
        texts.append(
            f"{r.task} {r.setting} with {r.against}: {r.rho:+.2f} "
            f"(stated {expected:+.2f}, n = {r.pairs}, p = {r.p:.2g})"
        )
    verdicts = [part.verdict for part in parts]
    counts = ", ".join(f"{name} {verdicts.count(name)}" for name in (HOLDS, UNSHOWN, FAILS))
    strength = f"of {len(known)} values, give or take {rule.RHO:g}: {counts}"
    return judged(rule.worst(parts), "; ".join(texts[:8]), _behind(evidence, known), strength)


def _interval(rho: Rho) -> tuple[float, float]:
    """The 95 % rule.interval of a rho over some pairs, by Fisher's transformation."""
    centre, width = atanh(max(min(rho.rho, 0.999), -0.999)), 1.96 / (rho.pairs - 3) ** 0.5
    return tanh(centre - width), tanh(centre + width)


def _behind(evidence: Evidence, known: Iterable[Rho]) -> list[Search]:
    """The searches behind some rhos."""
    places = {(r.model, r.task, r.setting) for r in known}
    return [s for s in evidence.pairs if (s.model, s.task, s.setting) in places]


def p_values_within(
    evidence: Evidence, task: str, high: float, low: float = 0.0, rounding: float = 0.0
) -> Finding:
    """Whether every rho of a task has a p-value within a range."""
    known = [r for r in rhos(evidence) if r.task == task]
    if not known:
        return missing(
            f"searches on {task} of five pairs in one setting, and rankings of both languages"
        )
    margins = [min(r.p - (low - rounding), high + rounding - r.p) for r in known]
    inside = sum(margin >= 0 for margin in margins)
    each = ", ".join(f"rho {r.rho:+.2f} p {r.p:.2g}" for r in known[:8])
    sizes = ", ".join(map(str, sorted({r.pairs for r in known})))
    if all(r.pairs == PAIRS[r.task] for r in known):
        outcome = rule.exactly(inside == len(known), min(margins), whole=True)
    else:
        outcome = Outcome(UNSHOWN, min(margins), "of other pairs, p is another")
    numbers = f"{inside} of {len(known)}: {each}"
    return judged(outcome, numbers, _behind(evidence, known), f"n = {sizes} pairs")


def shared_heads(rankings: Iterable[RankedHeads]) -> tuple[float, float, float]:
    """Over pairs of languages: the shares of the highest and lowest sixth in common, and chance."""
    tops, bottoms, chances = [], [], []
    for first, second in combinations(rankings, 2):
        m = max(1, round(SIXTH * len(first.scores)))
        common = overlap(first.scores, second.scores, m)
        tops.append(common.highest / m)
        bottoms.append(common.lowest / m)
        chances.append(common.by_chance / m)
    return fmean(tops), fmean(bottoms), fmean(chances)


def _of_one_language(evidence: Evidence) -> list[RankedHeads]:
    return [ranking for ranking in evidence.rankings if "+" not in ranking.language]


def _same_heads(rankings: Iterable[RankedHeads]) -> bool:
    return len({frozenset(ranking.scores) for ranking in rankings}) == 1


def highest_heads_are_shared(evidence: Evidence) -> Finding:
    by_gradient = [r for r in _of_one_language(evidence) if r.method == "gradient"]
    groups = group_by(by_gradient, "model", "task")
    known = {key: group for key, group in groups.items() if len(group) > 1 and _same_heads(group)}
    shared = {key: shared_heads(group) for key, group in known.items()}
    if not shared:
        return missing("gradient rankings of two languages on one task")
    margins = [top - 2 * by_chance for top, _, by_chance in shared.values()]
    # "the lowest vary": more than the highest do
    margins += [t - bottom for (model, _), (t, bottom, _) in shared.items() if not is_xlmr(model)]
    varied: dict[bool, list[float]] = {False: [], True: []}  # by whether it is XLM-R
    for (model, _), (_, bottom, _) in shared.items():
        varied[is_xlmr(model)].append(1 - bottom)
    if all(varied.values()):
        margins.append(fmean(varied[False]) - fmean(varied[True]))
    each = ", ".join(
        f"{task} {model}: {100 * top:.0f} % of the highest, {100 * bottom:.0f} % of the lowest"
        for (model, task), (top, bottom, _) in shared.items()
    )
    by_chance = 100 * fmean(chance for *_, chance in shared.values())
    strength = f"chance gives {by_chance:.0f} %; twice that is called strong"
    if not all(varied.values()):
        strength += "; one model only, so not compared"
    outcome = rule.exactly(min(margins) > 0, min(margins), all(varied.values()))
    numbers = f"shared by two languages: {each}"
    return judged(outcome, numbers, known.values(), strength)


def rankers_agree(evidence: Evidence) -> Finding:
    """Whether gradients and relevance put the heads of a language in a similar order."""
    rankings = [r for r in _of_one_language(evidence) if r.method in ("gradient", PAPER_LRP)]
    groups = group_by(rankings, "model", "task", "language")
    both = {k: group for k, group in groups.items() if len(group) == 2 and _same_heads(group)}
    if not both:
        return missing("rankings of one language by gradient and by LRP")
    correlations = {}
    for (_, task, name), group in both.items():
        first, second = (ranking.scores for ranking in group)
        rho = spearman([first[head] for head in first], [second[head] for head in first]).rho
        correlations[f"{task} {name}"] = rho
    whole = {(task, name) for _, task, name in both} == {("ner", name) for name in SOURCES}
    outcome = rule.above(list(correlations.values()), SIMILAR, whole)
    numbers = f"rho of the two rankings: {listed(correlations)}"
    return judged(outcome, numbers, both.values(), f"above {SIMILAR:g} is called alike")


def pruning_helps_with_little_data(evidence: Evidence) -> Finding:
    known = [s for s in evidence.pairs if s.parts is not None and s.parts < 10 and s.lowest]
    searches = [s for s in known if s.setting == "multi-lingual" and s.source != s.target]
    if len(searches) < 4:
        return missing(
            "multi-lingual searches with one to nine tenths of the target's training set, "
            "in four cases"
        )
    gains, n = [s.gain() for s in searches], len(searches)
    better = gaining(searches)
    numbers = f"better in {better} of {n} cases, by {fmean(gains):+.2f} points on average"
    outcome = rule.most(better, n, _all_tenths(searches))
    return judged(outcome, numbers, searches, chance(searches), lucky_count(searches))


def _all_tenths(searches: Iterable[Search]) -> bool:
    """Whether these are all the cases of figure 2 (NER, without Urdu) or figure 3 (POS)."""
    english = [s for s in printed("contributions").searches if s.source == "en"]
    targets = {s.target for s in english if s.task == "pos"}
    figures = {"pos": targets, "ner": targets - {"ur"}}
    cases: dict[str, set[tuple[str, int | None]]] = {}
    for s in searches:
        cases.setdefault(s.task if s.source == "en" else "", set()).add((s.target, s.parts))
    return all(
        places == {(target, n) for target in figures.get(task, ()) for n in range(1, 10)}
        for task, places in cases.items()
    )


def peak_with_less_data(evidence: Evidence) -> Finding:
    """Whether the pruned model often reaches the full model's best score with fewer tenths."""
    curves: dict[tuple[str, str, str], dict[int, Search]] = {}
    for s in evidence.pairs:
        if s.setting == "multi-lingual" and (s.rank or "gradient") == "gradient":
            curves.setdefault((s.task, s.source, s.target), {})[s.parts or 10] = s
    known = {name: curve for name, curve in curves.items() if len(curve) >= rule.FEWEST}
    if len(known) < rule.FEWEST:
        return missing(
            "multi-lingual searches with three sizes of the target's training set, "
            "into three targets"
        )
    tenths = {name: _tenths_to_peak(curve) for name, curve in known.items()}
    used = [s for curve in known.values() for s in curve.values()]
    less, n = sum(pruned < full for full, pruned in tenths.values()), len(tenths)
    each = ", ".join(
        f"{task} {source}-{target} {pruned if pruned <= 10 else 'never'} for {full}"
        for (task, source, target), (full, pruned) in tenths.items()
    )
    numbers = f"the full model's peak with less data in {less} of {n}; tenths, pruned for full: "
    seeds = "seeds" if all("seeds" in s.arms for s in used) else ""
    by_luck = [_tenths_to_peak(curve, seeds) for curve in known.values()] if seeds else []
    lucky = sum(other < full for full, other in by_luck)
    control = f"; the best unpruned seed in {lucky} of {n}" if seeds else ""
    outcome = rule.at_least(less, n, OFTEN, _all_tenths(s for s in used if s.parts in range(10)))
    strength = f"the best of several pruned trials against one unpruned{control}"
    return judged(outcome, numbers + each, used, strength, bool(seeds) and lucky >= less)


def _tenths_to_peak(curve: Mapping[int, Search], arm: str = "lowest") -> tuple[int, int]:
    """The tenths at the best score of the full model, and those at which an arm reaches it."""
    peak = max(s.unpruned for s in curve.values())
    full = min(tenths for tenths, s in curve.items() if s.unpruned == peak)
    reached = (tenths for tenths, s in curve.items() if s.unpruned + s.gain(arm) >= peak)
    return full, min(reached, default=NEVER)


def pruning_saves_japanese_data(evidence: Evidence) -> Finding:
    place = ("ner", "en", "ja", "multi-lingual")
    known = [s for s in evidence.pairs if (s.task, s.source, s.target, s.setting) == place]
    searches = [s for s in known if "lowest" in s.arms]
    part = next((s for s in searches if s.parts == 8), None)
    whole = next((s for s in searches if s.parts in (None, 10)), None)
    if part is None or whole is None:
        what = "searches with eight tenths of the Japanese training set, and with all of it"
        return missing(f"en to ja on ner, multi-lingual: {what}")
    pruned = part.unpruned + part.gain()
    numbers = f"pruned with eight tenths {pruned:.2f}, unpruned with all {whole.unpruned:.2f}"
    margin = pruned - (whole.unpruned - rule.POINT)  # "comparable", or better
    outcome = rule.exactly(margin >= 0, margin, whole=True)
    return judged(outcome, numbers, [part, whole], "one pair")


P_BELOW = {"high": says("spearman_p_value_upper_bound")}

# A table: id, unit, function and scope, then the statement and the numbers it quotes.
# fmt: off
CLAIMS = (
    *(
        Claim(f"C-heads-{name}", "heads", partial(heads_at_the_best_score, task=task), BOTH_MODELS,
              f"On {name} the best score has on average {{mbert:g}} (mBERT) and {{xlmr:g}} "
              "(XLM-R) of up to 12 heads gone.",
              numbers={"mbert": says("mean_heads_pruned", task=task, model=MODELS["mbert"]),
                       "xlmr": says("mean_heads_pruned", task=task, model=MODELS["xlm-r"])})
        for name, task in TASKS.items()
    ),
    Claim("C-rho", "rho", rhos_as_stated, BOTH_MODELS,
          "Spearman's rho of gains with language distance and with likeness of rankings is as the "
          "paper states (24 values)."),
    *(
        Claim(f"C-p-{name}", "p", partial(p_values_within, task=TASKS[name]), BOTH_MODELS,
              f"On {name} every rho of gains, with distance or with likeness of rankings, has p < "
              "{high:g}.",
              numbers=P_BELOW)
        for name in ("POS", "NER")
    ),
    Claim("C-p-SF", "p", partial(p_values_within, task="slots", rounding=0.005), BOTH_MODELS,
          "On slots every rho of gains, with distance or with likeness of rankings, has p from "
          "{low:g} to {high:g}.",
          numbers={end: says(f"spearman_p_value_{end}") for end in ("low", "high")}),
    Claim("C-rank", "share", highest_heads_are_shared, BOTH_MODELS,
          "The highest-ranked heads are much the same in all languages; the lowest vary, in mBERT "
          "more than in XLM-R."),
    Claim("C-ranker-alike", "rho", rankers_agree, ANY_MODEL["mbert"],
          "Gradients and LRP rank the heads of a language much alike."),
    Claim("C-low", "cases", pruning_helps_with_little_data, ON_BOTH_TASKS,
          "With a part of the target's training set the pruned model is mostly the better one."),
    Claim("C-peak", "targets", peak_with_less_data, ON_BOTH_TASKS,
          "Pruned mBERT often (for half of the targets or more) reaches the full model's best "
          "score with less of the target's training set."),
    Claim("C-low-ja", "points", pruning_saves_japanese_data, OF_MODEL["mbert"],
          "From en to ja on NER the pruned model has a score comparable (within 1 point) to the "
          "full model's with a fifth less Japanese data."),
)
# fmt: on
