"""Score a model on one or more datasets: predict, optionally keep the predictions, compute metrics.

    scores = evaluate(model, {"de": encode(de, tokenizer, labels=train.labels), "ar": ...})
    scores["de"]["micro_f1"]

Batches are sorted by length and as large as memory allows; if it runs out, they are halved.
`scorer` scores a training after every epoch: with your own function, or the metrics on dev data.
"""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deadhead import files
from deadhead.display.progress import Progress, reported, silent
from deadhead.errors import DataError
from deadhead.files.writing import writing
from deadhead.forward import IGNORED
from deadhead.tasks import Dataset, Encoded, MetricValues, Task
from deadhead.tasks.bootstrap import Interval, mean, side_by_side
from deadhead.tasks.predictions import Predictions
from deadhead.tasks.task import CHOICE_METRICS

from .check import check_fit
from .inference import (
    answers,
    found_documents,
    label_numbers,
    likelihoods,
    option_numbers,
    pair_numbers,
    translations,
    window_counts,
)

MEAN = "mean"  # over the languages
Intervals = dict[str, dict[str, Interval]]  # model -> language or MEAN -> score
Score = Callable[[Any], "Mapping[str, float] | float"]
Dev = Encoded | Mapping[str, Encoded]


def predict(
    model: Any,
    encoded: Encoded,
    *,
    tokenizer: Any = None,
    tokens: int | None = None,
    beams: int = 4,
    progress: Progress = silent,
) -> Predictions:
    """What the model predicts for a dataset, in evaluation mode, on the device of the model.

    tokenizer: for translation, to turn generated tokens into text.
    tokens: positions of a batch, padding included.
    beams: for translation; 1 is greedy. Length penalty 0.6, at most 50 tokens more than the source.
    progress: of embeddings, called as texts are done.
    """
    data = encoded.data
    if not len(encoded):
        raise DataError(f"{data.lang} has no rows to predict.", "load a split that has rows")
    unit = data.task.traits.label_unit
    texts: tuple[str, ...] = ()
    numbers, values = np.zeros(0, np.int64), np.zeros((0, 0))
    sizes = np.array([len(r.texts) if unit == "word" else 1 for r in data.rows], np.int64)
    labels = tuple(encoded.labels)
    if unit == "token":
        values = window_counts(model, encoded, tokens)
    elif unit == "pair":
        values = pair_numbers(model, encoded, tokens, progress)[:, None]
    elif unit == "query":
        rankings = found_documents(model, encoded, tokens, progress)
        labels = tuple(sorted({name for names in rankings for name in names}))
        places = {name: number for number, name in enumerate(labels)}
        numbers = np.array([places[name] for names in rankings for name in names], np.int64)
        sizes = np.array([len(names) for names in rankings], np.int64)
    elif unit == "option":
        sizes[:] = len(CHOICE_METRICS)
        numbers = option_numbers(model, encoded, tokens)
        labels = tuple(map(str, range(max(len(row.texts) for row in data.rows) - 1)))
    elif unit == "span":
        texts = answers(model, encoded, tokens)
    elif unit != "text":
        numbers = label_numbers(model, encoded, sizes, tokens)
    elif tokenizer is None:
        message = "translation needs a tokenizer to turn tokens into text."
        raise DataError(message, "give predict or evaluate tokenizer=tokenizer")
    elif beams < 1:
        hint = "give 1 for greedy translation, or more"
        raise DataError(f"`beams` expects 1 or more, got {beams}.", hint)
    else:
        texts = translations(model, encoded, tokenizer, tokens, beams)
    return Predictions(
        task=data.task.name,
        kind=data.task.kind,
        lang=data.lang,
        split=data.split,
        fingerprint=data.fingerprint,
        labels=labels,
        numbers=numbers,
        sizes=sizes,
        texts=texts,
        values=values,
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
    progress: bool | Progress = True,
) -> dict[str, MetricValues]:
    """Every metric of the task, for one model on each of the sets. Their names are up to you.

    task: whose metrics, if not those of the task that the data was loaded for.
    folder: keep the predictions of each set there as NAME.npz, and its metrics as NAME.json; of
        question answering also NAME.answers.json, the file that SQuAD's script scores.
    progress: show a bar in a terminal or a notebook; or a function that is called before each set.

    For translation, `scores[name].signature` says how BLEU was computed.
    """
    check_sets(model, sets)
    if folder is not None:
        with writing(folder):
            Path(folder).mkdir(parents=True, exist_ok=True)
    scores: dict[str, MetricValues] = {}
    with reported(progress, "evaluate") as count:
        for name, encoded in sets.items():
            count(len(scores), len(sets), name)
            predictions = predict(
                model, encoded, tokenizer=tokenizer, tokens=tokens, beams=beams, progress=count
            )
            scores[name] = predictions.score(encoded.data, task)
            if folder is not None:
                predictions.save(Path(folder) / f"{name}.npz", durable=False)
                if encoded.data.task.traits.label_unit == "span":
                    ids = (row.labels[0] for row in encoded.data.rows)
                    named = dict(zip(ids, predictions.texts, strict=True))
                    answer_file = Path(folder) / f"{name}.answers.json"
                    files.write(answer_file, json.dumps(named, ensure_ascii=False), durable=False)
                facts = {"metrics": scores[name], "signature": scores[name].signature}
                text = json.dumps(facts, indent=1) + "\n"
                files.write(Path(folder) / f"{name}.json", text, durable=False)
        count(len(scores), len(sets))
    if folder is not None:
        files.sync_tree(Path(folder))  # once for all of them
    return scores


def intervals(
    models: Mapping[str, Mapping[str, Predictions]], sets: Mapping[str, Dataset], **options: Any
) -> tuple[Intervals, Intervals]:
    """The score of each model on each set with its confidence interval, and the differences.

    Each further model is compared with the first. Several sets also get their mean.
    options: those of `tasks.bootstrap`.
    """
    scores = {}
    for model, by_set in models.items():
        own = {name: p.bootstrap(sets[name], **options) for name, p in by_set.items()}
        scores[model] = {**own, MEAN: mean(list(own.values()))} if len(own) > 1 else own
    return scores, side_by_side(scores)


def check_sets(model: Any, sets: Mapping[str, Encoded]) -> None:
    """Raise an error unless the model can read every set; warn about labels it does not know."""
    if not sets:
        hint = 'give the data by language: evaluate(model, {"de": encoded})'
        raise DataError("there is nothing to score.", hint)
    for name, encoded in sets.items():
        if not len(encoded):
            raise DataError(f"{name} has no rows.", "load a split that has some")
        check_fit(model, encoded, name)
        if unknown := _unknown_labels(encoded):
            labels = "labels that the model does not know, which count as wrong: "
            warnings.warn(f"{name} has {labels}{', '.join(unknown)}", stacklevel=3)


def _unknown_labels(encoded: Encoded) -> Sequence[str]:
    """Labels of the data that are not among those of the model."""
    if not encoded.data.task.traits.has_labels:
        return ()
    labels = {label for row in encoded.data.rows for label in row.labels}
    return sorted(labels - set(encoded.labels))


def dev_sets(dev: Dev | None) -> dict[str, Encoded]:
    """The dev data by name, whether it is one set or several."""
    if dev is None:
        return {}
    if isinstance(dev, Mapping):
        return dict(dev)
    return {getattr(getattr(dev, "data", None), "lang", ""): dev}


def scorer(score: Score | None, sets: Mapping[str, Encoded]) -> Score | None:
    """The function that scores the model after an epoch; None where nothing is scored."""
    if score is not None or not sets:
        return score

    def score_all(model: Any) -> dict[str, float]:
        """The mean of every metric, then the metric of each set, such as `accuracy de`."""
        scores = {name: _score_of(model, encoded) for name, encoded in sets.items()}
        metrics = list(next(iter(scores.values())))
        means = {m: float(np.mean([own[m] for own in scores.values()])) for m in metrics}
        if len(sets) == 1:
            return means
        return means | {f"{m} {name}": own[m] for m in metrics for name, own in scores.items()}

    return score_all


def _score_of(model: Any, dev: Encoded) -> Mapping[str, float]:
    """The metrics; for translations, which take long, the mean log-likelihood of a sub-word."""
    if dev.data.task.traits.label_unit != "text":
        return evaluate(model, {dev.data.lang: dev}, progress=False)[dev.data.lang]
    size = int((np.asarray(dev.arrays["labels"]) != IGNORED).sum())
    return {"log_likelihood": float(likelihoods(model, dev).sum()) / size}
