"""Models for a task, the same for the command line and for studies.

load_for_task("bert-base-cased", task, labels, seed=0)  a model with a classifier for the labels
tokenizer_for("bert-base-cased")                        the tokenizer saved with a model
set_padding(model, tokenizer)                           a pad token for a decoder that has none
fitting_tokenizer(model, "bert-base-cased")             both, with an error if they do not fit
outline("bert-base-cased")                              the model without its weights, to check it
labels_for(model, data)                                 the labels in the order of the model
encode_for(model, tokenizer, data)                      the windows that the model reads
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from itertools import product
from typing import Any

from deadhead.embedding import Embedder, embedder_of
from deadhead.errors import DataError, UnsupportedModel
from deadhead.files.hub import source
from deadhead.forward import is_causal, token_limit
from deadhead.tasks import Dataset, Encoded, Task, encode
from deadhead.tasks.encoding.tokenizer import Pieces

MOST_TOKENS = 2**24  # a tokenizer is saved number by number, also those that no token has
OUTSIDE = "O"  # every tagger of spans has this label, so it does not identify a task
NOT_CAUSAL = (
    "name a decoder such as GPT-2 or Llama; if it was saved without its output layer, "
    "add --auto-class AutoModelForCausalLM"
)
RENAME = "name the task the model was fine-tuned on, or set id2label in its config.json"


def load_for_task(
    name: str,
    task: Task,
    labels: Sequence[str] | None,
    *,
    seed: int,
    auto: Any = None,
    dtype: Any = "float32",
) -> Any:
    """Load a model for a task. Layers that the folder does not have are drawn with this seed.

    labels: of the classifier; None for those of the saved config, and for tasks without labels.
    auto: an auto class of transformers; by default that of the task.
    """
    import torch

    from deadhead.heads import load

    fields: dict[str, Any] = {}
    if labels is not None and task.traits.has_labels:
        fields["id2label"] = dict(enumerate(labels))
        fields["label2id"] = {label: number for number, label in enumerate(labels)}
    if task.traits.label_unit == "span":  # the layer for starts and ends
        fields["num_labels"] = 2
    if task.traits.label_unit == "pair":
        fields |= {"num_labels": 1, "problem_type": "regression"}
    torch.manual_seed(seed)
    return load(name, auto=auto or task.traits.model, dtype=dtype, **fields)


def tokenizer_for(name: str) -> Any:
    """The tokenizer that is saved with a model."""
    from transformers import AutoTokenizer

    from deadhead.heads.config_file import check_config_file

    where = source(name)
    folder = where.pop("pretrained_model_name_or_path")
    try:
        check_config_file(folder, where)  # some tokenizers need the config
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **where)
    except Exception as problem:  # each tokenizer has its own errors
        reason = next(iter(str(problem).splitlines()), type(problem).__name__).strip()
        if reason.endswith(":"):  # a list follows
            reason = " ".join(str(problem).split())
        message = f"{name} has no readable tokenizer: {reason}"
        raise DataError(message, "save the tokenizer into the model's folder") from None
    if (last := max(tokenizer.get_vocab().values(), default=0)) > MOST_TOKENS:
        message = f"the tokenizer of {name} has a token with the number {last:,}"
        hint = "save the tokenizer that belongs to the model into its folder"
        raise DataError(f"{message}; expected at most {MOST_TOKENS:,}.", hint)
    return tokenizer


def check_reads_text(model: Any) -> None:
    """Raise an error if the model reads images or sounds and no text."""
    main = getattr(model, "main_input_name", "input_ids")
    # a model of text may call its tokens otherwise (Perceiver), and some read text beside images
    if "input_ids" not in main and "input_ids" not in signature(model.forward).parameters:
        message = f"expected a model of text, got {type(model).__name__}: its input is {main}."
        hint = "name a model that reads token ids; in Python, rank, refit and shrink take batches "
        raise UnsupportedModel(message, hint + f"of {main} of your own")


def set_padding(model: Any, tokenizer: Callable[[], Any]) -> None:
    """Set the pad token of a model without one: a decoder needs it to find the end of a text.

    tokenizer: returns the tokenizer; called only if it is needed.
    """
    if getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = Pieces(tokenizer()).pad


def fitting_tokenizer(model: Any, name: str) -> Any:
    """The tokenizer saved with a model, which gets its pad token; not that of another model."""
    from deadhead.vocabulary.tokens import check_tokenizer

    check_reads_text(model)
    tokenizer = tokenizer_for(name)
    check_tokenizer(model, tokenizer, name)
    set_padding(model, lambda: tokenizer)
    return tokenizer


def outline(name: str, *, auto: Any = None, dtype: Any = None) -> Any:
    """A saved model without its weights, whose tokenizer fits: to check what needs no weights."""
    from deadhead.heads.load import skeleton

    model = skeleton(name, auto=auto, dtype=dtype)
    fitting_tokenizer(model, name)
    return model


def check_data(models: Iterable[Any], sets: Iterable[Dataset], max_length: int | None) -> None:
    """Raise an error if a model was trained for another task than a set, or reads less at once."""
    for model, data in product(models, sets):
        labels_for(model, data)
        check_windows(model, data, max_length)


def check_windows(model: Any, data: Dataset, max_length: int | None) -> None:
    """Raise an error if windows of plain text, which are always full, are too long for a model."""
    if max_length is not None and data.task.traits.label_unit == "token":
        check_positions(model, [max_length], data.split)


def load_with_tokenizer(name: str, device: Any, *, auto: Any, dtype: Any) -> tuple[Any, Any]:
    """A saved model on a device, and its tokenizer. By default a CPU computes in float32."""
    from deadhead.heads import load

    if dtype is None:  # half precision is slow on a CPU, and rounds
        dtype = "float32" if str(device) == "cpu" else "auto"
    model = load(name, auto=auto, dtype=dtype).to(device)
    return model, fitting_tokenizer(model, name)


def window_length(model: Any, task: Task, length: int | None) -> int:
    """The sub-words of a window: this length, or by default that of the kind of task.

    Where texts are cut into windows, the default is no longer than the model allows.
    A sentence encoder says itself how much of a text it reads.
    """
    if length is not None:
        return length
    embedder = embedder_of(model) if task.traits.of_embeddings else None
    if embedder is not None:
        return embedder.max_length or token_limit(model) or task.traits.window
    default, room = task.traits.window, token_limit(model)
    return default if room is None or not task.traits.cuts_texts else min(default, room)


def encode_for(
    model: Any,
    tokenizer: Any,
    data: Dataset,
    max_length: int | None = None,
    labels: Sequence[str] | None = None,
) -> Encoded:
    """The windows of the data that the model reads, by default with labels in its order."""
    labels = labels_for(model, data) if labels is None else labels
    length = window_length(model, data.task, max_length)
    embedder = embedder_of(model) if data.task.traits.of_embeddings else None
    singles = None if embedder is None else prompted(embedder, data)
    encoded = encode(data, tokenizer, labels=labels, max_length=length, singles=singles)
    check_positions(model, encoded.arrays["lengths"], data.split)
    return encoded


def prompted(embedder: Embedder, data: Dataset) -> list[str]:
    """The texts that a sentence encoder reads, as its tokenizer gets them."""
    return [embedder.text(text, role) for role, text in data.single_texts]


def check_positions(model: Any, lengths: Iterable[int], name: str) -> None:
    """Raise an error if a window of one of these lengths is longer than what the model can read."""
    room, longest = token_limit(model), max(lengths, default=0)
    if room is not None and longest > room:
        message = f"the {name} data has windows of {longest} positions and the model has {room}."
        raise DataError(message, f"write --max-length {room}, or encode it with max_length={room}")


def label_names(model: Any) -> tuple[str, ...]:
    """The labels of a classifier, in its order."""
    return tuple(str(model.config.id2label[i]) for i in range(model.config.num_labels))


def is_unnamed(names: Sequence[str]) -> bool:
    """Whether these are the default labels of transformers: LABEL_0, LABEL_1, ..."""
    return all(name == f"LABEL_{i}" for i, name in enumerate(names))


def fits_task(model: Any, task: Task) -> bool:
    """Whether the model has the layer that this kind of task needs."""
    import transformers

    if task.traits.of_embeddings and embedder_of(model) is not None:
        return True
    if task.traits.label_unit == "query":
        return False
    auto = getattr(transformers, task.traits.model)
    if task.traits.needs_decoder and not is_causal(model):
        return False
    if task.traits.label_unit == "pair" and model.config.num_labels != 1:
        return False
    return isinstance(model, auto._model_mapping.get(type(model.config), ()))


def _no_embeddings(model: Any, task: Task) -> DataError:
    """Return the error for a model that has neither embeddings nor a number for each pair."""
    name, needs = type(model).__name__, "a sentence encoder: a folder with modules.json"
    hint = "its pooling is unknown; with sentence-transformers, save how its states are pooled: "
    hint += "SentenceTransformer(MODEL).save(DIR)"
    if task.traits.label_unit == "pair":
        needs += ", or a regression model: AutoModelForSequenceClassification with num_labels=1"
        hint += "; or fine-tune it as a regression model: deadhead finetune MODEL "
        hint += f"{_named(task)} --out DIR"
    elif name.endswith("ForSequenceClassification"):
        hint = "a classifier or cross-encoder has no embeddings of single texts: name an encoder"
    return DataError(f"{name} does not fit {task.title}, which needs {needs}.", hint)


def labels_for(model: Any, data: Dataset) -> tuple[str, ...] | None:
    """The labels of the data in the order of the model; None for tasks without labels.

    Raises an error if the model was trained for another task.
    """
    task = data.task
    if not fits_task(model, task):
        if task.traits.of_embeddings:
            raise _no_embeddings(model, task)
        raise DataError(
            f"{type(model).__name__} does not fit {task.title}, which needs a model loaded as "
            f"{task.traits.model}.",
            NOT_CAUSAL
            if task.traits.needs_decoder
            else f"fine-tune it first: deadhead finetune MODEL {_named(task)} --out DIR",
        )
    if not task.traits.has_labels:
        return None
    names = label_names(model)
    if _knows(names, data):
        return names
    if len(names) == len(data.labels) and is_unnamed(names):
        return tuple(data.labels)  # the model was saved without names for its classes
    raise DataError(
        f"the model's classes ({some(names)}) are not the labels of {task.title} "
        f"({some(data.labels)}).",
        RENAME,
    )


def _named(task: Task) -> str:
    """The options that name a task and, where it needs one, a language."""
    name = f"--task {task.file}" if task.file else f"--task {task.name}"
    needs_none = task.default_language is not None
    return name if needs_none else f"{name} --lang {task.example_language}"


def _knows(names: Sequence[str], data: Dataset) -> bool:
    """Whether these are classes for this data: they cover half of its labels, `O` aside."""
    if not set(names) & (set(data.labels) - {OUTSIDE} or {OUTSIDE}):
        return False
    counts = Counter(label for row in data.rows for label in row.labels if label != OUTSIDE)
    unknown = {label: number for label, number in counts.items() if label not in names}
    if 2 * sum(unknown.values()) > counts.total():
        share = sum(unknown.values()) / counts.total()
        raise DataError(
            f"the model does not know {share:.0%} of the labels of this {data.task.title} data: "
            f"{some(sorted(unknown))}.",
            RENAME,
        )
    return True


def some(names: Iterable[str]) -> str:
    """The first four names of a list, for a message."""
    names = [*names]
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
