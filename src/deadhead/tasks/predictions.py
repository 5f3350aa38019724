"""Predictions of a model for a dataset, and the files that store them; no model is needed."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deadhead import files
from deadhead.errors import DataError

from .bootstrap import Interval, MetricValues, bootstrap, score
from .dataset import Dataset
from .task import KINDS, Task

ABOUT = ("task", "kind", "lang", "split", "fingerprint", "labels")


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """What a model predicts for a dataset: the number of a label for each word or row, or texts.

    For lm it is the WINDOW_COUNTS of each window, for choice three numbers of options for each row,
    for similarity a number for each pair, for retrieval documents for each query, whose ids are
    `labels`.
    """

    task: str
    kind: str  # a name in KINDS
    lang: str
    split: str
    fingerprint: str  # the hash of the dataset
    labels: tuple[str, ...]
    numbers: np.ndarray = field(repr=False)  # one after the other, in the order of the rows
    sizes: np.ndarray = field(repr=False)  # how many of the numbers each row has
    texts: tuple[str, ...] = field(default=(), repr=False)
    values: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)), repr=False)

    @property
    def examples(self) -> int:
        """How many rows or windows were predicted, which are what a bootstrap draws."""
        return len(self.values) or len(self.sizes)

    def named(self) -> list[Any]:
        """Return what `score` takes: labels of words, a label or a text of each row; or values."""
        if KINDS[self.kind].label_unit in ("token", "pair"):
            return list(self.values)
        if KINDS[self.kind].label_unit in ("text", "span"):
            return list(self.texts)
        names = np.array(self.labels, dtype=object)[self.numbers].tolist()
        if KINDS[self.kind].label_unit == "row":
            return list(names)
        ends = np.cumsum(self.sizes).tolist()
        return [names[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    def score(self, data: Dataset, task: str | Task | None = None) -> MetricValues:
        """Compute every metric of the task, or of another task of the same kind."""
        self._check(data)
        return score(data.task if task is None else task, self.named(), data)

    def _check(self, data: Dataset) -> None:
        if data.fingerprint != self.fingerprint:
            name = f"{data.lang} {data.split} data ({len(self.sizes)} rows; it has {len(data)})"
            hint = "predict again, or load the data they were made from"
            raise DataError(f"these predictions are not of this {name}.", hint)

    def bootstrap(self, data: Dataset, task: str | Task | None = None, **options: Any) -> Interval:
        """Return a metric (by default the first of the task) with its confidence interval.

        Options are those of `bootstrap`. To compare two models:
        `difference(first.bootstrap(data), other.bootstrap(data))`.
        """
        self._check(data)
        return bootstrap(self.named(), data, task, **options)

    def save(self, path: str | Path, *, durable: bool = True) -> Path:
        """Write a compressed file for `Predictions.load`; `durable` waits until the disk has it."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        about = json.dumps({name: getattr(self, name) for name in ABOUT})
        arrays: dict[str, Any] = {
            "about": np.array(about),
            "numbers": self.numbers.astype(np.uint8 if len(self.labels) <= 256 else np.uint32),
            "sizes": self.sizes.astype(np.uint32),
            "texts": np.array(json.dumps(self.texts)),
            **({"windows": self.values} if len(self.values) else {}),
        }

        def fill(draft: Path) -> None:
            with draft.open("wb") as file:
                np.savez_compressed(file, **arrays)

        files.put(path, fill, durable=durable)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Predictions:
        """Read a file that `save` has written."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                about = json.loads(str(stored["about"]))
                labels, texts = tuple(about.pop("labels")), tuple(json.loads(str(stored["texts"])))
                numbers, sizes = (stored[n].astype(np.int64) for n in ("numbers", "sizes"))
                more = {"values": stored["windows"]} if "windows" in stored else {}
                about |= {"numbers": numbers, "sizes": sizes, **more}
                return cls(**about, labels=labels, texts=texts)
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as problem:
            hint = "write them with evaluate(..., folder=...)"
            raise DataError(f"{path} holds no predictions: {problem}.", hint) from problem
