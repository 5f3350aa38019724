"""Claims of Ma et al. 2021 on several source languages: merged rankings, several against one."""

from functools import partial
from statistics import fmean

from deadhead.papers.claims.cases import all_targets
from deadhead.papers.claims.claim import Claim
from deadhead.papers.claims.evidence import Evidence
from deadhead.papers.claims.rule import POINT, count_as_stated, every, most
from deadhead.papers.claims.searches import CROSS, TASKS, single
from deadhead.papers.claims.strength import LEVEL, by_luck, luck_p, signs
from deadhead.papers.claims.verdict import Finding, judged, listed, missing
from deadhead.results import Merged

from .claims_gains import ANY_MODEL, OF_MODEL, ON_BOTH_TASKS, says

MUCH = 2.0  # points: "much higher" is more than this
WAYS = ("MD", "SD", "EC")


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
    outcome = count_as_stated(won, n, int(cases), 5, all_targets(merged))
    each = ", ".join(f"{target} {way}" for target, way in best.items())
    numbers = f"EC is best in {won} of {n} (stated: {cases:g} of 5): {each}"
    tries = [_sources(m) for m in merged]  # searches of EC, where MD and SD have one each
    odds = [number / 2 for number in tries]  # the best of six against two is three against one
    strength = f"EC has {fmean(tries):g} times the trials of MD or SD; {by_luck(won, odds)}"
    return judged(outcome, numbers, merged, strength, luck_p(won, odds) >= LEVEL)


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
    outcome = every(least, _on_both_tasks(merged))
    lucky = luck_p(better, budgets) >= LEVEL
    return judged(outcome, numbers, merged, by_luck(better, budgets), lucky)


def md_equals_sd(evidence: Evidence) -> Finding:
    merged = with_all_ways(evidence)
    if len(merged) < 2:
        return missing("multi-source searches by MD, SD and EC, in two cases")
    gaps = {f"{m.task} {m.target}": m.scores["MD"] - m.scores["SD"] for m in merged}
    near = sum(abs(gap) <= POINT for gap in gaps.values())
    numbers = f"within {POINT:g} point in {near} of {len(gaps)}: MD minus SD {listed(gaps)}"
    outcome = most(near, len(gaps), _on_both_tasks(merged))
    return judged(outcome, numbers, merged, signs(gaps.values()))


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
        what = f"multi-source and single-source searches on {task}"
        return missing(f"{what} into two targets{besides}")
    margins = leads if limit is None else [limit - lead for lead in leads]
    outcome = every(margins, all_targets(used), ties=limit is not None)
    both = f"unpruned {listed(unpruned)}; pruned {listed(pruned)}"
    numbers = f"several sources minus the best one: {both}"
    searches = [s for s in alone if s.target in unpruned]
    return judged(outcome, numbers, [*searches, *used], signs(leads))


EC_BEST = {"cases": says("cases_EC_best")}

# A table: id, unit, function and scope, then the statement and the numbers it quotes.
# fmt: off
CLAIMS = (
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
