"""Fine-tune a saved model into another folder, resuming a training that was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from deadhead.errors import DeadheadError
from deadhead.heads import save
from deadhead.models import labels_for, set_padding, tokenizer_for
from deadhead.tasks import Dataset, Encoded, Task, draw_examples, encode, find_data, load_data

from .history import Epoch, History
from .loop import finetune
from .progress import Tick
from .settings import Settings
from .start import Start, start
from .unfinished import Unfinished


@dataclass(frozen=True)
class Sets:
    """The data of a training."""

    train: Dataset
    dev: dict[str, Dataset]  # by language
    notes: list[str]  # a line for each language without dev data


def load_sets(
    task: str | Task, languages: list[str], where: dict[str, Any], most: int | None, seed: int
) -> Sets:
    """Load training and dev data; of each set at most `most` random examples."""
    train = load_data(task, languages[0] if len(languages) == 1 else languages, "train", **where)
    dev, notes = {}, []
    for language in languages:
        place = find_data(task, language, ["dev"], **where)["dev"]
        if isinstance(place, str):
            dev[language] = draw_examples(load_data(task, language, "dev", **where), most, seed)
        else:
            reason = place.message.rstrip(".")
            name = f"{train.task.name} in {language}"
            notes.append(f"no dev data of {name}, so its epochs are not scored ({reason})")
    return Sets(draw_examples(train, most, seed), dev, notes)


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where and how the trained model is written."""

    folder: Path
    weights: str = "last"  # or best: those of the best epoch on dev
    dtype: torch.dtype | None = None  # by default the precision of the source
    force: bool = False  # discard an unfinished training of another command


@dataclass(frozen=True, kw_only=True)
class Listener:
    """What is called while a model is trained."""

    update: Callable[[Tick], None]
    epoch: Callable[[Epoch], None]
    say: Callable[[str], None]  # a line for the user


def finetune_saved(
    name: str,
    sets: Sets,
    settings: Settings,
    out: Output,
    *,
    command: dict[str, Any],
    listener: Listener,
    auto: str | None = None,
    device: Any = None,
    max_length: int = 256,
) -> tuple[Start, History]:
    """Train the model of this name on the sets and save it with its tokenizer.

    command: what the user typed; the same command resumes an interrupted training.
    """
    unfinished = Unfinished(out.folder)
    begin = start(name, sets.train, settings.seed, auto)
    facts = {"the data": sets.train.fingerprint, "the weights of MODEL": begin.digest}
    unfinished.check(command | facts, force=out.force)
    tokenizer = tokenizer_for(name)
    set_padding(begin.model, lambda: tokenizer)
    labels = labels_for(begin.model, sets.train)
    encoded = {
        key: encode(data, tokenizer, max_length=max_length, labels=labels)
        for key, data in {"train": sets.train, **sets.dev}.items()
    }
    if not sets.dev and out.weights == "best":
        raise DeadheadError(
            f"--weights best needs dev data: {'; '.join(sets.notes)}.", "leave --weights out"
        )
    for note in sets.notes:
        listener.say(note)
    unfinished.begin(command | facts)
    history = _train(begin.model, encoded, settings, unfinished, listener, device=device)
    if out.weights == "best":
        history.restore(begin.model, "best")
    data, epochs = sets.train, len(history.epochs)
    learned = f"{data.task.name} in {data.lang}: {len(data):,} examples, {epochs} epochs"
    note = f"Fine-tuned with deadhead on {learned}."
    save(begin.in_precision(out.dtype), out.folder, tokenizer, note=note)
    unfinished.discard()
    return begin, history


def _train(
    model: Any,
    encoded: dict[str, Encoded],
    settings: Settings,
    unfinished: Unfinished,
    listener: Listener,
    *,
    device: Any,
) -> History:
    if unfinished.epochs:
        listener.say(f"resuming after epoch {unfinished.epochs} of {settings.epochs}")
    train = encoded.pop("train")
    try:
        history = finetune(
            model,
            train,
            settings,
            dev=encoded or None,
            folder=unfinished.path,
            device=device,
            progress=listener.update,
            each=listener.epoch,
        )
    except KeyboardInterrupt:
        progress = f"stopped after epoch {unfinished.epochs} of {settings.epochs}"
        listener.say(f"{progress}; repeat the command to resume")
        raise
    if history.state != "done":
        unfinished.give_up()
        raise DeadheadError(f"the training failed: {history.reason}", "try a lower --rate")
    return history
