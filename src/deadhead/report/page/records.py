"""The trials that a reader can open: records with epochs, cost, error and sample predictions.

The samples are a few predictions of a trial, word by word, errors first. Predictions are in
STUDY/predictions. The page shows their sentences if the data is local (the bundled world, or the
folder that DEADHEAD_DATA names); a report downloads nothing.
"""

import os
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.results import Opened, Study
from deadhead.results.cells import Cell
from deadhead.tasks import KINDS, Dataset, load_data
from deadhead.tasks.predictions import Predictions

MOST = 300  # records in a page
LONGEST_ERROR = 20_000  # characters
EACH = 4  # examples of a language
LANGUAGES = 3  # of a trial
SEARCHED = 80  # examples of a language that are searched for errors
SECONDS = 1.0  # for all samples of a study
WORDS = 60
NOT_OF_THE_DATA = ("max_length", "align", "long", "task_file", "examples", "parts")


class Samples:
    """Collects samples until its time is up."""

    def __init__(self, study: Study):
        self.study, self.end = study, time.monotonic() + SECONDS
        self._data: dict[tuple[str, ...], Dataset | None] = {}

    @cached_property
    def home(self) -> Path | None:
        folder = self.study.home / "predictions"
        return folder if folder.is_dir() and not folder.is_symlink() else None

    def of(self, trial: Opened) -> list[dict[str, Any]]:
        """Some examples in some languages; none if no predictions were stored."""
        if self.home is None or not trial.done or time.monotonic() > self.end:
            return []
        cell = trial.cell
        examples: list[dict[str, Any]] = []
        step = max(1, len(cell.languages) // LANGUAGES)  # not only the first languages
        for language in cell.languages[::step][:LANGUAGES]:
            file = self.home / cell.trial / cell.split / f"{language}.npz"
            inside = file.is_file() and file.resolve().is_relative_to(self.home.resolve())
            if inside:  # neither a link nor the name of a language leads out of the folder
                examples += self._examples(file, cell, language)
        return examples

    def _examples(self, file: Path, cell: Cell, language: str) -> list[dict[str, Any]]:
        try:
            predictions = Predictions.load(file)
        except DeadheadError:
            return []
        data = self._dataset(cell, language)
        same = data is not None and data.fingerprint == predictions.fingerprint
        rows = data.rows if data is not None and same else None
        unit = KINDS[predictions.kind].label_unit
        if unit in ("token", "pair", "query"):  # numbers, which say nothing one by one
            return []
        examples = [
            {
                "lang": language,
                "split": cell.split,
                **_example(predicted, rows[i] if rows else None, unit),
            }
            for i, predicted in enumerate(predictions.named()[:SEARCHED])
        ]
        examples.sort(key=lambda example: -example["errors"])  # stable: equals stay in order
        wrong, rest = examples[: EACH - 1], examples[EACH - 1 :]
        return [*wrong, *rest[-1:]]  # and one that is right, if there is one

    def _dataset(self, cell: Cell, language: str) -> Dataset | None:
        """The data that a trial was scored on, if it is local."""
        options = {
            name: value
            for name, value in (cell.field("data") or {}).items()
            if name not in NOT_OF_THE_DATA
        }
        if options.get("root") != "world" and not os.environ.get("DEADHEAD_DATA"):
            return None
        key = (str(cell.field("task")), language, cell.split, repr(options))
        if key not in self._data:
            try:
                self._data[key] = load_data(key[0], language, cell.split, **options)
            except (DeadheadError, OSError):
                self._data[key] = None
        return self._data[key]


def _example(predicted: Any, row: Any, unit: str) -> dict[str, Any]:
    """One example: the words or texts, the right labels, and the predicted ones."""
    example: dict[str, Any] = {"predicted": predicted, "gold": None, "errors": 0}
    if unit == "word":
        predicted = example["predicted"] = list(predicted)[:WORDS]
        if row is not None:
            gold = list(row.labels)[:WORDS]
            errors = sum(right != word for right, word in zip(gold, predicted, strict=True))
            example |= {"tokens": list(row.texts)[:WORDS], "gold": gold, "errors": errors}
        return example
    if unit == "option":  # the most likely option; the others are those per character and per byte
        predicted = example["predicted"] = predicted[0]
        if row is None:
            return example
        options = {str(i): option.strip() for i, option in enumerate(row.texts[1:])}
        gold = options[row.labels[0]]
        example |= {"text": row.texts[0], "gold": gold, "predicted": options[predicted]}
        return example | {"errors": int(predicted != row.labels[0])}
    if row is None:
        return example
    if unit == "span":
        right = next((text for text in row.answers if text == predicted), row.answers[0])
        example |= {"text": row.texts[0], "second": row.texts[1], "gold": right}
        return example | {"errors": int(right != predicted)}
    texts = list(row.texts)
    right = row.labels[0] if row.labels else None
    if unit == "text" and len(texts) > 1:
        right = texts.pop()
    wrong = right is not None and right != predicted
    example |= {"text": texts[0], "gold": right, "errors": int(wrong)}
    return example | ({"second": texts[1]} if len(texts) > 1 else {})


def full_records(study: Study) -> dict[str, dict[str, Any]]:
    """The first few hundred of the opened records; failed ones first."""
    samples = Samples(study)
    opened = sorted(study.opened.items(), key=lambda item: item[1].cell.state != "failed")
    return {trial: full_record(one, samples) for trial, one in opened[:MOST]}


def full_record(opened: Opened, samples: Samples) -> dict[str, Any]:
    record = opened.record
    metrics = {n: round(value, 5) for n, value in record.metrics.items() if value is not None}
    return {
        "trial": dict(record.trial.content),
        "removed": list(record.removed),
        "metrics": metrics,
        "epochs": [dict(epoch) for epoch in record.epochs],
        "cost": dict(record.cost),
        "details": _details(record.details),
        "error": record.error[-LONGEST_ERROR:] if record.error else None,
        "sample": samples.of(opened),
    }


def _details(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The details without what maps and figures show: scores of heads, points of sentences."""
    details = dict(stored)
    ranking = details.get("ranking")
    if isinstance(ranking, dict):
        details["ranking"] = {name: value for name, value in ranking.items() if name != "scores"}
    measures = details.pop("measures", None)
    if isinstance(measures, dict):
        stages = {stage: list(of) for stage, of in measures.items() if isinstance(of, dict)}
        details["measured"] = stages
    return details
