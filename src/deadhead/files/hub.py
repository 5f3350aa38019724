"""Names of models: a folder on this machine, or a model on the Hugging Face hub.

A hub name may carry a revision: `bert-base-cased@main`, `someone/model@COMMIT`. Without one it
means the newest commit. Hub names contain no @, so the two cannot be confused; a folder of the
same name comes first.
"""

import difflib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deadhead.errors import FolderError

WITH_REVISION = re.compile(r"(?P<name>\w[\w.-]*(/[\w.-]+)?)@(?P<revision>.*)", re.DOTALL)
REVISION = re.compile(r"\w[\w./-]*")  # a commit, a branch, a tag, or refs/pr/1
COMMIT = re.compile(r"[0-9a-f]{40}")
WORLD = Path(__file__).parents[1] / "world" / "models"
BUNDLED = {f"world/{name}": WORLD / name for name in ("encoder", "seq2seq")}
TIMEOUT = 10.0  # seconds that the hub may take to answer at all
LONGEST = 4096, 255  # characters of a name, and of a folder in it: no file system has more


def located(name: str) -> str:
    """The name of a model; for one that is bundled with the package, such as `world/encoder`, its
    folder.
    """
    return str(BUNDLED[name]) if name in BUNDLED and not Path(name).is_dir() else name


def split(name: str | Path) -> tuple[str, str | None]:
    """The name of a model without its revision, and the revision or None."""
    if len(text := str(name)) > LONGEST[0] or any(len(p) > LONGEST[1] for p in Path(name).parts):
        hint = "name a folder with a saved model, or a hub model such as bert-base-cased"
        raise FolderError(f"there is no model {text[:40]}...: the name is too long.", hint)
    match = WITH_REVISION.fullmatch(str(name))
    if match is None or Path(name).exists():
        return str(name), None
    if not REVISION.fullmatch(match["revision"]):
        raise FolderError(
            f"expected a commit, a branch or a tag after the @ of {str(name)!r}, "
            f"got {match['revision']!r}.",
            f"write for instance {match['name']}@main",
        )
    return match["name"], match["revision"]


def source(name: str | Path) -> dict[str, Any]:
    """The arguments of `from_pretrained` that locate a model or a tokenizer."""
    base, revision = split(name)
    where = {"pretrained_model_name_or_path": base}
    return where if revision is None else {**where, "revision": revision}


def at_commit(name: str, commit: str | None) -> str:
    """The name of a hub model with this commit; any other name as it was."""
    if commit is None or not COMMIT.fullmatch(commit) or Path(name).exists():
        return name
    return f"{split(name)[0]}@{commit}"


def check_name(name: str | Path) -> None:
    """Raise an error for a file and for a missing path that is no name on the hub."""
    path = Path(name)
    if path.is_dir():
        return
    if path.is_file():
        saved = (path.parent / "config.json").is_file()
        hint = f"use {path.parent}" if saved else "name a folder with a saved model"
        raise FolderError(f"expected a folder, got the file {name}.", hint)
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(str(name))
    except HFValidationError:
        hint = "name a folder with a saved model, or a hub model such as bert-base-cased"
        message = f"there is no folder {name}."
        raise FolderError(message, similar_folder(path) or hint) from None


def similar_folder(path: Path) -> str | None:
    """A hint: the folder of a model beside this path whose name differs by little."""
    names = [config.parent.name for config in path.parent.glob("*/config.json")]
    similar = difflib.get_close_matches(path.name, names, n=1, cutoff=0.75)
    return f"did you mean {path.parent / similar[0]}?" if similar else None


def hub_problem() -> str | None:
    """Say why the hub cannot be reached; its client would try again for almost a minute."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=TIMEOUT)
    except Exception as problem:  # another library for requests has other errors
        return f"{constants.ENDPOINT} cannot be reached: {problem}"
    return None


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the log lines and progress bars of transformers and of the hub client."""
    from huggingface_hub.utils import logging as hub
    from transformers.utils import logging

    level, hub_level = logging.get_verbosity(), hub.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    hub.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        hub.set_verbosity(hub_level)
        if bars:
            logging.enable_progress_bar()
