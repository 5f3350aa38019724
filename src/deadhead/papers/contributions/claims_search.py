"""Claims of Ma et al. 2021 (contributions) on what single searches gain, and their controls.

Those on several sources are in `contributions_sources.py`, those on rankings, correlations and little data
in `contributions_heads.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from statistics import fmean

from deadhead.claims.cases import all_pairs
from deadhead.claims.evidence import Evidence
from deadhead.claims.from_papers import stated
from deadhead.claims.rule import (
    ABOUT,
    above,
    as_stated,
    at_face,
    at_least,
    count_as_stated,
    every,
    most,
    worst,
)
from deadhead.claims.scope import about_searches, against_searches
from deadhead.claims.searches import (
    BOTH,
    CROSS,
    MODELS,
    MULTI,
    OF,
    PAPER_LRP,
    TASKS,
    chance,
    gain,
    lead_noise,
    lucky_count,
    lucky_mean,
    noise,
    paired,
    single,
)
from deadhead.claims.strength import FEWEST, LEVEL, signs
from deadhead.claims.subjects import ON_POS_AND_NER, XLM, Models, is_xlmr
from deadhead.claims.verdict import FAILS, UNSHOWN, Claim, Finding, Shown, judged, missing
from deadhead.errors import DeadheadError
from deadhead.results import Search
from deadhead.results.statistics import sign_test
from deadhead.tasks.languages import language

from .claims_heads import CLAIMS as ON_HEADS
from .claims_sources import CLAIMS as ON_SOURCES

PAPER = "contributions"
FAR_EAST = {"zh", "ja"}
XLMR = Models("XLM-R", (XLM,), (is_xlmr,))  # what mBERT is compared with; no other stands in for it


def count(evidence: Evidence, name: str, wanted: int, of: int) -> Finding:
    found = paired(evidence, TASKS[name])
    if len(found) < 6:
        return missing(f"lowest-k searches of six pairs on {TASKS[name]}")
    better = sum(gain(s) > 0 for s in found)
    shown = count_as_stated(
        better,
        len(found),
        wanted,
        of,
        all_pairs(found, lambda e: paired(e, TASKS[name]), several=True),
    )
    numbers = f"{better} of {len(found)} pairs gain (stated: {wanted} of {of})"
    return judged(shown, numbers, chance(found), found, lucky_count(found))


def of_setting(evidence: Evidence, task: str, setting: str) -> list[Search]:
    return [s for s in single(evidence, task) if s.setting == setting]


def mean(evidence: Evidence, name: str, model: str, setting: str) -> Finding:
    wanted = stated(
        PAPER, "mean_F1_improvement", task=TASKS[name], model=MODELS[model], setting=setting
    )
    chosen = partial(of_setting, task=TASKS[name], setting=setting)
    return _mean_of(
        evidence, chosen, wanted, f"{setting} searches of {model} on {TASKS[name]}, of three pairs"
    )


def _mean_of(
    evidence: Evidence, chosen: Callable[[Evidence], list[Search]], wanted: float, what: str
) -> Finding:
    """Whether the mean gain of the searches chosen is the one stated."""
    found = chosen(evidence)
    whole = all_pairs(found, chosen)
    if not found or (len(found) < FEWEST and not whole):
        return missing(what)
    values = [gain(s) for s in found]
    shown = as_stated(values, wanted, ABOUT * wanted, whole, noise(found))
    numbers = f"mean gain {fmean(values):.3f} over {len(values)} pairs (stated: {wanted:g})"
    return judged(shown, numbers, chance(found), found, lucky_mean(found))


def mean_unstated(evidence: Evidence, model: str, setting: str) -> Finding:
    chosen = partial(of_setting, task="slots", setting=setting)
    found = chosen(evidence)
    if len(found) < FEWEST:
        return missing(f"{setting} searches of {model} on slots, of three pairs")
    values = [gain(s) for s in found]
    numbers = f"mean gain {fmean(values):.3f} over {len(found)} pairs (no number stated)"
    shown = above(values, 0.0, all_pairs(found, chosen), noise(found))
    return judged(shown, numbers, chance(found), found, lucky_mean(found))


def overall(evidence: Evidence, model: str) -> Finding:
    wanted = stated(PAPER, "mean_F1_improvement_overall", model=MODELS[model])
    if {s.setting for s in paired(evidence, "pos")} != {CROSS, MULTI}:
        return missing(f"cross- and multi-lingual searches of {model} on pos")
    return _mean_of(
        evidence, partial(paired, task="pos"), wanted, f"searches of {model} on pos, of three pairs"
    )


def family(code: str) -> set[str]:
    """The family of a language and the branch in it: IE and Germanic."""
    try:
        return {part.strip() for part in language(code).family.split(",")} - {""}
    except DeadheadError:
        return set()


def within_family(evidence: Evidence, name: str) -> list[Search]:
    return [s for s in paired(evidence, "pos") if name in family(s.source) & family(s.target)]


def same_family(evidence: Evidence, name: str, model: str) -> Finding:
    wanted = stated(PAPER, "mean_F1_improvement_same_family", model=MODELS[model], of=name)
    what = f"searches of {model} on pos between three pairs of {name} languages, or the paper's own pairs"
    return _mean_of(evidence, partial(within_family, name=name), wanted, what)


def drops_across(evidence: Evidence) -> Finding:
    """Whether the pairs that lose are mostly of different families; most pairs are."""
    from scipy.stats import binom

    found = paired(evidence, "ner")
    if len(found) < 6:
        return missing("lowest-k searches of six pairs on ner")
    lost = [s for s in found if gain(s) <= 0]
    whole = all_pairs(found, lambda e: paired(e, "ner"), several=True)
    if not lost:
        return judged(at_face(True, 0.0, whole), f"none of {len(found)} pairs loses", "", found)
    apart, base = (
        sum(not family(s.source) & family(s.target) for s in some) for some in (lost, found)
    )
    p = float(binom.sf(apart - 1, len(lost), base / len(found)))
    numbers = f"{apart} of {len(lost)} pairs that do not gain are of different families"
    by_chance = f"of all pairs {base} of {len(found)} are: as many by chance with p = {p:.2g}"
    return judged(most(apart, len(lost), whole), numbers, by_chance, found, p >= LEVEL)


def ranker(evidence: Evidence, setting: str) -> Finding:
    wanted = stated(PAPER, "mean_F1_improvement_by_ranker", setting=setting, of="gradient")
    chosen = partial(of_setting, task="ner", setting=setting)
    finding = _mean_of(
        evidence, chosen, wanted, f"{setting} searches of mBERT on ner by gradient, of three pairs"
    )
    by_lrp = single(evidence, "ner", PAPER_LRP)
    lrp = [s for s in by_lrp if s.setting == setting]
    if finding.margin is None or (not lrp and finding.verdict == FAILS):
        return finding
    if not lrp:
        return missing(
            f"{setting} searches of mBERT on ner by LRP (the gain by gradient: {finding.numbers})"
        )
    gradient = {(s.source, s.target): s for s in chosen(evidence)}
    leads = [
        gain(gradient[s.source, s.target]) - gain(s)
        for s in lrp
        if (s.source, s.target) in gradient
    ]
    ahead = (
        above(leads, 0.0, all_pairs(lrp, chosen))
        if leads
        else Shown(UNSHOWN, 0.0, "no pair by both")
    )
    numbers = f"{finding.numbers}; by LRP {fmean(map(gain, lrp)):.3f}"
    shown = worst([Shown(finding.verdict, finding.margin), ahead])
    return judged(
        Shown(shown.verdict, shown.margin), numbers, finding.strength, [*gradient.values(), *lrp]
    )


def with_arms(evidence: Evidence, task: str, *arms: str) -> list[Search]:
    """Searches of the controls' table: one source, the named arms."""
    return [
        s
        for s in single(evidence, task)
        if s.setting != "mono-lingual" and set(arms) <= set(s.arms)
    ]


def lowers(evidence: Evidence, name: str, arm: str, share: float | None = None) -> Finding:
    """Whether a control arm lowers the score in a share of the cases, or in most of them."""
    chosen = partial(_with_arm, task=TASKS[name], arm=arm)
    found = chosen(evidence)
    if len(found) < 4:
        return missing(f"the {arm} arm of four searches on {TASKS[name]}")
    lower, whole = sum(gain(s, arm) < 0 for s in found), all_pairs(found, chosen)
    shown = (
        most(lower, len(found), whole)
        if share is None
        else at_least(lower, len(found), share, whole)
    )
    numbers = f"lower in {lower} of {len(found)} cases, {fmean(gain(s, arm) for s in found):+.2f} points on average"
    strength = f"{signs(gain(s, arm) for s in found)}; as the best of {found[0].arms[arm].budget} it would gain by luck"
    return judged(shown, numbers, strength, found)


def _with_arm(evidence: Evidence, task: str, arm: str) -> list[Search]:
    return with_arms(evidence, task, arm)


def max_vs_low(evidence: Evidence) -> Finding:
    chosen = lambda e: with_arms(e, "", "highest", "lowest")  # noqa: E731
    every_one = chosen(evidence)
    found = [s for s in every_one if gain(s, "highest") > 0]
    if len(every_one) < 4:
        return missing("four searches with the highest arm")
    whole = all_pairs(every_one, chosen)
    if not found:
        shown = at_face(True, 0.0, whole)
        return judged(
            shown,
            f"cutting the highest-ranked helps in none of {len(every_one)} cases",
            "",
            every_one,
        )
    leads = [gain(s) - gain(s, "highest") for s in found]
    told = ", ".join(
        f"{s.task} {s.source}-{s.target} {gain(s):.2f} against {gain(s, 'highest'):.2f}"
        for s in found[:6]
    )
    shown = every(leads, whole, noise=lead_noise(found, "highest"))
    return judged(
        shown, f"{sum(v > 0 for v in leads)} of {len(leads)}: {told}", signs(leads), found
    )


def max_vs_rand(evidence: Evidence) -> Finding:
    chosen = lambda e: with_arms(e, "", "highest", "random")  # noqa: E731
    found = chosen(evidence)
    if len(found) < 6:
        return missing("six searches with the highest and the random arm")
    leads = [gain(s, "random") - gain(s, "highest") for s in found]
    more = sum(v > 0 for v in leads)
    numbers = f"the highest-ranked hurt more in {more} of {len(found)} cases, less in {sum(v < 0 for v in leads)}"
    return judged(most(more, len(found), all_pairs(found, chosen)), numbers, signs(leads), found)


def rand_vs_low(evidence: Evidence) -> Finding:
    chosen = lambda e: with_arms(e, "", "random", "lowest")  # noqa: E731
    found = chosen(evidence)
    if len(found) < 4:
        return missing("four searches with the random arm")
    leads = {
        f"{s.task} {s.setting} {s.source}-{s.target}": gain(s) - gain(s, "random") for s in found
    }
    ahead = sum(v > 0 for v in leads.values())
    lost = [f"{name} {v:+.2f}" for name, v in leads.items() if v <= 0]
    numbers = f"the lowest are ahead in {ahead} of {len(found)}" + (
        f"; not: {', '.join(lost[:6])}" if lost else ""
    )
    shown = every(list(leads.values()), all_pairs(found, chosen), noise=lead_noise(found, "random"))
    return judged(shown, numbers, signs(leads.values()), found)


def xlmr(evidence: Evidence, other: Evidence, name: str, setting: str) -> Finding:
    ours, theirs = (
        {(s.source, s.target): s for s in of_setting(one, TASKS[name], setting)}
        for one in (evidence, other)
    )
    leads = {pair: theirs[pair].unpruned - s.unpruned for pair, s in ours.items() if pair in theirs}
    plain = [lead for pair, lead in leads.items() if not FAR_EAST & set(pair)]
    eastern = [lead for pair, lead in leads.items() if FAR_EAST & set(pair)]
    if len(plain) < 4:
        return missing(
            f"{setting} scores of unpruned mBERT and XLM-R on {TASKS[name]}, of four pairs without zh and ja"
        )
    ahead, beside = sum(v > 0 for v in plain), sum(v > 0 for v in eastern)
    numbers = f"XLM-R ahead in {ahead} of {len(plain)} pairs without zh and ja, in {beside} of {len(eastern)} with"
    strength = f"sign test p = {sign_test(ahead, sum(v < 0 for v in plain)):.2g}"
    used = [one[pair] for one in (ours, theirs) for pair in leads]
    whole = all_pairs(
        [ours[pair] for pair in leads], partial(of_setting, task=TASKS[name], setting=setting)
    )
    return judged(most(ahead, len(plain), whole), numbers, strength, used)


def _claims() -> Iterable[tuple[str, str, Callable[[Evidence], Finding]]]:
    both = "(cross- and multi-lingual)"
    yield (
        "C-count-POS",
        f"Cutting the lowest-ranked heads helps 88 of 96 pairs on POS {both}.",
        about_searches(partial(count, name="POS", wanted=88, of=96), BOTH, together=True),
    )
    yield (
        "C-count-NER",
        f"Cutting the lowest-ranked heads helps 77 of 96 pairs on NER {both}.",
        about_searches(partial(count, name="NER", wanted=77, of=96), BOTH, together=True),
    )
    yield (
        "C-count-SF",
        "Cutting the lowest-ranked heads helps 31 of 34 pairs on slots, the source alone included.",
        about_searches(partial(count, name="SF", wanted=31, of=34), BOTH, together=True),
    )
    for name in ("POS", "NER"):
        for model, setting in ((m, s) for m in MODELS for s in (CROSS, MULTI)):
            number = stated(
                PAPER, "mean_F1_improvement", task=TASKS[name], model=MODELS[model], setting=setting
            )
            text = f"The mean {setting} gain of {model} on {name} is {number:.2f} points."
            yield (
                f"C-mean-{name}-{model}-{setting}",
                text,
                about_searches(partial(mean, name=name, model=model, setting=setting), OF[model]),
            )
    for model, setting in ((m, s) for m in MODELS for s in (CROSS, MULTI)):
        text = f"The mean {setting} gain of {model} on slots is above zero (the paper gives no number)."
        yield (
            f"C-mean-SF-{model}-{setting}",
            text,
            about_searches(
                partial(mean_unstated, model=model, setting=setting), OF[model], general=True
            ),
        )
    for model in MODELS:
        number = stated(PAPER, "mean_F1_improvement_overall", model=MODELS[model])
        yield (
            f"C-overall-{model}",
            f"Over both settings the mean gain of {model} on POS is {number:.2f} points.",
            about_searches(partial(overall, model=model), OF[model]),
        )
    for name, model in ((f, m) for f in ("IE", "Germanic", "Semitic") for m in MODELS):
        number = stated(PAPER, "mean_F1_improvement_same_family", model=MODELS[model], of=name)
        text = (
            f"Between two {name} languages the mean gain of {model} on POS is {number:.2f} points."
        )
        yield (
            f"C-fam-{name}-{model}",
            text,
            about_searches(partial(same_family, name=name, model=model), OF[model]),
        )
    yield (
        "C-drop-NER",
        "On NER cutting heads lowers the score mostly between languages of different families.",
        about_searches(drops_across, BOTH, together=True, general=True),
    )
    for setting in (CROSS, MULTI):
        number, lrp = (
            stated(PAPER, "mean_F1_improvement_by_ranker", setting=setting, of=by)
            for by in ("gradient", "lrp")
        )
        text = f"On NER the mean {setting} gain of mBERT is {number:.2f} points by gradient, and less by LRP ({lrp:.2f})."
        yield (
            f"C-ranker-{setting}",
            text,
            about_searches(partial(ranker, setting=setting), OF["mbert"]),
        )
    for name in ("NER", "POS"):
        cases = int(stated(PAPER, "cases_max_pruning_drops", task=TASKS[name]))
        text = f"Cutting the highest-ranked heads lowers {name} in at least {cases} of 16 cases."
        yield (
            f"C-max-{name}",
            text,
            about_searches(
                partial(lowers, name=name, arm="highest", share=cases / 16), OF["mbert"]
            ),
        )
        yield (
            f"C-rand-{name}",
            f"Cutting random heads lowers {name} in most cases.",
            about_searches(partial(lowers, name=name, arm="random"), OF["mbert"], general=True),
        )
    yield (
        "C-max-vs-low",
        "Where cutting the highest-ranked heads helps, cutting the lowest-ranked helps more.",
        about_searches(max_vs_low, OF["mbert"], ON_POS_AND_NER, general=True),
    )
    yield (
        "C-max-vs-rand",
        "Cutting the highest-ranked heads hurts more than cutting random ones (implied).",
        about_searches(max_vs_rand, OF["mbert"], ON_POS_AND_NER, general=True),
    )
    yield (
        "C-rand-vs-low",
        "Cutting random heads never does as well as cutting the lowest-ranked (implied).",
        about_searches(rand_vs_low, OF["mbert"], ON_POS_AND_NER, general=True),
    )
    for name, setting in ((n, s) for n in ("POS", "NER") for s in (CROSS, MULTI)):
        text = f"Unpruned XLM-R is mostly ahead of mBERT on {setting} {name}, pairs with zh or ja aside."
        yield (
            f"C-xlmr-{name}-{setting}",
            text,
            against_searches(partial(xlmr, name=name, setting=setting), OF["mbert"], XLMR),
        )


# Claims whose margin is a number of cases.
CASES = (
    "C-count",
    "C-drop",
    "C-max-NER",
    "C-max-POS",
    "C-rand-NER",
    "C-rand-POS",
    "C-max-vs-rand",
    "C-xlmr",
)
CLAIMS = (
    tuple(
        Claim(name, PAPER, statement, judge, "cases" if name.startswith(CASES) else "points")
        for name, statement, judge in _claims()
    )
    + ON_SOURCES
    + ON_HEADS
)
