"""Work that several trials share, such as one fine-tuning that many prunings start from.

Each piece is a folder named by the hash of all that shaped it (`Trial.keys`), put in place by one
rename: it is whole or absent. Only JSON and safetensors are ever read back, and no link is followed.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from .folder import DRAFT, StudyError, refused
from .trial import Trial

READ = (".json", ".safetensors", ".md")


def wanted(trials: Iterable[Trial]) -> Mapping[str, int]:
    """The keys of work that more than one trial has a use for, and how many do; a model trained from scratch is kept for one."""
    several = list(trials)
    counted = Counter(key for trial in several for key in trial.work)
    dear = {key for trial in several for at, key in trial.keys.items() if trial.steps[at] == "pretrain"}
    return {key: n for key, n in counted.items() if n > 1 or key in dear}


def spare(folder: Path, trials: Iterable[Trial], left: Iterable[Trial]) -> list[Path]:
    """Trained models under the study that no trial left waits for.

    Not rankings, which are small, nor models trained from scratch, which are dear. Of other recipes nothing is known.
    """
    several = list(trials)
    trained = {key for trial in several for one in (*trial.sources, trial) for at, key in one.keys.items() if one.steps[at] == "finetune"}
    waited = {key for trial in left for key in trial.work}
    return [home for key in sorted(trained - waited) if (home := find(folder, key)) is not None and not (home / "ranking.json").exists()]


def size(home: Path) -> int:
    """The bytes of a piece of work."""
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())


def drop(home: Path) -> None:
    """Take a piece of work away, by one rename: it is whole or absent."""
    draft = home.with_name(f"{home.name}.{os.getpid()}{DRAFT}")
    try:
        os.rename(home, draft)
    except OSError as problem:
        raise refused(home, problem) from problem
    shutil.rmtree(draft, ignore_errors=True)


def find(folder: Path, key: str) -> Path | None:
    """The folder of a piece of work, if it is there; refused if it holds what deadhead would not have written."""
    home = folder / "shared" / key
    if not os.path.lexists(home):
        return None
    if home.is_symlink() or not home.is_dir():
        raise StudyError(f"{home} is not a folder.", "delete it; it will be made again")
    for at, folders, files in os.walk(home):
        for name in (*folders, *files):
            path = Path(at) / name
            if path.is_symlink() or (name in files and path.suffix not in READ):
                raise StudyError(f"{path} does not belong in a study: only plain {', '.join(READ)} files are read.", f"delete {home}")
    return home


def keep(folder: Path, key: str, write: Callable[[Path], None]) -> None:
    """Write a piece of work beside its place and rename it there."""
    home = folder / "shared" / key
    draft = home.with_name(f"{key}.{os.getpid()}{DRAFT}")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir()
        write(draft)
        os.rename(draft, home)
    except OSError as problem:
        if not home.is_dir():  # else another was quicker, with the same work
            raise refused(home, problem) from problem
    finally:
        shutil.rmtree(draft, ignore_errors=True)
