"""The model, tokenizer and encoded data that the steps of a trial use. Loads torch.

Data, tokenizers and sub-words are kept in memory for the next trials of the process; `encode` also
keeps the sub-words on disk, by a hash of data, tokenizer and options.
"""

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from deadhead import tasks
from deadhead.files.hub import at_commit, located
from deadhead.measures import MeasureInputs
from deadhead.studies.trial import Trial
from deadhead.tasks import Batches, Dataset, Encoded, task_of
from deadhead.tasks.encoding.tokenizer import Pieces
from deadhead.tasks.reading.records import UNSPACED
from deadhead.training.models import (
    check_positions,
    label_names,
    load_for_task,
    set_padding,
    tokenizer_for,
    window_length,
)

from .data import ENCODE, corpora, dataset, short_of, shortfalls
from .state import State


def device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def model_of(trial: Trial) -> str:
    """The path or hub name of the trial's model, at the commit that the trial names."""
    name = str(trial.get("model"))
    path = str(Path(name).expanduser()) if name.startswith("~") else located(name)
    return at_commit(path, trial.inputs.get("model"))


@lru_cache(maxsize=4)
def _tokenizer(folder: str, fingerprint: str | None = None) -> Any:
    return tokenizer_for(folder)


def tokenizer(state: State, trial: Trial) -> Any:
    """The tokenizer of the trial's model; a model trained from scratch has its own."""
    if not any(step.builds_model for step in trial.protocol):
        return _tokenizer(model_of(trial), trial.inputs.get("model"))
    if state.tokenizer is None:
        state.tokenizer = _tokenizer(str(state.weights))
    return state.tokenizer


@lru_cache(maxsize=16)
def _some(data: Dataset, examples: int, seed: int) -> Dataset:
    return replace(tasks.draw_examples(data, examples, seed), notes=data.notes)


def encoded(
    state: State,
    trial: Trial,
    split: str,
    *,
    languages: list[str] | None = None,
    examples: int | None = None,
    task: str | None = None,
) -> Encoded:
    """The data in sub-words, with the labels in the order of the model; recorded in the state.

    languages: by default those that the running step trains or ranks on.
    """
    languages = languages or trial.languages(state.at)
    data = dataset(trial, languages, split, task)
    name = f"{f'{task} ' if task else ''}{'+'.join(languages)}/{split}"
    if split == "train" and task is None:
        state.note("shortfalls", shortfalls(trial, languages))
    state.note("corpora", corpora(trial, languages, split, task))
    is_text = data.task.traits.label_unit == "token"  # its examples are windows
    if examples is not None and (is_text or examples < len(data)):
        data = _some(data, examples, trial.get("seed", 0))
    elif examples is not None and examples > len(data):
        state.note("shortfalls", {f"{name} (rank)": short_of(examples, len(data))})
    state.data[name] = data.fingerprint
    labels, options = _labels(state.model, data), _encode_options(state, trial, data)
    windows = _encoded(data, tokenizer(state, trial), labels, options)
    check_positions(state.model, windows.arrays["lengths"], name)
    notes = {**data.notes, **windows.notes}  # what was dropped, repaired, split or cut
    state.note("data notes", {name: notes} if notes else {})
    return windows


def _encode_options(state: State, trial: Trial, data: Dataset) -> str:
    options = trial.data.chosen(*ENCODE)
    length = window_length(state.model, data.task, options.get("max_length"))
    return json.dumps({**options, "max_length": length}, sort_keys=True)


@lru_cache(maxsize=64)
def _encoded(
    data: Dataset, tokenizer: Any, labels: tuple[str, ...] | None, options: str
) -> Encoded:
    return tasks.encode(data, _pieces(tokenizer), labels=labels, **json.loads(options))


@lru_cache(maxsize=4)
def _pieces(tokenizer: Any) -> Pieces:
    return Pieces(tokenizer)


def measure_inputs(state: State, trial: Trial) -> MeasureInputs:
    """What measures may use: dev data in the training languages, target sentences, old weights."""
    return MeasureInputs(
        batches=lambda split, most: _first_batches(state, trial, split, most),
        texts=lambda split, most: _texts(state, trial, split, most),
        tokenizer=tokenizer(state, trial),
        start=state.kept_weights("began"),
    )


def _first_batches(state: State, trial: Trial, split: str, most: int) -> Batches:
    """The first rows of a split, the same number of each training language."""
    languages = trial.languages(state.at)
    each = -(-most // len(languages))
    sets = [_recorded(state, trial, lang, split) for lang in languages]
    if sets[0].task.traits.label_unit == "token":
        sets = [tasks.draw_examples(data, each) for data in sets]
    else:
        sets = [replace(data, rows=data.rows[:each]) for data in sets]
    data = tasks.concatenate(sets)
    options = json.loads(_encode_options(state, trial, data))
    labels = _labels(state.model, data)
    encoded = tasks.encode(data, tokenizer(state, trial), labels=labels, **options)
    return tasks.batches(encoded, device=device())


def _texts(state: State, trial: Trial, split: str, most: int) -> dict[str, list[str]]:
    """The same number of distinct sentences in every target language, parallel if the data is."""
    targets = trial.get("targets")
    texts = {lang: _sentences(_recorded(state, trial, lang, split)) for lang in targets}
    parallel = len({len(sentences) for sentences in texts.values()}) == 1
    first = next(iter(texts.values()))
    distinct = {}
    for lang, sentences in texts.items():
        keys = first if parallel else sentences
        places = {text: i for i, text in reversed([*enumerate(keys)])}.values()
        distinct[lang] = [sentences[i] for i in sorted(places)]
    least = min(most, *map(len, distinct.values()))
    return {lang: sentences[:least] for lang, sentences in distinct.items()}


def _sentences(data: Dataset) -> list[str]:
    """The texts of a dataset; for pairs, all first texts and then all second texts.

    Of multiple choice these are the contexts, each with its right option.
    """
    if data.task.traits.label_unit == "word":
        return [("" if data.lang in UNSPACED else " ").join(row.texts) for row in data.rows]
    if data.task.traits.label_unit == "token":
        lines = (line for row in data.rows for line in row.texts[0].split("\n"))
        return [line for line in lines if line.strip()]
    if data.task.traits.label_unit == "option":
        return [row.texts[0] + row.texts[1 + int(row.labels[0])] for row in data.rows]
    second = [row.texts[1] for row in data.rows if len(row.texts) > 1]
    return [row.texts[0] for row in data.rows] + second


def _recorded(state: State, trial: Trial, lang: str, split: str) -> Dataset:
    data = dataset(trial, [lang], split)
    state.data[f"{lang}/{split}"] = data.fingerprint
    state.note("corpora", corpora(trial, [lang], split))
    return data


def from_scratch(state: State, trial: Trial, seed: int, vocabulary: int) -> Any:
    """A new translation model, with a vocabulary learned from its training data."""
    from deadhead import translation

    look_ahead(trial)
    data = dataset(trial, trial.languages(state.at), "train")
    state.tell("learning a vocabulary")
    state.tokenizer = translation.vocabulary(
        (text for row in data.rows for text in row.texts), vocabulary
    )
    state.details["vocabulary"] = len(state.tokenizer)
    return _prepared(state, trial, translation.build(trial.get("model"), state.tokenizer, seed))


def model(state: State, trial: Trial) -> Any:
    """The current model, loaded when a step first needs it."""
    if state.model is None:
        look_ahead(trial)
        from deadhead.heads import load

        if state.weights is not None:
            model = load(state.weights)
        elif "finetune" in trial.steps[state.at :]:
            model = _pretrained(trial, state.at)
        else:
            model = load(model_of(trial), dtype="float32")
        _prepared(state, trial, model)
    return state.model


def _prepared(state: State, trial: Trial, model: Any) -> Any:
    state.model = model.to(device())
    set_padding(model, lambda: tokenizer(state, trial))
    import torch

    state.versions["device"] = torch.cuda.get_device_name() if device() == "cuda" else "cpu"
    state.cost.setdefault("parameters", count(model))
    return model


def look_ahead(trial: Trial) -> None:
    """Read all data that will be scored before training: missing data is found early."""
    if "evaluate" in trial.steps:
        for split in trial.get("splits"):
            for language in trial.get("targets"):
                dataset(trial, [language], split)


def _pretrained(trial: Trial, at: int) -> Any:
    """The pretrained model with a new classifier for the task, drawn with the trial's seed."""
    place = trial.steps.index("finetune", at)
    task = task_of(trial.task)
    labels = None
    if task.traits.has_labels:
        labels = dataset(trial, trial.languages(place), "train").labels
    return load_for_task(model_of(trial), task, labels, seed=trial.seed_of(place))


def _labels(model: Any, data: Dataset) -> tuple[str, ...] | None:
    """The labels of the model, in its order; None for tasks without labels."""
    return label_names(model) if data.task.traits.has_labels else None


def count(model: Any) -> int:
    return int(sum(parameter.numel() for parameter in model.parameters()))
