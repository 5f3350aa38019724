"""Claims of Ma et al. 2021 (contributions) on what single searches gain, and their controls.

Those on several sources are in `contributions_sources.py`, those on rankings, correlations and little data
in `contributions_heads.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from statistics import fmean

from ..analyses import sign_test
from ..errors import DeadheadError
from ..tasks.languages import language
from .about import about_searches, against_searches
from .contributions_heads import CLAIMS as ON_HEADS
from .contributions_sources import CLAIMS as ON_SOURCES
from .evidence import Evidence, Search
from .from_papers import stated
from .kinds import ON_POS_AND_NER, XLM, Models, is_xlmr
from .searches import BOTH, CROSS, MODELS, MULTI, OF, TASKS, chance, gain, lucky_count, lucky_mean, paired, single
from .strength import FEWEST, as_stated, count_as_stated, majority, needed, signs
from .verdict import Claim, Finding, judged, missing

PAPER = "contributions"
PAPER_LRP = "lrp rule=alpha-beta"  # the LRP of the paper's time; the epsilon rule is of 2024 and ranks heads differently
FAR_EAST = {"zh", "ja"}
XLMR = Models("XLM-R", (XLM,), (is_xlmr,))  # what mBERT is compared with; no other stands in for it


def count(evidence: Evidence, name: str, wanted: int, of: int) -> Finding:
    found = paired(evidence, TASKS[name])
    if len(found) < 6:
        return missing(f"lowest-k searches of six pairs on {TASKS[name]}")
    better = sum(gain(s) > 0 for s in found)
    holds, margin, sure = count_as_stated(better, len(found), wanted, of, evidence.printed)
    numbers = f"{better} of {len(found)} pairs gain (stated: {wanted} of {of})"
    return judged(holds, margin, numbers, f"{sure}; {chance(found)}", found, lucky_count(found))


def mean(evidence: Evidence, name: str, model: str, setting: str) -> Finding:
    found = [s for s in single(evidence, TASKS[name]) if s.setting == setting]
    wanted = stated(PAPER, "mean_F1_improvement", task=TASKS[name], model=MODELS[model], setting=setting)
    return _mean_of(evidence, found, wanted, f"{setting} searches of {model} on {TASKS[name]}, of three pairs")


def _mean_of(evidence: Evidence, found: Sequence[Search], wanted: float, what: str, fewest: int = FEWEST) -> Finding:
    if len(found) < (fewest if evidence.printed else FEWEST):
        return missing(what)
    values = [gain(s) for s in found]
    holds, margin, sure = as_stated(values, wanted, evidence.printed)
    numbers = f"mean gain {fmean(values):.3f} over {len(values)} pairs (stated: {wanted:g})"
    return judged(holds, margin, numbers, f"{sure}; {chance(found)}", found, lucky_mean(found))


def mean_unstated(evidence: Evidence, model: str, setting: str) -> Finding:
    found = [s for s in single(evidence, "slots") if s.setting == setting]
    if len(found) < FEWEST:
        return missing(f"{setting} searches of {model} on slots, of three pairs")
    value = fmean(map(gain, found))
    numbers = f"mean gain {value:.3f} over {len(found)} pairs (no number stated)"
    return judged(value > 0, value, numbers, chance(found), found, lucky_mean(found))


def overall(evidence: Evidence, model: str) -> Finding:
    found = paired(evidence, "pos")
    wanted = stated(PAPER, "mean_F1_improvement_overall", model=MODELS[model])
    if {s.setting for s in found} != {CROSS, MULTI}:
        return missing(f"cross- and multi-lingual searches of {model} on pos")
    return _mean_of(evidence, found, wanted, f"searches of {model} on pos, of three pairs")


def family(code: str) -> set[str]:
    """The family of a language and the branch in it: IE and Germanic."""
    try:
        return {part.strip() for part in language(code).family.split(",")} - {""}
    except DeadheadError:
        return set()


def same_family(evidence: Evidence, name: str, model: str) -> Finding:
    found = [s for s in paired(evidence, "pos") if name in family(s.source) & family(s.target)]
    wanted = stated(PAPER, "mean_F1_improvement_same_family", model=MODELS[model], of=name)
    return _mean_of(evidence, found, wanted, f"searches of {model} on pos between three pairs of {name} languages", fewest=2)


def ranker(evidence: Evidence, setting: str) -> Finding:
    found = [s for s in single(evidence, "ner") if s.setting == setting]
    wanted = stated(PAPER, "mean_F1_improvement_by_ranker", setting=setting, of="gradient")
    finding = _mean_of(evidence, found, wanted, f"{setting} searches of mBERT on ner by gradient, of three pairs")
    lrp = [s for s in evidence.pairs if s.task == "ner" and s.setting == setting and s.rank == PAPER_LRP and "lowest" in s.arms]
    if finding.margin is None or (not lrp and finding.margin < 0):
        return finding
    if not lrp:
        return missing(f"{setting} searches of mBERT on ner by LRP (the gain by gradient is as stated: {finding.numbers})")
    ahead = fmean(map(gain, found)) - fmean(map(gain, lrp))
    numbers = f"{finding.numbers}; by LRP {fmean(map(gain, lrp)):.3f}"
    return judged(finding.margin >= 0 and ahead > 0, min(finding.margin, ahead), numbers, finding.strength, [*found, *lrp])


def with_arms(evidence: Evidence, task: str, *arms: str) -> list[Search]:
    """Searches of the controls' table: one source, the named arms."""
    return [s for s in single(evidence, task) if s.setting != "mono-lingual" and set(arms) <= set(s.arms)]


def lowers(evidence: Evidence, name: str, arm: str, share: float | None = None) -> Finding:
    """Whether a control arm lowers the score in a share of the cases, or in most of them."""
    found = with_arms(evidence, TASKS[name], arm)
    if len(found) < 4:
        return missing(f"the {arm} arm of four searches on {TASKS[name]}")
    lower = sum(gain(s, arm) < 0 for s in found)
    border = majority(len(found)) if share is None else share * len(found)
    numbers = f"lower in {lower} of {len(found)} cases, {fmean(gain(s, arm) for s in found):+.2f} points on average"
    return judged(
        lower >= border,
        lower - border,
        numbers,
        f"{signs(gain(s, arm) for s in found)}; as the best of {found[0].arms[arm].budget} it would gain by luck",
        found,
    )


def max_vs_low(evidence: Evidence) -> Finding:
    every = with_arms(evidence, "", "highest", "lowest")
    found = [s for s in every if gain(s, "highest") > 0]
    if len(every) < 4 or not found:
        return missing("four searches with the highest arm, which gains in one of them")
    leads = [gain(s) - gain(s, "highest") for s in found]
    told = ", ".join(f"{s.task} {s.source}-{s.target} {gain(s):.2f} against {gain(s, 'highest'):.2f}" for s in found[:6])
    return judged(min(leads) > 0, min(leads), f"{sum(v > 0 for v in leads)} of {len(leads)}: {told}", signs(leads), found)


def max_vs_rand(evidence: Evidence) -> Finding:
    found = with_arms(evidence, "", "highest", "random")
    border = needed(len(found))
    if border > len(found):
        return missing("six searches with the highest and the random arm")
    leads = [gain(s, "random") - gain(s, "highest") for s in found]
    more = sum(v > 0 for v in leads)
    numbers = f"the highest-ranked hurt more in {more} of {len(found)} cases, less in {sum(v < 0 for v in leads)} ({border} would show it)"
    return judged(more >= border, more - border, numbers, signs(leads), found)


def rand_vs_low(evidence: Evidence) -> Finding:
    found = with_arms(evidence, "", "random", "lowest")
    if len(found) < 4:
        return missing("four searches with the random arm")
    leads = {f"{s.task} {s.setting} {s.source}-{s.target}": gain(s) - gain(s, "random") for s in found}
    ahead = sum(v > 0 for v in leads.values())
    lost = [f"{name} {v:+.2f}" for name, v in leads.items() if v <= 0]
    numbers = f"the lowest are ahead in {ahead} of {len(found)}" + (f"; not: {', '.join(lost[:6])}" if lost else "")
    return judged(not lost, ahead - len(found), numbers, signs(leads.values()), found)


def xlmr(evidence: Evidence, other: Evidence, name: str, setting: str) -> Finding:
    ours, theirs = ({(s.source, s.target): s for s in single(one, TASKS[name]) if s.setting == setting} for one in (evidence, other))
    leads = {pair: theirs[pair].full - s.full for pair, s in ours.items() if pair in theirs}
    plain = [lead for pair, lead in leads.items() if not FAR_EAST & set(pair)]
    eastern = [lead for pair, lead in leads.items() if FAR_EAST & set(pair)]
    if len(plain) < 4:
        return missing(f"{setting} scores of unpruned mBERT and XLM-R on {TASKS[name]}, of four pairs without zh and ja")
    ahead, beside = sum(v > 0 for v in plain), sum(v > 0 for v in eastern)
    numbers = f"XLM-R ahead in {ahead} of {len(plain)} pairs without zh and ja, in {beside} of {len(eastern)} with"
    strength = f"sign test p = {sign_test(ahead, sum(v < 0 for v in plain)):.2g}"
    used = [one[pair] for one in (ours, theirs) for pair in leads]
    return judged(ahead >= majority(len(plain)), ahead - majority(len(plain)), numbers, strength, used)


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
            number = stated(PAPER, "mean_F1_improvement", task=TASKS[name], model=MODELS[model], setting=setting)
            text = f"The mean {setting} gain of {model} on {name} is {number:.2f} points."
            yield (
                f"C-mean-{name}-{model}-{setting}",
                text,
                about_searches(partial(mean, name=name, model=model, setting=setting), OF[model]),
            )
    for model, setting in ((m, s) for m in MODELS for s in (CROSS, MULTI)):
        text = f"The mean {setting} gain of {model} on slots is above zero (the paper gives no number)."
        yield f"C-mean-SF-{model}-{setting}", text, about_searches(partial(mean_unstated, model=model, setting=setting), OF[model])
    for model in MODELS:
        number = stated(PAPER, "mean_F1_improvement_overall", model=MODELS[model])
        yield (
            f"C-overall-{model}",
            f"Over both settings the mean gain of {model} on POS is {number:.2f} points.",
            about_searches(partial(overall, model=model), OF[model]),
        )
    for name, model in ((f, m) for f in ("IE", "Germanic", "Semitic") for m in MODELS):
        number = stated(PAPER, "mean_F1_improvement_same_family", model=MODELS[model], of=name)
        text = f"Between two {name} languages the mean gain of {model} on POS is {number:.2f} points."
        yield f"C-fam-{name}-{model}", text, about_searches(partial(same_family, name=name, model=model), OF[model])
    for setting in (CROSS, MULTI):
        number, lrp = (stated(PAPER, "mean_F1_improvement_by_ranker", setting=setting, of=by) for by in ("gradient", "lrp"))
        text = f"On NER the mean {setting} gain of mBERT is {number:.2f} points by gradient, and less by LRP ({lrp:.2f})."
        yield f"C-ranker-{setting}", text, about_searches(partial(ranker, setting=setting), OF["mbert"])
    for name in ("NER", "POS"):
        cases = int(stated(PAPER, "cases_max_pruning_drops", task=TASKS[name]))
        text = f"Cutting the highest-ranked heads lowers {name} in at least {cases} of 16 cases."
        yield f"C-max-{name}", text, about_searches(partial(lowers, name=name, arm="highest", share=cases / 16), OF["mbert"])
        yield (
            f"C-rand-{name}",
            f"Cutting random heads lowers {name} in most cases.",
            about_searches(partial(lowers, name=name, arm="random"), OF["mbert"]),
        )
    yield (
        "C-max-vs-low",
        "Where cutting the highest-ranked heads helps, cutting the lowest-ranked helps more.",
        about_searches(max_vs_low, OF["mbert"], ON_POS_AND_NER),
    )
    yield (
        "C-max-vs-rand",
        "Cutting the highest-ranked heads hurts more than cutting random ones (implied).",
        about_searches(max_vs_rand, OF["mbert"], ON_POS_AND_NER),
    )
    yield (
        "C-rand-vs-low",
        "Cutting random heads never does as well as cutting the lowest-ranked (implied).",
        about_searches(rand_vs_low, OF["mbert"], ON_POS_AND_NER),
    )
    for name, setting in ((n, s) for n in ("POS", "NER") for s in (CROSS, MULTI)):
        text = f"Unpruned XLM-R is mostly ahead of mBERT on {setting} {name}, pairs with zh or ja aside."
        yield f"C-xlmr-{name}-{setting}", text, against_searches(partial(xlmr, name=name, setting=setting), OF["mbert"], XLMR)


CASES = ("C-count", "C-max-NER", "C-max-POS", "C-rand", "C-max-vs-rand", "C-xlmr")  # claims whose margin is a number of cases
CLAIMS = (
    tuple(Claim(name, PAPER, statement, judge, "cases" if name.startswith(CASES) else "points") for name, statement, judge in _claims())
    + ON_SOURCES
    + ON_HEADS
)
