"""What the name of a model means: a folder here, or else a model on the hub. A slip of the pen is told before the hub is waited for."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deadhead.errors import FolderError

PATIENCE = 5.0  # seconds for the hub to say whether it has a model that a folder here is nearly called like


def refuse_misnamed(name: str | Path, where: Mapping[str, Any]) -> None:
    """An error for a file, for a path that is not there, and for a name that is not the hub's and nearly that of a folder here."""
    path = Path(name)
    if path.is_dir():
        return
    if path.is_file():
        raise FolderError(f"{name} is a file.", f"name its folder: {path.parent}")
    near = _nearest(path)
    if not _is_hub_name(name):
        hint = (
            "name a folder that holds a saved model, or a model on the hub, such as bert-base-cased"
        )
        raise FolderError(f"there is no folder {name}.", f"did you mean {near}?" if near else hint)
    if near and not _on_hub(str(name), where):
        raise FolderError(
            f"there is no folder {name}, nor could a model of that name be found on the hub.",
            f"did you mean {near}?",
        )


def refuse_foreign_shards(folder: Path) -> None:
    """An error if an index of weights in a folder names a file that is not in that folder."""
    for index in folder.glob("*.index.json") if folder.is_dir() else ():
        try:
            names = {
                str(name)
                for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            }
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as problem:
            raise FolderError(
                f"{index} is damaged: {problem!r}.", "save or download the folder again"
            ) from None
        outside = sorted(
            name for name in names if Path(name).name != name or "\\" in name or "\0" in name
        )
        if outside:
            raise FolderError(
                f"{index} names a file outside of its folder: {outside[0]!r}.",
                "do not use this folder; download the model again",
            )


def _nearest(path: Path) -> Path | None:
    """The folder beside that holds a model and has nearly this name."""
    beside = [config.parent.name for config in path.parent.glob("*/config.json")]
    near = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.75)
    return path.parent / near[0] if near else None


def _is_hub_name(name: str | Path) -> bool:
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(str(name))
    except HFValidationError:
        return False
    return True


def _on_hub(name: str, where: Mapping[str, Any]) -> bool:
    """Whether the model was fetched before, or the hub has it: asked once, where loading would ask six times."""
    import huggingface_hub

    cached = huggingface_hub.try_to_load_from_cache(
        name, "config.json", cache_dir=where.get("cache_dir"), revision=where.get("revision")
    )
    if isinstance(cached, str) or where.get("local_files_only"):
        return isinstance(cached, str)
    try:
        huggingface_hub.model_info(
            name, revision=where.get("revision"), token=where.get("token"), timeout=PATIENCE
        )
    except Exception:  # no network, no such model, no right to see it: the hub client has an error of its own for each
        return False
    return True
