"""A claim: a checkable statement on a kind of model and some tasks, and judging it on evidence.

Models are recognised by their names. The function of a claim gets only the models and tasks that
the claim is about. Each model is judged separately, since two models are no repeats of each other,
and the claim has to hold for all. A claim with no such evidence is "not tested here"; its numbers
then say what it is about and what the study has.

A `general` statement, about any encoder, is judged on similar models and tasks where its own are
not there; but a model that the same paper calls by another name never replaces one. What is not
the paper's own is named in front of the numbers: `on mini-mbert; on pos: ...`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache, partial
from itertools import product
from typing import Any

from deadhead.results import Measurement, Score

from .evidence import GLUE, PARTS, Evidence
from .verdict import FAILS, HOLDS, LUCKY, OPEN, UNSHOWN, UNTESTED, Finding, Verdict

Scored = Score | Measurement
Pair = tuple[str, str]  # a model and a task
BASE, MULTI, XLM = "bert-base-uncased", "bert-base-multilingual-cased", "xlm-roberta-base"
SEARCHED = ("searches", "merged", "rankings")
MOST_LISTED = 3  # models and tasks of a study, in a verdict that says the claim is about others


def short(model: str) -> str:
    """The name of a model without its owner or folder."""
    return model.rstrip("/").rpartition("/")[2].lower()


def reduced(model: str) -> bool:
    """Whether the name is that of a small copy of another model: `mini-mbert`, `bert-tiny`."""
    return _has_word(model, "mini|tiny|small|medium") or "distil" in short(model)


def is_bert(model: str) -> bool:
    """BERT for one language: `bert-large-cased`, not `roberta-base` or `bert-tiny`."""
    return _has_word(model, "bert") and not is_mbert(model) and not reduced(model)


def is_mbert(model: str) -> bool:
    """Multilingual BERT, and no small copy of it."""
    is_multilingual = _has_word(model, "bert") and "multilingual" in short(model)
    return (is_multilingual or _has_word(model, "m-?bert")) and not reduced(model)


def _has_word(model: str, pattern: str) -> bool:
    return bool(re.search(rf"(?<![a-z])({pattern})(?![a-z])", short(model)))


def is_xlmr(model: str) -> bool:
    return "xlm" in short(model)


def any_model(model: str) -> bool:
    return True


@dataclass(frozen=True)
class Models:
    """A kind of model."""

    name: str  # as the paper calls it; empty where a claim is about any model
    own: tuple[str, ...]  # the paper's
    fits: Callable[[str], bool]
    # those on which a general statement is judged where no model fits
    instead: Callable[[str], bool] = any_model

    def among(self, models: Iterable[str], general: bool = False) -> list[str]:
        """The models of a study that a claim is judged on."""
        names = list(dict.fromkeys(models))
        own = [name for name in names if self.fits(name)]
        return own if own or not general else [name for name in names if self.instead(name)]


@dataclass(frozen=True)
class Tasks:
    """Some tasks; or, with `measure`, what was measured on models trained on them."""

    name: str  # as the paper calls them; empty where a claim is about any task of their kind
    own: tuple[str, ...]
    similar: Callable[[Scored], bool] = lambda result: False  # whether a result is of their kind
    measure: str = ""
    separate: bool = False  # judge each source language separately, as for XNLI

    def among(self, results: Iterable[Scored], general: bool) -> list[Scored]:
        """The results of these tasks, and those that a claim is judged on instead."""
        wider = general or not self.name
        return [one for one in results if one.task in self.own or (wider and self.similar(one))]


def _of_encoder(result: Scored) -> bool:
    return not result.translated


def _in_one_language(result: Scored) -> bool:
    """Whether it is a score in the language of training, as those of GLUE are."""
    return _of_encoder(result) and isinstance(result, Score) and result.source == result.target


ON_GLUE = Tasks("GLUE", GLUE, _in_one_language)
ON_QNLI_AND_SST2 = Tasks("qnli and sst2", ("qnli", "sst2"))
ON_XNLI = Tasks("XNLI", ("xnli",), separate=True)
ON_BOTH = Tasks("XNLI and GLUE", ("xnli", *GLUE))
ON_WMT = Tasks("WMT14", ("wmt14",), lambda result: result.translated)
ON_POS_AND_NER = Tasks("", ("pos", "ner"))


def measured_on(task: str, measure: str) -> Tasks:
    """A measure on encoders: the paper took it on one task, but its statement is about any."""
    return Tasks("", (task,), _of_encoder, measure)


TRANSLATORS = Models("", ("transformer-base",), any_model)
BERT = Models("BERT", (BASE,), is_bert)
MBERT = Models("mBERT", (MULTI,), is_mbert, lambda m: not is_xlmr(m))
XLMR = Models("XLM-R", (XLM,), is_xlmr, lambda m: not is_mbert(m))
EITHER = Models("mBERT and BERT", (MULTI, BASE), lambda m: is_mbert(m) or is_bert(m))
BOTH = Models("mBERT and XLM-R", (MULTI, XLM), lambda m: is_mbert(m) or is_xlmr(m))
OF = {"mbert": MBERT, "xlm-r": XLMR}
MODELS = {name: models.own[0] for name, models in OF.items()}


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

    def covers(self, model: str, task: str) -> bool:
        named = self.tasks is None or not self.tasks.name or task in self.tasks.own
        return self.models.fits(model) and named

    @property
    def words(self) -> str:
        """In words: `mBERT on XNLI, against BERT`."""
        tasks = self.tasks.name if self.tasks else ""
        words = " on ".join(filter(None, (self.models.name, tasks)))
        return words + (f", against {self.others.name}" if self.others else "")

    def parts(self, evidence: Evidence) -> list[_Part]:
        """What is judged separately."""
        first = self._parts(evidence, self.models, self.tasks)
        if self.others is None:
            return first
        second = self._parts(evidence, self.others, self.other_tasks or self.tasks)
        return [replace(a, other=b.evidence) for a, b in product(first, second)] or first

    def _parts(self, evidence: Evidence, models: Models, tasks: Tasks | None) -> list[_Part]:
        if not self.searches:
            assert tasks is not None
            return _by_task(evidence, models, tasks, self.general)
        names = models.among(_searched(evidence, encoders=bool(models.name)), self.general)
        groups = [tuple(names)] if self.together and names else [(name,) for name in names]
        return [_Part(of_models(evidence, group)) for group in groups]


@dataclass(frozen=True)
class _Part:
    """The evidence on one model, and in a comparison that on another."""

    evidence: Evidence
    source: str = ""  # the language of training, if it is not English
    other: Evidence = Evidence()  # noqa: RUF009


@dataclass(frozen=True)
class Claim:
    """A statement of a paper in our words, and the function that judges it.

    The first five fields are positional, because papers write their claims as tables.

    The function gets the evidence within the scope, in a comparison also that on the other models,
    and the numbers by name. The sentence may use the same names: "costs less than {limit:g} BLEU".
    """

    id: str
    unit: str  # in which the margin is given: points, BLEU, cases
    judge: Callable[..., Finding]
    scope: Scope
    sentence: str
    _: KW_ONLY
    numbers: Mapping[str, float] = field(default_factory=dict)  # those the paper states
    follows_in_part: bool = False  # its tables show a part of it, where it does not hold as a whole
    paper: str = ""  # set by `all_claims`: the folder that has it, or "luck"

    @property
    def statement(self) -> str:
        return self.sentence.format(**self.numbers)

    def on(self, evidence: Evidence) -> Verdict:
        """The verdict on some evidence."""
        finding = judge_in_scope(self.scope, partial(self.judge, **self.numbers), evidence)
        lucky = finding.lucky and finding.verdict in (HOLDS, UNSHOWN) and not evidence.printed
        return Verdict(
            id=self.id,
            paper=self.paper,
            statement=self.statement,
            verdict=finding.verdict,
            margin=finding.margin,
            numbers=finding.numbers,
            strength=finding.strength,
            trials=finding.trials,
            unit=self.unit,
            follows=LUCKY if lucky else "",
        )


def judge_in_scope(scope: Scope, judge: Callable[..., Finding], evidence: Evidence) -> Finding:
    """The finding of a claim's function on the evidence that the claim is about."""
    parts = scope.parts(evidence) or [_Part(Evidence(printed=evidence.printed))]
    sides = [(part.evidence, part.other) if scope.others else (part.evidence,) for part in parts]
    findings = [judge(*side) for side in sides]
    known = [
        _with_names(finding, part, scope)
        for part, finding in zip(parts, findings, strict=True)
        if finding.verdict != OPEN
    ]
    if known:
        return _all(known)
    pairs = _pairs(evidence)
    anywhere = scope.general or evidence.printed or not pairs
    if anywhere or any(scope.covers(*pair) for pair in pairs):
        return findings[0]
    names = [f"{model} on {task}" for model, task in pairs]
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    has = f"this study has {', '.join(names[:MOST_LISTED])}{more}"
    return Finding(verdict=UNTESTED, numbers=f"about {scope.words}; {has}")


@cache
def _pairs(evidence: Evidence) -> dict[Pair, None]:
    """All models and tasks of the evidence."""
    return dict.fromkeys((result.model, result.task) for result in evidence.results(*PARTS))


def _by_task(evidence: Evidence, models: Models, tasks: Tasks, general: bool) -> list[_Part]:
    """The evidence on each model; with `tasks.separate`, on each source language too."""
    measures = [one for one in evidence.measures if one.name == tasks.measure]
    results: Sequence[Scored] = measures if tasks.measure else evidence.scores
    possible = tasks.among(results, general)
    names = models.among((result.model for result in possible), general)
    known = [result for result in possible if result.model in names]
    own = [result for result in known if result.task in tasks.own]
    groups: dict[Pair, list[Any]] = {}
    for result in own if own and tasks.name else known:
        source = result.source if tasks.separate and isinstance(result, Score) else "en"
        groups.setdefault((result.model, source), []).append(result)
    return [
        _Part(
            Evidence(measures=tuple(group)) if tasks.measure else Evidence(scores=tuple(group)),
            "" if source == "en" else source,
        )
        for (_, source), group in groups.items()
    ]


@cache
def _searched(evidence: Evidence, encoders: bool = True) -> dict[str, None]:
    """The models of searches and rankings, without those that translate."""
    results = evidence.results(*SEARCHED)
    known = [result for result in results if not (encoders and result.translated)]
    return dict.fromkeys(result.model for result in (*known, *evidence.rhos))


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
    theirs = {model for model, _ in _pairs(part.other)}
    ours = [pair for pair in finding.on if pair[0] not in theirs]
    beside = {model for model, _ in finding.on if model in theirs}
    names = [_names((model for model, _ in ours), scope.models, scope.together)]
    if scope.tasks is not None:
        tasks = dict.fromkeys(task for _, task in ours)
        if part.source:
            names.append(" and ".join(f"{task} from {part.source}" for task in tasks))
        elif {*tasks} != {*scope.tasks.own}:
            names.append(" and ".join(tasks))
    words = [f"on {name}" for name in names if name]
    if scope.others is not None and (name := _names(beside, scope.others)):
        words.append(f"against {name}")
    return replace(finding, numbers=f"{'; '.join(words)}: {finding.numbers}") if words else finding


def _names(models: Iterable[str], of: Models, all_of_them: bool = False) -> str:
    """The models; empty for the paper's own, or with `all_of_them` for all of these."""
    names = dict.fromkeys(models)
    are_own = {*map(short, names)} <= {*of.own}
    return "" if are_own and not (all_of_them and len(names) < len(of.own)) else " and ".join(names)


def _all(findings: Sequence[Finding]) -> Finding:
    """One finding for all parts: the worst verdict, with its smallest margin."""
    if len(findings) == 1:
        return findings[0]
    order = (FAILS, UNSHOWN, HOLDS)
    worst = min(findings, key=lambda one: (order.index(one.verdict), one.margin or 0.0))
    return replace(
        worst,
        numbers=" | ".join(one.numbers for one in findings),
        strength=" | ".join(dict.fromkeys(one.strength for one in findings)),
        trials=tuple(dict.fromkeys(trial for one in findings for trial in one.trials)),
        lucky=all(one.lucky for one in findings),
    )
