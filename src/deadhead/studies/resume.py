"""What a study folder already has, and whether it may be continued with the files there are now.

`study.json` has the fingerprints of the model and the data that its trials read (`inputs`). If
they differ from today's, the study is not continued: half of its records would be about other
files. With `accept_changed` it is: the old fingerprints move to `earlier`, the old records stay,
and cells without a newer record show them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import inputs
from .inputs import Fingerprints, InputsChanged
from .recipe.load import Recipe, with_inputs
from .store import folder as place
from .store.folder import StudyError


@dataclass(frozen=True)
class Resumed:
    """A recipe in a folder that may have been worked on before."""

    recipe: Recipe  # whose trials know what they read
    stored: Mapping[str, Any]  # study.json as it was; empty in a new folder
    earlier: Sequence[Fingerprints]  # accepted inputs of old records, oldest first
    kept: Mapping[str, str]  # trial -> the id of its record with earlier inputs


def resume(
    recipe: Recipe,
    folder: Path,
    known: Mapping[str, str],
    *,
    accept_changed: bool = False,
    retry_failed: bool = False,
) -> Resumed:
    """Refuse the folder of another recipe or of other files; else find the records that stay valid.

    known: the state of each record in the folder.
    """
    stored = place.read_json(folder / "study.json")
    stored = stored if isinstance(stored, dict) else {}
    if stored and stored.get("name") != recipe.name:
        raise StudyError(
            f"{folder} is a study of {stored.get('name')}, not of {recipe.name}.",
            "name another folder with --out",
        )
    recipe = with_inputs(recipe, {**(fingerprints_of(stored) or {}), **recipe.inputs})
    earlier = [item for item in stored.get("earlier") or () if isinstance(item, dict)]
    if difference := _difference(recipe, folder, stored, known):
        if not accept_changed:
            raise InputsChanged(
                f"{difference} Nothing was started.",
                "start a new study with --out NEW, "
                "or keep the old records, marked as such, with --accept-changed",
            )
        earlier.append(dict(fingerprints_of(stored) or {}))
    staying = {name for name, state in known.items() if not (retry_failed and state == "failed")}
    return Resumed(recipe, stored, earlier, _kept(recipe, earlier, staying))


def _difference(
    recipe: Recipe, folder: Path, stored: Mapping[str, Any], known: Mapping[str, str]
) -> str:
    """The inputs of the records that have changed, for a message; empty if none has."""
    before = fingerprints_of(stored)
    if before is not None:
        if names := inputs.changed(before, recipe.inputs):
            return f"{folder} was made with other files: {inputs.described(names)} changed since."
        return ""
    records = {trial.id for trial in with_inputs(recipe, {}).trials} & known.keys()
    if not recipe.inputs or not records:
        return ""
    return f"{folder} does not say which files its {len(records)} records were made with."


def fingerprints_of(stored: Mapping[str, Any]) -> Fingerprints | None:
    """The inputs in study.json; None if it is from before fingerprints were stored."""
    names = stored.get("inputs")
    if isinstance(names, dict) and all(isinstance(value, str) for value in names.values()):
        return names
    return None if stored else {}


def _kept(recipe: Recipe, earlier: Sequence[Fingerprints], records: set[str]) -> dict[str, str]:
    kept: dict[str, str] = {}
    for fingerprints in reversed(earlier):
        for trial in recipe.trials:
            old = inputs.attached(trial, fingerprints).id
            if trial.id not in records and trial.id not in kept and old in records:
                kept[trial.id] = old
    return kept
