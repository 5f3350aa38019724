"""Shrink a saved model into another folder: its data, its scores before and after, its times."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deadhead.display.progress import stage
from deadhead.errors import DataError
from deadhead.shrinking import (
    REPAIRS,
    TARGETS,
    Shrunk,
    check_method,
    kinds_of,
    read_targets,
    shrink,
)
from deadhead.tasks import Dataset, Encoded, Task, find_data, load_data
from deadhead.training import Settings
from deadhead.training.models import encode_for, fitting_tokenizer, load_with_tokenizer

from .rank_data import check_model, rank_batches, sample_rows, sample_texts

TRAINED = {"finetune": "fine-tuned", "distill": "distilled"}
SECONDS_TO_TIME = 5.0  # both models, roughly: only a target speedup needs an exact ratio


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The data to shrink with, and the data to score with."""

    task: str | Task | None
    languages: list[str] = field(default_factory=list)
    text: Path | None = None  # plain text: to shrink with where there is no task; to distil with
    split: str = "train"
    examples: int | None = None  # drawn from the split; None: all of them
    scored: int | None = None  # drawn from each set to score with; None: all of them
    where: Mapping[str, Any] = field(default_factory=dict)  # `root` and `source` of load_data
    batch: int | None = None
    max_length: int | None = None  # sub-words of a window; None: that of the task
    seed: int = 0

    def rows(self) -> Any:
        """The examples to choose and refit with."""
        if self.task is None:
            return sample_texts(Path(str(self.text)), self.examples, self.seed)
        return sample_rows(
            self.task, self.languages, self.split, most=self.examples, seed=self.seed, **self.where
        )

    def score_sets(self) -> dict[str, Dataset]:
        """For each language its dev data, or test data where there is none or it is calibrated on.

        Languages without either are skipped.
        """
        sets: dict[str, Dataset] = {}
        if self.task is None:
            return sets
        for language in self.languages:
            splits = [split for split in ("dev", "test") if split != self.split]
            places = find_data(self.task, language, splits, beside=self.split, **self.where)
            split = next((name for name in splits if isinstance(places[name], str)), None)
            if split is not None:
                sets[language] = sample_rows(
                    self.task, [language], split, most=self.scored, seed=self.seed, **self.where
                )
        return sets


@dataclass(frozen=True, kw_only=True)
class ShrunkSaved:
    """The result of `shrink_saved`, for people and for JSON."""

    report: Shrunk
    metric: str | None  # the main metric of the task
    splits: dict[str, str]  # language -> split that was scored
    scored: dict[str, int]  # language -> examples that were scored
    scores: dict[str, dict[str, float]]  # whole, cut, refitted, trained -> language -> metric
    milliseconds: tuple[float, float]  # whole, small: one run on inputs of the report's shape
    trained: str | None
    bytes: int  # size of the weights
    dtype: str
    facts: dict[str, Any]  # about the calibration data

    def to_dict(self) -> dict[str, Any]:
        facts = {name: value for name, value in vars(self).items() if name != "report"}
        return {**self.report.to_dict(), **facts, "milliseconds": list(self.milliseconds)}


def shrink_saved(
    name: str,
    out: Path,
    data: Calibration,
    options: Mapping[str, Any],
    *,
    then: str | None = None,
    settings: Settings | None = None,
    auto: str | None = None,
    dtype: str | None = None,
    device: Any = None,
    form: str = "compact",
) -> ShrunkSaved:
    """Load a model, shrink it with these options of `shrink`, and save it to `out`.

    Args:
        then: `finetune` (on the training data of the task) or `distill` (on the outputs of the
            whole model, without labels) afterwards, with these settings.
        dtype: precision to write; by default that of the stored weights.
    """
    from deadhead.heads.layers import copy_with_same_weights
    from deadhead.heads.model_files import fetch, stored_dtype
    from deadhead.heads.save import check_form

    needs_labels = _check(data, options, then)
    check_form(form)
    rows, sets = _checked_data(name, data, options, needs_labels, {"auto": auto, "dtype": dtype})
    model, tokenizer = load_with_tokenizer(name, device, auto=auto, dtype=dtype)
    stored = stored_dtype(name) if dtype in (None, "auto") else None
    batches, facts = _batches(model, tokenizer, rows, data, needs_labels, options.get("loss"))
    encoded = {
        language: encode_for(model, tokenizer, rows, data.max_length)
        for language, rows in sets.items()
    }
    score = _scorer(encoded, tokenizer)
    # to time it beside the small one, and to learn from: training would change shared weights
    whole = copy.deepcopy(model) if then == "distill" else copy_with_same_weights(model)
    report = shrink(model, batches, score=score, **options)
    scores = dict(report.scores)
    if then is not None:
        stage(f"training: {then}")
        _train(model, whole, tokenizer, batches, data, then, settings or Settings(epochs=1))
        scores |= {} if score is None else {TRAINED[then]: score(model)}
    fetch(name)
    # before the times, which may take minutes: an interrupt there loses nothing
    written = _write(model, out, tokenizer, form, _note(report, then), stored)
    stage("timing both models")
    times = _times(whole, model, batches, report)
    return ShrunkSaved(
        report=report,
        metric=next(iter(sets.values())).task.metric if sets else None,
        splits={language: rows.split for language, rows in sets.items()},
        scored={language: _examples(own) for language, own in encoded.items()},
        scores=scores,
        milliseconds=times,
        trained=then and TRAINED[then],
        bytes=sum(file.stat().st_size for file in out.glob("*.safetensors")),
        dtype=written,
        facts=facts,
    )


def _checked_data(
    name: str,
    data: Calibration,
    options: Mapping[str, Any],
    needs_labels: bool,
    loading: Mapping[str, Any],
) -> tuple[Any, dict[str, Dataset]]:
    """The data to shrink and to score with, for a model that fits it and all options.

    All of this is checked by the config of the model, before its weights are read.
    """
    from deadhead.heads.skeleton import skeleton
    from deadhead.shrinking.budgets import check_targets

    bare = skeleton(name, **loading)
    check_targets(bare, _targets(options), options.get("on"))
    fitting_tokenizer(bare, name)
    rows = data.rows()
    loss, length = options.get("loss"), data.max_length
    check_model(bare, rows, needs_labels=needs_labels, loss=loss, max_length=length)
    return rows, data.score_sets()


def _check(data: Calibration, options: Mapping[str, Any], then: str | None) -> bool:
    """Refuse what is wrong whatever the model; return whether labels are needed."""
    targets = _targets(options)
    REPAIRS[options.get("repair", "refit")]  # or raise that there is none
    method, loss = options.get("method", "auto"), options.get("loss")
    needs_labels = check_method(method, kinds_of(targets), loss)
    if data.task is None and needs_labels:
        hint = "add --loss self"
        raise DataError("plain text has no labels, which the choice needs.", hint)
    if data.task is None and then == "finetune":
        hint = "name a task with --task, or add --loss self"
        raise DataError("plain text has no labels to train on.", hint)
    return needs_labels


def _targets(options: Mapping[str, Any]) -> dict[str, Any]:
    return read_targets({name: options.get(name) for name in TARGETS})


def _batches(
    model: Any, tokenizer: Any, rows: Any, data: Calibration, needs_labels: bool, loss: Any
) -> tuple[list[Any], dict[str, Any]]:
    batches, facts = rank_batches(
        model,
        tokenizer,
        rows,
        needs_labels=needs_labels,
        loss=loss,
        size=data.batch,
        max_length=data.max_length,
        in_file_order=False,
    )
    return [*batches], facts


def _examples(encoded: Encoded) -> int:
    """Count the examples of a set: a plain text is one row of many windows."""
    return len(encoded if encoded.data.task.traits.label_unit == "token" else encoded.data)


def _scorer(
    encoded: Mapping[str, Encoded], tokenizer: Any
) -> Callable[[Any], dict[str, float]] | None:
    """The function that gives the main metric on each set; None where nothing can be scored."""
    if not encoded:
        return None
    from deadhead.training.evaluation import evaluate

    metric = next(iter(encoded.values())).data.task.metric

    def score(model: Any) -> dict[str, float]:
        scores = evaluate(model, encoded, tokenizer=tokenizer, progress=False)
        return {language: float(values[metric]) for language, values in scores.items()}

    return score


def _train(
    model: Any,
    whole: Any,
    tokenizer: Any,
    batches: list[Any],
    data: Calibration,
    then: str,
    settings: Settings,
) -> None:
    if then == "distill":
        from deadhead.training import distill

        if data.task is not None and data.text is not None:
            texts = sample_texts(data.text, None, data.seed)
            batches, _ = _batches(model, tokenizer, texts, data, False, "self")
        distill(model, whole, batches, settings)
        return
    from deadhead.training import finetune

    assert data.task is not None
    names = data.languages[0] if len(data.languages) == 1 else data.languages
    rows = load_data(data.task, names, "train", **data.where)
    history = finetune(model, encode_for(model, tokenizer, rows, data.max_length), settings)
    if history.state != "done":
        raise DataError(f"the training failed: {history.reason}", "try a lower --learning-rate")


def _times(whole: Any, model: Any, batches: list[Any], report: Shrunk) -> tuple[float, float]:
    """The milliseconds of a run of both models."""
    if report.speed is not None:
        before, after = report.speed.seconds
    else:
        from deadhead.numerics import computing
        from deadhead.shrinking.latency import time_models

        with computing(whole):
            before, after = time_models(
                [whole.eval(), model.eval()], batches[0], report.shape, limit=SECONDS_TO_TIME
            )
    return 1e3 * before, 1e3 * after


def _write(model: Any, out: Path, tokenizer: Any, form: str, note: str, dtype: Any) -> str:
    """Save in this precision, and return its name; the model keeps its own."""
    from deadhead.heads import save

    computed = model.dtype
    _set_precision(model, dtype)
    save(model, out, tokenizer, form=form, note=note)
    written = str(model.dtype).removeprefix("torch.")
    _set_precision(model, computed)
    return written


def _set_precision(model: Any, dtype: Any) -> None:
    if dtype is not None:
        from deadhead.training.update import set_precision

        set_precision(model, dtype)


def _note(report: Shrunk, then: str | None) -> str:
    left = [
        f"{after:,} of {before:,} {name}"
        for name, (before, after) in report.sizes.items()
        if name in ("heads", "neurons") and before > after
    ]
    trained = f", and {TRAINED[then]} afterwards" if then else ""
    return f"Made smaller with deadhead without training: {' and '.join(left)} left{trained}."
