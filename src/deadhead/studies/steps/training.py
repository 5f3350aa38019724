"""Training as a step: what `pretrain` and `finetune` have in common."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from deadhead import files
from deadhead.errors import DeadheadError
from deadhead.studies.fields import Field, Problem, Spec, one_of, unknown
from deadhead.studies.step import Pass, Read, Step, is_inspected
from deadhead.studies.store.folder import refuse_links
from deadhead.studies.trial import Trial
from deadhead.tasks.dataset import SPLITS
from deadhead.training.history import SAVED

from .state import State, throttled

# Options besides the settings of training. train_task: dev of the task that lends its training set.
WORDS = {"weights": SAVED, "scored": ("dev", "test", "none", "train_task")}
# Settings that came later: the value that means what was done before is in no id.
LATER = {"average": 1}


class TrainingFailed(DeadheadError):
    """A training that did not come to its end, such as one whose loss became NaN."""


@dataclass(frozen=True, kw_only=True)
class Training(Spec):
    """The field `finetune` or `pretrain` of a trial: settings of training and how it is scored."""

    weights: str = "last"  # which of its weights the next step gets
    scored: str = "dev"  # the split scored after each epoch, a task whose dev is scored, or none
    first: bool = False  # keep the weights after epoch 1, to be scored and measured too
    vocabulary: int = 0  # sub-words, of a training from scratch

    def reads(self, task: str, languages: Sequence[str]) -> Iterator[Read]:
        yield from product([task], languages, ["train"])
        if self.scored in SPLITS:
            yield from product([task], languages, [self.scored])
        elif self.scored != "none":
            yield from product([self.scored], languages, ["dev"])


class TrainingStep(Step):
    """A step that trains. Its field has the name of the step."""

    trains = True
    uses_languages = True
    lasting = False

    def reads(self, trial: Trial, place: int) -> Iterator[Read]:
        training = Training.parse(trial.get(self.name))
        yield from training.reads(trial.task, trial.languages(place))

    def passes(self, trial: Trial, place: int) -> Iterator[Pass]:
        training = Training.parse(trial.get(self.name))
        epochs = training.options.get("epochs", 1)
        for read in self.reads(trial, place):
            yield read, 3 * epochs if read[2] == "train" else epochs, None


def check(value: Any, more: Sequence[str] = ("first",)) -> Iterator[Problem]:
    """What is wrong with the settings of a training."""
    from deadhead.training.settings import PRESETS, Settings

    known = [name for name in Settings.__dataclass_fields__ if name != "seed"]
    names = ("preset", *more, *WORDS, *known)
    if not isinstance(value, dict):
        yield (), f"expected a mapping with some of preset, {', '.join(known)}."
        return
    yield from unknown(value, names, "setting of training")
    if not isinstance(value.get("first", False), bool):
        expected = "true (score and measure the weights after epoch 1 too) or false"
        yield ("first",), f"expected {expected}, got {value['first']!r}."
    for name, words in {"preset": PRESETS, **WORDS}.items():
        if name in value:
            yield from one_of(value[name], words, name, (name,))
    if value.get("patience") is not None and value.get("scored") == "none":
        yield ("patience",), "patience waits for better scores, and `scored: none` makes none."
    for name in value.keys() & {*known}:
        try:
            Settings.from_dict({name: value[name]})
        except DeadheadError as problem:
            yield (name,), problem.message
        except (TypeError, ValueError):
            yield (name,), f"{value[name]!r} is not a value for this."


# The settings of training.
FINETUNE = Field(name="finetune", check=check, needs_step=False)


def write_out(value: Mapping[str, Any] | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a training, those of a preset included."""
    text = json.dumps(value or {}, sort_keys=True)
    return dict(_settings(text, str(fields.get("task")), str(fields.get("source"))))


@lru_cache(maxsize=1024)
def _settings(text: str, task: str, source: str) -> Mapping[str, Any]:
    from deadhead.tasks import task_of
    from deadhead.training.settings import PRESETS, Settings, preset

    value = json.loads(text)
    own = {"weights": value.pop("weights", "last"), "scored": value.pop("scored", "dev")}
    if own["scored"] == "train_task":  # XNLI is trained on MNLI; other tasks on their own data
        own["scored"] = task_of(task).train_on or "dev"
    if value.pop("first", False):
        own["first"] = True
    name = value.pop("preset", None)
    variant = source if f"{name}-{source}" in PRESETS else task  # language pair or task
    settings = Settings.from_dict(value) if name is None else preset(name, variant, **value)
    written = settings.to_dict().items()
    return {name: v for name, v in written if name != "seed" and LATER.get(name, ...) != v} | own


class FinetuneField(Step):
    """A step that uses the field `finetune`."""

    def write_out(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"finetune": write_out(fields.get("finetune"), fields)}

    def settle(self, values: dict[str, Any], steps: Sequence[Step]) -> None:
        """Leave `finetune.first` out where nothing inspects the model after a training."""
        training = values.get("finetune") or {}
        trained = (i for i, step in enumerate(steps) if step.name == "finetune")
        if "first" in training and not any(is_inspected(steps, place) for place in trained):
            values["finetune"] = {name: item for name, item in training.items() if name != "first"}


def train(state: State, trial: Trial, model: Any, training: Training, seed: int) -> None:
    """Train with these settings, from the first update of their schedule on."""
    from deadhead.training import Settings, finetune
    from deadhead.training.history import read

    from . import models

    data = models.encoded(state, trial, "train")
    dev = None
    if training.scored != "none":
        own = training.scored in SPLITS
        split, task = (training.scored, None) if own else ("dev", training.scored)
        dev = models.encoded(state, trial, split, task=task)
    first = training.first and is_inspected(trial.protocol, state.at)
    settings = Settings.from_dict({**training.options, "seed": seed})
    folder = _checkpoint(state, trial, settings.epochs)
    history = finetune(
        model,
        data,
        settings,
        dev=dev,
        folder=folder,
        keep_first=first,
        progress=throttled(state.tell),
    )
    state.epochs += [
        {"step": state.at, "number": e.number, "loss": e.loss, **e.scores} for e in history.epochs
    ]
    state.cost["examples/s"] = round(history.epochs[-1].speed, 1) if history.epochs else 0.0
    failed = history.state == "failed"
    stopped_early = [history.reason] if history.reason and not failed else []
    if notes := [*history.notes, *stopped_early]:
        state.details["training notes"] = notes
    if failed:
        raise TrainingFailed(f"the training failed: {history.reason}")
    if training.weights == "best":
        history.restore(model, "best")
        state.details["best epoch"] = history.best
    if first:
        weights = history.weights["first"]  # in the folder, which goes now
        state.kept["first"] = read(weights) if isinstance(weights, str | Path) else weights
    if folder is not None:
        files.remove_folder(folder)


def _checkpoint(state: State, trial: Trial, epochs: int) -> Path | None:
    """Where a training of several epochs leaves what it needs to continue after a kill."""
    if state.folder is None or epochs < 2:
        return None
    # a model that is trained from scratch may be continued by any trial that needs it
    own = trial.steps[state.at] != "pretrain"
    folder = state.folder / "training" / (f"{trial.id}-{state.at}" if own else trial.keys[state.at])
    refuse_links(folder)
    return folder


def at_both_epochs(state: State, model: Any, inspect: Callable[[bool], None]) -> None:
    """Inspect the model as it is, and as it was after epoch 1 where those weights were kept."""
    from deadhead.training.history import put
    from deadhead.training.update import stored

    inspect(False)
    if "first" not in state.kept:
        return
    weights = {name: tensor.detach().clone() for name, tensor in stored(model)}
    put(model, state.kept_weights("first"))
    try:
        inspect(True)
    finally:
        put(model, weights)
