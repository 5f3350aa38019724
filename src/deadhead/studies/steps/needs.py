"""Is all the data there? Looked up for all trials before the first of them begins.

Only names are looked at (`find_data`), so it takes seconds, loads no model and no torch, and a language
without a test set costs a line on the screen instead of the night in which its turn comes.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deadhead.errors import DataError
from deadhead.studies.trial import TRAINS, Trial

FIND = ("root", "source", "cut")  # options of `data` that decide where it is
MARGIN = 1.5  # a training file this many times larger than needed, by its lines, is not read to count its rows
MOST, FEW = 12, 6  # lines of what is missing, and pieces named in a line


@dataclass(frozen=True)
class Lack:
    """Data that cannot be found."""

    what: str  # "pos in de, test"
    why: str
    hint: str | None
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
    from deadhead.tasks import find_data

    splits: dict[tuple[str, str, str], list[str]] = {}
    for task, options, language, split in sorted(wanted):
        splits.setdefault((task, options, language), []).append(split)
    for (task, options, language), asked in splits.items():
        chosen: dict[str, Any] = json.loads(options)
        for split, found in find_data(task, language, asked, **chosen).items():
            if isinstance(found, DataError):
                yield Lack(
                    f"{task} in {language}, {split}",
                    found.message,
                    found.hint,
                    wanted[task, options, language, split],
                )


@dataclass(frozen=True)
class Short:
    """Fewer training rows than a recipe asks for."""

    what: str  # "wmt14 in en-ru"
    expected: int
    got: int
    exact: bool  # the recipe refuses to train on fewer
    trials: int

    def __str__(self) -> str:
        then = (
            "`run` refuses that (data.exact)"
            if self.exact
            else "these trials train on what there is"
        )
        count = f"{self.trials:,} trial{'s' * (self.trials != 1)}"
        return f"{self.what}: {self.got:,} training rows where data.examples expects {self.expected:,}; {then} ({count})"


def short(trials: Iterable[Trial], only_exact: bool = False) -> list[Short]:
    """Where data.examples asks for more training rows than there are, as far as sizes are known without the hub."""
    first: dict[tuple[str, str, str], Trial] = {}
    counted: Counter[tuple[str, str, str]] = Counter()
    for trial in trials:
        data = trial.get("data") or {}
        if data.get("examples") and (data.get("exact") or not only_exact):
            languages = {
                lang
                for at, step in enumerate(trial.steps)
                if step in TRAINS
                for lang in trial.languages(at)
            }
            for lang in sorted(languages):
                key = (trial.get("task"), lang, json.dumps(data, sort_keys=True))
                first.setdefault(key, trial)
                counted[key] += 1
    rows = {key: available(first[key], key[1]) for key in first}
    return [
        Short(
            f"{task} in {lang}",
            expected,
            got,
            bool(first[key].get("data").get("exact")),
            counted[key],
        )
        for key, got in rows.items()
        for task, lang, expected in [(key[0], key[1], int(first[key].get("data")["examples"]))]
        if got is not None and got < expected
    ]


def available(trial: Trial, lang: str) -> int | None:
    """The training rows of a trial's data in a language, up to what it asks for; None where that is not known here."""
    from deadhead.tasks import find_data, task_of
    from deadhead.tasks.hub_sets import hub_set

    from .data import rows_there

    data = trial.get("data") or {}
    chosen = {name: data[name] for name in FIND if name in data}
    place = find_data(trial.get("task"), lang, ["train"], **chosen)["train"]
    if isinstance(place, DataError):
        return None
    if place.startswith("hub:"):
        found = hub_set(task_of(trial.get("task")).hub, lang, data.get("source"))
        turned = "-".join(reversed(lang.split("-")))
        return (
            None
            if found is None or "parts" in data
            else found.rows.get(lang, found.rows.get(turned))
        )
    if (
        Path(place).is_file()
        and "parts" not in data
        and estimated_rows(place) > MARGIN * data["examples"]
    ):
        return int(data["examples"])
    try:
        return rows_there(trial, lang)
    except DataError:
        return None  # a damaged file is reported where it is read


def estimated_rows(file: str) -> int:
    """About how many rows a file has."""
    with gzip.open(file) if file.endswith(".gz") else open(file, "rb") as stream:
        text = stream.read().replace(b"\r", b"")
    return text.count(b"\n\n") or text.count(
        b"\n"
    )  # sentences of a word a line are apart by a blank one


def told(found: list[Lack]) -> list[str]:
    """A line for each reason, with all that is missing for it and the number of trials that need it."""
    reasons: dict[str, list[Lack]] = {}
    for lack in found:
        reasons.setdefault(lack.why, []).append(lack)
    lines = []
    for why, lacks in reasons.items():
        most = max(lack.trials for lack in lacks)
        several = [lack.what for lack in lacks[:FEW]] + (
            [f"and {len(lacks) - FEW} more"] if len(lacks) > FEW else []
        )
        lines.append(
            f"{'; '.join(several)}: {why} ({most:,} {'trial needs' if most == 1 else 'trials need'} it)"
        )
    return lines if len(lines) <= MOST else [*lines[:MOST], f"and {len(lines) - MOST:,} more"]


def mends(found: list[Lack]) -> list[str]:
    """What to do about it, each once."""
    steps = dict.fromkeys(step for lack in found if lack.hint for step in lack.hint.split("; "))
    return sorted(steps, key=lambda step: not step.startswith("put "))[:MOST] or [
        "change task, source or targets"
    ]


def check(trials: Iterable[Trial]) -> None:
    """Raise one error that names all the data that is missing."""
    trials = list(trials)
    refused = short(trials, only_exact=True)
    if refused:
        lines = "\n".join(f"  {one}" for one in refused)
        raise DataError(
            f"too little data, so nothing was started:\n{lines}",
            "add the missing data, lower data.examples, or train on what there is with --set fixed.data.exact=false",
        )
    found = lacking(trials)
    if found:
        lines = "\n".join(f"  {line}" for line in told(found))
        raise DataError(
            f"data is missing, so nothing was started:\n{lines}", "\n        ".join(mends(found))
        )
