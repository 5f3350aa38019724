"""Work that trials share, such as one fine-tuning that many prunings start from.

Each piece is a folder named by the hash of all that shaped it (`Trial.keys`), put in place by
one rename: it is whole or absent. `whole.json` lists its files, so that damage is noticed:
damaged work counts as absent, is moved to STUDY/damaged, and is repeated. Only JSON and
safetensors are read back, and no link is followed.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from deadhead import files
from deadhead.studies.trial import Trial

from .folder import StudyError, read_json, refused
from .folder import set_aside as move

READ = (".json", ".safetensors", ".md")
WHOLE = "whole.json"


def shared_keys(trials: Iterable[Trial]) -> Mapping[str, int]:
    """The keys of work that is kept, with the number of trials that use it.

    Work of more than one trial is kept, and models trained from scratch, which are expensive.
    """
    trials = list(trials)
    counts = Counter(key for trial in trials for key in trial.work)
    keys = ((trial.protocol[at], key) for trial in trials for at, key in trial.keys.items())
    scratch = {key for step, key in keys if step.builds_model}
    return {key: n for key, n in counts.items() if n > 1 or key in scratch}


def spare(folder: Path, trials: Iterable[Trial], left: Iterable[Trial]) -> list[Path]:
    """Trained models of these trials that no trial left needs.

    Not rankings, which are small, nor models trained from scratch. Work of other recipes stays.
    """
    every = (part for whole in trials for part in (*whole.sources, whole))
    keys = ((trial.protocol[at], key) for trial in every for at, key in trial.keys.items())
    trained = {key for step, key in keys if step.trains and not step.builds_model}
    needed = {key for trial in left for key in trial.work}
    homes = (find(folder, key) for key in sorted(trained - needed))
    return [home for home in homes if home is not None and not (home / "ranking.json").exists()]


def size(home: Path) -> int:
    """The bytes of a piece of work."""
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())


def find(folder: Path, key: str) -> Path | None:
    """The folder of a piece of work, if it is there and whole; refused if it has foreign files."""
    home = folder / "shared" / key
    if not os.path.lexists(home):
        return None
    if home.is_symlink() or not home.is_dir():
        message = f"expected a folder, got a link or a file: {home}."
        raise StudyError(message, "delete it; the next run creates it again")
    if (stranger := next(_strangers(home), None)) is not None:
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


def damage(home: Path) -> str | None:
    """What is wrong with a piece of work; None if it is whole."""
    listed = read_json(home / WHOLE).get("files")
    if not isinstance(listed, dict):
        return f"{WHOLE} cannot be read"
    for name, facts in listed.items():
        try:
            size = (home / name).stat().st_size
            if size != facts["size"]:
                return f"{name} has {size} bytes of {facts['size']}"
        except OSError:
            return f"{name} is missing"
        except (KeyError, TypeError):
            return f"{WHOLE} cannot be read"
    return None


def set_aside(folder: Path, keys: Iterable[str] | None = None) -> list[str]:
    """Move damaged work (of these keys, or all) to STUDY/damaged; a sentence about each."""
    reports = []
    for key in sorted(os.listdir(folder / "shared") if keys is None else set(keys)):
        home = folder / "shared" / key
        if home.is_symlink() or not home.is_dir() or files.is_draft(key):
            continue
        if next(_strangers(home), None):
            continue  # `find` refuses it
        reason = damage(home)
        if reason is not None and (target := move(home, folder / "damaged")) is not None:
            moved = f"moved to {target.relative_to(folder)} and done again"
            reports.append(f"shared/{key} was damaged ({reason}): {moved}")
    return reports


def keep(folder: Path, key: str, write: Callable[[Path], None]) -> None:
    """Write a piece of work to a draft and rename it."""
    home = folder / "shared" / key

    def fill(draft: Path) -> None:
        write(draft)
        for stranger in list(_strangers(draft)):
            stranger.unlink()  # a saved model has files that no trial reads, such as vocab.txt
        listed = {
            path.relative_to(draft).as_posix(): {"size": path.stat().st_size}
            for path in sorted(draft.rglob("*"))
            if path.is_file()
        }
        text = json.dumps({"format": 1, "files": listed}, indent=1)
        (draft / WHOLE).write_text(text, encoding="utf-8")

    set_aside(folder, [key])
    try:
        files.put_folder(home, fill, replace=False)  # another process may have been quicker
    except OSError as problem:
        raise refused(home, problem) from problem
