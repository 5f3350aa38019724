"""Work that several trials share, such as one fine-tuning that many prunings start from.

Each piece is a folder named by the hash of all that shaped it (`Trial.keys`), put in place by one
rename: it is whole or absent. `whole.json` lists its files, so that one which was cut short later is
noticed: such work counts as absent, is moved to STUDY/damaged, and is done again. Only JSON and
safetensors are ever read back, and no link is followed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from deadhead import files
from deadhead.studies.trial import Trial

from .folder import StudyError, json_or_none, read_json, refused
from .folder import set_aside as move

READ = (".json", ".safetensors", ".md")
WHOLE = "whole.json"


def shared_keys(trials: Iterable[Trial]) -> Mapping[str, int]:
    """The keys of work that more than one trial has a use for, and how many do; a model trained from scratch is kept for one."""
    several = list(trials)
    counted = Counter(key for trial in several for key in trial.work)
    dear = {
        key
        for trial in several
        for at, key in trial.keys.items()
        if trial.protocol[at].builds_model
    }
    return {key: n for key, n in counted.items() if n > 1 or key in dear}


def spare(folder: Path, trials: Iterable[Trial], left: Iterable[Trial]) -> list[Path]:
    """Trained models under the study that no trial left waits for.

    Not rankings, which are small, nor models trained from scratch, which are dear. Of other recipes nothing is known.
    """
    several = list(trials)
    trained = {
        key
        for trial in several
        for one in (*trial.sources, trial)
        for at, key in one.keys.items()
        if one.protocol[at].trains and not one.protocol[at].builds_model
    }
    waited = {key for trial in left for key in trial.work}
    return [
        home
        for key in sorted(trained - waited)
        if (home := find(folder, key)) is not None and not (home / "ranking.json").exists()
    ]


def size(home: Path) -> int:
    """The bytes of a piece of work."""
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())


def drop(home: Path) -> None:
    """Take a piece of work away, by one rename: it is whole or absent."""
    draft = files.draft_of(home)
    try:
        os.rename(home, draft)
    except OSError as problem:
        raise refused(home, problem) from problem
    shutil.rmtree(draft, ignore_errors=True)


def find(folder: Path, key: str) -> Path | None:
    """The folder of a piece of work, if it is there and whole; refused if it holds what deadhead would not have written."""
    home = folder / "shared" / key
    if not os.path.lexists(home):
        return None
    if home.is_symlink() or not home.is_dir():
        raise StudyError(f"{home} is not a folder.", "delete it; it will be made again")
    stranger = next(_strangers(home), None)
    if stranger is not None:
        raise StudyError(
            f"{stranger} does not belong in a study: only plain {', '.join(READ)} files are read.",
            f"delete {home}",
        )
    return home if damage(home) is None else None


def _strangers(home: Path) -> Iterator[Path]:
    for at, folders, names in os.walk(home):
        for name in (*folders, *names):
            path = Path(at) / name
            if path.is_symlink() or (name in names and path.suffix not in READ):
                yield path


def damage(home: Path, *, deep: bool = False) -> str | None:
    """What is wrong with a piece of work; None if it is whole. `deep` also compares the content with its hash."""
    if not (home / WHOLE).exists():
        return _damage_of_old(home)
    listed = read_json(home / WHOLE)
    if not isinstance(listed, dict) or not isinstance(listed.get("files"), dict):
        return f"{WHOLE} cannot be read"
    for name, facts in listed["files"].items():
        if Path(name).is_absolute() or ".." in Path(name).parts:
            return f"{WHOLE} names a file elsewhere"
        try:
            size = (home / name).stat().st_size
            if size != facts["size"]:
                return f"{name} has {size} bytes of {facts['size']}"
            if deep and _hash(home / name) != facts["sha256"]:
                return f"{name} is not what was written"
        except OSError:
            return f"{name} is missing"
        except (KeyError, TypeError):
            return f"{WHOLE} cannot be read"
    return None


def _damage_of_old(home: Path) -> str | None:
    """The same of work that an earlier version kept, which has no list of its files."""
    from deadhead.training.history import is_whole

    if not (home / "state.json").is_file():
        return "state.json is missing"
    for path in sorted(home.rglob("*")):
        if path.suffix == ".json" and json_or_none(path.read_bytes()) is None:
            return f"{path.relative_to(home)} cannot be read"
        if path.suffix == ".safetensors" and not is_whole(path):
            return f"{path.relative_to(home)} was cut short"
    return None


def _hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def set_aside(folder: Path, keys: Iterable[str] | None = None, *, deep: bool = False) -> list[str]:
    """Move damaged work to STUDY/damaged, so that it is done again; a sentence about each. Without keys, all work is checked."""
    reports = []
    for key in sorted(os.listdir(folder / "shared") if keys is None else set(keys)):
        home = folder / "shared" / key
        if (
            home.is_symlink()
            or not home.is_dir()
            or files.is_draft(key)
            or next(_strangers(home), None)
        ):
            continue  # `find` refuses what deadhead did not write
        reason = damage(home, deep=deep)
        if reason is not None and (target := move(home, folder / "damaged")) is not None:
            reports.append(
                f"shared/{key} was damaged ({reason}): moved to {target.relative_to(folder)} and done again"
            )
    return reports


def keep(folder: Path, key: str, write: Callable[[Path], None]) -> None:
    """Write a piece of work beside its place and rename it there."""
    home = folder / "shared" / key

    def fill(draft: Path) -> None:
        write(draft)
        for stranger in list(
            _strangers(draft)
        ):  # a model takes along files that no trial reads, such as vocab.txt
            stranger.unlink()
        found = sorted(path for path in draft.rglob("*") if path.is_file())
        listed = {
            path.relative_to(draft).as_posix(): {"size": path.stat().st_size, "sha256": _hash(path)}
            for path in found
        }
        (draft / WHOLE).write_text(
            json.dumps({"format": 1, "files": listed}, indent=1), encoding="utf-8"
        )

    set_aside(folder, [key])
    try:
        files.put_folder(
            home, fill, replace=False
        )  # another may have been quicker, with the same work
    except OSError as problem:
        raise refused(home, problem) from problem
