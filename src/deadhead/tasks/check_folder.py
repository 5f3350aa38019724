"""What a data folder holds, and whether all of it can be read: `deadhead data check`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from deadhead.errors import DataError, DeadheadError
from deadhead.tasks.locating.folder import release_of, survey
from deadhead.tasks.locating.small_world import WORLD, all_of_world, is_world
from deadhead.tasks.locating.split_files import Skipped, SplitFiles

from .dataset import Dataset
from .registry import task_of
from .split_reader import MAX_NAMED, read_files
from .task import Task


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One split of one corpus: what is in it, or why it cannot be read."""

    task: str = ""
    language: str = ""
    split: str = ""
    source: str
    sentences: int = 0
    labels: tuple[str, ...] = ()
    fingerprint: str = ""
    notes: dict[str, int] = field(default_factory=dict)
    error: str | None = None
    skipped: str | None = None  # why the file is not read
    release: str = ""  # the release of Universal Dependencies
    only_with: str = ""  # the source to name for it, if another file is read by default

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "labels": list(self.labels)}

    def of(self, data: Dataset) -> Finding:
        """Fill in what the data holds."""
        finding = replace(self, sentences=len(data), notes=dict(data.notes))
        return replace(finding, labels=data.used_labels, fingerprint=data.fingerprint)


def check_folder(
    root: str | Path, task: str | Task | None = None, malformed: str | None = None
) -> Iterator[Finding]:
    """Yield a finding for each split in the folder, then one for each file that is skipped.

    A file that cannot be read is a finding too; it does not end the check.
    """
    if is_world(root):
        for d in all_of_world():
            yield Finding(task=d.task.name, language=d.lang, split=d.split, source=WORLD).of(d)
        return
    known = None if task is None else task_of(task)
    entries, skipped = survey(Path(root), known)
    entries = list(_paired(entries))
    if not entries:
        why = "".join(f"\n  {s.path.relative_to(root)}: {s.reason}" for s in skipped[:MAX_NAMED])
        if len(skipped) > MAX_NAMED:
            why += f"\n  and {len(skipped) - MAX_NAMED} more files"
        hint = "name folders by task, files by language and split: pos/en/train.conllu"
        raise DataError(f"{root}: nothing here that looks like data.{why}", hint)
    main = {_place(e) for e in entries if e.default and not e.variant}
    for e in entries:
        if known is None or known.files or known.name in (e.task, e.task.partition("-")[0]):
            finding = _finding(e, task, malformed)
            variant = e.variant if _place(e) in main else ""
            yield replace(finding, only_with=variant)
        else:
            skipped.append(Skipped(e.first, f"data of another task, {e.task}"))
    for path, reason in sorted(skipped):
        yield Finding(source=str(path.relative_to(root)), skipped=reason)


def _place(entry: SplitFiles) -> tuple[str, ...]:
    return entry.task, entry.lang, entry.split, entry.source


def _finding(e: SplitFiles, task: str | Task | None, malformed: str | None) -> Finding:
    finding = Finding(task=e.task, language=e.lang, split=e.split, source=e.source)
    try:
        data = read_files(task_of(e.task if task is None else task), e, {"malformed": malformed})
    except DeadheadError as error:
        return replace(finding, error=error.message)
    release = release_of(e.first) if e.format == "conllu" else ""
    return replace(finding.of(data), release=release)


def _paired(entries: list[SplitFiles]) -> Iterator[SplitFiles]:
    """Pair single sides of parallel text with the first language of their set."""
    first: dict[tuple[str, str, str], SplitFiles] = {}
    for e in entries:
        try:
            is_side = task_of(e.task).traits.language_pair and "-" not in e.lang
        except DeadheadError:  # a manifest may name any task
            is_side = False
        if not is_side:
            yield e
            continue
        lead = first.setdefault((e.task, e.split, e.source), e)
        if lead is not e:
            files = {lead.lang: lead.first, e.lang: e.first}
            yield replace(e, lang=f"{lead.lang}-{e.lang}", files=files)
