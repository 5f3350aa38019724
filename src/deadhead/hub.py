"""Names of models on the hub, with or without a revision: `bert-base-cased`, `bert-base-cased@main`, `someone/model@COMMIT`.

A name without a revision is whatever the hub has at that moment. Names on the hub have no @, so the two cannot be confused;
a folder of this name here comes first.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from deadhead.errors import FolderError

ON_HUB = re.compile(r"(?P<name>\w[\w.-]*(/[\w.-]+)?)@(?P<revision>.*)", re.DOTALL)
REVISION = re.compile(r"\w[\w./-]*")  # a commit, a branch, a tag, or refs/pr/1
COMMIT = re.compile(r"[0-9a-f]{40}")


def split(name: str | Path) -> tuple[str, str | None]:
    """The name of a model, and the revision if it names one."""
    match = ON_HUB.fullmatch(str(name))
    if match is None or Path(name).exists():
        return str(name), None
    if not REVISION.fullmatch(match["revision"]):
        raise FolderError(
            f"{str(name)!r} has no revision after the @; expected a commit, a branch or a tag.",
            f"write {match['name']}@main, say",
        )
    return match["name"], match["revision"]


def source(name: str | Path) -> dict[str, Any]:
    """The arguments of `from_pretrained` that say where a model or a tokenizer comes from."""
    base, revision = split(name)
    return {
        "pretrained_model_name_or_path": base,
        **({} if revision is None else {"revision": revision}),
    }


def at_commit(name: str, commit: str | None) -> str:
    """The name with this commit, if the model is on the hub and that is a commit; else as it was."""
    if commit is None or not COMMIT.fullmatch(commit) or Path(name).exists():
        return name
    return f"{split(name)[0]}@{commit}"
