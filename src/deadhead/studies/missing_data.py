"""Is all the data there? Looked up for all trials before the first of them begins.

Only names are looked up (`find_data`), so it takes seconds and loads neither a model nor torch: a
language without a test set costs a line on the screen instead of a night.
"""

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from deadhead.errors import DataError
from deadhead.tasks.task import SPLITS

from .steps.data import TOO_FEW_HINT, place_options, rows_there
from .trial import Trial

MARGIN = 1.5  # a training file this many times larger than needed, by its lines, is not read
INTO_FOLDER = " into a folder and "  # in a hint: between files and how to name their folder
INDENT = "\n" + 10 * " "  # before each line of a hint


@dataclass(frozen=True)
class MissingData:
    """Data that is not there."""

    task: str
    language: str
    split: str
    reason: str
    hint: str | None
    trials: int  # how many need it

    @property
    def short_reason(self) -> str:
        """The reason without the task, language and split, so that many can share a line."""
        text = self.reason.replace(f"no {self.split} data of {self.task} ", "no data ")
        return text.replace(f"no data in {self.language} ", "no data ")


def missing_data(trials: Iterable[Trial]) -> list[MissingData]:
    """What is missing of all that these trials read."""
    from deadhead.tasks import find_data

    needed: Counter[tuple[str, Any, str, str]] = Counter()
    for trial in trials:
        options = place_options(trial)
        needed.update({(task, options, language, split) for task, language, split in trial.reads()})
    missing = []
    for (task, options, language), group in groupby(sorted(needed), itemgetter(0, 1, 2)):
        splits = [split for *_, split in group]
        for split, place in find_data(task, language, splits, **dict(options)).items():
            if isinstance(place, DataError):
                count = needed[task, options, language, split]
                # other commands have an option for it
                hint = (place.hint or "").replace("--source ", f"--set fixed.data.source.{task}=")
                item = MissingData(task, language, split, place.message, hint, count)
                missing.append(item)
    return missing


def too_few_rows(trials: Iterable[Trial], only_exact: bool = False) -> list[str]:
    """A line for each corpus with fewer training rows than data.examples, as far as known here."""
    from deadhead.tasks import task_of

    needed = defaultdict(list)
    for trial in trials:
        if not trial.data.examples or (only_exact and not trial.data.exact):
            continue
        if task_of(trial.task).traits.label_unit == "token":  # its examples are windows of tokens
            continue
        options = json.dumps(trial.get("data"), sort_keys=True)
        training = (place for place, step in enumerate(trial.protocol) if step.trains)
        for lang in sorted({lang for place in training for lang in trial.languages(place)}):
            needed[trial.task, lang, options].append(trial)
    lines = []
    for (task, lang, _), (trial, *others) in needed.items():
        expected, got = trial.data.examples, available_rows(trial, lang)
        if got is not None and got < expected:
            rows = f"{got:,} training rows where data.examples expects {expected:,}"
            kept = "these trials train on what there is"
            then = "`run` refuses that (data.exact)" if trial.data.exact else kept
            count = f"{1 + len(others):,} trial{'s' * bool(others)}"
            lines.append(f"{task} in {lang}: {rows}; {then} ({count})")
    return lines


def available_rows(trial: Trial, lang: str) -> int | None:
    """The training rows of a language, up to data.examples; None where that is not known here."""
    from deadhead.tasks import find_data

    data = trial.data
    place = find_data(trial.task, lang, ["train"], **dict(place_options(trial)))["train"]
    if isinstance(place, DataError):
        return None
    if place.startswith("hub:"):
        return None if data.parts else rows_on_hub(trial.task, lang, data.source)
    is_file = not data.parts and Path(place).is_file()
    if is_file and estimated_rows(place) > MARGIN * data.examples:
        return data.examples
    try:
        return rows_there(trial, lang)
    except DataError:
        return None  # a damaged file is reported where it is read


def rows_on_hub(task: str, lang: str, source: str | None) -> int | None:
    """The training rows of a language on the hub, where they are known without it."""
    from deadhead.tasks import task_of
    from deadhead.tasks.hub_sets import hub_set

    hub = hub_set(task_of(task).hub, lang, source)
    turned = "-".join(reversed(lang.split("-")))
    return None if hub is None else hub.rows.get(lang, hub.rows.get(turned))


def estimated_rows(file: str) -> int:
    """About how many rows a file has."""
    with gzip.open(file) if file.endswith(".gz") else open(file, "rb") as stream:
        text = stream.read().replace(b"\r", b"")
    return text.count(b"\n\n") or text.count(b"\n")  # a blank line separates sentences of words


def lines(missing: list[MissingData]) -> list[str]:
    """A line for each reason: tasks, languages and splits, and the trials that need them."""
    by_language: dict[tuple[str, str, str], list[MissingData]] = {}
    for item in missing:
        by_language.setdefault((item.short_reason, item.task, item.language), []).append(item)
    reasons: dict[str, dict[tuple[str, str], list[MissingData]]] = {}
    for (reason, task, _), items in by_language.items():
        splits = ", ".join(split for split in SPLITS if split in {item.split for item in items})
        reasons.setdefault(reason, {}).setdefault((task, splits), []).extend(items)
    texts = []
    for reason, groups in reasons.items():
        names = (f"{task} in {_languages(items)} ({s})" for (task, s), items in groups.items())
        count = max(item.trials for items in groups.values() for item in items)
        need = "trial needs" if count == 1 else "trials need"
        texts.append(f"{'; '.join(names)}: {reason} ({count:,} {need} it)")
    return texts


def _languages(items: Iterable[MissingData]) -> str:
    return ", ".join(dict.fromkeys(item.language for item in items))


def hints(missing: list[MissingData]) -> list[str]:
    """What to do about it, each once; files that go into one folder have a line each."""
    files: dict[str, dict[str, list[MissingData]]] = {}
    others: dict[str, None] = {}
    for item in missing:
        for part in filter(None, (item.hint or "").split("; ")):
            place, separator, then = part.partition(INTO_FOLDER)
            if separator and place.startswith("put "):
                text = place.removeprefix("put ")
                files.setdefault(then, {}).setdefault(text, []).append(item)
            else:
                others[part] = None
    lists = [
        f"put these files{INTO_FOLDER}{then}:"
        + "".join(f"{INDENT}{it[0].task} in {_languages(it)}: {text}" for text, it in texts.items())
        for then, texts in files.items()
    ]
    return [*lists, *others] or ["change task, source or targets"]


def check(trials: Iterable[Trial]) -> None:
    """Raise one error that names all the data that is missing."""
    trials = list(trials)
    if short := too_few_rows(trials, only_exact=True):
        text = "\n".join(f"  {line}" for line in short)
        raise DataError(f"too little data, so nothing was started:\n{text}", TOO_FEW_HINT)
    if missing := missing_data(trials):
        text = "\n".join(f"  {line}" for line in lines(missing))
        hint = "\n        ".join(hints(missing))
        raise DataError(f"data is missing, so nothing was started:\n{text}", hint)
