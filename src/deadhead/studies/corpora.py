"""Which corpora a study reads: what comes from where."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deadhead.errors import DeadheadError

from .steps.data import place_options
from .trial import Trial


def in_study(hint: str | None, task: str) -> str | None:
    """The hint of other commands as `plan` and `run` need it: they have no --source."""
    return hint and hint.replace("--source ", f"--set fixed.data.source.{task}=")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A split that trials read, and where it comes from."""

    task: str
    language: str
    split: str
    options: Mapping[str, Any]  # of `data`, which decide where it is
    places: tuple[str, ...]  # files, or one place on the hub

    @cached_property
    def origin(self) -> Any:
        from deadhead.tasks.locating.origin import origin_of

        return origin_of(self.places[0])


def sources(trials: Iterable[Trial]) -> list[Source]:
    """All that trials read, without what is missing or bundled."""
    from deadhead.tasks import data_files

    needed = {
        (*read, json.dumps(place_options(trial), sort_keys=True)): None
        for trial in trials
        if trial.data.root is None
        for read in trial.reads()
    }
    every = []
    for task, language, split, text in sorted(needed):
        options = json.loads(text)
        try:
            places = data_files(task, language, split, **options)
        except DeadheadError:
            continue  # `missing_data` reports it
        source = Source(task=task, language=language, split=split, options=options, places=places)
        every.append(source)
    return every


def origins(every: Iterable[Source]) -> list[str]:
    """A line for each task and folder, or set on the hub: its corpora, with their languages."""
    splits: dict[tuple[str, str, str], dict[str, dict[str, list[Source]]]] = {}
    homes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for source in every:
        origin = source.origin
        group = splits.setdefault((source.task, origin.place, origin.release), {})
        group.setdefault(origin.corpus, {}).setdefault(source.language, []).append(source)
        homes[source.task, source.language].add(f"{origin.place}/{origin.corpus}")
    lines = []
    for (task, place, release), corpora in splits.items():
        texts = []
        for corpus, languages in corpora.items():
            several = {lang for lang in languages if len(homes[task, lang]) > 1}
            names = [_name(found, lang in several) for lang, found in languages.items()]
            texts.append(f"{corpus} ({', '.join(names)})")
        where = f"the hub, {place[4:]} at {release[:7]}" if place.startswith("hub:") else place
        of_files = f", release {release}" if release and where == place else ""
        lines.append(f"{task} from {where}{of_files}: {', '.join(texts)}")
    return lines


def _name(found: list[Source], with_splits: bool) -> str:
    """A language; with its splits where others come from elsewhere, and with the number of files."""
    splits = f" {' '.join(source.split for source in found)}" if with_splits else ""
    most = max(len(source.places) for source in found)
    return f"{found[0].language}{splits}{f', {most} files' if most > 1 else ''}"
