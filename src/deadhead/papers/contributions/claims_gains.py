"""Claims of Ma et al. 2021 on what searches from one source gain, and on their controls."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from statistics import fmean

from deadhead.errors import DeadheadError
from deadhead.papers.claims import rule
from deadhead.papers.claims.claim import BOTH, MODELS, OF, ON_POS_AND_NER, Claim, Scope
from deadhead.papers.claims.evidence import Evidence, group_by
from deadhead.papers.claims.from_papers import stated
from deadhead.papers.claims.searches import (
    CROSS,
    MULTI,
    PAPER_LRP,
    TASKS,
    all_pairs,
    chance,
    gaining,
    lead_noise,
    lucky_count,
    lucky_mean,
    noise,
    of_setting,
    paired,
    single,
)
from deadhead.papers.claims.verdict import FAILS, UNSHOWN, Finding, Outcome, judged, missing
from deadhead.results import Search
from deadhead.tasks.languages import language

Select = Callable[[Evidence], list[Search]]


def pairs_that_gain(evidence: Evidence, task: str, better: float, pairs: float) -> Finding:
    select = partial(paired, task=task)
    searches = select(evidence)
    if len(searches) < 6:
        return missing(f"lowest-k searches of six pairs on {task}")
    count, n = gaining(searches), len(searches)
    whole = all_pairs(searches, select, both_models=True)
    outcome = rule.count_as_stated(count, n, better, pairs, whole)
    numbers = f"{count} of {n} pairs gain (stated: {better:g} of {pairs:g})"
    two = [s for s in searches if s.is_pair]
    if len(two) < n:
        numbers += f"; of two languages {gaining(two)} of {len(two)}"
    return judged(outcome, numbers, searches, chance(searches), lucky_count(searches))


def mean_gain(
    evidence: Evidence, select: Select, needed: str, stated: float | None = None
) -> Finding:
    """Whether the mean gain of the searches selected is the number stated, or else above zero."""
    searches = select(evidence)
    whole = all_pairs(searches, select)
    if not searches or (len(searches) < rule.FEWEST and not (whole and stated is not None)):
        return missing(needed)
    values = [s.gain() for s in searches]
    if stated is None:
        outcome, word = rule.above(values, 0.0, whole, noise(searches)), "no number stated"
    else:
        within = rule.ABOUT * stated
        outcome = rule.as_stated(values, stated, within, whole, noise(searches))
        word = f"stated: {stated:g}"
    numbers = f"mean gain {fmean(values):.3f} over {len(values)} pairs ({word})"
    return judged(outcome, numbers, searches, chance(searches), lucky_mean(searches))


def in_both_settings(evidence: Evidence) -> list[Search]:
    """The pairs on POS, if there are some in each of the two settings."""
    searches = paired(evidence, "pos")
    return searches if {s.setting for s in searches} == {CROSS, MULTI} else []


def family(code: str) -> set[str]:
    """The family of a language and the branch in it: IE and Germanic."""
    try:
        return {part.strip() for part in language(code).family.split(",")} - {""}
    except DeadheadError:
        return set()


def within_family(evidence: Evidence, name: str) -> list[Search]:
    return [s for s in paired(evidence, "pos") if name in family(s.source) & family(s.target)]


def losses_across_families(evidence: Evidence) -> Finding:
    """Whether the pairs that lose are mostly of different families; most pairs are."""
    from scipy.stats import binom

    select = partial(paired, task="ner")
    searches = select(evidence)
    if len(searches) < 6:
        return missing("lowest-k searches of six pairs on ner")
    losing = [s for s in searches if s.gain() <= 0]
    n, whole = len(searches), all_pairs(searches, select, both_models=True)
    if not losing:
        return judged(rule.exactly(True, 0.0, whole), f"none of {n} pairs loses", searches)
    apart, base = (
        sum(not family(s.source) & family(s.target) for s in group) for group in (losing, searches)
    )
    p = float(binom.sf(apart - 1, len(losing), base / n))
    numbers = f"{apart} of {len(losing)} pairs that do not gain are of different families"
    by_chance = f"of all pairs {base} of {n} are: as many by chance with p = {p:.2g}"
    outcome = rule.most(apart, len(losing), whole)
    return judged(outcome, numbers, searches, by_chance, p >= rule.LEVEL)


def gradient_gains_more_than_lrp(evidence: Evidence, gradient: float, setting: str) -> Finding:
    select = partial(of_setting, task="ner", setting=setting)
    needed = f"{setting} searches of mBERT on ner by gradient, of three pairs"
    finding = mean_gain(evidence, select, needed, gradient)
    by_lrp = [s for s in single(evidence, "ner", PAPER_LRP) if s.setting == setting]
    if finding.margin is None or (not by_lrp and finding.verdict == FAILS):
        return finding
    if not by_lrp:
        gained = f"(the gain by gradient: {finding.numbers})"
        return missing(f"{setting} searches of mBERT on ner by LRP {gained}")
    by_gradient = {(s.source, s.target): s for s in select(evidence)}
    pairs = [(by_gradient.get((s.source, s.target)), s) for s in by_lrp]
    leads = [first.gain() - second.gain() for first, second in pairs if first is not None]
    whole = all_pairs(by_lrp, select)
    ahead = rule.above(leads, 0.0, whole) if leads else Outcome(UNSHOWN, 0.0)
    worst = rule.worst([Outcome(finding.verdict, finding.margin), ahead])
    numbers = f"{finding.numbers}; by LRP {fmean(s.gain() for s in by_lrp):.3f}"
    used = [*by_gradient.values(), *by_lrp]
    return judged(Outcome(worst.verdict, worst.margin), numbers, used, finding.strength)


def with_arms(evidence: Evidence, task: str, arms: tuple[str, ...]) -> list[Search]:
    """Searches from one source to another language that have these arms."""
    return [s for s in single(evidence, task) if set(arms) <= set(s.arms)]


def arm_lowers_scores(
    evidence: Evidence, task: str, arm: str, cases: float | None = None
) -> Finding:
    """Whether a control lowers the score in `cases` of 16, or in most cases."""
    select = partial(with_arms, task=task, arms=(arm,))
    searches = select(evidence)
    if len(searches) < 4:
        return missing(f"the {arm} arm of four searches on {task}")
    values, n, whole = [s.gain(arm) for s in searches], len(searches), all_pairs(searches, select)
    lower = sum(value < 0 for value in values)
    half = rule.most(lower, n, whole)
    outcome = half if cases is None else rule.at_least(lower, n, cases / 16, whole)
    numbers = f"lower in {lower} of {n} cases, {fmean(values):+.2f} points on average"
    budget = searches[0].arms[arm].budget
    strength = f"{rule.signs(values)}; as the best of {budget} it would gain by luck"
    return judged(outcome, numbers, searches, strength)


def lowest_helps_more_than_highest(evidence: Evidence) -> Finding:
    select = partial(with_arms, task="", arms=("highest", "lowest"))
    searches = select(evidence)
    if len(searches) < 4:
        return missing("four searches with the highest arm")
    whole = all_pairs(searches, select)
    helped = [s for s in searches if s.gain("highest") > 0]
    if not helped:
        numbers = f"cutting the highest-ranked helps in none of {len(searches)} cases"
        return judged(rule.exactly(True, 0.0, whole), numbers, searches)
    leads = [s.gain() - s.gain("highest") for s in helped]
    each = ", ".join(
        f"{s.task} {s.source}-{s.target} {s.gain():.2f} against {s.gain('highest'):.2f}"
        for s in helped[:6]
    )
    outcome = rule.every(leads, whole, noise=lead_noise(helped, "highest"))
    numbers = f"{sum(v > 0 for v in leads)} of {len(leads)}: {each}"
    return judged(outcome, numbers, helped, rule.signs(leads))


def highest_hurts_more_than_random(evidence: Evidence) -> Finding:
    select = partial(with_arms, task="", arms=("highest", "random"))
    searches = select(evidence)
    if len(searches) < 6:
        return missing("six searches with the highest and the random arm")
    leads, n = [s.gain("random") - s.gain("highest") for s in searches], len(searches)
    more, less = sum(v > 0 for v in leads), sum(v < 0 for v in leads)
    numbers = f"the highest-ranked hurt more in {more} of {n} cases, less in {less}"
    outcome = rule.most(more, n, all_pairs(searches, select))
    return judged(outcome, numbers, searches, rule.signs(leads))


def random_never_reaches_lowest(evidence: Evidence) -> Finding:
    select = partial(with_arms, task="", arms=("random", "lowest"))
    searches = select(evidence)
    if len(searches) < 4:
        return missing("four searches with the random arm")
    leads = [s.gain() - s.gain("random") for s in searches]
    exceptions = [
        f"{s.task} {s.setting} {s.source}-{s.target} {lead:+.2f}"
        for s, lead in zip(searches, leads, strict=True)
        if lead <= 0
    ]
    numbers = f"the lowest are ahead in {len(leads) - len(exceptions)} of {len(leads)}"
    if exceptions:
        numbers += f"; not: {', '.join(exceptions[:6])}"
    outcome = rule.every(leads, all_pairs(searches, select), noise=lead_noise(searches, "random"))
    return judged(outcome, numbers, searches, rule.signs(leads))


def rest_is_comparable(evidence: Evidence, task: str) -> Finding:
    """Whether the score of every pair that does not gain is within a point of the unpruned one."""
    select = partial(paired, task=task)
    searches = select(evidence)
    if len(searches) < 6:
        return missing(f"lowest-k searches of six pairs on {task}")
    losing = [s for s in searches if s.gain() <= 0]
    whole = all_pairs(searches, select, both_models=True)
    if not losing:
        numbers = f"none of {len(searches)} pairs loses"
        return judged(rule.exactly(True, rule.POINT, whole), numbers, searches)
    margins = [rule.POINT + s.gain() for s in losing]
    widths = [rule.over_repeats([s.arms["lowest"].repeats]) for s in losing]
    outcome = rule.every(margins, whole, ties=True, noise=widths)
    near, least = sum(margin >= 0 for margin in margins), min(losing, key=Search.gain)
    lowest = f"the lowest {least.gain():+.2f} ({least.setting} {least.source}-{least.target})"
    numbers = f"within {rule.POINT:g} point in {near} of {len(losing)} that do not gain, {lowest}"
    return judged(outcome, numbers, searches, f"of {len(searches)} pairs")


def gains_from_every_source(evidence: Evidence, task: str) -> Finding:
    """Whether most pairs gain from each source language."""
    select = partial(single, task=task)
    searches = select(evidence)
    groups = group_by(searches, "source")
    known = {name: group for name, group in groups.items() if len(group) >= 4}
    if len(known) < 2:
        return missing(f"lowest-k searches on {task} from two sources, of four pairs each")
    whole = all_pairs(searches, select, both_models=True)
    better = {name: gaining(group) for name, group in known.items()}
    outcome = rule.worst(rule.most(better[name], len(known[name]), whole) for name in known)
    each = ", ".join(
        f"{name} {better[name]} of {len(group)} ({fmean(s.gain() for s in group):+.2f} points)"
        for name, group in known.items()
    )
    used = [s for group in known.values() for s in group]
    return judged(outcome, f"pairs that gain: {each}", used, chance(used), lucky_count(used))


says = partial(stated, "contributions")
BOTH_MODELS = Scope(models=BOTH, searches=True, together=True)
ANY_MODELS = Scope(models=BOTH, searches=True, together=True, general=True)
OF_MODEL = {name: Scope(models=models, searches=True) for name, models in OF.items()}
ANY_MODEL = {name: Scope(models=models, searches=True, general=True) for name, models in OF.items()}
ON_BOTH_TASKS = Scope(models=OF["mbert"], tasks=ON_POS_AND_NER, searches=True, general=True)
IMPROVED = "mean_F1_improvement"
PAIRS = says("pairs_total", task="pos")  # on NER as well


# Tables: id, unit, function and scope, then the statement and the numbers it quotes.
# fmt: off
def _mean(
    name: str, model: str, select: Select, gain: str, needed: str, number: float | None
) -> Claim:
    """A claim on the mean gain of a model: the number that the paper states, or above zero."""
    judge = partial(mean_gain, select=select, needed=needed)
    if number is None:
        return Claim(name, "points", judge, ANY_MODEL[model],
                     f"{gain} is above zero (the paper gives no number).")
    return Claim(name, "points", judge, OF_MODEL[model], f"{gain} is {{stated:.2f}} points.",
                 numbers={"stated": number})


def _mean_gains() -> Iterator[Claim]:
    """For each task, model and setting; on POS over both settings, and within each family."""
    for (name, task), model, setting in product(TASKS.items(), MODELS, (CROSS, MULTI)):
        where = {"task": task, "model": MODELS[model], "setting": setting}
        yield _mean(f"C-mean-{name}-{model}-{setting}", model,
                    partial(of_setting, task=task, setting=setting),
                    f"The mean {setting} gain of {model} on {'slots' if name == 'SF' else name}",
                    f"{setting} searches of {model} on {task}, of three pairs",
                    None if name == "SF" else says(IMPROVED, **where))
    for model, own in MODELS.items():
        yield _mean(f"C-overall-{model}", model, in_both_settings,
                    f"Over both settings the mean gain of {model} on POS",
                    f"cross- and multi-lingual searches of {model} on pos, of three pairs",
                    says(f"{IMPROVED}_overall", model=own))
    for name, (model, own) in product(("IE", "Germanic", "Semitic"), MODELS.items()):
        pairs = f"three pairs of {name} languages, or the paper's own pairs"
        yield _mean(f"C-fam-{name}-{model}", model, partial(within_family, name=name),
                    f"Between two {name} languages the mean gain of {model} on POS",
                    f"searches of {model} on pos between {pairs}",
                    says(f"{IMPROVED}_same_family", model=own, of=name))


def _rankers() -> Iterator[Claim]:
    for setting in (CROSS, MULTI):
        gradient, lrp = (
            says(f"{IMPROVED}_by_ranker", setting=setting, of=of) for of in ("gradient", "lrp")
        )
        yield Claim(f"C-ranker-{setting}", "points",
                    partial(gradient_gains_more_than_lrp, setting=setting), OF_MODEL["mbert"],
                    f"On NER the mean {setting} gain of mBERT is {{gradient:.2f}} points by "
                    f"gradient, and less by LRP ({lrp:.2f}).",
                    numbers={"gradient": gradient})


def _controls() -> Iterator[Claim]:
    for name in ("NER", "POS"):
        lowers = partial(arm_lowers_scores, task=TASKS[name])
        yield Claim(f"C-max-{name}", "cases", partial(lowers, arm="highest"), OF_MODEL["mbert"],
                    f"Cutting the highest-ranked heads lowers {name} in at least {{cases:g}} of "
                    "16 cases.",
                    numbers={"cases": says("cases_max_pruning_drops", task=TASKS[name])})
        yield Claim(f"C-rand-{name}", "cases", partial(lowers, arm="random"), ANY_MODEL["mbert"],
                    f"Cutting random heads lowers {name} in most cases.")


def _by_task() -> Iterator[Claim]:
    """What is said of the pairs that do not gain, and of each source."""
    for name, task in TASKS.items():
        yield Claim(f"C-rest-{name}", "points", partial(rest_is_comparable, task=task), ANY_MODELS,
                    f"Where cutting the lowest-ranked heads does not help on {name}, the score is "
                    "comparable (within 1 point).", follows_in_part=True)
    for name, where in (("POS", ""), ("NER", " (stated for POS)")):
        yield Claim(f"C-source-{name}", "cases",
                    partial(gains_from_every_source, task=TASKS[name]), ANY_MODELS,
                    f"Whatever the source language, cutting the lowest-ranked heads helps most "
                    f"pairs on {name}{where}.")


CLAIMS = (
    Claim("C-count-POS", "cases", partial(pairs_that_gain, task="pos"), BOTH_MODELS,
          "Cutting the lowest-ranked heads helps {better:g} of {pairs:g} pairs on POS (cross- and "
          "multi-lingual).",
          numbers={"better": says("pairs_improved", task="pos"), "pairs": PAIRS}),
    Claim("C-count-NER", "cases", partial(pairs_that_gain, task="ner"), BOTH_MODELS,
          "Cutting the lowest-ranked heads helps {better:g} of {pairs:g} pairs on NER (cross- and "
          "multi-lingual).",
          numbers={"better": PAIRS - says("pairs_not_improved", task="ner"), "pairs": PAIRS}),
    Claim("C-count-SF", "cases", partial(pairs_that_gain, task="slots"), BOTH_MODELS,
          "Cutting the lowest-ranked heads helps {better:g} of {pairs:g} pairs on slots, the "
          "source alone included.",
          numbers={"better": says("pairs_improved", task="slots"),
                   "pairs": says("pairs_total", task="slots")}),
    *_mean_gains(),
    Claim("C-drop-NER", "cases", losses_across_families, ANY_MODELS,
          "On NER cutting heads lowers the score mostly between languages of different families."),
    *_rankers(),
    *_controls(),
    Claim("C-max-vs-low", "points", lowest_helps_more_than_highest, ON_BOTH_TASKS,
          "Where cutting the highest-ranked heads helps, cutting the lowest-ranked helps more."),
    Claim("C-max-vs-rand", "cases", highest_hurts_more_than_random, ON_BOTH_TASKS,
          "Cutting the highest-ranked heads hurts more than cutting random ones (implied).",
          follows_in_part=True),
    Claim("C-rand-vs-low", "points", random_never_reaches_lowest, ON_BOTH_TASKS,
          "Cutting random heads never does as well as cutting the lowest-ranked (implied).",
          follows_in_part=True),
    *_by_task(),
)
# fmt: on
