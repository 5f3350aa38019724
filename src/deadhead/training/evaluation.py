"""Score one model on many languages: predictions first, kept if you like, then every metric of the task.

    scores = evaluate(model, {"de": encode(de, tokenizer, labels=train.labels), "ar": ...}, folder="out/predictions")
    scores["de"]["micro_f1"]

Batches are sorted by length and as large as fit; should memory run out, they are halved and it goes on.
"""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deadhead import files
from deadhead.errors import DataError, FolderError
from deadhead.tasks import Dataset, Encoded, Measured, Task, score
from deadhead.tasks.bootstrap import Interval, bootstrap, difference
from deadhead.tasks.registry import KINDS

__all__ = [
    "Interval",
    "Predictions",
    "bootstrap",
    "difference",
    "evaluate",
    "predict",
    "predict_sets",
    "rescore",
    "unknown_labels",
]
ABOUT = ("task", "kind", "lang", "split", "fingerprint", "labels")


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a model said of a dataset: the number of a label for each word or row, or texts."""

    task: str
    kind: str  # of KINDS
    lang: str
    split: str
    fingerprint: str  # of the dataset
    labels: tuple[str, ...]
    numbers: np.ndarray = field(repr=False)  # one after the other, in the order of the rows
    sizes: np.ndarray = field(repr=False)  # how many of them each row has
    texts: tuple[str, ...] = field(default=(), repr=False)

    def named(self) -> list[Any]:
        """In the form that `score` takes: the labels of the words, the label, or the text of each row."""
        if KINDS[self.kind].labels == "text":
            return list(self.texts)
        names = np.array(self.labels, dtype=object)[self.numbers].tolist()
        if KINDS[self.kind].labels == "row":
            return list(names)
        ends = np.cumsum(self.sizes).tolist()
        return [names[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    def score(self, data: Dataset, task: str | Task | None = None) -> Measured:
        """Every metric of the task; of another task of the same kind, if its metrics are wanted."""
        self._check(data)
        return score(data.task if task is None else task, self.named(), data)

    def _check(self, data: Dataset) -> None:
        if data.fingerprint != self.fingerprint:
            raise DataError(
                f"these predictions are not of this {data.lang} {data.split} data ({len(self.sizes)} rows; it has {len(data)}).",
                "predict anew, or load the data they were made of",
            )

    def bootstrap(self, data: Dataset, task: str | Task | None = None, **options: Any) -> Interval:
        """A metric (by default the task's first) with its confidence interval; options as those of `tasks.bootstrap`.

        Of two models: `difference(first.bootstrap(data), other.bootstrap(data))`.
        """
        self._check(data)
        return bootstrap(self.named(), data, task, **options)

    def save(self, path: str | Path, *, durable: bool = True) -> Path:
        """Write them compressed, to be read back with `Predictions.load`. `durable` waits until the disk has them."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        about = json.dumps({name: getattr(self, name) for name in ABOUT})
        small = self.numbers.astype(np.uint8 if len(self.labels) <= 256 else np.uint32)
        sizes, texts = self.sizes.astype(np.uint32), np.array(json.dumps(self.texts))

        def fill(draft: Path) -> None:
            with draft.open("wb") as file:
                np.savez_compressed(
                    file, about=np.array(about), numbers=small, sizes=sizes, texts=texts
                )

        files.put(path, fill, durable=durable)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Predictions:
        try:
            with np.load(path, allow_pickle=False) as held:
                about = json.loads(str(held["about"]))
                labels, texts = tuple(about.pop("labels")), tuple(json.loads(str(held["texts"])))
                numbers, sizes = held["numbers"].astype(np.int64), held["sizes"].astype(np.int64)
                return cls(**about, labels=labels, numbers=numbers, sizes=sizes, texts=texts)
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as problem:
            raise DataError(
                f"{path} holds no predictions: {problem}.",
                "write them with evaluate(..., folder=...)",
            ) from problem


def predict(
    model: Any,
    encoded: Encoded,
    *,
    tokenizer: Any = None,
    tokens: int | None = None,
    beams: int = 4,
) -> Predictions:
    """What the model says of a dataset, in evaluation mode, where the model is.

    tokenizer: for translations, to turn what is generated into text.
    tokens: positions of a batch, padding included.
    beams: for translations; 1 is greedy. Length penalty 0.6, at most 50 tokens more than the source has.
    """
    from .prediction import label_numbers, translations

    if not len(encoded):
        raise DataError(
            f"there is nothing to predict in {encoded.data.lang}.", "load a split that has rows"
        )
    kind, data = KINDS[encoded.data.task.kind].labels, encoded.data
    numbers = np.zeros(0, np.int64)
    texts: tuple[str, ...] = ()
    if kind == "text":
        if tokenizer is None:
            raise DataError(
                "a translation needs its tokenizer to become text.",
                "give predict or evaluate tokenizer=tokenizer",
            )
        if beams < 1:
            raise DataError(f"beams is {beams}.", "give 1 for greedy translations, or more")
        texts = translations(model, encoded, tokenizer, tokens, beams)
        sizes = np.ones(len(data), np.int64)
    else:
        sizes = np.array(
            [len(row.texts) for row in data.rows] if kind == "word" else [1] * len(data), np.int64
        )
        numbers = label_numbers(model, encoded, sizes, tokens)
    return Predictions(
        data.task.name,
        data.task.kind,
        data.lang,
        data.split,
        data.fingerprint,
        tuple(encoded.labels),
        numbers,
        sizes,
        texts,
    )


def evaluate(
    model: Any,
    sets: Mapping[str, Encoded],
    task: str | Task | None = None,
    *,
    tokenizer: Any = None,
    folder: str | Path | None = None,
    tokens: int | None = None,
    beams: int = 4,
) -> dict[str, Measured]:
    """Every metric of the task, for one model on each of the sets, which are named as you like (by language).

    task: whose metrics, if not those of the task that the data was loaded for.
    folder: keep the predictions of each set there, compressed, as NAME.npz, and its metrics as NAME.json.

    For translations, `scores[name].signature` says how the BLEU was computed, and is shown beside it.
    """
    _check_sets(model, sets)
    if folder is not None:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise FolderError(
                f"{folder} cannot be written: {problem.strerror}.", "name a folder you may write to"
            ) from problem
    found = {}
    for name, encoded in sets.items():
        predictions = predict(model, encoded, tokenizer=tokenizer, tokens=tokens, beams=beams)
        if folder is not None:
            predictions.save(Path(folder) / f"{name}.npz", durable=False)
        found[name] = predictions.score(encoded.data, task)
        if folder is not None:
            _note(Path(folder) / f"{name}.json", found[name])
    if folder is not None:
        files.sync_tree(Path(folder))  # once for all of them
    return found


def predict_sets(
    model: Any,
    sets: Mapping[str, Encoded],
    *,
    tokenizer: Any = None,
    tokens: int | None = None,
    beams: int = 4,
) -> dict[str, Predictions]:
    """What the model says of each of the sets, checked as `evaluate` checks them; score or bootstrap them as you like."""
    _check_sets(model, sets)
    return {
        name: predict(model, encoded, tokenizer=tokenizer, tokens=tokens, beams=beams)
        for name, encoded in sets.items()
    }


def _note(path: Path, measured: Measured) -> None:
    """Keep the numbers, with the signature of those that have one."""
    text = json.dumps({"metrics": measured, "signature": measured.signature}, indent=1) + "\n"
    files.write(path, text, durable=False)


def rescore(
    folder: str | Path, sets: Mapping[str, Dataset], task: str | Task | None = None
) -> dict[str, Measured]:
    """The metrics again, of predictions that `evaluate` kept, without the model."""
    return {
        name: Predictions.load(Path(folder) / f"{name}.npz").score(data, task)
        for name, data in sets.items()
    }


def _check_sets(model: Any, sets: Mapping[str, Encoded]) -> None:
    if not sets:
        raise DataError(
            "there is nothing to score.",
            'give the data by language: evaluate(model, {"de": encoded})',
        )
    for name, encoded in sets.items():
        _check(model, name, encoded)


def _check(model: Any, name: str, encoded: Encoded) -> None:
    """Before anything is run: every set fits the model, and what it cannot get right is told."""
    from .check import fits

    if not len(encoded):
        raise DataError(f"{name} has no rows.", "load a split that has some")
    fits(model, encoded, name)
    strange = unknown_labels(encoded)
    if strange:
        warnings.warn(
            f"{name} has labels that the model does not know, which count as wrong: {', '.join(strange)}",
            stacklevel=3,
        )


def unknown_labels(encoded: Encoded) -> Sequence[str]:
    """Labels of the data that are not among those of the model."""
    if KINDS[encoded.data.task.kind].labels == "text":
        return ()
    known = set(encoded.labels)
    return sorted({label for row in encoded.data.rows for label in row.labels} - known)
