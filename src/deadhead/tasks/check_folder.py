"""What a data folder holds, and whether all of it can be read: the answer of `deadhead data check`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from deadhead.errors import DataError, DeadheadError
from deadhead.tasks.locating.folder import survey
from deadhead.tasks.locating.releases import release_of
from deadhead.tasks.locating.small_world import WORLD, all_of_world, is_world
from deadhead.tasks.locating.split_files import Entry, Skipped

from .load import SHOWN, read_entry
from .registry import task_of
from .task import Task


@dataclass(frozen=True)
class Finding:
    """One split of one corpus: what is in it, or why it cannot be read."""

    task: str
    language: str
    split: str
    source: str
    sentences: int = 0
    labels: tuple[str, ...] = ()
    fingerprint: str = ""
    notes: dict[str, int] = field(default_factory=dict)
    error: str | None = None
    skipped: str | None = None  # why the file is not read
    release: str = ""  # of Universal Dependencies
    only_with: str = (
        ""  # the source to name for it, where another file of the corpus is read by default
    )

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "labels": list(self.labels)}


def check_folder(
    root: str | Path, task: str | Task | None = None, malformed: str | None = None
) -> Iterator[Finding]:
    """A finding for each split in the folder, then one for each file that is skipped; bad files do not stop the walk."""
    if is_world(root):
        yield from (
            Finding(
                d.task.name, d.lang, d.split, WORLD, len(d), d.found, d.fingerprint, dict(d.notes)
            )
            for d in all_of_world()
        )
        return
    known = None if task is None else task_of(task)
    entries, skipped = survey(Path(root), known)
    entries = list(_pairs(entries))
    if not entries:
        why = "".join(f"\n  {path.relative_to(root)}: {reason}" for path, reason in skipped[:SHOWN])
        why += f"\n  and {len(skipped) - SHOWN} more files" if len(skipped) > SHOWN else ""
        raise DataError(
            f"{root}: nothing here that looks like data.{why}",
            "name folders by task, files by language and split: pos/en/train.conllu",
        )
    main = {(e.task, e.lang, e.split, e.source) for e in entries if e.default and not e.variant}
    for entry in entries:
        if known is None or known.files or known.name in (entry.task, entry.task.partition("-")[0]):
            finding = _finding(entry, task, malformed)
            place = (entry.task, entry.lang, entry.split, entry.source)
            yield (
                replace(finding, only_with=entry.variant)
                if entry.variant and place in main
                else finding
            )
        else:
            skipped.append(Skipped(entry.first, f"data of another task, {entry.task}"))
    for path, reason in sorted(skipped):
        yield Finding("", "", "", str(path.relative_to(root)), skipped=reason)


def _finding(entry: Entry, task: str | Task | None, malformed: str | None) -> Finding:
    place = (entry.task, entry.lang, entry.split, entry.source)
    try:
        data = read_entry(
            task_of(task if task is not None else entry.task), entry, {"malformed": malformed}
        )
    except DeadheadError as error:
        return Finding(*place, error=error.message)
    release = release_of(entry.first) if entry.format == "conllu" else ""
    return Finding(
        *place, len(data), data.found, data.fingerprint, dict(data.notes), release=release
    )


def _pairs(entries: list[Entry]) -> Iterator[Entry]:
    """Single sides of parallel text, each beside the first language of its set; everything else as it is."""
    first: dict[tuple[str, str, str], Entry] = {}
    for entry in entries:
        try:
            single = task_of(entry.task).kind == "translate" and "-" not in entry.lang
        except DeadheadError:
            single = False
        if not single:
            yield entry
            continue
        lead = first.setdefault((entry.task, entry.split, entry.source), entry)
        if lead is not entry:
            yield replace(
                entry,
                lang=f"{lead.lang}-{entry.lang}",
                files={lead.lang: lead.first, entry.lang: entry.first},
            )
