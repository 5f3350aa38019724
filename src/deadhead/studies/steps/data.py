"""The rows a trial reads: its task, languages and options of `data`, kept for the next trials of the process. Loads no torch."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from deadhead.errors import DataError
from deadhead.studies.trial import Trial
from deadhead.tasks import Dataset, concatenate, load_data
from deadhead.tasks.dataset import shuffled

ENCODE = (
    "max_length",
    "align",
    "long",
)  # options of `data` that are for encode; the others are for load_data
OURS = ("task_file",)  # and what is there for the id alone


@dataclass(frozen=True)
class Shortfall:
    """Fewer rows than a recipe asks for."""

    name: str  # "en-ru/train"
    expected: int
    got: int

    def to_dict(self) -> dict[str, int]:
        return {"expected": self.expected, "got": self.got}


@lru_cache(maxsize=64)
def _dataset(task: str, lang: str, split: str, options: str) -> Dataset:
    chosen = json.loads(options)
    chosen.pop("fingerprints")  # in the options only so that changed files are read again
    examples, parts, exact = (chosen.pop(name, None) for name in ("examples", "parts", "exact"))
    if isinstance(parts, dict):
        parts = parts.get(lang)
    if split == "train" and parts is not None:
        chosen["parts"] = parts
    data = load_data(task, lang, split, **chosen)
    if split != "train" or examples is None or examples == len(data):
        return data
    if examples < len(data):
        return replace(
            data, rows=[data.rows[i] for i in sorted(shuffled(len(data), "examples")[:examples])]
        )
    if exact:
        raise too_few(f"{task} in {lang}", examples, len(data))
    return data


def too_few(what: str, expected: int, got: int) -> DataError:
    """The error where the recipe says that the number of rows matters."""
    return DataError(
        f"{what} has {got:,} training rows; the recipe expects {expected:,}, no fewer (data.exact).",
        "add the missing data, lower data.examples, or train on what there is with --set fixed.data.exact=false",
    )


def dataset(trial: Trial, languages: list[str], split: str, task: str | None = None) -> Dataset:
    """The data of a trial, or that of another task; several languages are put one after the other."""
    return _together(
        task or trial.get("task"), tuple(languages), split, _options(trial, languages, split, task)
    )


def _options(
    trial: Trial,
    languages: list[str],
    split: str,
    task: str | None = None,
    but: tuple[str, ...] = (),
) -> str:
    options = {
        name: value for name, value in _data(trial).items() if name not in (*ENCODE, *OURS, *but)
    }
    if (
        "root" not in options and "DEADHEAD_DATA" in os.environ
    ):  # what is kept is of this folder, and the next run may name another
        options["root"] = os.environ["DEADHEAD_DATA"] or None
    inputs = trial.get("inputs") or {}
    options["fingerprints"] = [inputs.get(trial.place_of(task, lang, split)) for lang in languages]
    return json.dumps(options, sort_keys=True)


def rows_there(trial: Trial, lang: str) -> int:
    """The training rows of a language, up to `data.examples`, whether or not the recipe accepts fewer."""
    return len(
        _dataset(trial.get("task"), lang, "train", _options(trial, [lang], "train", but=("exact",)))
    )


def _data(trial: Trial) -> dict[str, Any]:
    return trial.get("data") or {}


@lru_cache(maxsize=64)
def _together(task: str, languages: tuple[str, ...], split: str, options: str) -> Dataset:
    several = [_dataset(task, lang, split, options) for lang in languages]
    return several[0] if len(several) == 1 else concatenate(several)


def shortfalls(trial: Trial, languages: list[str]) -> list[Shortfall]:
    """The languages with fewer training rows than `data.examples`."""
    expected = _data(trial).get("examples")
    if expected is None:
        return []
    options = _options(trial, languages, "train")
    sizes = {lang: len(_dataset(trial.get("task"), lang, "train", options)) for lang in languages}
    return [
        Shortfall(f"{lang}/train", expected, got) for lang, got in sizes.items() if got < expected
    ]
