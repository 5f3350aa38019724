"""Judging within a scope: which part of the evidence a claim is judged on.

A claim is about some models and tasks (`subjects.py`). Its function gets only these; if a study has
none of them, it gets those that may replace them. Each model is judged separately, since two models
are no repeats of each other, and the claim has to hold for all. What is not the paper's own is
named in front of the numbers: `on mini-mbert, not BERT; on pos, not GLUE: ...`.

A `general` statement, about any encoder, is judged on replacements too. A statement about one model
or one task, or with a number that was measured on them, is "not tested here" on anything else; its
numbers then say what it is about and what the study has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from deadhead.results import Measurement, Score

from .evidence import Evidence
from .subjects import Models, Scored, Tasks
from .verdict import FAILS, HOLDS, OPEN, UNSHOWN, UNTESTED, Finding

Pairs = Iterable[tuple[str, str]]  # models and tasks
SEARCHED = ("searches", "merged", "rankings")
MOST_LISTED = 3  # models and tasks of a study, in a verdict that says the claim is about others


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a claim is about."""

    models: Models
    tasks: Tasks | None = None
    others: Models | None = None  # the models that `models` are compared with
    other_tasks: Tasks | None = None  # those of `others`, if they are not `tasks`
    searches: bool = False  # judged on searches and rankings, not on scores and measures
    together: bool = False  # over all models at once
    general: bool = False  # about any model and task of the kind

    def covers(self, pairs: Pairs, other_models: Iterable[str] = ()) -> bool:
        """Whether the claim is about all of these."""
        ours = all(
            self.models.own_kind(model) and (self.tasks is None or self.tasks.own_task(task))
            for model, task in pairs
        )
        return ours and (self.others is None or all(map(self.others.own_kind, other_models)))

    @property
    def words(self) -> str:
        """In words: `mBERT on XNLI, against BERT`."""
        tasks = self.tasks.name if self.tasks else ""
        words = " on ".join(name for name in (self.models.name, tasks) if name)
        return words + (f", against {self.others.name}" if self.others else "")

    def parts(self, evidence: Evidence) -> list[_Part]:
        """What is judged separately."""
        if self.searches:
            models = self.models.among(_searched(evidence, encoders=bool(self.models.name)))
            first = _by_model(evidence, models, self.together)
        else:
            assert self.tasks is not None
            first = _by_task(evidence, self.models, self.tasks)
        if self.others is None:
            return first
        if self.searches:
            rest = (model for model in _searched(evidence) if model not in models)
            second = _by_model(evidence, self.others.among(rest))
        else:
            used = {score.model for part in first for score in part.evidence.scores}
            rest_of = tuple(score for score in evidence.scores if score.model not in used)
            tasks = self.other_tasks or self.tasks
            assert tasks is not None
            second = _by_task(replace(evidence, scores=rest_of), self.others, tasks)
        return [one.beside(other) for one, other in product(first, second)] or first


@dataclass(frozen=True)
class _Part:
    """The evidence on one model, and in a comparison that on another."""

    evidence: Evidence
    source: str = ""  # the language of training, if it is not English
    other: Evidence = Evidence()  # noqa: RUF009
    other_models: frozenset[str] = frozenset()

    def beside(self, second: _Part) -> _Part:
        scored = (score.model for score in second.evidence.scores)
        models = frozenset((*_searched(second.evidence), *scored))
        return replace(self, other=second.evidence, other_models=models)

    def sides(self, finding: Finding) -> tuple[list[tuple[str, str]], list[str]]:
        """The models and tasks that a finding rests on, and the models they are compared with."""
        ours = [pair for pair in finding.on if pair[0] not in self.other_models]
        return ours, [model for model, _ in finding.on if model in self.other_models]


def judge_in_scope(scope: Scope, judge: Callable[..., Finding], evidence: Evidence) -> Finding:
    """The finding of a claim's function on the evidence that the claim is about."""
    parts = scope.parts(evidence) or [_Part(Evidence(printed=evidence.printed))]
    compared = scope.others is not None
    findings = [judge(p.evidence, p.other) if compared else judge(p.evidence) for p in parts]
    known = [pair for pair in zip(parts, findings, strict=True) if pair[1].verdict != OPEN]
    anywhere = scope.general or evidence.printed
    if not known:
        pairs = _pairs(evidence)
        here = anywhere or not pairs or any(scope.covers([pair]) for pair in pairs)
        return findings[0] if here else _untested(scope, evidence)
    together = _all([_with_names(finding, part, scope) for part, finding in known])
    if anywhere or all(scope.covers(*part.sides(finding)) for part, finding in known):
        return together
    return _untested(scope, evidence, together)


def _untested(scope: Scope, evidence: Evidence, replacement: Finding | None = None) -> Finding:
    """The claim is about something else; with the finding on what may replace it, if any."""
    pairs = list(dict.fromkeys(f"{model} on {task}" for model, task in _pairs(evidence)))
    more = f" and {len(pairs) - MOST_LISTED} more" if len(pairs) > MOST_LISTED else ""
    numbers = f"about {scope.words}; this study has {', '.join(pairs[:MOST_LISTED])}{more}"
    if replacement is None:
        return Finding(verdict=UNTESTED, numbers=numbers)
    numbers = f"{numbers}; {replacement.numbers}"
    return replace(replacement, verdict=UNTESTED, margin=None, numbers=numbers, lucky=False)


@cache
def _pairs(evidence: Evidence) -> dict[tuple[str, str], None]:
    """All models and tasks of the evidence."""
    parts = ("scores", *SEARCHED[:2], "measures", "rankings", "rhos")
    results = [result for part in parts for result in getattr(evidence, part)]
    return dict.fromkeys((result.model, result.task) for result in results)


def _by_task(evidence: Evidence, models: Models, tasks: Tasks) -> list[_Part]:
    """The evidence on each model; with `tasks.separate`, on each task and source language too."""
    measures = [one for one in evidence.measures if one.name == tasks.measure]
    results: Iterable[Scored] = measures if tasks.measure else evidence.scores
    possible = tasks.possible(results)
    names = models.among(dict.fromkeys(result.model for result in possible))
    groups: dict[tuple[str, ...], list[Scored]] = {}
    for result in tasks.among(result for result in possible if result.model in names):
        separate = tasks.separate and isinstance(result, Score)
        apart = (result.task, result.source) if separate else ()  # type: ignore[union-attr]
        groups.setdefault((result.model, *apart), []).append(result)
    parts = []
    for (_, *place), group in groups.items():
        one = Evidence(
            scores=tuple(result for result in group if isinstance(result, Score)),
            measures=tuple(result for result in group if isinstance(result, Measurement)),
            printed=evidence.printed,
        )
        parts.append(_Part(one, "" if not place or place[1] == "en" else place[1]))
    return parts


def _by_model(evidence: Evidence, models: Sequence[str], together: bool = False) -> list[_Part]:
    groups = [tuple(models)] if together and models else [(model,) for model in models]
    return [_Part(of_models(evidence, group)) for group in groups]


@cache
def _searched(evidence: Evidence, encoders: bool = True) -> dict[str, None]:
    """The models of searches and rankings, without those that translate."""
    results = [result for part in SEARCHED for result in getattr(evidence, part)]
    kept = [result for result in results if not (encoders and result.translated)]
    return dict.fromkeys(result.model for result in (*kept, *evidence.rhos))


@cache
def of_models(evidence: Evidence, models: tuple[str, ...]) -> Evidence:
    """The searches and rankings of some models; the same object each time, so it can be a key."""
    parts = {
        part: tuple(result for result in getattr(evidence, part) if result.model in models)
        for part in (*SEARCHED, "rhos")
    }
    return Evidence(**parts, printed=evidence.printed)


def _with_names(finding: Finding, part: _Part, scope: Scope) -> Finding:
    """The finding with the models and tasks in front that are not the paper's own."""
    ours, others = part.sides(finding)
    names = [scope.models.label(list(dict.fromkeys(model for model, _ in ours)), scope.together)]
    if scope.tasks is not None:
        names.append(scope.tasks.label(list(dict.fromkeys(t for _, t in ours)), part.source))
    words = [f"on {name}" for name in names if name]
    beside = list(dict.fromkeys(others))
    if scope.others is not None and beside and (name := scope.others.label(beside)):
        words.append(f"against {name}")
    return replace(finding, numbers=f"{'; '.join(words)}: {finding.numbers}") if words else finding


def _all(findings: Sequence[Finding]) -> Finding:
    """One finding for all parts: the worst verdict, with its smallest margin."""
    if len(findings) == 1:
        return findings[0]
    order = (FAILS, UNSHOWN, HOLDS)
    worst = min(findings, key=lambda one: (order.index(one.verdict), one.margin or 0.0))
    return Finding(
        verdict=worst.verdict,
        margin=worst.margin,
        numbers=" | ".join(one.numbers for one in findings),
        strength=" | ".join(dict.fromkeys(one.strength for one in findings)),
        trials=tuple(dict.fromkeys(trial for one in findings for trial in one.trials)),
        on=tuple(dict.fromkeys(pair for one in findings for pair in one.on)),
        lucky=all(one.lucky for one in findings),
    )
