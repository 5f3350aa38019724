"""From what a claim is about (`kinds.py`) to what it is judged on: `about(judge, BERT, ON_GLUE)` is a judge too.

It hands on only the models and tasks the claim is about, or where a study has none of them, those that may stand in. Each
model is judged by itself, since two are no repeats of one another, and the claim has to hold for all. What
is not the paper's own is named in front of the numbers: `on mini-mbert, not BERT; on pos, not GLUE: ...`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from .evidence import Evidence, Fact, Measured
from .kinds import Models, Scored, Tasks
from .verdict import HOLDS, OPEN, Finding

Judge = Callable[[Evidence], Finding]
Comparison = Callable[[Evidence, Evidence], Finding]
PARTS = ("searches", "merged", "rankings", "rhos")  # of evidence, by model


@dataclass(frozen=True)
class _Lot:
    """What is judged by itself: the evidence on one model, and for a comparison that on the other one."""

    evidence: Evidence
    source: str = ""  # the language learnt, where it is not English
    other: Evidence = Evidence()  # noqa: RUF009 - it is frozen
    theirs: frozenset[str] = frozenset()  # the models of the other


def about(judge: Judge, models: Models, tasks: Tasks) -> Judge:
    """A judge of scores, or of what was measured."""
    return _on(lambda lot: judge(lot.evidence), lambda evidence: _lots(evidence, models, tasks), models, tasks)


def against(judge: Comparison, models: Models, tasks: Tasks, others: Models, their_tasks: Tasks | None = None) -> Judge:
    """A judge of scores of one model beside those of another; it is asked with nothing beside where there is no other."""

    def lots(evidence: Evidence) -> list[_Lot]:
        first = _lots(evidence, models, tasks)
        taken = {fact.model for lot in first for fact in lot.evidence.facts}
        left = replace(evidence, facts=tuple(fact for fact in evidence.facts if fact.model not in taken))
        return _beside(first, _lots(left, others, their_tasks or tasks))

    return _on(lambda lot: judge(lot.evidence, lot.other), lots, models, tasks, others)


def about_searches(judge: Judge, models: Models, tasks: Tasks | None = None, together: bool = False) -> Judge:
    """A judge of searches and rankings; `together` for claims that count over several models at once."""

    def lots(evidence: Evidence) -> list[_Lot]:
        names = models.among(_searched(evidence, bool(models.name)))
        return [_Lot(of_models(evidence, tuple(names)))] if together and names else [_Lot(of_models(evidence, (name,))) for name in names]

    return _on(lambda lot: judge(lot.evidence), lots, models, tasks, together=together)


def against_searches(judge: Comparison, models: Models, others: Models) -> Judge:
    """A judge of searches of one model beside those of another."""

    def lots(evidence: Evidence) -> list[_Lot]:
        held = _searched(evidence)
        ours = models.among(held)
        theirs = others.among(name for name in held if name not in ours)
        first, second = ([_Lot(of_models(evidence, (name,))) for name in names] for names in (ours, theirs))
        return _beside(first, second)

    return _on(lambda lot: judge(lot.evidence, lot.other), lots, models, others=others)


def _beside(first: Sequence[_Lot], second: Sequence[_Lot]) -> list[_Lot]:
    """Each of the one beside each of the other."""
    if not second:
        return list(first)
    return [
        replace(one, other=two.evidence, theirs=frozenset((*_searched(two.evidence), *(fact.model for fact in two.evidence.facts))))
        for one, two in product(first, second)
    ]


def _on(
    judge: Callable[[_Lot], Finding],
    lots: Callable[[Evidence], list[_Lot]],
    models: Models,
    tasks: Tasks | None = None,
    others: Models | None = None,
    together: bool = False,
) -> Judge:
    def on(evidence: Evidence) -> Finding:
        every = lots(evidence) or [_Lot(Evidence(printed=evidence.printed))]
        found = [(lot, judge(lot)) for lot in every]
        known = [_named(finding, lot, models, tasks, others, together) for lot, finding in found if finding.verdict != OPEN]
        return _all(known) if known else found[0][1]

    return on


def _lots(evidence: Evidence, models: Models, tasks: Tasks) -> list[_Lot]:
    held: Iterable[Scored] = [m for m in evidence.measured if m.name == tasks.measure] if tasks.measure else evidence.facts
    fit = _possible(held, tasks)
    names = models.among(dict.fromkeys(one.model for one in fit))
    groups: dict[tuple[str, ...], list[Scored]] = {}
    for one in tasks.among(one for one in fit if one.model in names):
        apart = (one.task, one.source) if tasks.apart and isinstance(one, Fact) else ()
        groups.setdefault((one.model, *apart), []).append(one)
    return [_Lot(_evidence(group, evidence.printed), _learnt(group) if tasks.apart else "") for group in groups.values()]


def _possible(held: Iterable[Scored], tasks: Tasks) -> list[Scored]:
    """All that is of the tasks, or may stand in for them."""
    held = list(held)
    return [one for one in held if one.task in tasks.own] + tasks.others([one for one in held if one.task not in tasks.own])


def _evidence(group: Sequence[Scored], printed: bool) -> Evidence:
    return Evidence(
        tuple(one for one in group if isinstance(one, Fact)),
        measured=tuple(one for one in group if isinstance(one, Measured)),
        printed=printed,
    )


def _learnt(group: Sequence[Scored]) -> str:
    source = next((one.source for one in group if isinstance(one, Fact)), "en")
    return "" if source == "en" else source


def _searched(evidence: Evidence, encoders: bool = True) -> dict[str, None]:
    """The models of searches and rankings, those that translate aside."""
    parts = [one for part in ("searches", "merged", "rankings") for one in getattr(evidence, part) if not (encoders and one.translated)]
    return dict.fromkeys(one.model for one in (*parts, *evidence.rhos))


@cache
def of_models(evidence: Evidence, names: tuple[str, ...]) -> Evidence:
    """The searches and rankings of some models; the same object each time, for what is computed from it once."""
    parts = {part: tuple(one for one in getattr(evidence, part) if one.model in names) for part in PARTS}
    return Evidence(**parts, printed=evidence.printed)


def _named(finding: Finding, lot: _Lot, models: Models, tasks: Tasks | None, others: Models | None, together: bool) -> Finding:
    ours = [pair for pair in finding.on if pair[0] not in lot.theirs]
    called = [models.called(list(dict.fromkeys(model for model, _ in ours)), together)]
    if tasks is not None:
        called.append(tasks.called(list(dict.fromkeys(task for _, task in ours)), lot.source))
    told = [f"on {one}" for one in called if one]
    beside = list(dict.fromkeys(model for model, _ in finding.on if model in lot.theirs))
    if others is not None and beside and (name := others.called(beside, together=False)):
        told.append(f"against {name}")
    return replace(finding, numbers=f"{'; '.join(told)}: {finding.numbers}") if told else finding


def _all(known: Sequence[Finding]) -> Finding:
    """One finding of several: it holds if every one does, and the smallest margin counts."""
    if len(known) == 1:
        return known[0]
    least = min(known, key=lambda finding: (finding.verdict == HOLDS, finding.margin or 0.0))
    return Finding(
        least.verdict,
        least.margin,
        " | ".join(finding.numbers for finding in known),
        " | ".join(dict.fromkeys(finding.strength for finding in known)),
        tuple(dict.fromkeys(trial for finding in known for trial in finding.trials)),
        tuple(dict.fromkeys(pair for finding in known for pair in finding.on)),
        all(finding.lucky for finding in known),
    )
