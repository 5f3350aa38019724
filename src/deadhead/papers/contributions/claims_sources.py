"""Claims of Ma et al. 2021 on several source languages: ways to join their rankings, and whether several beat one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from statistics import fmean

from deadhead.claims.cases import all_targets
from deadhead.claims.evidence import Evidence
from deadhead.claims.from_papers import stated
from deadhead.claims.rule import POINT, count_as_stated, every, most
from deadhead.claims.scope import about_searches
from deadhead.claims.searches import CROSS, OF, TASKS, gain, single
from deadhead.claims.strength import LEVEL, by_luck, luck_p, signs
from deadhead.claims.subjects import ON_POS_AND_NER
from deadhead.claims.verdict import Claim, Finding, judged, missing
from deadhead.results import Merged, Search

PAPER = "contributions"
MUCH = 2.0  # points: "much higher" is more than this


def merged(evidence: Evidence, task: str = "") -> list[Merged]:
    return [
        m for m in evidence.merged if task in ("", m.task) and {"MD", "SD", "EC"} <= set(m.scores)
    ]


def ec(evidence: Evidence, name: str) -> Finding:
    found = merged(evidence, TASKS[name])
    if len(found) < 3:
        return missing(
            f"multi-source searches on {TASKS[name]} by MD, SD and EC, into three targets"
        )
    best = {m.target: max(("MD", "SD", "EC"), key=lambda way, m=m: m.scores[way]) for m in found}  # type: ignore[misc]
    won = sum(way == "EC" for way in best.values())
    shown = count_as_stated(
        won, len(best), int(stated(PAPER, "cases_EC_best")), 5, all_targets(found)
    )
    numbers = f"EC is best in {won} of {len(best)} (stated: 3 of 5): " + ", ".join(
        f"{t} {way}" for t, way in best.items()
    )
    tries = [
        len(m.train.split("+")) for m in found
    ]  # searches of EC, where MD and SD have one each
    odds = [
        several / 2 for several in tries
    ]  # the best of six against two is as the best of three against one
    sure = f"EC has {fmean(tries):g} times the trials of MD or SD; {by_luck(won, odds)}"
    return judged(shown, numbers, sure, found, luck_p(won, odds) >= LEVEL)


def multi_all(evidence: Evidence) -> Finding:
    found = merged(evidence)
    gains = {
        f"{m.task} {m.target} {way}": m.scores[way] - m.unpruned
        for m in found
        for way in ("MD", "SD", "EC")
    }
    if len(gains) < 6:
        return missing("multi-source searches by MD, SD and EC, in two cases")
    lost = [f"{name} {value:+.2f}" for name, value in gains.items() if value <= 0]
    budgets = [
        m.budget * (len(m.train.split("+")) if way == "EC" else 1)
        for m in found
        for way in ("MD", "SD", "EC")
    ]
    numbers = f"{len(gains) - len(lost)} of {len(gains)} gain" + (
        f"; not: {', '.join(lost[:6])}" if lost else ""
    )
    whole = all_targets(found) and {m.task for m in found} == {"pos", "ner"}
    return judged(
        every(list(gains.values()), whole), numbers, by_luck(len(gains) - len(lost), budgets), found
    )


def md_sd(evidence: Evidence) -> Finding:
    found = merged(evidence)
    if len(found) < 2:
        return missing("multi-source searches by MD, SD and EC, in two cases")
    gaps = {f"{m.task} {m.target}": m.scores["MD"] - m.scores["SD"] for m in found}
    near = sum(abs(gap) <= POINT for gap in gaps.values())
    whole = all_targets(found) and {m.task for m in found} == {"pos", "ner"}
    numbers = f"within {POINT:g} point in {near} of {len(gaps)}: MD minus SD {_signed(gaps)}"
    return judged(most(near, len(gaps), whole), numbers, signs(gaps.values()), found)


def against_single(
    evidence: Evidence, task: str
) -> tuple[dict[str, float], dict[str, float], list[Search], list[Merged]]:
    """By target: how far several sources are ahead of the best single one, unpruned and pruned."""
    alone = [s for s in single(evidence, task) if s.setting == CROSS]
    whole, pruned, used = {}, {}, []
    for m in merged(evidence, task):
        mine = [s for s in alone if s.target == m.target]
        if mine:
            whole[m.target] = m.unpruned - max(s.unpruned for s in mine)
            pruned[m.target] = max(m.scores.values()) - max(s.unpruned + gain(s) for s in mine)
            used.append(m)
    return whole, pruned, [s for s in alone if s.target in whole], used


def _signed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:+.2f}" for name, value in values.items())


def single_ner(evidence: Evidence) -> Finding:
    whole, pruned, alone, used = against_single(evidence, "ner")
    leads = [values[target] for values in (whole, pruned) for target in values if target != "zh"]
    if len(leads) < 4:
        return missing("multi-source and single-source searches on ner into two targets besides zh")
    numbers = (
        f"several sources minus the best one: unpruned {_signed(whole)}; pruned {_signed(pruned)}"
    )
    return judged(every(leads, all_targets(used)), numbers, signs(leads), [*alone, *used])


def single_pos(evidence: Evidence) -> Finding:
    whole, pruned, alone, used = against_single(evidence, "pos")
    leads = [*whole.values(), *pruned.values()]
    if len(leads) < 4:
        return missing("multi-source and single-source searches on pos into two targets")
    numbers = (
        f"several sources minus the best one: unpruned {_signed(whole)}; pruned {_signed(pruned)}"
    )
    shown = every([MUCH - lead for lead in leads], all_targets(used), ties=True)
    return judged(shown, numbers, signs(leads), [*alone, *used])


def _claims() -> Iterable[tuple[str, str, Callable[[Evidence], Finding]]]:
    for name in ("NER", "POS"):
        yield (
            f"C-EC-{name}",
            f"Of three ways to join rankings, EC is best in 3 of 5 targets on {name}.",
            partial(ec, name=name),
        )
    yield (
        "C-multi-all",
        "With several sources pruning helps every time, by whichever way rankings are joined.",
        multi_all,
    )
    yield (
        "C-md-sd",
        "With several sources MD and SD do equally well (within 1 point) in most cases.",
        md_sd,
    )
    yield (
        "C-single-NER",
        "On NER several sources beat the best single one into every target but zh.",
        single_ner,
    )
    yield (
        "C-single-POS",
        "On POS several sources are not much better than the best single one (2 points at most).",
        single_pos,
    )


CLAIMS = tuple(
    Claim(
        name,
        PAPER,
        statement,
        about_searches(
            judge,
            OF["mbert"],
            ON_POS_AND_NER if name in ("C-multi-all", "C-md-sd") else None,
            general=not name.startswith("C-EC"),
        ),
        "cases" if name.startswith(("C-EC", "C-md-sd")) else "points",
    )
    for name, statement, judge in _claims()
)
