"""Shrink a saved model into another folder: its data, its scores before and after, its times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
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
    read_allowed,
    read_layers,
    read_targets,
    shrink,
)
from deadhead.tasks import Dataset, Task, find_data, task_of
from deadhead.training.models import encode_for, fitting_tokenizer, load_with_tokenizer
from deadhead.vocabulary import Trimmed

from .original_text import original_text
from .parts import Part, timed_parts
from .rank_data import (
    check_model,
    count_examples,
    default_loss,
    guard_batches,
    main_scores,
    rank_batches,
    sample,
    sample_rows,
)

NO_GUARD = "no general texts: the model cannot read those of the guard one by one"
SECONDS_TO_TIME = 5.0  # all models, roughly; for a target speedup, which needs an exact ratio,
SECONDS_OF_SPEEDUP = 15.0


@dataclass(frozen=True, kw_only=True)
class ShrinkData:
    """The data to shrink with, and the data to score with."""

    task: str | Task | None
    languages: list[str] = field(default_factory=list)
    text: Sequence[Path] = ()  # files and folders of plain text, where there is no task
    guard: bool = True  # fit to general texts too; else they are only measured
    split: str = "train"
    examples: int | None = None  # drawn from the split; None: all of them
    scored: int | None = None  # drawn from each set to score with; None: all of them
    where: Mapping[str, Any] = field(default_factory=dict)  # `root` and `source` of load_data
    batch: int | None = None
    max_length: int | None = None  # sub-words of a window; None: that of the task
    seed: int = 0

    def rows(self) -> Any:
        """The examples to choose and refit with.

        Most search sets have test queries alone: then these are the documents, without queries.
        """
        split = "test" if self._is_search_without("train") else self.split
        rows = sample(
            self.task,
            self.languages,
            split,
            self.text,
            most=self.examples,
            seed=self.seed,
            **self.where,
        )
        if split != self.split and isinstance(rows, Dataset):
            return replace(rows, rows=())
        return rows

    def _is_search_without(self, split: str) -> bool:
        """Whether this split of a retrieval task was asked for, and only the test data exist."""
        if split != self.split or self.task is None:
            return False
        if task_of(self.task).traits.label_unit != "query":
            return False
        language = self.languages[0]
        places = find_data(self.task, language, [split, "test"], beside="test", **self.where)
        return not isinstance(places[split], str) and isinstance(places["test"], str)

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
    scores: dict[str, dict[str, float]]  # whole, cut, refitted -> language -> metric
    milliseconds: tuple[float, float]  # full, small: one run on inputs of the report's shape
    megabytes: tuple[float, float]  # weights in `dtype`: full, small
    parts: tuple[Part, ...]  # what each kind of part saves, in the order of their removal
    bytes: int  # size of the weights
    dtype: str
    facts: dict[str, Any]  # about the calibration data
    worst_text: str | None  # whose embedding changed most
    vocabulary: Trimmed | None  # None: it is whole

    def to_dict(self) -> dict[str, Any]:
        facts = {name: value for name, value in vars(self).items() if name != "report"}
        if self.vocabulary is not None:
            facts["vocabulary"] = self.vocabulary.to_dict()
        facts["parts"] = [vars(part) for part in self.parts]
        return {**self.report.to_dict(), **facts}


def shrink_saved(
    name: str,
    out: Path,
    data: ShrinkData,
    options: Mapping[str, Any],
    *,
    vocabulary: Sequence[Path] = (),
    auto: str | None = None,
    dtype: str | None = None,
    device: Any = None,
    form: str = "compact",
) -> ShrunkSaved:
    """Load a model, shrink it with these options of `shrink`, and save it to `out`.

    vocabulary: files of texts; the tokens that they do not need are removed first, and count in
        the targets parameters, megabytes and speedup.
    dtype: precision to write; by default that of the stored weights.
    """
    from deadhead.heads.layers import copy_with_same_weights
    from deadhead.heads.model_files import fetch
    from deadhead.heads.save import check_form
    from deadhead.shrinking.costs import megabytes
    from deadhead.shrinking.held_out import guard_measured, guard_size

    check_form(form)
    stored = _precision(name, dtype)
    rows, needs = _checked_rows(name, data, options, {"auto": auto, "dtype": dtype}, stored)
    sets = data.score_sets()
    trimmed = None
    if vocabulary:
        from .vocabulary import plan_for_files

        trimmed = plan_for_files(name, vocabulary, auto=auto, dtype=dtype)
    model, tokenizer = load_with_tokenizer(name, device, auto=auto, dtype=dtype)
    full = copy_with_same_weights(model)  # to time it beside the small one
    without_tokens = None
    if trimmed is not None:
        trimmed.apply(model)
        tokenizer, without_tokens = trimmed.tokenizer, copy_with_same_weights(model)
    batches, facts = rank_batches(
        model, tokenizer, rows, **needs, size=data.batch, in_file_order=False
    )
    batches = [*batches]
    most = guard_size(data.examples, facts["examples"])
    most = most if data.guard else guard_measured(most)
    guard = guard_batches(
        model, tokenizer, rows, {**needs, "size": data.batch}, most=most, seed=data.seed
    )
    encoded = {
        language: encode_for(model, tokenizer, own, data.max_length)
        for language, own in sets.items()
    }
    score = partial(main_scores, encoded=encoded, tokenizer=tokenizer) if encoded else None
    report = shrink(
        model, batches, guard=guard, fit_guard=data.guard, score=score, full=full,
        precision=stored, timed=False, **options,
    )  # fmt: skip
    if not guard:
        report = replace(report, notes=(*report.notes, NO_GUARD))
    worst_text = None
    if report.embeddings is not None:
        worst_text = original_text(report.embeddings.worst, model, tokenizer, rows)
    fetch(name)
    # before the times, which may take minutes: an interrupt there loses nothing
    written = _write(model, out, tokenizer, form, _note(report, trimmed), stored)
    stage("timing the models")
    seconds, parts = timed_parts(
        full, without_tokens, report, batches[0], precision=stored,
        limit=SECONDS_TO_TIME if report.speed is None else SECONDS_OF_SPEEDUP,
    )  # fmt: skip
    if report.speed is not None:
        report = replace(report, speed=replace(report.speed, seconds=seconds))
    return ShrunkSaved(
        report=report,
        metric=next(iter(sets.values())).task.metric if sets else None,
        splits={language: own.split for language, own in sets.items()},
        scored={language: count_examples(own) for language, own in encoded.items()},
        scores=dict(report.scores),
        milliseconds=(1e3 * seconds[0], 1e3 * seconds[1]),
        megabytes=(megabytes(full, stored), megabytes(model, stored)),
        parts=parts,
        bytes=sum(file.stat().st_size for file in out.glob("*.safetensors")),
        dtype=written,
        facts=facts,
        worst_text=worst_text,
        vocabulary=trimmed,
    )


def _checked_rows(
    name: str,
    data: ShrinkData,
    options: Mapping[str, Any],
    loading: Mapping[str, Any],
    precision: Any,
) -> tuple[Any, dict[str, Any]]:
    """The examples to shrink with, and what `rank_batches` must know of them.

    All is checked by the config of the model, before its weights are read.
    """
    from deadhead.heads.load import skeleton
    from deadhead.shrinking.budgets import check_megabytes, check_targets
    from deadhead.shrinking.costs import megabytes
    from deadhead.shrinking.held_out import check_number
    from deadhead.shrinking.layers import check_layers, method_of

    layers = read_layers(options.get("layers"))
    targets = read_targets({name: options.get(name) for name in TARGETS}, layers=bool(layers))
    allowed = read_allowed(options.get("even", False), options.get("multiple"), targets)
    repair, method = options.get("repair", "refit"), options.get("method", "auto")
    REPAIRS[repair]  # or raise that there is none
    if layers:
        method_of(method, repair, bool(targets))
    loss = default_loss(name, data.task, options.get("loss"))
    needs_labels = bool(targets) and check_method(method, kinds_of(targets), loss)
    if data.task is None and needs_labels:
        hint = (
            "add --loss self; a cross-encoder then reads pairs: a tab between two texts of a line"
        )
        raise DataError("plain text has no labels, which the choice needs.", hint)
    bare = skeleton(name, **loading)
    if layers:
        check_layers(bare, layers)
    check_targets(bare, targets, options.get("on"), allowed)
    check_megabytes(targets, megabytes(bare, precision))
    fitting_tokenizer(bare, name)
    rows = data.rows()
    if isinstance(rows, list):
        check_number(len(rows))
    needs: dict[str, Any] = {"needs_labels": needs_labels, "loss": loss}
    needs["max_length"] = data.max_length
    check_model(bare, rows, **needs)
    return rows, needs


def _precision(name: str, dtype: str | None) -> Any:
    """The precision to write the weights in; None for that in which they are computed."""
    from deadhead.heads.model_files import stored_dtype

    return stored_dtype(name) if dtype in (None, "auto") else None


def _write(model: Any, out: Path, tokenizer: Any, form: str, note: str, dtype: Any) -> str:
    """Save in this precision, and return its name; the model keeps its own."""
    from deadhead.heads import save
    from deadhead.training.update import set_precision

    computed = model.dtype
    if dtype is not None:
        set_precision(model, dtype)
    save(model, out, tokenizer, form=form, note=note)
    written = str(model.dtype).removeprefix("torch.")
    if dtype is not None:
        set_precision(model, computed)
    return written


def _note(report: Shrunk, trimmed: Trimmed | None) -> str:
    from deadhead.shrinking.distances import mean_distance

    sizes = {
        kind: report.sizes[kind] for kind in ("layers", "heads", "neurons") if kind in report.sizes
    }
    if trimmed is not None:
        sizes["tokens"] = trimmed.tokens
    left = [
        f"{after:,} of {before:,} {name}"
        for name, (before, after) in sizes.items()
        if before > after
    ]
    note = f"Made smaller with deadhead without training: {' and '.join(left)} left."
    means = [
        f"{mean_distance(report.distances, texts):.4f} on {name}"
        for texts, name in (("yours", "texts like those to calibrate"), ("guard", "general texts"))
        if any(row.texts == texts for row in report.distances)
    ]
    if means:
        outputs = "Outputs" if report.embeddings is None else "Embeddings"
        note += f" {outputs} differ from those of the whole model by {' and '.join(means)}."
    return note
