"""Claims of Ma et al. 2021 that compare mBERT with XLM-R, and several source languages with one."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from statistics import fmean

from deadhead.papers.claims import rule
from deadhead.papers.claims.claim import MBERT, XLMR, Claim, Scope
from deadhead.papers.claims.evidence import Evidence
from deadhead.papers.claims.searches import (
    CROSS,
    MULTI,
    TASKS,
    all_pairs,
    all_targets,
    noise,
    of_setting,
    single,
)
from deadhead.papers.claims.verdict import Finding, judged, listed, missing
from deadhead.results import Merged, Search
from deadhead.results.statistics import sign_test

from .claims_gains import ANY_MODEL, OF_MODEL, ON_BOTH_TASKS, says

FAR_EAST = {"zh", "ja"}  # excepted by the paper in cross-lingual experiments only
FEWEST_COMMON = 4  # pairs that both models have
MUCH = 2.0  # points: "much higher" is more than this
WAYS = ("MD", "SD", "EC")


def _both(
    evidence: Evidence, other: Evidence, task: str, setting: str
) -> dict[tuple[str, str], tuple[Search, Search]]:
    """The searches of mBERT and of XLM-R, by pair of languages."""
    select = partial(of_setting, task=task, setting=setting)
    mbert, xlmr = ({(s.source, s.target): s for s in select(one)} for one in (evidence, other))
    return {pair: (mbert[pair], xlmr[pair]) for pair in mbert if pair in xlmr}


def _whole(both: dict[tuple[str, str], tuple[Search, Search]], task: str, setting: str) -> bool:
    select = partial(of_setting, task=task, setting=setting)
    return all_pairs([mbert for mbert, _ in both.values()], select)


def xlmr_is_ahead(evidence: Evidence, other: Evidence, task: str, setting: str) -> Finding:
    both = _both(evidence, other, task, setting)
    leads = {pair: xlmr.unpruned - mbert.unpruned for pair, (mbert, xlmr) in both.items()}
    excepted = FAR_EAST if setting == CROSS else set()
    counted = [lead for pair, lead in leads.items() if not excepted & set(pair)]
    if len(counted) < FEWEST_COMMON:
        what = f"{setting} scores of unpruned mBERT and XLM-R on {task}, of four pairs"
        return missing(f"{what} without zh, ja" if excepted else what)
    ahead, n = sum(v > 0 for v in counted), len(counted)
    numbers = f"XLM-R ahead in {ahead} of {n} pairs"
    if excepted:
        eastern = [lead for pair, lead in leads.items() if excepted & set(pair)]
        with_them = f"in {sum(v > 0 for v in eastern)} of {len(eastern)} with"
        numbers += f" without zh and ja, {with_them}"
    strength = f"sign test p = {sign_test(ahead, sum(v < 0 for v in counted)):.2g}"
    used = [s for side in zip(*both.values(), strict=True) for s in side]
    outcome = rule.most(ahead, n, _whole(both, task, setting))
    return judged(outcome, numbers, used, strength)


def gains_are_comparable(evidence: Evidence, other: Evidence, task: str) -> Finding:
    """Whether the mean gains of the two models are within a point, in both settings."""
    parts, texts, used, all_leads = [], [], [], []
    for setting in (CROSS, MULTI):
        both = _both(evidence, other, task, setting)
        if len(both) < FEWEST_COMMON:
            return missing(f"{setting} searches of mBERT and XLM-R on {task}, of four pairs")
        sides = [list(side) for side in zip(*both.values(), strict=True)]
        leads = [xlmr.gain() - mbert.gain() for mbert, xlmr in both.values()]
        whole = _whole(both, task, setting)
        parts.append(rule.as_stated(leads, 0.0, rule.POINT, whole, rule.joint(*map(noise, sides))))
        means = [fmean(s.gain() for s in side) for side in sides]
        texts.append(f"{setting} mBERT {means[0]:+.2f}, XLM-R {means[1]:+.2f}")
        used += [s for side in sides for s in side]
        all_leads += leads
    numbers = f"mean gain: {'; '.join(texts)}"
    return judged(rule.worst(parts), numbers, used, rule.signs(all_leads))


def with_all_ways(evidence: Evidence, task: str = "") -> list[Merged]:
    return [m for m in evidence.merged if task in ("", m.task) and set(WAYS) <= set(m.scores)]


def _sources(merged: Merged) -> int:
    return len(merged.train.split("+"))


def _on_both_tasks(merged: list[Merged]) -> bool:
    return all_targets(merged) and {m.task for m in merged} == {"pos", "ner"}


def ec_is_best(evidence: Evidence, cases: float, task: str) -> Finding:
    merged = with_all_ways(evidence, task)
    if len(merged) < 3:
        return missing(f"multi-source searches on {task} by MD, SD and EC, into three targets")
    best = {m.target: max(WAYS, key=m.scores.__getitem__) for m in merged}
    won, n = sum(way == "EC" for way in best.values()), len(best)
    outcome = rule.count_as_stated(won, n, cases, 5, all_targets(merged))
    each = ", ".join(f"{target} {way}" for target, way in best.items())
    numbers = f"EC is best in {won} of {n} (stated: {cases:g} of 5): {each}"
    tries = [_sources(m) for m in merged]  # searches of EC, where MD and SD have one each
    odds = [number / 2 for number in tries]  # the best of six against two is three against one
    strength = f"EC has {fmean(tries):g} times the trials of MD or SD; {rule.by_luck(won, odds)}"
    return judged(outcome, numbers, merged, strength, rule.luck_p(won, odds) >= rule.LEVEL)


def every_way_gains(evidence: Evidence) -> Finding:
    """Whether all three ways gain into every target: one case, since they share trainings."""
    merged = with_all_ways(evidence)
    if len(merged) < 2:
        return missing("multi-source searches by MD, SD and EC, in two cases")
    gains = {f"{m.task} {m.target} {way}": m.gains[way] for m in merged for way in WAYS}
    exceptions = [f"{name} {value:+.2f}" for name, value in gains.items() if value <= 0]
    least = [min(m.gains.values()) for m in merged]
    better, budgets = sum(gain > 0 for gain in least), [m.budget for m in merged]
    numbers = f"{len(gains) - len(exceptions)} of {len(gains)} gain"
    if exceptions:
        numbers += f"; not: {', '.join(exceptions[:6])}"
    numbers += f"; by every way into {better} of {len(merged)} targets"
    outcome = rule.every(least, _on_both_tasks(merged))
    lucky = rule.luck_p(better, budgets) >= rule.LEVEL
    return judged(outcome, numbers, merged, rule.by_luck(better, budgets), lucky)


def md_equals_sd(evidence: Evidence) -> Finding:
    merged = with_all_ways(evidence)
    if len(merged) < 2:
        return missing("multi-source searches by MD, SD and EC, in two cases")
    gaps = {f"{m.task} {m.target}": m.scores["MD"] - m.scores["SD"] for m in merged}
    near = sum(abs(gap) <= rule.POINT for gap in gaps.values())
    numbers = f"within {rule.POINT:g} point in {near} of {len(gaps)}: MD minus SD {listed(gaps)}"
    outcome = rule.most(near, len(gaps), _on_both_tasks(merged))
    return judged(outcome, numbers, merged, rule.signs(gaps.values()))


def several_against_one(
    evidence: Evidence, task: str, without: str = "", limit: float | None = None
) -> Finding:
    """Whether several sources beat the best single one; with `limit`, by no more than that.

    without: a target that the statement leaves out.
    """
    alone = [s for s in single(evidence, task) if s.setting == CROSS]
    unpruned, pruned, used = {}, {}, []
    for m in with_all_ways(evidence, task):
        searches = [s for s in alone if s.target == m.target]
        if searches:
            unpruned[m.target] = m.unpruned - max(s.unpruned for s in searches)
            best = max(s.unpruned + s.gain() for s in searches)
            pruned[m.target] = max(m.scores.values()) - best
            used.append(m)
    leads = [values[to] for values in (unpruned, pruned) for to in values if to != without]
    if len(leads) < 4:
        besides = f" besides {without}" if without else ""
        return missing(
            f"multi-source and single-source searches on {task} into two targets{besides}"
        )
    margins = leads if limit is None else [limit - lead for lead in leads]
    outcome = rule.every(margins, all_targets(used), ties=limit is not None)
    both = f"unpruned {listed(unpruned)}; pruned {listed(pruned)}"
    numbers = f"several sources minus the best one: {both}"
    searches = [s for s in alone if s.target in unpruned]
    return judged(outcome, numbers, [*searches, *used], rule.signs(leads))


AGAINST_XLMR = Scope(models=MBERT, others=XLMR, searches=True)
EC_BEST = {"cases": says("cases_EC_best")}


# Tables: id, unit, function and scope, then the statement and the numbers it quotes.
# fmt: off
def _ahead() -> Iterator[Claim]:
    for (name, where), setting in product({"POS": "", "NER": " (stated for POS)"}.items(),
                                          (CROSS, MULTI)):
        pairs = "pairs with zh or ja aside" if setting == CROSS else "zh and ja included"
        yield Claim(f"C-xlmr-{name}-{setting}", "cases",
                    partial(xlmr_is_ahead, task=TASKS[name], setting=setting), AGAINST_XLMR,
                    f"Unpruned XLM-R is mostly ahead of mBERT on {setting} {name}, {pairs}{where}.",
                    follows_in_part=name == "NER")


CLAIMS = (
    *_ahead(),
    Claim("C-models-NER", "points", partial(gains_are_comparable, task="ner"), AGAINST_XLMR,
          "On NER the mean gains of mBERT and XLM-R are comparable (within 1 point), in both "
          "settings."),
    *(
        Claim(f"C-EC-{name}", "cases", partial(ec_is_best, task=TASKS[name]), OF_MODEL["mbert"],
              f"Of three ways to join rankings, EC is best in {{cases:g}} of 5 targets on {name}.",
              numbers=EC_BEST)
        for name in ("NER", "POS")
    ),
    Claim("C-multi-all", "points", every_way_gains, ON_BOTH_TASKS,
          "With several sources pruning helps every time, by whichever way rankings are joined.",
          follows_in_part=True),
    Claim("C-md-sd", "cases", md_equals_sd, ON_BOTH_TASKS,
          "With several sources MD and SD do equally well (within 1 point) in most cases."),
    Claim("C-single-NER", "points", partial(several_against_one, task="ner", without="zh"),
          ANY_MODEL["mbert"],
          "On NER several sources beat the best single one into every target but zh.",
          follows_in_part=True),
    Claim("C-single-POS", "points", partial(several_against_one, task="pos", limit=MUCH),
          ANY_MODEL["mbert"],
          "On POS several sources are not much better than the best single one (2 points at "
          "most)."),
)
# fmt: on
