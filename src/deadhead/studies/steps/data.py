"""The rows that a trial reads, cached for the next trials of the process. Loads no torch."""

import json
import os
from dataclasses import replace
from functools import lru_cache
from typing import Any

from deadhead.errors import DataError
from deadhead.studies.fields import DataOptions
from deadhead.studies.trial import Trial
from deadhead.tasks import Dataset, concatenate, draw_examples, first_parts, load_data, task_of
from deadhead.tasks.dataset import shuffled
from deadhead.tasks.locating.origin import origin_of
from deadhead.tasks.locating.small_world import is_world
from deadhead.tasks.reading.columns import STARTS

ENCODE = ("max_length", "align", "long")  # options of `encode`; the others are for `load_data`
PLACE = ("root", "source", "cut")  # options that decide where data is
TOO_FEW_HINT = (
    "add the missing data, lower data.examples, "
    "or train on what there is with --set fixed.data.exact=false"
)


def place_options(trial: Trial) -> tuple[tuple[str, str], ...]:
    """The options that decide where the data of a trial is, with their values."""
    return tuple(trial.data.chosen(*PLACE).items())


@lru_cache(maxsize=64)
def _split(task: str, lang: str, split: str, options: str) -> tuple[Dataset, int]:
    """The data of a split as trials use it, and the rows of the whole split."""
    chosen = json.loads(options)
    chosen.pop("fingerprints")  # in the options only so that changed files are read again
    examples, parts = (chosen.pop(name, None) for name in ("examples", "parts"))
    if isinstance(parts, dict):
        parts = parts.get(lang)
    data = load_data(task, lang, split, **chosen)
    size = len(data)
    if split == "train" and parts is not None:
        data = first_parts(data, parts)
    if split == "train" and data.task.traits.label_unit == "token":
        data = draw_examples(data, examples, "examples")  # windows: the tokenizer decides
        return data, size
    if split == "train" and examples is not None and examples < len(data):
        rows = sorted(shuffled(len(data), "examples")[:examples])
        data = replace(data, rows=[data.rows[i] for i in rows])
    return data, size


@lru_cache(maxsize=64)
def _datasets(task: str, languages: tuple[str, ...], split: str, options: str) -> Dataset:
    return concatenate([_split(task, lang, split, options)[0] for lang in languages])


def dataset(trial: Trial, languages: list[str], split: str, task: str | None = None) -> Dataset:
    """The data of a trial, or of another task; languages follow each other."""
    options = _options(trial, languages, split, task)
    return _datasets(task or trial.task, tuple(languages), split, options)


def corpora(
    trial: Trial, languages: list[str], split: str, task: str | None = None
) -> dict[str, dict[str, Any]]:
    """The corpus of each language, its release and its rows, for the record."""
    options, other = _options(trial, languages, split, task), f"{task} " if task else ""
    facts: dict[str, dict[str, Any]] = {}
    for lang in languages:
        data, rows = _split(task or trial.task, lang, split, options)
        if not data.files or is_world(data.files[0]):
            continue  # bundled
        origin = origin_of(data.files[0])
        fact = {"corpus": origin.corpus, "release": origin.release, "rows": rows}
        starts = data.notes.get(STARTS, 0)
        facts[f"{other}{lang}/{split}"] = {**fact, STARTS: starts} if starts else fact
    return facts


def _options(trial: Trial, languages: list[str], split: str, task: str | None = None) -> str:
    read = DataOptions.__dataclass_fields__.keys() - {*ENCODE, "task_file", "exact"}
    options = trial.data.chosen(*read)
    if "root" not in options and "DEADHEAD_DATA" in os.environ:
        options["root"] = os.environ["DEADHEAD_DATA"] or None  # the next run may name another
    names = (trial.input_name(task, lang, split) for lang in languages)
    options["fingerprints"] = [trial.inputs.get(name) for name in names]
    return json.dumps(options, sort_keys=True)


def rows_there(trial: Trial, lang: str) -> int:
    """The training rows of a language, up to `data.examples`."""
    return len(_split(trial.task, lang, "train", _options(trial, [lang], "train"))[0])


def shortfalls(trial: Trial, languages: list[str]) -> dict[str, dict[str, int]]:
    """Where there are fewer training rows than `data.examples`: `en-ru/train` -> both numbers.

    With `data.exact` that is an error.
    """
    expected = trial.data.examples
    if expected is None or task_of(trial.task).traits.label_unit == "token":
        return {}
    sizes = {lang: rows_there(trial, lang) for lang in languages}
    short = {lang: rows for lang, rows in sizes.items() if rows < expected}
    if short and trial.data.exact:
        lang, rows = next(iter(short.items()))
        raise DataError(
            f"{trial.task} in {lang} has {rows:,} training rows; "
            f"the recipe expects {expected:,}, no fewer (data.exact).",
            TOO_FEW_HINT,
        )
    return {f"{lang}/train": short_of(expected, rows) for lang, rows in short.items()}


def short_of(expected: int, got: int) -> dict[str, int]:
    return {"expected": expected, "got": got}
