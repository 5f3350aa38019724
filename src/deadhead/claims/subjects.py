"""What a claim is about: a kind of model and some tasks, and what may stand in for them where a study has none.

Models are told apart by their names. Those a claim is about come first, then their next of kin, then whatever
encoder there is; but a model the same paper speaks of by another name never stands in. A general statement is judged
on what stands in; of any other it only shows what a test would look at (`about.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from deadhead.results import Measure, Score

from .evidence import GLUE

Scored = Score | Measure
BASE, MULTI, XLM = "bert-base-uncased", "bert-base-multilingual-cased", "xlm-roberta-base"


def short(model: str) -> str:
    """The name of a model without its owner or folder."""
    return model.rstrip("/").rpartition("/")[2].lower()


def multilingual(model: str) -> bool:
    """Whether a model is of the multilingual kind, by its name; that of the small world counts as both kinds."""
    return (
        model.startswith("world/")
        or is_mbert(model)
        or any(word in short(model) for word in ("multilingual", "xlm", "mbert"))
    )


def monolingual(model: str) -> bool:
    return model.startswith("world/") or not multilingual(model)


def reduced(model: str) -> bool:
    """Whether a model is a small one after the pattern of another, by its name: `mini-mbert`, `bert-tiny`."""
    return bool(re.search(r"(?<![a-z])(mini|tiny|small|medium)(?![a-z])|distil", short(model)))


def is_bert(model: str) -> bool:
    """BERT for one language: `bert-large-cased`, not `roberta-base`, nor `bert-tiny`."""
    return (
        bool(re.search(r"(?<![a-z])bert(?![a-z])", short(model)))
        and not multilingual(model)
        and not reduced(model)
    )


def is_mbert(model: str) -> bool:
    """Multilingual BERT, and not a small one of its kind."""
    name = short(model)
    return not reduced(model) and bool(
        re.search(r"(?<![a-z])m-?bert(?![a-z])", name)
        or ("multilingual" in name and re.search(r"(?<![a-z])bert", name))
    )


def is_xlmr(model: str) -> bool:
    return "xlm" in short(model)


def anything(model: str) -> bool:
    return True


@dataclass(frozen=True)
class Models:
    """A kind of model."""

    name: str  # as the paper calls it; empty where a claim is about any
    own: tuple[str, ...]  # those of the paper
    fits: tuple[
        Callable[[str], bool], ...
    ]  # those of the kind, then what may stand in, the nearest first

    def own_kind(self, model: str) -> bool:
        """Whether a claim is about this model."""
        return self.fits[0](model)

    def among(self, held: Iterable[str]) -> list[str]:
        """Those a claim is judged on, of the models that a study has."""
        held = list(held)
        return next(
            (found for fit in self.fits if (found := [model for model in held if fit(model)])), []
        )

    def called(self, found: Sequence[str], together: bool) -> str:
        """What is to be said of the models a verdict rests on: nothing of the paper's own, else `mini-mbert, not BERT`."""
        own = {model for model in self.own if model in map(short, found)}
        if len(own) == len(found) and (not together or len(own) == len(self.own)):
            return ""
        return _called(found, self.name, len(own) == len(found), any(map(self.fits[0], found)))


@dataclass(frozen=True)
class Tasks:
    """Some tasks; or, where `measure` is named, what was measured on models that learnt them."""

    name: str  # as the paper calls them; empty where a claim is about any
    own: tuple[str, ...]
    others: Callable[[list[Scored]], list[Scored]]  # what may stand in for them, of all there is
    measure: str = ""
    apart: bool = (
        False  # scores of one training in many languages: each task and source language by itself
    )

    def own_task(self, task: str) -> bool:
        """Whether a claim is about this task; one that names no tasks is about any."""
        return not self.name or task in self.own

    def among(self, held: Iterable[Scored]) -> list[Scored]:
        """What a claim may be judged on."""
        held = list(held)
        own = [one for one in held if one.task in self.own]
        return (
            own
            if own and self.name
            else own + self.others([one for one in held if one.task not in self.own])
        )

    def called(self, found: Sequence[str], source: str = "") -> str:
        """What is to be said of the tasks a verdict rests on: nothing of all the paper's, else `sst2 of GLUE`, `pos, not XNLI`.

        `source`: the language learnt, if it is not that of the paper.
        """
        if set(found) == set(self.own) and not source:
            return ""
        learnt = [f"{task} from {source}" if source else task for task in found]
        return _called(learnt, self.name, set(found) < set(self.own), set(found) == set(self.own))


def _called(found: Sequence[str], name: str, some: bool, same: bool) -> str:
    told = " and ".join(found)
    if name and some:
        return f"{told} of {name}"
    return told if same or not name else f"{told}, not {name}"


def _none(held: list[Scored]) -> list[Scored]:
    return []


def _of_encoders(held: list[Scored]) -> list[Scored]:
    return [one for one in held if not one.translated]


def _in_one_language(held: list[Scored]) -> list[Scored]:
    """Tasks learnt and scored in the same language, as those of GLUE are."""
    return [
        one for one in _of_encoders(held) if isinstance(one, Score) and one.source == one.target
    ]


def _across_languages(held: list[Scored]) -> list[Scored]:
    """Tasks scored in several languages after training on others, as XNLI is."""
    facts = [one for one in _of_encoders(held) if isinstance(one, Score)]
    several = Counter(
        (model, task, source)
        for model, task, source, _ in {(f.model, f.task, f.source, f.target) for f in facts}
    )
    return [fact for fact in facts if several[fact.model, fact.task, fact.source] > 1]


def _of_translators(held: list[Scored]) -> list[Scored]:
    return [one for one in held if one.translated]


ON_GLUE = Tasks("GLUE", GLUE, _in_one_language)
ON_THE_FOUR = Tasks("GLUE", GLUE, _none)  # claims that tell one of them from another
ON_QNLI_AND_SST2 = Tasks("qnli and sst2", ("qnli", "sst2"), _none)
ON_XNLI = Tasks("XNLI", ("xnli",), _across_languages, apart=True)
ON_BOTH = Tasks("XNLI and GLUE", ("xnli", *GLUE), _none)
ON_WMT = Tasks("WMT14", ("wmt14",), _of_translators)
ON_POS_AND_NER = Tasks("", ("pos", "ner"), _of_encoders)


def measured_on(task: str, measure: str) -> Tasks:
    """What was measured on encoders; the paper did so on one task, and does not say that it is about this one."""
    return Tasks("", (task,), _of_encoders, measure)


TRANSLATORS = Models("", ("transformer-base",), (anything,))
BERT = Models("BERT", (BASE,), (is_bert, monolingual, anything))
MBERT = Models("mBERT", (MULTI,), (is_mbert, multilingual, lambda model: not is_bert(model)))
BESIDE = Models(
    "BERT", (BASE,), (is_bert, lambda model: not multilingual(model))
)  # what mBERT is compared with
EITHER = Models(
    "mBERT and BERT", (MULTI, BASE), (lambda model: is_mbert(model) or is_bert(model), anything)
)
