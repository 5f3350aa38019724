"""The files of a model: its folder or its place in the hub's cache, and what a saved copy keeps."""

import json
import math
import os
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from deadhead.errors import FolderError, Notice, UnsupportedModel
from deadhead.files.hub import hub_problem, quiet, similar_folder, source, split

# Weights of any library, and what a training leaves beside them: a pruned copy has its own.
# fmt: off
KINDS = [
    "safetensors", "bin", "pt", "pth", "ckpt", "h5", "msgpack", "ot", "onnx", "onnx_data", "gguf",
    "ggml", "tflite", "mlmodel", "pkl", "pickle", "npz", "npy", "distcp",
]
# fmt: on
WEIGHTS = re.compile(rf"\.({'|'.join(KINDS)})(\.index\.json|\.zip|\.gz)?$|tfevents")
EXPORTS = ("onnx", "openvino", "coreml")  # folders with the model in another format
# also hidden files and earlier states of a training
NOT_COPIED = re.compile(rf"^(\..*|{'|'.join(EXPORTS)}|checkpoint-\d+|runs|__pycache__)$")
# the names of precisions in safetensors
FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
INDEX = "model.safetensors.index.json"
SHARD = re.compile(r"[^/\\\0]+\.safetensors")
HEADER = 100_000_000  # bytes, the most that safetensors allows for the header of a file
CARD = "README.md"
MODULES = "modules.json"  # what sentence-transformers runs, in order, and in which folders
ENCODER = "config_sentence_transformers.json"
KNOWN_MODULES = "deadhead knows Transformer, Pooling, Dense, Normalize and Dropout"
SAVE_AGAIN = (  # puts the transformer into the folder itself, and weights into safetensors
    "save it again with a current sentence-transformers: SentenceTransformer(OLD).save(NEW)"
)
WRITTEN = (
    "config.json",
    CARD,
    "load_pruned.py",
    "load_pruned.json",
    "load_encoder.py",
)  # by `save` itself, in the top folder
TOKENIZER = re.compile(
    r"^(tokenizer.*|vocab.*|merges\.txt|added_tokens\.json|special_tokens_map\.json|spiece\.model|"
    r"sentencepiece.*|.*\.spm|chat_template.*)$"
)
# text that transformers reads and may save again: the files of all tokenizers, and configs
READ = re.compile(
    rf"{TOKENIZER.pattern}|^(.*config\.json|.*\.(model|bpe|codes|tiktoken|tokenizer|vocab|jinja)|"
    r"dict\.txt|additional_chat_templates)$"
)


def folder_of(name: str | Path, *, cache_dir: Any = None) -> Path | None:
    """The folder of this name, or that of the model in the hub's cache; None if neither exists."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    base, revision = split(name)  # or raise an error: the name may be too long for a file system
    path = Path(name)
    if path.is_dir():
        return path
    try:
        cached = try_to_load_from_cache(base, "config.json", cache_dir=cache_dir, revision=revision)
    except HFValidationError:
        return None
    return Path(cached).parent if isinstance(cached, str) else None


def tokenizer_of(name: str | Path) -> Any:
    """The tokenizer of a saved model; None if there is none or it cannot be read."""
    from transformers import AutoTokenizer

    place = folder_of(name)
    if place is None or not has_tokenizer(place):
        return None
    try:
        with quiet():
            return AutoTokenizer.from_pretrained(**source(name), trust_remote_code=False)
    except Exception:  # each tokenizer has its own errors
        return None


def source_of(model: Any) -> Path | None:
    """The folder that a model in memory was loaded from, if it is still there."""
    name = getattr(getattr(model, "config", None), "_name_or_path", "")
    return folder_of(name) if name else None


def fetch(name: str) -> None:
    """Download all files of a hub model that a saved copy keeps; loading downloads fewer."""
    from huggingface_hub.constants import HF_HUB_OFFLINE

    if Path(name).is_dir() or HF_HUB_OFFLINE:
        return
    base, revision = split(name)
    weights = [*(f"*.{kind}" for kind in KINDS), *(f"{folder}/*" for folder in EXPORTS)]
    _download(base, revision=revision, ignore_patterns=weights)


def fetch_modules(name: str | Path, **where: Any) -> None:
    """Download what sentence-transformers reads of a hub model besides its transformer, if any.

    where: arguments of `from_pretrained` that locate it.
    """
    if Path(name).is_dir() or "subfolder" in where:
        return
    base, revision = split(name)
    where = {"revision": revision, **where}
    check_hub(base, where)
    listed = hub_file(base, MODULES, where)
    if listed is not None:
        folders = modules_of(listed.parent)
        files = [f"{path}/*.{kind}" for path in folders for kind in ("json", "safetensors") if path]
        _download(base, allow_patterns=["*sentence*.json", *files], **where)


def _download(name: str, **options: Any) -> None:
    from huggingface_hub import snapshot_download

    try:
        with quiet():
            snapshot_download(name, **options)
    except Exception:  # the client has one error each for no network and no permission
        text = f"the hub did not answer for the other files of {name}: only cached ones are kept."
        warnings.warn(Notice(text), stacklevel=3)


def is_sentence_encoder(folder: Path) -> bool:
    """Whether sentence-transformers made a folder, and for neither pairs nor sparse vectors."""
    return (folder / MODULES).exists() and encoder_class(folder) == "SentenceTransformer"


def encoder_class(folder: Path) -> str:
    """The class of sentence-transformers that loads a folder with modules; empty if unreadable."""
    try:
        settings = json.loads((folder / ENCODER).read_text(encoding="utf-8"))
        kind = settings.get("model_type", "SentenceTransformer")
    except (OSError, ValueError, AttributeError, RecursionError):
        kind = "SentenceTransformer"  # before version 5, which knows others
    return kind if isinstance(kind, str) and kind.isidentifier() else ""


def modules_of(folder: Path) -> dict[str, str]:
    """The modules that sentence-transformers runs, in order: folder -> name of the class.

    The folder is "" for the model itself. Empty without a readable list of modules.
    """
    try:
        entries = json.loads((folder / MODULES).read_text(encoding="utf-8"))
        # a class has been in other places in other versions
        kinds = {str(e["path"]): str(e.get("type", "")).rpartition(".")[2] for e in entries}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    return {path: kind.removeprefix("Pruned") for path, kind in kinds.items()}


def unknown_modules(folder: Path) -> UnsupportedModel:
    """The error for modules that are not those of a sentence encoder."""
    modules = modules_of(folder)
    listed = ", ".join(f"{kind} ({path})" if path else kind for path, kind in modules.items())
    is_below = "" not in modules and "Transformer" in modules.values()
    return UnsupportedModel(
        f"{folder / MODULES} expects a Transformer in the folder itself and then Pooling, got "
        f"{listed}.",
        SAVE_AGAIN if is_below else KNOWN_MODULES,
    )


def stored_dtype(name: str | Path) -> torch.dtype | None:
    """The precision of most weights of a model on disk; None if the headers do not say it."""
    counts: Counter[str] = Counter()
    folder = folder_of(name)
    for file in () if folder is None else folder.glob("*.safetensors"):
        try:
            for entry in read_header(file).values():
                counts[entry["dtype"]] += math.prod(entry["shape"])
        except (FolderError, KeyError, TypeError):
            return None  # damaged, which loading reports
    return FLOATS.get(counts.most_common(1)[0][0]) if counts else None


def read_header(file: Path) -> dict[str, Any]:
    """The tensors of a file of safetensors: name -> `dtype`, `shape` and `data_offsets`."""
    try:
        with file.open("rb") as raw:
            header = json.loads(raw.read(min(int.from_bytes(raw.read(8), "little"), HEADER)))
        return {name: entry for name, entry in header.items() if name != "__metadata__"}
    except (OSError, ValueError, AttributeError, RecursionError) as problem:
        hint = "save or download the folder again"
        raise FolderError(f"{file} is damaged: {problem!r}.", hint) from None


def check_shards(folder: Path) -> None:
    """Raise an error if an index names weights that are no safetensors of its own folder.

    transformers would read any other file with the unpickler of torch.
    """
    # the index of a variant has its name before the suffix
    for index in folder.glob("*.safetensors.index*.json") if folder.is_dir() else ():
        try:
            stored = json.loads(index.read_text(encoding="utf-8"))
            names = {str(name) for name in stored["weight_map"].values()}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as why:
            raise FolderError(
                f"{index} is damaged: {why!r}.", "save or download the folder again"
            ) from None
        wrong = [name for name in names if not SHARD.fullmatch(name)]
        if wrong:
            raise FolderError(
                f"{index} expects safetensors of its own folder, got {min(wrong)!r}.",
                "do not use this folder; download the model again",
            )


def check_hub_weights(name: str | Path, indexes: set[str], **where: Any) -> None:
    """Check the weights of a hub model before transformers downloads and reads them.

    indexes: of its weights, if it has them; where: arguments of `from_pretrained` that locate it.
    """
    if hub_file(name, "adapter_config.json", where) is not None:
        raise FolderError(
            f"{name} has an adapter, whose weights or base model may be pickled.",
            "load its base model, and give it to PeftModel.from_pretrained with this name",
        )
    for index in indexes:
        if (path := hub_file(name, index, where)) is not None:
            check_shards(path.parent)


def hub_file(name: str | Path, file: str, where: Mapping[str, Any]) -> Path | None:
    """A file of a hub model, downloaded if it is not there yet; None if there is none."""
    from transformers.utils import cached_file

    reasons = ("gated_repo", "missing_entries", "connection_errors")
    quietly = {f"_raise_exceptions_for_{reason}": False for reason in reasons}
    path = cached_file(name, file, **where, **quietly)
    return None if path is None else Path(path)


def check_hub(name: str | Path, where: Mapping[str, Any]) -> None:
    """Raise an error where a model is not cached and the hub cannot be reached.

    where: arguments of `from_pretrained`.
    """
    from huggingface_hub import constants

    if Path(name).is_dir() or constants.HF_HUB_OFFLINE or where.get("local_files_only"):
        return
    if hub_file(name, "config.json", {**where, "local_files_only": True}) is not None:
        return
    if (problem := hub_problem()) is not None:
        hint = similar_folder(Path(name)) or "correct the name, or connect to the network"
        raise FolderError(f"there is no folder {name}, and {problem}.", hint)


def has_tokenizer(folder: Path) -> bool:
    """Whether a folder has a tokenizer: for one without, transformers builds an empty one."""
    return any(
        TOKENIZER.match(file.name) and not file.name.startswith("tokenizer_config")
        for file in folder.iterdir()
    )


def leaves(folder: Path, path: Path) -> bool:
    """Whether a path in a model's folder is, through a link, a file or folder outside of it.

    A snapshot in the hub's cache consists of links to the files of the same model, in `blobs`.
    """
    home, real = Path(os.path.realpath(folder)), Path(os.path.realpath(path))
    homes = [home]
    homes += [
        parent.parent / "blobs"
        for parent in home.parents
        if parent.name == "snapshots" and parent.parent.name.startswith("models--")
    ]
    return not any(real.is_relative_to(inside) for inside in homes)


def check_files(folder: Path) -> None:
    """Raise an error for a pipe or a device, and for text from outside that `save` writes again."""
    paths = [*folder.iterdir(), *folder.glob("additional_chat_templates/*")]
    for path in sorted(paths):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise FolderError(f"{path} is no ordinary file.", "delete it, or download the model")
        if READ.match(path.relative_to(folder).parts[0]) and leaves(folder, path):
            raise FolderError(
                f"{path} is a link out of its folder, to {os.path.realpath(path)}.",
                "if you trust it, put a copy of the file in the place of the link",
            )


def kept_files(folder: Path, *, tokenizer: bool) -> Iterator[Path]:
    """What a copy of the model keeps: all files but weights, what `save` writes, and other models.

    The modules of sentence-transformers keep their weights, such as those of a dense layer. Paths
    are relative to the folder; links out of it are skipped. tokenizer: also the files of the
    tokenizer.
    """
    modules = modules_of(folder)
    for path in sorted(folder.iterdir()):
        if path.name in WRITTEN or (not tokenizer and TOKENIZER.match(path.name)):
            continue
        if leaves(folder, path) or _is_model(path):  # such as a pruned copy that was saved in here
            continue
        for below in [path, *sorted(path.rglob("*"))] if path.is_dir() else [path]:
            inside = below.relative_to(folder)
            hidden = any(NOT_COPIED.match(part) for part in inside.parts)
            is_weights = path.name not in modules and WEIGHTS.search(below.name)
            is_file = (below.is_dir() or below.is_file()) and not is_weights
            if is_file and not hidden and not leaves(folder, below):
                yield inside


def _is_model(folder: Path) -> bool:
    """Whether a folder has a model of its own: a config that names its type, and weights."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return "model_type" in config and any(WEIGHTS.search(f.name) for f in folder.iterdir())
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def copy_files(source: Path, target: Path, *, tokenizer: bool) -> None:
    """Copy what a copy of the model keeps; a file that the target has already stays.

    The target may be inside of the source; its folder there is not copied into itself.
    """
    around = target.resolve().parents
    for inside in kept_files(source, tokenizer=tokenizer):
        if (source / inside.parts[0]).resolve() in around:
            continue
        place = target / inside
        if (source / inside).is_dir():  # also an empty one: sentence-transformers may have such
            place.mkdir(parents=True, exist_ok=True)
        elif not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / inside, place)
