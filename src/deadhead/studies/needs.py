"""Is all the data there? Looked up for all trials before the first of them begins.

Only names are looked at (`find_data`), so it takes seconds, loads no model and no torch, and a language
without a test set costs a line on the screen instead of the night in which its turn comes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import DataError
from .trial import Trial

FIND = ("root", "source", "cut")  # options of `data` that decide where it lies
MOST, FEW = 12, 6  # lines of what is missing, and pieces named in a line


@dataclass(frozen=True)
class Lack:
    """Data that cannot be found."""

    what: str  # "pos in de, test"
    why: str
    mend: str | None
    trials: int  # how many need it


def lacking(trials: Iterable[Trial]) -> list[Lack]:
    """What cannot be found of all that these trials read."""
    wanted: Counter[tuple[str, str, str, str]] = Counter()
    for trial in trials:
        options = {name: value for name, value in (trial.get("data") or {}).items() if name in FIND}
        how = json.dumps(options, sort_keys=True)
        wanted.update({(task, how, language, split) for task, language, split in trial.reads()})
    return list(_missing(wanted))


def _missing(wanted: Counter[tuple[str, str, str, str]]) -> Iterator[Lack]:
    from ..tasks import find_data

    splits: dict[tuple[str, str, str], list[str]] = {}
    for task, options, language, split in sorted(wanted):
        splits.setdefault((task, options, language), []).append(split)
    for (task, options, language), asked in splits.items():
        chosen: dict[str, Any] = json.loads(options)
        for split, found in find_data(task, language, asked, **chosen).items():
            if isinstance(found, DataError):
                yield Lack(f"{task} in {language}, {split}", found.message, found.mend, wanted[task, options, language, split])


def told(found: list[Lack]) -> list[str]:
    """A line for each reason, with all that is missing for it and the number of trials that need it."""
    reasons: dict[str, list[Lack]] = {}
    for lack in found:
        reasons.setdefault(lack.why, []).append(lack)
    lines = []
    for why, lacks in reasons.items():
        most = max(lack.trials for lack in lacks)
        several = [lack.what for lack in lacks[:FEW]] + ([f"and {len(lacks) - FEW} more"] if len(lacks) > FEW else [])
        lines.append(f"{'; '.join(several)}: {why} ({most:,} {'trial needs' if most == 1 else 'trials need'} it)")
    return lines if len(lines) <= MOST else [*lines[:MOST], f"and {len(lines) - MOST:,} more"]


def mends(found: list[Lack]) -> list[str]:
    """What to do about it, each once."""
    return list(dict.fromkeys(lack.mend for lack in found if lack.mend))[:FEW] or ["change task, source or targets"]


def check(trials: Iterable[Trial]) -> None:
    """Raise one error that names all the data that is missing."""
    found = lacking(trials)
    if found:
        lines = "\n".join(f"  {line}" for line in told(found))
        raise DataError(f"data is missing, so nothing was started:\n{lines}", "\n        ".join(mends(found)))
