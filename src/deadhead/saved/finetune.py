"""Fine-tune a saved model into another folder, resuming a training that was interrupted.

It starts with a classifier for the labels. Weights are trained in float32, whatever their saved
precision: updates are too small for half precision. The trained model is written in the precision
of its source, so it is not twice as large.

The arguments and the state of a training that is not finished are in OUT/.training. The same
command resumes it. Another command for the same folder is refused, with the differences.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from deadhead import files
from deadhead.display.progress import stage
from deadhead.embedding import read_embedder
from deadhead.errors import DataError, DeadheadError, FolderError
from deadhead.files.model_folder import TRAINING
from deadhead.files.writing import writing
from deadhead.heads import save
from deadhead.heads.model_files import folder_of
from deadhead.tasks import Dataset, Task, draw_examples, find_data, load_data
from deadhead.tasks.task import TEXT
from deadhead.training.history import Epoch, History
from deadhead.training.loop import finetune
from deadhead.training.lora import add_adapters, trained_weights
from deadhead.training.models import (
    check_windows,
    encode_for,
    fitting_tokenizer,
    is_unnamed,
    labels_for,
    load_for_task,
    outline,
    some,
)
from deadhead.training.progress import Tick
from deadhead.training.settings import Settings


class Unfinished:
    """The folder of a training inside the folder that its model will be written to."""

    def __init__(self, out: Path):
        self.out = out
        self.path = out / TRAINING
        self.file = self.path / "command.json"
        self.created_out = not out.exists()

    @property
    def begun(self) -> bool:
        return self.file.exists()

    @property
    def epochs(self) -> int:
        """The number of finished epochs."""
        try:
            text = (self.path / "history.json").read_text(encoding="utf-8")
            return len(json.loads(text)["epochs"])
        except (OSError, ValueError, KeyError, TypeError):  # reported when the training resumes
            return 0

    def check(self, command: Mapping[str, Any], *, force: bool = False) -> None:
        """Raise an error if another command was begun here, or with `force`, discard it."""
        if not self.begun:
            return
        try:
            self._compare(json.loads(json.dumps(command)))
        except FolderError:
            if not force:
                raise
            self.discard()

    def _compare(self, command: dict[str, Any]) -> None:
        try:
            stored = json.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            hint = "add --force to train from scratch"
            raise FolderError(f"{self.file} is damaged: {problem}.", hint) from problem
        changed = {name: new for name, new in command.items() if stored.get(name) != new}
        differences = [f"{name} was {stored.get(name)} and is {changed[name]}" for name in changed]
        if differences:
            message = f"{self.out} has an unfinished training of another command"
            hint = "repeat the same command to resume it, name another --out, or train from scratch"
            raise FolderError(f"{message}: {'; '.join(differences)}.", f"{hint} with --force")

    def begin(self, command: Mapping[str, Any]) -> None:
        """Store the command, unless it is stored already."""
        if self.begun:
            return
        with writing(self.path):
            self.discard()
            self.path.mkdir(parents=True)
            files.write(self.file, json.dumps(command, indent=1) + "\n")

    def discard(self) -> None:
        """Delete the state of the training."""
        files.remove_folder(self.path)

    def give_up(self) -> None:
        """Delete the state, and the output folder if this training created it."""
        self.discard()
        if self.created_out:
            with suppress(OSError):  # not empty
                self.out.rmdir()


@dataclass(frozen=True)
class Start:
    """A model ready to learn a task."""

    model: Any  # in float32
    dtypes: Mapping[str, torch.dtype]  # precision of the weights in the source, by name

    @property
    def dtype(self) -> torch.dtype:
        """The precision that most weights of the source have."""
        sizes: Counter[torch.dtype] = Counter()
        for name, parameter in self.model.named_parameters():
            if name in self.dtypes:
                sizes[self.dtypes[name]] += parameter.numel()
        return sizes.most_common(1)[0][0]

    @property
    def digest(self) -> str:
        """A hash of the weights, which identifies a start."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(name.encode())
            if tensor.numel():
                flat = tensor.detach().cpu().contiguous().flatten()
                digest.update(flat.view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:16]

    def in_precision(self, dtype: torch.dtype | None = None) -> Any:
        """The trained model in the precision of its source, or in another one."""
        for name, parameter in self.model.named_parameters():
            if parameter.is_floating_point():
                parameter.data = parameter.data.to(dtype or self.dtypes.get(name, self.dtype))
        return self.model


def start(name: str, data: Dataset, seed: int, auto: Any = None) -> Start:
    """Load a model with a classifier for the labels of the data.

    A model that knows the labels keeps its classifier; another one gets a new one, drawn with the
    seed.
    """
    model = load_for_task(name, data.task, None, seed=seed, auto=auto, dtype="auto")
    dtypes = {key: parameter.dtype for key, parameter in model.named_parameters()}
    known = [*map(str, (getattr(model.config, "id2label", None) or {}).values())]
    labels = None
    if data.task.traits.has_labels and not set(known) >= set(data.labels):
        trained = type(model).__name__ in (model.config.architectures or ())
        if trained and not is_unnamed(known):  # else its classifier would silently be reused
            others = f"other labels ({some(known)}) than {data.task.title} has"
            hint = "name the model as it was before it was fine-tuned"
            raise DataError(f"{name} was trained with {others}.", hint)
        labels = data.labels
    if labels is not None or any(dtype != torch.float32 for dtype in dtypes.values()):
        # a new classifier is drawn in float32 too
        model = load_for_task(name, data.task, labels, seed=seed, auto=auto)
    return Start(model, dtypes)


@dataclass(frozen=True)
class Sets:
    """The data of a training."""

    train: Dataset
    dev: dict[str, Dataset]  # by language
    notes: list[str]  # a line for each language without dev data


def load_sets(
    task: str | Task, languages: list[str], where: dict[str, Any], most: int | None, seed: int
) -> Sets:
    """Load training and dev data; of each set at most `most` random examples."""
    stage(f"reading the data: {', '.join(languages)}")
    train = load_data(task, languages, "train", **where)
    dev, notes = {}, []
    for language in languages:
        place = find_data(task, language, ["dev"], beside="train", **where)["dev"]
        if isinstance(place, str):
            dev[language] = draw_examples(load_data(task, language, "dev", **where), most, seed)
        else:
            reason = place.message.rstrip(".")
            name = train.task.name + f" in {language}" * (language != TEXT)
            notes.append(f"no dev data of {name}, so its epochs are not scored ({reason})")
    return Sets(draw_examples(train, most, seed), dev, notes)


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where and how the trained model is written."""

    folder: Path
    weights: str = "last"  # or best: those of the best epoch on dev
    dtype: torch.dtype | None = None  # by default the precision of the source
    force: bool = False  # discard an unfinished training of another command


@dataclass(frozen=True, kw_only=True)
class Listener:
    """What is called while a model is trained."""

    update: Callable[[Tick], None]
    epoch: Callable[[Epoch], None]
    say: Callable[[str], None]  # a line for the user


def finetune_saved(
    name: str,
    sets: Sets,
    settings: Settings,
    out: Output,
    *,
    command: dict[str, Any],
    listener: Listener,
    auto: str | None = None,
    device: Any = None,
    max_length: int | None = None,
    lora: int | None = None,
    checkpointing: bool = False,
) -> tuple[Start, History]:
    """Train the model of this name on the sets and save it with its tokenizer.

    command: what the user typed; the same command resumes an interrupted training.
    lora: train adapters of this rank instead of the weights, and merge them before saving.
    """
    # it is long by its parameters; each step below is a line or two
    if not sets.dev and out.weights == "best":
        message = f"--weights best needs dev data: {'; '.join(sets.notes)}."
        raise DeadheadError(message, "leave --weights out")
    _check_can_train(name, sets.train.task)
    bare = outline(name, auto=auto or sets.train.task.traits.model)  # or raise an error at once
    check_windows(bare, sets.train, max_length)
    if sets.train.task.traits.label_unit == "pair":
        _check_has_one_output(bare, name)
    unfinished = Unfinished(out.folder)
    begin = start(name, sets.train, settings.seed, auto)
    facts = {"the data": sets.train.fingerprint, "the weights of MODEL": begin.digest}
    unfinished.check(command | facts, force=out.force)
    tokenizer = fitting_tokenizer(begin.model, name)
    labels = labels_for(begin.model, sets.train)
    encoded = {
        key: encode_for(begin.model, tokenizer, data, max_length, labels)
        for key, data in {"train": sets.train, **sets.dev}.items()
    }
    for key, windows in encoded.items():
        for note, count in windows.notes.items():
            listener.say(f"{key}: {note}: {count:,}")
    for note in sets.notes:
        listener.say(note)
    unfinished.begin(command | facts)
    adapters = None
    if lora is not None:
        classifier = sets.train.task.traits.has_task_layer
        adapters = add_adapters(begin.model, lora, seed=settings.seed, classifier=classifier)
        few, every = trained_weights(begin.model)
        listener.say(f"LoRA of rank {lora}: trains {few:,} of {every:,} weights")
    with _resumable(unfinished, settings, listener):
        history = finetune(
            begin.model,
            encoded.pop("train"),
            settings,
            dev=encoded or None,
            folder=unfinished.path,
            device=device,
            checkpointing=checkpointing,
            progress=listener.update,
            each=listener.epoch,
        )
    if history.state != "done":
        unfinished.give_up()
        raise DeadheadError(f"the training failed: {history.reason}", "try a lower --learning-rate")
    if out.weights == "best":
        history.restore(begin.model, "best")
    if adapters is not None:
        adapters.merge_and_unload()
    data, epochs = sets.train, len(history.epochs)
    learned = data.task.name + f" in {data.lang}" * (data.lang != TEXT)
    learned += f": {trained_examples(data, history):,} examples, {epochs} epochs"
    with_lora = "" if lora is None else f", with LoRA of rank {lora}"
    note = f"Fine-tuned with deadhead on {learned}{with_lora}."
    save(begin.in_precision(out.dtype), out.folder, tokenizer, note=note)
    unfinished.discard()
    return begin, history


def _check_can_train(name: str, task: Task) -> None:
    """Raise an error for a sentence encoder, whose embeddings no labels of ours train."""
    folder = folder_of(name) if task.traits.of_embeddings else None
    is_encoder = folder is not None and read_embedder(folder) is not None
    if is_encoder or task.traits.label_unit == "query":
        what = f"{name} is a sentence encoder" if is_encoder else f"{task.title} trains embeddings"
        hint = "train it with sentence-transformers, or on the embeddings of a teacher: "
        hint += "deadhead finetune MODEL --teacher MODEL --text FILE --out DIR"
        raise DataError(f"{what}, which this command does not fine-tune with labels.", hint)


def _check_has_one_output(bare: Any, name: str) -> None:
    outputs, config = bare.config.num_labels, bare.config
    if outputs != 1 and type(bare).__name__ in (config.architectures or ()):
        message = f"{name} was trained as a classifier of {outputs} labels; a score is one number."
        raise DataError(message, "name the model as it was before it was fine-tuned")


def trained_examples(data: Dataset, history: History) -> int:
    """How many examples the data has: its rows, or the windows of a text."""
    is_text = data.task.traits.label_unit == "token"
    return history.epochs[0].examples if is_text else len(data)


@contextmanager
def _resumable(unfinished: Unfinished, settings: Settings, listener: Listener) -> Iterator[None]:
    """Report that a training resumes, and how to resume one that is stopped."""
    if unfinished.epochs:
        listener.say(f"resuming after epoch {unfinished.epochs} of {settings.epochs}")
    try:
        yield
    except KeyboardInterrupt as interrupt:
        progress = f"{unfinished.epochs} of {settings.epochs} epochs are kept"
        raise type(interrupt)(f"{progress}; repeat the command to resume.") from None
