"""What a claim is about: a kind of model and some tasks, and what may replace them.

Models are recognised by their names. Those a claim is about come first, then similar models, then
any encoder; but a model that the same paper calls by another name never replaces one. Only a
general statement is judged on replacements (`scope.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from deadhead.results import Measurement, Score

from .evidence import GLUE

Scored = Score | Measurement
BASE, MULTI, XLM = "bert-base-uncased", "bert-base-multilingual-cased", "xlm-roberta-base"


def short(model: str) -> str:
    """The name of a model without its owner or folder."""
    return model.rstrip("/").rpartition("/")[2].lower()


def multilingual(model: str) -> bool:
    """Whether the name is that of a multilingual model; the small world's counts as both kinds."""
    words = any(word in short(model) for word in ("multilingual", "xlm", "mbert"))
    return model.startswith("world/") or is_mbert(model) or words


def monolingual(model: str) -> bool:
    return model.startswith("world/") or not multilingual(model)


def reduced(model: str) -> bool:
    """Whether the name is that of a small copy of another model: `mini-mbert`, `bert-tiny`."""
    return bool(re.search(r"(?<![a-z])(mini|tiny|small|medium)(?![a-z])|distil", short(model)))


def is_bert(model: str) -> bool:
    """BERT for one language: `bert-large-cased`, not `roberta-base` or `bert-tiny`."""
    bert = bool(re.search(r"(?<![a-z])bert(?![a-z])", short(model)))
    return bert and not multilingual(model) and not reduced(model)


def is_mbert(model: str) -> bool:
    """Multilingual BERT, and no small copy of it."""
    name = short(model)
    mbert = re.search(r"(?<![a-z])m-?bert(?![a-z])", name)
    long_name = "multilingual" in name and re.search(r"(?<![a-z])bert", name)
    return not reduced(model) and bool(mbert or long_name)


def is_xlmr(model: str) -> bool:
    return "xlm" in short(model)


def any_model(model: str) -> bool:
    return True


@dataclass(frozen=True)
class Models:
    """A kind of model."""

    name: str  # as the paper calls it; empty where a claim is about any model
    own: tuple[str, ...]  # the paper's
    fits: tuple[Callable[[str], bool], ...]  # the kind; then replacements, nearest first

    def own_kind(self, model: str) -> bool:
        """Whether a claim is about this model."""
        return self.fits[0](model)

    def among(self, models: Iterable[str]) -> list[str]:
        """The models of a study that a claim is judged on."""
        names = list(models)
        groups = ([name for name in names if fit(name)] for fit in self.fits)
        return next((group for group in groups if group), [])

    def label(self, models: Sequence[str], together: bool = False) -> str:
        """The models in a verdict: empty for the paper's own, else `mini-mbert, not BERT`."""
        own = {model for model in self.own if model in map(short, models)}
        if len(own) == len(models) and (not together or len(own) == len(self.own)):
            return ""
        return _label(models, self.name, len(own) == len(models), any(map(self.own_kind, models)))


@dataclass(frozen=True)
class Tasks:
    """Some tasks; or, with `measure`, what was measured on models trained on them."""

    name: str  # as the paper calls them; empty where a claim is about any task
    own: tuple[str, ...]
    # Chooses from the results of other tasks; by default none replaces these.
    replacements: Callable[[list[Scored]], list[Scored]] = lambda results: []
    measure: str = ""
    separate: bool = False  # judge each task and source language separately, as for XNLI

    def own_task(self, task: str) -> bool:
        """Whether a claim is about this task."""
        return not self.name or task in self.own

    def possible(self, results: Iterable[Scored]) -> list[Scored]:
        """The results of these tasks, and those that may replace them."""
        known = list(results)
        own = [result for result in known if result.task in self.own]
        return own + self.replacements([one for one in known if one.task not in self.own])

    def among(self, results: Iterable[Scored]) -> list[Scored]:
        """The results that a claim is judged on."""
        known = list(results)
        own = [result for result in known if result.task in self.own]
        return own if own and self.name else self.possible(known)

    def label(self, tasks: Sequence[str], source: str = "") -> str:
        """The tasks in a verdict: empty for the paper's own, else `sst2 of GLUE`.

        source: the language of training, if it is not the paper's.
        """
        if set(tasks) == set(self.own) and not source:
            return ""
        names = [f"{task} from {source}" if source else task for task in tasks]
        return _label(names, self.name, set(tasks) < set(self.own), set(tasks) == set(self.own))


def _label(names: Sequence[str], kind: str, some: bool, same: bool) -> str:
    words = " and ".join(names)
    if kind and some:
        return f"{words} of {kind}"
    return words if same or not kind else f"{words}, not {kind}"


def _of_encoders(results: list[Scored]) -> list[Scored]:
    return [result for result in results if not result.translated]


def _in_one_language(results: list[Scored]) -> list[Scored]:
    """Scores in the language of training, as those of GLUE are."""
    scores = [result for result in _of_encoders(results) if isinstance(result, Score)]
    return [score for score in scores if score.source == score.target]


def _across_languages(results: list[Scored]) -> list[Scored]:
    """Scores of one training in more than one language, as those of XNLI are."""
    scores = [result for result in _of_encoders(results) if isinstance(result, Score)]
    places = {(score.model, score.task, score.source, score.target) for score in scores}
    targets = Counter(place[:3] for place in places)
    return [score for score in scores if targets[score.model, score.task, score.source] > 1]


ON_GLUE = Tasks("GLUE", GLUE, _in_one_language)
ON_THE_FOUR = Tasks("GLUE", GLUE)  # for claims about single tasks of them
ON_QNLI_AND_SST2 = Tasks("qnli and sst2", ("qnli", "sst2"))
ON_XNLI = Tasks("XNLI", ("xnli",), _across_languages, separate=True)
ON_BOTH = Tasks("XNLI and GLUE", ("xnli", *GLUE))
ON_WMT = Tasks("WMT14", ("wmt14",), lambda results: [one for one in results if one.translated])
ON_POS_AND_NER = Tasks("", ("pos", "ner"), _of_encoders)


def measured_on(task: str, measure: str) -> Tasks:
    """A measure on encoders: the paper took it on one task, but its statement is about any."""
    return Tasks("", (task,), _of_encoders, measure)


TRANSLATORS = Models("", ("transformer-base",), (any_model,))
BERT = Models("BERT", (BASE,), (is_bert, monolingual, any_model))
MBERT = Models("mBERT", (MULTI,), (is_mbert, multilingual, lambda model: not is_bert(model)))
BESIDE = Models("BERT", (BASE,), (is_bert, lambda model: not multilingual(model)))
EITHER = Models(
    "mBERT and BERT", (MULTI, BASE), (lambda model: is_mbert(model) or is_bert(model), any_model)
)
OF = {
    "mbert": Models(
        "mBERT",
        (MULTI,),
        (is_mbert, lambda m: multilingual(m) and not is_xlmr(m), lambda m: not is_xlmr(m)),
    ),
    "xlm-r": Models(
        "XLM-R",
        (XLM,),
        (is_xlmr, lambda m: multilingual(m) and not is_mbert(m), lambda m: not is_mbert(m)),
    ),
}
BOTH = Models(
    "mBERT and XLM-R", (MULTI, XLM), (lambda m: is_mbert(m) or is_xlmr(m), multilingual, any_model)
)
MODELS = {name: models.own[0] for name, models in OF.items()}
