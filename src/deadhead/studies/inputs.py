"""What trials read, by content: a fingerprint of every model folder and data file of a study.

A trial names its model and its data; the names do not identify the content. So before a study
runs, each name gets a fingerprint: the hash of its files, or the revision of a model on the hub.
The fingerprints become part of the trial, and so of its id and of the work it shares with
others: two trials that read different files are never the same trial. What is bundled with
deadhead needs none.

A process hashes a file once, by path, size, times and inode. Nothing here loads torch.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.files.hub import COMMIT, split
from deadhead.files.model_folder import finish_save
from deadhead.studies.store.folder import StudyError

from .trial import Trial, digest

# '["model", NAME]' or '["data", TASK, LANGUAGE, SPLIT, OPTIONS]' -> hash
Fingerprints = Mapping[str, str]

BUNDLED = "world"  # models and data inside the package
WHERE = ("root", "source", "cut", "deduplicate")  # options of `data` that decide which files
# fmt: off
MODEL_FILES = (  # weights, config, tokenizer
    ".safetensors", ".json", ".txt", ".model", ".jinja", ".spm", ".bpe", ".codes", ".tiktoken",
    ".tokenizer", ".vocab",
)
# fmt: on


class InputsChanged(StudyError):
    """The model or the data of a study is not what its records were made with."""


def fingerprints(trials: Iterable[Trial]) -> dict[str, str]:
    """The fingerprint of every input of these trials; a hub that does not answer is skipped."""
    names = dict.fromkeys(name for trial in trials for name in _names(trial).values())
    return {name: value for name in names if (value := _fingerprint(name))}


def attached(trial: Trial, known: Fingerprints) -> Trial:
    """The trial with the fingerprints of what it reads as part of its content."""
    content = {name: value for name, value in trial.content.items() if name != "inputs"}
    inputs = {place: known[name] for place, name in _names(trial).items() if name in known}
    return Trial({**content, "inputs": inputs} if inputs else content)


def changed(before: Fingerprints, now: Fingerprints) -> list[str]:
    """The inputs known at both times whose content differs."""
    return [name for name, value in now.items() if before.get(name, value) != value]


def described(names: Iterable[str]) -> str:
    """Inputs for a message: `the model ./mine; the data of pos in en (train)`."""
    return "; ".join(map(_describe, names))


def verify(trial: Trial) -> None:
    """Raise an error if a file changed after the trial got its fingerprints."""
    names = _names(trial) if trial.inputs else {}
    now = {name: _fingerprint(name) for name in names.values()}
    known = {name: trial.inputs.get(place, now[name]) for place, name in names.items()}
    if stale := [name for name, value in now.items() if value and known[name] not in ("", value)]:
        hint = "restore the old files and repeat the command, or start a new study with --out"
        raise InputsChanged(f"files changed while the study was running: {described(stale)}.", hint)


def _names(trial: Trial) -> dict[str, str]:
    """The inputs of a trial: place in its content (`data en/train`) -> name in the study."""
    model, options = str(trial.get("model")), trial.data.chosen(*WHERE)
    names = {}
    bundled = model.startswith(f"{BUNDLED}/") and not Path(model).is_dir()
    if not bundled and not any(step.builds_model for step in trial.protocol):
        names["model"] = json.dumps(["model", model])
    if trial.data.root != BUNDLED or Path(BUNDLED).is_dir():
        for read in trial.reads():
            names[trial.input_name(*read)] = json.dumps(["data", *read, options], sort_keys=True)
    return names


def _describe(name: str) -> str:
    kind, *parts = json.loads(name)
    if kind == "model":
        return f"the model {parts[0]}"
    task, language, split, _ = parts
    return f"the data of {task} in {language} ({split})"


def _fingerprint(name: str) -> str | None:
    kind, *parts = json.loads(name)
    return _of_model(*parts) if kind == "model" else _of_data(*parts)


def _of_model(name: str) -> str | None:
    folder = Path(name).expanduser()
    if folder.is_dir():
        finish_save(folder)  # as `load` does: the fingerprint is that of the model it gives
        files = sorted(file for file in folder.iterdir() if file.suffix in MODEL_FILES)
        return digest([[file.name, file_hash(file)] for file in files if file.is_file()])
    return _hub_revision(name)


@lru_cache(maxsize=64)
def _hub_revision(name: str) -> str | None:
    """The commit of a hub model: of the local copy, else of the hub; None if neither answers."""
    import huggingface_hub

    try:
        base, revision = split(name)
        if revision is not None and COMMIT.fullmatch(revision):
            return revision
        file = huggingface_hub.try_to_load_from_cache(base, "config.json", revision=revision)
        if isinstance(file, str):
            return Path(file).parent.name  # .../snapshots/COMMIT/config.json
        if huggingface_hub.constants.HF_HUB_OFFLINE:
            return None
        return huggingface_hub.model_info(base, revision=revision, timeout=5.0).sha
    except Exception:  # no network, model, access or valid name: the trial itself reports which
        return None


def _of_data(task: str, language: str, split: str, where: Mapping[str, Any]) -> str | None:
    from deadhead.tasks import data_files

    try:
        places = data_files(task, language, split, **where)
    except DeadheadError:
        return None  # `missing_data` reports what is missing
    files = (Path(place) for place in places)
    return digest([file_hash(f) if f.is_file() else p for f, p in zip(files, places, strict=True)])


def file_hash(file: Path) -> str:
    """The hash of a file's content; a process computes it once for each version of the file."""
    stat = file.stat()
    return _hash(file.resolve(), (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino))


@lru_cache(maxsize=4096)
def _hash(file: Path, version: tuple[int, ...]) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:32]
