"""A trial is its content: all that changes its numbers and nothing else. Its id is the hash of that.

A trial starts from a model and goes through steps; each field belongs to the steps that use it. What
no step uses is left out, so that trials which would do the same become the same trial: nothing is
drawn at 0 %, so the seed of the draw goes; where nothing is removed by rank, no ranking is made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from deadhead.strategies import STRATEGIES

FORMAT = 1  # part of every id: raise it when equal content comes to mean another number
RANKS = ("rank", "rank_each")  # steps that make a ranking
TRAINS = ("pretrain", "finetune")  # steps that train
LOOKS = ("evaluate", "measure")  # steps that look at a model and leave it as it is
ALWAYS = ("model", "task", "data")
SPLITS = ("train", "dev", "test")
# The fields each step uses. A training also uses `source` where it is for a ranking, else `train`: see `Trial.languages`.
USES: Mapping[str, tuple[str, ...]] = {
    "pretrain": (
        "pretrain",
    ),  # its seed is one of its settings: what comes later may be repeated on one trained model
    "finetune": ("finetune", "seed"),
    "rank": ("source", "rank", "seed"),
    "rank_each": (
        "source",
        "rank",
        "finetune",
        "seed",
    ),  # train and rank on each source language alone, then merge
    "restart": (),  # back to the weights the trial began with; a ranking made before stays
    "prune": ("remove", "draw", "prune"),
    "evaluate": ("targets", "splits"),
    "measure": ("measure", "targets"),
}
DEFAULTS: Mapping[str, Any] = {
    "seed": 0,
    "splits": ["test"],
    "rank": {"method": "gradient", "split": "dev"},
}
FIELDS: Mapping[str, str] = {
    "model": "the folder or hub name of the model every trial starts from, or a size such as transformer-base for pretrain",
    "task": "what is learnt and scored",
    "data": "how its data is read: the options of load_data and encode",
    "source": "the language(s) heads are ranked on, and trained on unless `train` says otherwise",
    "train": "the language(s) of the training that is scored, where they are not those of `source`",
    "targets": "the languages scored; by default those of `train`",
    "splits": "the splits scored; by default test",
    "pretrain": "the settings of training a translation model from scratch, with the size of its vocabulary",
    "finetune": "the settings of training",
    "rank": "the ranking method, its options and its data",
    "remove": "which heads go: a strategy and its amount, or none",
    "prune": "how they go: drop_output_bias, whether a layer that loses its last head loses its output bias too",
    "measure": "what is measured on the model besides its scores: names, each alone or with options",
    "seed": "of training and ranking, and of draws unless `draw` says otherwise",
    "draw": "the seed of drawn heads alone",
}
# Besides its fields the content of a trial may hold `inputs`: fingerprints of the model and the data it reads (`inputs.py`).


@dataclass(frozen=True)
class Trial:
    """The full recipe of one number. Make one with `settle`, which leaves out what does not matter."""

    content: Mapping[str, Any]

    @cached_property
    def id(self) -> str:
        return digest({"format": FORMAT, **self.content})

    @property
    def steps(self) -> tuple[str, ...]:
        return tuple(self.content["steps"])

    def get(self, field: str, default: Any = None) -> Any:
        return self.content.get(field, default)

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trial) and self.id == other.id

    def languages(self, place: int) -> list[str]:
        """The languages a step that trains or ranks works on, by its place among the steps."""
        for_ranking = any(step in RANKS for step in self.steps[place:])
        found = self.get("source") if for_ranking else self.get("train", self.get("source"))
        return [found] if isinstance(found, str) else list(found or ())

    def nth(self, place: int) -> int:
        """How often the step at this place has come, counted from the last restart: 1, 2, ..."""
        return self.before(place).count(self.steps[place]) + 1

    def before(self, place: int) -> tuple[str, ...]:
        """The steps before this place, from the last restart on."""
        start = max((i for i in range(place) if self.steps[i] == "restart"), default=-1) + 1
        return self.steps[start:place]

    @property
    def measures(self) -> dict[str, dict[str, Any]]:
        """What is measured, by name, with its options."""
        return named(self.get("measure") or [])

    def keeps_first(self, place: int) -> bool:
        """Whether the training at this place keeps its weights after epoch 1, because a step looks at what it trained."""
        return bool((self.get("finetune") or {}).get("first")) and _looked_at(self.steps, place)

    def seed_of(self, place: int) -> int:
        """The seed of one step: that of the trial, and one made from it where a step comes again."""
        seed, nth = int(self.get("seed", 0)), self.nth(place)
        return seed if nth == 1 else int(digest([seed, self.steps[place], nth])[:8], 16)

    @cached_property
    def keys(self) -> dict[int, str]:
        """The hash of all that shapes the trial up to each step that trains or ranks: what others may share."""
        made = (*TRAINS, *RANKS)
        return {
            i: self._key(i)
            for i, step in enumerate(self.steps)
            if step in made and "prune" not in self.steps[:i]
        }

    @cached_property
    def sources(self) -> tuple[Trial, ...]:
        """For `rank_each`: the trial that ranks on each source language alone."""
        if "rank_each" not in self.steps:
            return ()
        place = self.steps.index("rank_each")
        rank = {name: value for name, value in self.get("rank").items() if name != "merge"}
        alone = [
            settle(["finetune", "rank"], {**self.content, "source": one, "rank": rank})
            for one in self.languages(place)
        ]
        return tuple(Trial({**trial.content, **self._inputs(trial.reads())}) for trial in alone)

    def reads(self, last: int | None = None) -> Iterator[tuple[str, str, str]]:
        """The (task, language, split) triples that the steps read, up to the one at this place."""
        task = self.get("task")
        for place, step in enumerate(self.steps if last is None else self.steps[: last + 1]):
            if step in TRAINS:
                scored = (self.get(step) or {}).get("scored", "dev")
                yield from product([task], self.languages(place), ["train"])
                if scored in SPLITS:
                    yield from product([task], self.languages(place), [scored])
                elif scored != "none":  # the dev data of the task that lends its training set
                    yield from product([scored], self.languages(place), ["dev"])
            elif step == "rank":
                split = self.get("rank").get("split", "dev")
                yield from product([task], self.languages(place), [split])
            elif step == "rank_each":
                yield from (triple for source in self.sources for triple in source.reads())
            elif step == "evaluate":
                yield from product([task], self.get("targets"), self.get("splits"))
            elif step == "measure":
                for name, options in self.measures.items():
                    on = {"entropy": self.languages(place), "embeddings": self.get("targets")}
                    yield from product([task], on.get(name, []), [options.get("split", "dev")])

    def place_of(self, task: str | None, language: str, split: str) -> str:
        """Where `inputs` keeps the fingerprint of a piece of data; None is the trial's own task."""
        other = "" if task in (None, self.get("task")) else f"{task} "
        return f"data {other}{language}/{split}"

    def _inputs(self, triples: Iterable[tuple[str, str, str]]) -> dict[str, Any]:
        """The fingerprints of the model and of this data, as a part of a content; empty where there are none."""
        inputs = self.get("inputs") or {}
        places = {"model", *(self.place_of(*triple) for triple in triples)}
        held = {place: inputs[place] for place in sorted(places & inputs.keys())}
        return {"inputs": held} if held else {}

    @cached_property
    def work(self) -> tuple[str, ...]:
        """The keys of all work that others may share, the sources' first."""
        return (
            *(key for trial in self.sources for key in trial.keys.values()),
            *self.keys.values(),
        )

    def _key(self, place: int) -> str:
        used = {
            name: self.content[name] for name in ALWAYS if name in self.content and name != "data"
        }
        if data := self._data(place):
            used["data"] = data
        parts = []
        for i in range(place + 1):
            fields = {
                name: self.content[name]
                for name in USES[self.steps[i]]
                if name in self.content and name != "source"
            }
            if self.steps[i] in (*TRAINS, "measure", *RANKS):
                fields["languages"] = self.languages(i)
            parts.append([self.steps[i], fields])
        return digest({"format": FORMAT, **used, **self._inputs(self.reads(place)), "parts": parts})

    def _data(self, place: int) -> dict[str, Any]:
        """The options of the data up to a step: parts of a language that is not read yet do not matter."""
        data = dict(self.get("data") or {})
        if isinstance(data.get("parts"), Mapping):
            read = {
                lang
                for i in range(place + 1)
                if self.steps[i] in (*TRAINS, *RANKS)
                for lang in self.languages(i)
            }
            parts = {lang: number for lang, number in data.pop("parts").items() if lang in read}
            data |= {"parts": parts} if parts else {}
        return data


def digest(content: Any) -> str:
    """A hash of plain data, the same on every machine."""
    text = json.dumps(
        content, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def settle(steps: list[str], fields: Mapping[str, Any]) -> Trial:
    """The trial of these steps and fields: defaults filled in, and without what does not matter to its numbers."""
    values = {
        **DEFAULTS,
        **{
            name: _canonical(value) for name, value in fields.items() if value not in (None, {}, [])
        },
    }
    values["rank"] = {**DEFAULTS["rank"], **values["rank"]}
    remove = removal(values.get("remove"))
    strategy = remove[0] if remove else None
    steps = _needed(list(steps), strategy)
    if remove is None:
        values.pop("remove", None)
    if not (values.get("prune") or {}).get("drop_output_bias"):  # the default is in no id
        values.pop("prune", None)
    if strategy is None or not STRATEGIES[strategy].draws:
        values.pop("draw", None)
    elif "draw" not in values:
        values["draw"] = values["seed"]
    _settle_languages(values)
    if "train" in values and not {*RANKS} & {
        *steps
    }:  # without a ranking there is one set of languages, whichever name it had
        values["source"] = values.pop("train")
    training = values.get("finetune") or {}
    if "first" in training and not any(
        step == "finetune" and _looked_at(steps, i) for i, step in enumerate(steps)
    ):
        values["finetune"] = {name: value for name, value in training.items() if name != "first"}
    if "measure" in values:  # in which order they are measured does not matter
        values["measure"] = [
            {name: options} if options else name
            for name, options in sorted(named(values["measure"]).items())
        ]
    used = {*ALWAYS, *_used(steps, values)}
    return Trial(
        {"steps": steps, **{name: values[name] for name in sorted(values) if name in used}}
    )


def _settle_languages(values: dict[str, Any]) -> None:
    for name in ("source", "train"):
        if name in values:
            several = (
                [values[name]]
                if isinstance(values[name], str)
                else list(dict.fromkeys(values[name]))
            )
            values[name] = several[0] if len(several) == 1 else several
    if "source" in values and values.get("train") == values["source"]:
        del values["train"]
    learnt = values.get("train", values.get("source"))
    if "targets" not in values and learnt is not None:
        values["targets"] = learnt
    for name in ("targets", "splits"):
        if name in values:  # in which order they are scored does not matter
            values[name] = sorted(
                {values[name]} if isinstance(values[name], str) else set(values[name])
            )


def removal(remove: Any) -> tuple[str, Any, dict[str, Any]] | None:
    """A removal as (strategy, amount, options); None where it removes nothing."""
    if not isinstance(remove, Mapping):
        return None
    strategy = next((name for name in remove if name in STRATEGIES), None)
    if strategy is None:
        return None
    if remove[strategy] == 0 and STRATEGIES[strategy].amount.zero_is_nothing:
        return None
    return (
        strategy,
        remove[strategy],
        {name: value for name, value in remove.items() if name != strategy},
    )


def _needed(steps: list[str], strategy: str | None) -> list[str]:
    """The steps that matter: without scores to go by no ranking is made for pruning, and a restart forgets the rest."""
    scored = strategy is not None and STRATEGIES[strategy].needs_scores
    if not scored and "prune" in steps:
        steps = [
            step for i, step in enumerate(steps) if step not in RANKS or "prune" not in steps[i:]
        ]
        while "restart" in steps and not {*RANKS, "evaluate"} & {*steps[: steps.index("restart")]}:
            steps = steps[steps.index("restart") + 1 :]
    return [step for step in steps if step != "prune" or strategy is not None]


def named(measure: Any) -> dict[str, dict[str, Any]]:
    """Measures by name with their options, out of a name, a list of names, or names with options: `[entropy, {weights: {relative: true}}]`."""
    found: dict[str, dict[str, Any]] = {}
    for one in measure if isinstance(measure, list) else [measure]:
        found |= (
            {name: dict(options or {}) for name, options in one.items()}
            if isinstance(one, Mapping)
            else {str(one): {}}
        )
    return found


def _looked_at(steps: Sequence[str], place: int) -> bool:
    """Whether a step looks at the model as the training at this place left it."""
    for step in steps[place + 1 :]:
        if step in LOOKS:
            return True
        if step not in RANKS:
            return False
    return False


def _used(steps: list[str], values: Mapping[str, Any]) -> Iterator[str]:
    learnt = "train" if "train" in values else "source"
    for i, step in enumerate(steps):
        yield from USES[step]
        if step in (*TRAINS, "measure"):
            yield "source" if {*RANKS} & {*steps[i + 1 :]} else learnt


def _canonical(value: Any) -> Any:
    """One spelling for equal values: 50.0 is 50, a tuple is a list."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
