"""The data that heads are ranked on: labelled batches of a task, or texts without labels."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deadhead.display.progress import stage
from deadhead.embedding import embedder_of, read_embedder
from deadhead.errors import DataError
from deadhead.forward import finds_answers, is_encoder_decoder, token_limit, vocabulary_sizes
from deadhead.guard import draw
from deadhead.heads.model_files import fetch_modules, folder_of
from deadhead.tasks import (
    Batches,
    Dataset,
    Encoded,
    Task,
    batches,
    draw_examples,
    load_data,
    task_of,
)
from deadhead.tasks.dataset import draw_documents, shuffled
from deadhead.tasks.encoding.plain_text import (
    fingerprint,
    read_texts,
    text_batches,
    text_files,
    texts_of,
)
from deadhead.training.models import (
    check_positions,
    check_windows,
    encode_for,
    fits_task,
    labels_for,
    prompted,
    window_length,
)

TOKENS_ON_GPU = 32768  # in one batch
BATCH = 32  # examples
LOGITS = 2**26  # of a batch of a language model on a CPU; with gradients they take 1 GB
LENGTH = 256  # sub-words of a text without a task
UNKNOWN = "labels the model does not know"

Texts = list[tuple[str, ...]]


def sample_rows(
    task: str | Task, languages: list[str], split: str, *, most: int | None, seed: int, **where: Any
) -> Dataset:
    """The data of a task, or at most `most` random rows. where: `root` and `source` of load_data"""
    stage(f"reading the {split} data: {', '.join(languages)}")
    return draw_examples(load_data(task, languages, split, **where), most, seed)


def sample_texts(places: Iterable[Path], most: int | None, seed: int) -> Texts:
    """The texts of files and folders, or at most `most` random ones, in file order."""
    texts = [text for file in text_files(places) for text in read_texts(file)]
    if most is None:
        return texts
    return [texts[i] for i in sorted(shuffled(len(texts), f"rank/{seed}")[:most])]


def sample(
    task: str | Task | None,
    languages: list[str],
    split: str,
    text: Sequence[Path] | None,
    *,
    most: int | None,
    seed: int,
    **where: Any,
) -> Dataset | Texts:
    """The data of a task or the texts of files, or at most `most` random examples of it."""
    if task is not None:
        rows = sample_rows(task, languages, split, most=most, seed=seed, **where)
        return draw_documents(rows, most, seed)
    assert text is not None  # for mypy
    return sample_texts(text, most, seed)


def default_loss(name: str, task: str | Task | None, loss: str | None) -> str | None:
    """The loss: for a sentence encoder by default that of embeddings, where it needs no labels."""
    labelled = task is not None and not task_of(task).traits.of_embeddings
    if loss != "embedding" and (loss is not None or labelled):
        return loss
    fetch_modules(name)
    folder = folder_of(name)
    if folder is not None and read_embedder(folder) is not None:
        return "embedding"
    if loss is not None:
        from deadhead.rankers.embedding_loss import no_encoder

        raise no_encoder()
    return None


def rank_batches(
    model: Any,
    tokenizer: Any,
    data: Dataset | Texts,
    *,
    needs_labels: bool,
    loss: str | None,
    size: int | None,
    max_length: int | None,
    in_file_order: bool,
) -> tuple[Any, dict[str, Any]]:
    """The batches to rank on, and what the ranking records about them.

    Only the texts are used if the loss needs no labels, or the model has no layer for the task and
    the method needs no labels.
    """
    notes: Mapping[str, int] = {}
    embedder = embedder_of(model)
    if embedder is not None:  # texts as it is used to them
        if isinstance(data, list):
            data = [tuple(map(embedder.text, parts)) for parts in data]
        elif data.task.traits.of_embeddings:
            notes, data = data.notes, [(t,) for t in dict.fromkeys(prompted(embedder, data))]
    if isinstance(data, list):
        if embedder is not None:
            max_length = max_length or embedder.max_length
        length = max_length or LENGTH
        unlabelled, facts = _unlabelled(model, tokenizer, data, size=size, max_length=length)
        return unlabelled, {**facts, "notes": {**notes, **facts["notes"]}}
    max_length = window_length(model, data.task, max_length)
    if _goes_without_labels(model, data, needs_labels, loss):
        texts = texts_of(data)
        unlabelled, facts = _unlabelled(model, tokenizer, texts, size=size, max_length=max_length)
        return unlabelled, {**facts, "notes": {**data.notes, **facts["notes"]}}
    encoded = encode_for(model, tokenizer, data, max_length, _labels(model, data))
    if size is None and model.device.type == "cuda" and not in_file_order:
        labelled = batches(encoded, tokens=TOKENS_ON_GPU)
    else:
        size = size or _examples(model, encoded)
        labelled = batches(encoded, size=size, sort=not in_file_order)
    return labelled, _facts(data, labelled)


def guard_batches(
    model: Any,
    tokenizer: Any,
    data: Dataset | Texts,
    needs: Mapping[str, Any],
    *,
    most: int,
    seed: int,
) -> list[Any]:
    """Batches of at most this many general texts, cut like the data; none if it cannot read any."""
    if _reads_two_texts(model):
        return []
    texts: Texts = [(row.text,) for row in draw(most, tokenizer, seed=seed)]
    length, room = needs["max_length"], token_limit(model)
    if not isinstance(data, list):
        length = window_length(model, data.task, length)
    elif length is None and (embedder := embedder_of(model)) is not None:
        length = embedder.max_length
    length = min(length or LENGTH, room or LENGTH)
    if not texts:
        return []
    guard, _ = rank_batches(
        model, tokenizer, texts, needs_labels=False, loss="self", size=needs.get("size"),
        max_length=length, in_file_order=False,
    )  # fmt: skip
    return [*guard]


def check_model(
    model: Any,
    data: Dataset | Texts,
    *,
    needs_labels: bool,
    loss: str | None,
    max_length: int | None,
) -> None:
    """Raise an error if `rank_batches` cannot make batches for the model; it needs no weights."""
    if isinstance(data, list):
        _check_reads_one_text(model)
        return
    check_windows(model, data, max_length)
    if not _goes_without_labels(model, data, needs_labels, loss):
        _labels(model, data)


def _goes_without_labels(model: Any, data: Dataset, needs_labels: bool, loss: str | None) -> bool:
    label_free = loss is not None or not (needs_labels or fits_task(model, data.task))
    if data.task.traits.label_unit == "span":  # windows of other models have no answers to find
        return label_free and not fits_task(model, data.task)
    # the labels of a plain text are the text, and those of an encoder-decoder are what it reads
    has_texts = data.task.traits.has_labels or data.task.traits.label_unit == "pair"
    return label_free and has_texts and not _reads_two_texts(model)


def _labels(model: Any, data: Dataset) -> tuple[str, ...] | None:
    try:
        return labels_for(model, data)
    except DataError as problem:
        if not data.task.traits.has_labels or _reads_two_texts(model):  # cannot go without them
            raise
        hint = f"{problem.hint}; or go without labels: --loss self"
        raise DataError(problem.message, hint) from None


def _examples(model: Any, encoded: Encoded) -> int:
    """The examples of a batch by default."""
    if not encoded.data.task.traits.needs_decoder:
        return BATCH
    longest = int(max(encoded.arrays["lengths"], default=1))
    vocabulary = max(vocabulary_sizes(model), default=1)
    return max(1, min(BATCH, LOGITS // (vocabulary * longest)))


def _reads_two_texts(model: Any) -> bool:
    """Whether the decoder needs a text of its own; one that finds answers reads the same text."""
    return is_encoder_decoder(model) and not finds_answers(model)


def _check_reads_one_text(model: Any) -> None:
    if _reads_two_texts(model):
        hint = "name a translation task with --task"
        raise DataError(f"{type(model).__name__} reads two texts, one with its decoder.", hint)


def _unlabelled(
    model: Any, tokenizer: Any, texts: Texts, *, size: int | None, max_length: int
) -> tuple[Any, dict[str, Any]]:
    _check_reads_one_text(model)
    unlabelled = text_batches(texts, tokenizer, size=size or BATCH, max_length=max_length)
    check_positions(model, (b["input_ids"].shape[1] for b in unlabelled.batches), "unlabelled")
    return unlabelled.batches, {
        "examples": unlabelled.examples,
        "windows": unlabelled.examples,
        "padding": round(unlabelled.padding, 4),
        "notes": dict(unlabelled.notes),
        "fingerprint": fingerprint(texts),
    }


def _facts(data: Dataset, batches: Batches) -> dict[str, Any]:
    encoded = batches.encoded
    labels = sum(len(row.labels) for row in data.rows)
    unknown = encoded.notes.get(UNKNOWN, 0) / max(1, labels)
    return {
        "examples": count_examples(encoded),
        "windows": sum(map(len, batches.numbers)),
        "padding": round(batches.padding, 4),
        "fingerprint": data.fingerprint,
        "notes": {**data.notes, **encoded.notes},
        **({"unknown_labels": round(unknown, 4)} if unknown else {}),
    }


def count_examples(encoded: Encoded) -> int:
    """Count the examples of a set: a plain text is one row of many windows."""
    return len(encoded if encoded.data.task.traits.label_unit == "token" else encoded.data)


def main_scores(model: Any, encoded: Mapping[str, Encoded], tokenizer: Any) -> dict[str, float]:
    """The main metric of the task on each set."""
    from deadhead.training.evaluation import evaluate

    scores = evaluate(model, encoded, tokenizer=tokenizer, progress=False)
    metric = next(iter(encoded.values())).data.task.metric
    return {language: float(values[metric]) for language, values in scores.items()}
