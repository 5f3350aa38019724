"""Score one model on many languages: predictions first, kept if you like, then every metric of the task.

    scores = evaluate(model, {"de": encode(de, tokenizer, labels=train.labels), "ar": ...}, folder="out/predictions")
    scores["de"]["micro_f1"]

Batches are sorted by length and as large as fit; should memory run out, they are halved and it goes on.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deadhead import files
from deadhead.errors import DataError, FolderError
from deadhead.tasks import Dataset, Encoded, MetricValues, Task
from deadhead.tasks.bootstrap import Interval, bootstrap, difference
from deadhead.tasks.predictions import Predictions

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
    kind, data = encoded.data.task.traits.label_unit, encoded.data
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
) -> dict[str, MetricValues]:
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


def _note(path: Path, measured: MetricValues) -> None:
    """Keep the numbers, with the signature of those that have one."""
    text = json.dumps({"metrics": measured, "signature": measured.signature}, indent=1) + "\n"
    files.write(path, text, durable=False)


def rescore(
    folder: str | Path, sets: Mapping[str, Dataset], task: str | Task | None = None
) -> dict[str, MetricValues]:
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
    if encoded.data.task.traits.label_unit == "text":
        return ()
    known = set(encoded.labels)
    return sorted({label for row in encoded.data.rows for label in row.labels} - known)
