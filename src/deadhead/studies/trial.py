"""A trial is its content: all that changes its numbers and nothing else. Its id is its hash.

A trial starts from a model and goes through steps; each step states the fields it uses
(`steps/`). What no step uses is left out, so that trials which would do the same become the same
trial: at 0 % nothing is removed at random, so that seed is left out; where nothing is removed by
rank, no ranking is made. What a trial removes is its `Removal`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deadhead.strategies import STRATEGIES

from .fields import DataOptions, as_list, options_by_name
from .step import STEPS, Read, Step, fields

FORMAT = 1  # part of every id: raise it when equal content comes to mean another number
ALWAYS = ("model", "task", "data")  # fields that every step uses
# The content of a trial may also have `inputs`: fingerprints of what it reads (`inputs.py`).


@dataclass(frozen=True)
class Trial:
    """The full recipe of one number. `settle` builds it without what does not matter."""

    content: Mapping[str, Any]

    @cached_property
    def id(self) -> str:
        return digest({"format": FORMAT, **self.content})

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trial) and self.id == other.id

    def get(self, field: str, default: Any = None) -> Any:
        return self.content.get(field, default)

    @property
    def steps(self) -> tuple[str, ...]:
        return tuple(self.content["steps"])

    @cached_property
    def protocol(self) -> tuple[Step, ...]:
        """The steps themselves, where `steps` has their names."""
        return tuple(STEPS[name] for name in self.steps)

    @property
    def task(self) -> str:
        return str(self.get("task"))

    @cached_property
    def data(self) -> DataOptions:
        return DataOptions.parse(self.get("data"))

    @property
    def inputs(self) -> dict[str, str]:
        return self.get("inputs") or {}

    @property
    def targets(self) -> list[str]:
        return as_list(self.get("targets"))

    @property
    def splits(self) -> list[str]:
        return as_list(self.get("splits"))

    @property
    def measures(self) -> dict[str, dict[str, Any]]:
        """What is measured, by name, with its options."""
        return options_by_name(self.get("measure") or [])

    def languages(self, place: int) -> list[str]:
        """The languages that the step at this place trains or ranks on."""
        for_ranking = any(step.ranks for step in self.protocol[place:])
        return as_list(self.get("source") if for_ranking else self.get("train", self.get("source")))

    def before(self, place: int) -> tuple[str, ...]:
        """The steps before this place, from the last restart on."""
        restarts = (i + 1 for i in range(place) if self.protocol[i].restarts)
        return self.steps[max(restarts, default=0) : place]

    def seed_of(self, place: int) -> int:
        """The seed of a step: that of the trial, and another where the step comes again."""
        seed, count = int(self.get("seed", 0)), self.before(place).count(self.steps[place]) + 1
        return seed if count == 1 else int(digest([seed, self.steps[place], count])[:8], 16)

    def reads(self, last: int | None = None) -> Iterator[Read]:
        """The (task, language, split) triples that the steps read, up to the one at this place."""
        for place, step in enumerate(self.protocol if last is None else self.protocol[: last + 1]):
            yield from step.reads(self, place)

    def input_name(self, task: str | None, language: str, split: str) -> str:
        """The name of a piece of data among `inputs`; None is the trial's own task."""
        other = "" if task in (None, self.get("task")) else f"{task} "
        return f"data {other}{language}/{split}"

    @cached_property
    def sources(self) -> tuple[Trial, ...]:
        """The trials that a step runs itself: for `rank_each` one on each source language."""
        parts = (part for i, step in enumerate(self.protocol) for part in step.part_trials(self, i))
        trials = (settle(steps, values) for steps, values in parts)
        return tuple(Trial({**trial.content, **self._inputs(trial.reads())}) for trial in trials)

    @cached_property
    def keys(self) -> dict[int, str]:
        """The hash of all that shapes the trial up to each step whose work others may share."""
        keys = {}
        for place, step in enumerate(self.protocol):
            if step.prunes:
                break
            if step.trains or step.ranks:
                keys[place] = self._key(place)
        return keys

    @cached_property
    def work(self) -> tuple[str, ...]:
        """The keys of all work that others may share, that of `sources` first."""
        return (*(key for trial in self.sources for key in trial.work), *self.keys.values())

    def _key(self, place: int) -> str:
        content = {name: self.content[name] for name in ("model", "task") if name in self.content}
        if data := self._data(place):
            content["data"] = data
        parts = []
        for i, step in enumerate(self.protocol[: place + 1]):
            names = (field.name for field in step.fields)
            used = {n: self.content[n] for n in names if n in self.content and n != "source"}
            if step.uses_languages:
                used["languages"] = self.languages(i)
            parts.append([step.name, used])
        inputs = self._inputs(self.reads(place))
        return digest({"format": FORMAT, **content, **inputs, "parts": parts})

    def _data(self, place: int) -> dict[str, Any]:
        """The options of the data up to a step, without `parts` of languages not read yet."""
        data = dict(self.get("data") or {})
        if isinstance(data.get("parts"), Mapping):
            work = [i for i, s in enumerate(self.protocol[: place + 1]) if s.trains or s.ranks]
            read = {lang for i in work for lang in self.languages(i)}
            parts = {lang: number for lang, number in data.pop("parts").items() if lang in read}
            data |= {"parts": parts} if parts else {}
        return data

    def _inputs(self, reads: Iterable[Read]) -> dict[str, Any]:
        """The fingerprints of the model and of this data, as a part of a content; or nothing."""
        names = {"model", *(self.input_name(*read) for read in reads)}
        inputs = {name: self.inputs[name] for name in sorted(names & self.inputs.keys())}
        return {"inputs": inputs} if inputs else {}


def digest(content: Any) -> str:
    """A hash of plain data, the same on every machine."""
    text = json.dumps(
        content, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def settle(steps: Sequence[str], values: Mapping[str, Any]) -> Trial:
    """The trial of these steps and fields, without what does not change its numbers."""
    known = fields()
    content = {name: field.default for name, field in known.items() if field.default is not None}
    content |= {n: _canonical(value) for n, value in values.items() if value not in (None, {}, [])}
    for name in known.keys() & content.keys():
        content[name] = known[name].canonical(content[name])
    content = {name: value for name, value in content.items() if value is not None}
    protocol = _needed([STEPS[name] for name in steps], content)
    _settle_languages(content, protocol)
    for step in protocol:
        step.settle(content, protocol)
    used = {*ALWAYS, *_used(protocol, content)}
    chosen = {name: content[name] for name in sorted(content) if name in used}
    return Trial({"steps": [step.name for step in protocol], **chosen})


def _needed(steps: list[Step], content: Mapping[str, Any]) -> list[Step]:
    """The steps that matter: no ranking that no removal uses, and nothing that a restart undoes."""
    removal = Removal.parse(content.get("remove"))
    needs_scores = removal is not None and removal.needs_scores
    if not needs_scores and any(step.prunes for step in steps):
        steps = [
            step
            for i, step in enumerate(steps)
            if not step.ranks or not any(later.prunes for later in steps[i:])
        ]
        while place := next((i + 1 for i, step in enumerate(steps) if step.restarts), 0):
            if any(step.lasting for step in steps[:place]):
                break
            steps = steps[place:]
    return [step for step in steps if not step.is_idle(content)]


def _settle_languages(content: dict[str, Any], steps: Sequence[Step]) -> None:
    """One name for equal sets of languages: `train` only where it differs from `source`."""
    if "source" in content and content.get("train") == content["source"]:
        del content["train"]
    trained = content.get("train", content.get("source"))
    if "targets" not in content and trained is not None:
        content["targets"] = sorted({*as_list(trained)})
    if "train" in content and not any(step.ranks for step in steps):
        content["source"] = content.pop("train")


def _used(steps: Sequence[Step], content: Mapping[str, Any]) -> Iterator[str]:
    trained = "train" if "train" in content else "source"
    for i, step in enumerate(steps):
        yield from (field.name for field in step.fields)
        if step.uses_languages:
            yield "source" if any(later.ranks for later in steps[i:]) else trained


def _canonical(value: Any) -> Any:
    """One spelling of equal values: 50.0 is 50, a tuple is a list."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


CONTROLS = ("seeds", "random", "highest")  # of a search, beside its lowest-k arm


@dataclass(frozen=True)
class Removal:
    """A strategy that removes something."""

    strategy: str
    amount: Any
    options: Mapping[str, Any]

    @classmethod
    def parse(cls, value: Any) -> Removal | None:
        """The removal of a field `remove`; None where it removes nothing."""
        strategy = strategy_of(value)
        if strategy is None:
            return None
        if value[strategy] == 0 and STRATEGIES[strategy].amount.zero_is_nothing:
            return None
        options = {name: item for name, item in value.items() if name != strategy}
        return cls(strategy, value[strategy], options)

    @property
    def draws(self) -> bool:
        return STRATEGIES[self.strategy].draws

    @property
    def needs_scores(self) -> bool:
        return STRATEGIES[self.strategy].needs_scores


def strategy_of(value: Any) -> str | None:
    """The strategy that a field `remove` names."""
    names = value if isinstance(value, Mapping) else ()
    return next((name for name in names if name in STRATEGIES), None)


def label(value: Any) -> Any:
    """A value as a table names it; a removal becomes `random 50 per=block`."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list):
        return "+".join(str(item) for item in value)
    strategy = strategy_of(value)
    first = [] if strategy is None else [f"{strategy} {value[strategy]}"]
    options = (f"{name}={item}" for name, item in value.items() if name != strategy)
    return " ".join([*first, *options])
