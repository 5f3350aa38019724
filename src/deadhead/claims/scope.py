"""From what a claim is about (`kinds.py`) to what it is judged on: `about(judge, BERT, ON_GLUE)` is a judge too.

It hands on only the models and tasks the claim is about, or where a study has none of them, those that may stand in. Each
model is judged by itself, since two are no repeats of one another, and the claim has to hold for all. What
is not the paper's own is named in front of the numbers: `on mini-mbert, not BERT; on pos, not GLUE: ...`.

A `general` statement, on what encoders do, is judged on what stands in. A statement on one model, one task or
with a number that was measured on them is not: it is "not tested here", and its numbers tell what it is about
and what the study has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from deadhead.results import Measure, Score

from .evidence import Evidence
from .subjects import Models, Scored, Tasks
from .verdict import FAILS, HOLDS, OPEN, UNSHOWN, UNTESTED, Finding

Judge = Callable[[Evidence], Finding]
Comparison = Callable[[Evidence, Evidence], Finding]
PARTS = ("searches", "merged", "rankings", "rhos")  # of evidence, by model
MOST_NAMED = 3  # of what a study has, in a verdict that says it is something else


@dataclass(frozen=True)
class _Lot:
    """What is judged by itself: the evidence on one model, and for a comparison that on the other one."""

    evidence: Evidence
    source: str = ""  # the language learnt, where it is not English
    other: Evidence = Evidence()  # noqa: RUF009
    theirs: frozenset[str] = frozenset()  # the models of the other


@dataclass(frozen=True)
class _About:
    """What a claim is about."""

    models: Models
    tasks: Tasks | None = None
    others: Models | None = None
    together: bool = False
    general: bool = False

    def has(self, pairs: Iterable[tuple[str, str]], theirs: Iterable[str] = ()) -> bool:
        """Whether all of these models and tasks, and the models beside them, are what it is about."""
        ours = all(
            self.models.own_kind(model) and (self.tasks is None or self.tasks.own_task(task))
            for model, task in pairs
        )
        return ours and (self.others is None or all(map(self.others.own_kind, theirs)))

    @property
    def words(self) -> str:
        """In words: `mBERT on XNLI, against BERT`."""
        tasks = self.tasks.name if self.tasks else ""
        words = " on ".join(name for name in (self.models.name, tasks) if name)
        return words + (f", against {self.others.name}" if self.others else "")


def about(judge: Judge, models: Models, tasks: Tasks, general: bool = False) -> Judge:
    """A judge of scores, or of what was measured."""
    return _on(
        lambda lot: judge(lot.evidence),
        lambda evidence: _lots(evidence, models, tasks),
        _About(models, tasks, general=general),
    )


def against(
    judge: Comparison,
    models: Models,
    tasks: Tasks,
    others: Models,
    their_tasks: Tasks | None = None,
) -> Judge:
    """A judge of scores of one model beside those of another; it is asked with nothing beside where there is no other."""

    def lots(evidence: Evidence) -> list[_Lot]:
        first = _lots(evidence, models, tasks)
        taken = {fact.model for lot in first for fact in lot.evidence.scores}
        left = replace(
            evidence, scores=tuple(fact for fact in evidence.scores if fact.model not in taken)
        )
        return _beside(first, _lots(left, others, their_tasks or tasks))

    return _on(lambda lot: judge(lot.evidence, lot.other), lots, _About(models, tasks, others))


def about_searches(
    judge: Judge,
    models: Models,
    tasks: Tasks | None = None,
    together: bool = False,
    general: bool = False,
) -> Judge:
    """A judge of searches and rankings; `together` for claims that count over several models at once."""

    def lots(evidence: Evidence) -> list[_Lot]:
        names = models.among(_searched(evidence, bool(models.name)))
        return (
            [_Lot(of_models(evidence, tuple(names)))]
            if together and names
            else [_Lot(of_models(evidence, (name,))) for name in names]
        )

    return _on(
        lambda lot: judge(lot.evidence),
        lots,
        _About(models, tasks, together=together, general=general),
    )


def against_searches(judge: Comparison, models: Models, others: Models) -> Judge:
    """A judge of searches of one model beside those of another."""

    def lots(evidence: Evidence) -> list[_Lot]:
        held = _searched(evidence)
        ours = models.among(held)
        theirs = others.among(name for name in held if name not in ours)
        first, second = (
            [_Lot(of_models(evidence, (name,))) for name in names] for names in (ours, theirs)
        )
        return _beside(first, second)

    return _on(lambda lot: judge(lot.evidence, lot.other), lots, _About(models, others=others))


def _beside(first: Sequence[_Lot], second: Sequence[_Lot]) -> list[_Lot]:
    """Each of the one beside each of the other."""
    if not second:
        return list(first)
    return [
        replace(
            one,
            other=two.evidence,
            theirs=frozenset(
                (*_searched(two.evidence), *(fact.model for fact in two.evidence.scores))
            ),
        )
        for one, two in product(first, second)
    ]


def _on(
    judge: Callable[[_Lot], Finding], lots: Callable[[Evidence], list[_Lot]], what: _About
) -> Judge:
    def on(evidence: Evidence) -> Finding:
        every = lots(evidence) or [_Lot(Evidence(printed=evidence.printed))]
        found = [(lot, judge(lot)) for lot in every]
        known = [(lot, finding) for lot, finding in found if finding.verdict != OPEN]
        if not known:
            return _untested(what, evidence) if _elsewhere(what, evidence) else found[0][1]
        named = [_named(finding, lot, what) for lot, finding in known]
        if (
            what.general
            or evidence.printed
            or all(what.has(*_sides(finding, lot)) for lot, finding in known)
        ):
            return _all(named)
        return _untested(what, evidence, _all(named))

    return on


def _sides(finding: Finding, lot: _Lot) -> tuple[list[tuple[str, str]], list[str]]:
    """The models and tasks a finding rests on, and the models beside them."""
    return [pair for pair in finding.on if pair[0] not in lot.theirs], [
        model for model, _ in finding.on if model in lot.theirs
    ]


def _elsewhere(what: _About, evidence: Evidence) -> bool:
    """Whether a study has something, and nothing of what a claim is about."""
    held = _held(evidence)
    return (
        bool(held)
        and not what.general
        and not evidence.printed
        and not any(what.has([pair]) for pair in held)
    )


def _untested(what: _About, evidence: Evidence, stands_in: Finding | None = None) -> Finding:
    """It is about something else than what the study has; with what was found on that, where a claim could look at it."""
    held = list(dict.fromkeys(f"{model} on {task}" for model, task in _held(evidence)))
    more = f" and {len(held) - MOST_NAMED} more" if len(held) > MOST_NAMED else ""
    numbers = f"about {what.words}; this study has {', '.join(held[:MOST_NAMED])}{more}"
    if stands_in is None:
        return Finding(UNTESTED, None, numbers, "")
    return replace(
        stands_in,
        verdict=UNTESTED,
        margin=None,
        numbers=f"{numbers}; {stands_in.numbers}",
        lucky=False,
    )


def _held(evidence: Evidence) -> dict[tuple[str, str], None]:
    """All models and tasks that there is something of."""
    parts = (
        evidence.scores,
        evidence.searches,
        evidence.merged,
        evidence.measures,
        evidence.rankings,
        evidence.rhos,
    )
    return dict.fromkeys((one.model, one.task) for part in parts for one in part)


def _lots(evidence: Evidence, models: Models, tasks: Tasks) -> list[_Lot]:
    held: Iterable[Scored] = (
        [m for m in evidence.measures if m.name == tasks.measure]
        if tasks.measure
        else evidence.scores
    )
    fit = _possible(held, tasks)
    names = models.among(dict.fromkeys(one.model for one in fit))
    groups: dict[tuple[str, ...], list[Scored]] = {}
    for one in tasks.among(one for one in fit if one.model in names):
        apart = (one.task, one.source) if tasks.apart and isinstance(one, Score) else ()
        groups.setdefault((one.model, *apart), []).append(one)
    return [
        _Lot(_evidence(group, evidence.printed), _learnt(group) if tasks.apart else "")
        for group in groups.values()
    ]


def _possible(held: Iterable[Scored], tasks: Tasks) -> list[Scored]:
    """All that is of the tasks, or may stand in for them."""
    held = list(held)
    return [one for one in held if one.task in tasks.own] + tasks.others(
        [one for one in held if one.task not in tasks.own]
    )


def _evidence(group: Sequence[Scored], printed: bool) -> Evidence:
    return Evidence(
        scores=tuple(one for one in group if isinstance(one, Score)),
        measures=tuple(one for one in group if isinstance(one, Measure)),
        printed=printed,
    )


def _learnt(group: Sequence[Scored]) -> str:
    source = next((one.source for one in group if isinstance(one, Score)), "en")
    return "" if source == "en" else source


def _searched(evidence: Evidence, encoders: bool = True) -> dict[str, None]:
    """The models of searches and rankings, those that translate aside."""
    parts = [
        one
        for part in ("searches", "merged", "rankings")
        for one in getattr(evidence, part)
        if not (encoders and one.translated)
    ]
    return dict.fromkeys(one.model for one in (*parts, *evidence.rhos))


@cache
def of_models(evidence: Evidence, names: tuple[str, ...]) -> Evidence:
    """The searches and rankings of some models; the same object each time, for what is computed from it once."""
    parts = {
        part: tuple(one for one in getattr(evidence, part) if one.model in names) for part in PARTS
    }
    return Evidence(**parts, printed=evidence.printed)


def _named(finding: Finding, lot: _Lot, what: _About) -> Finding:
    ours, theirs = _sides(finding, lot)
    called = [what.models.called(list(dict.fromkeys(model for model, _ in ours)), what.together)]
    if what.tasks is not None:
        called.append(what.tasks.called(list(dict.fromkeys(task for _, task in ours)), lot.source))
    told = [f"on {one}" for one in called if one]
    beside = list(dict.fromkeys(theirs))
    if what.others is not None and beside and (name := what.others.called(beside, together=False)):
        told.append(f"against {name}")
    return replace(finding, numbers=f"{'; '.join(told)}: {finding.numbers}") if told else finding


def _all(known: Sequence[Finding]) -> Finding:
    """One finding of several: it holds if every one does, and the smallest margin of the worst counts."""
    if len(known) == 1:
        return known[0]
    least = min(
        known,
        key=lambda finding: ((FAILS, UNSHOWN, HOLDS).index(finding.verdict), finding.margin or 0.0),
    )
    return Finding(
        least.verdict,
        least.margin,
        " | ".join(finding.numbers for finding in known),
        " | ".join(dict.fromkeys(finding.strength for finding in known)),
        tuple(dict.fromkeys(trial for finding in known for trial in finding.trials)),
        tuple(dict.fromkeys(pair for finding in known for pair in finding.on)),
        all(finding.lucky for finding in known),
    )
