"""A few predictions of a trial, errors first, word by word.

Predictions lie under STUDY/predictions. The sentences are read where the data is at hand (the embedded
world, or the folder that DEADHEAD_DATA names); nothing is fetched for a report.
"""

from __future__ import annotations

import os
import time
from functools import cached_property
from pathlib import Path
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.results import Study
from deadhead.results.cells import Cell
from deadhead.studies.store.records import Record
from deadhead.tasks import KINDS, Dataset, load_data

EACH = 4  # examples of a language
LANGUAGES = 3  # of a trial
AMONG = 80  # examples of a language that are looked through for errors
SECONDS = 1.0  # for all samples of a study
WORDS = 60
NOT_OF_THE_DATA = ("max_length", "align", "long", "task_file", "examples", "parts")


class Samples:
    """Takes samples until its time is up."""

    def __init__(self, study: Study):
        self.study, self.end = study, time.monotonic() + SECONDS
        self._data: dict[tuple[str, ...], Dataset | None] = {}

    @cached_property
    def home(self) -> Path | None:
        folder = self.study.home / "predictions"
        return folder if folder.is_dir() and not folder.is_symlink() else None

    def of(self, cell: Cell, record: Record) -> list[dict[str, Any]]:
        """Some examples in some languages; none where nothing was kept."""
        if self.home is None or record.state != "done" or time.monotonic() > self.end:
            return []
        found: list[dict[str, Any]] = []
        apart = max(1, len(cell.languages) // LANGUAGES)  # not only those that come first
        for language in cell.languages[::apart][:LANGUAGES]:
            file = self.home / record.trial.id / cell.split / f"{language}.npz"
            if file.is_file() and file.resolve().is_relative_to(
                self.home.resolve()
            ):  # neither a link nor a language leads out
                found += self._examples(file, cell, record, language)
        return found

    def _examples(
        self, file: Path, cell: Cell, record: Record, language: str
    ) -> list[dict[str, Any]]:
        from deadhead.tasks.predictions import Predictions

        try:
            said = Predictions.load(file)
        except DeadheadError:
            return []
        data = self._dataset(record, language, cell.split)
        if data is None or data.fingerprint != said.fingerprint:
            data = None
        named = said.named()
        rows = [
            _example(
                language,
                cell.split,
                one,
                data.rows[i] if data else None,
                KINDS[said.kind].label_unit,
            )
            for i, one in enumerate(named[:AMONG])
        ]
        rows.sort(key=lambda row: -row["errors"])  # stable: of equals the first of the data
        wrong = rows[: EACH - 1]
        return [*wrong, *rows[len(wrong) :][-1:]]  # and one that is right, where there is one

    def _dataset(self, record: Record, language: str, split: str) -> Dataset | None:
        """The data a trial was scored on, if it lies here."""
        options = {
            name: value
            for name, value in (record.trial.get("data") or {}).items()
            if name not in NOT_OF_THE_DATA
        }
        if options.get("root") != "world" and not os.environ.get("DEADHEAD_DATA"):
            return None
        key = (str(record.trial.get("task")), language, split, repr(options))
        if key not in self._data:
            try:
                self._data[key] = load_data(key[0], language, split, **options)
            except (DeadheadError, OSError):
                self._data[key] = None
        return self._data[key]


def _example(language: str, split: str, said: Any, row: Any, kind: str) -> dict[str, Any]:
    """One example: the words or texts, what is right, and what the model said."""
    found: dict[str, Any] = {
        "lang": language,
        "split": split,
        "predicted": said,
        "gold": None,
        "errors": 0,
    }
    if kind == "word":
        found["predicted"] = list(said)[:WORDS]
        if row is not None:
            found |= {"tokens": list(row.texts)[:WORDS], "gold": list(row.labels)[:WORDS]}
            found["errors"] = sum(
                right != given
                for right, given in zip(found["gold"], found["predicted"], strict=True)
            )
        return found
    if row is None:
        return found
    texts = list(row.texts)
    right = (
        texts.pop() if kind == "text" and len(texts) > 1 else row.labels[0] if row.labels else None
    )
    found |= {"text": texts[0], "gold": right, "errors": int(right is not None and right != said)}
    return found | ({"second": texts[1]} if len(texts) > 1 else {})
