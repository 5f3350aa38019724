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
from .split_reader import MAX_NAMED, paths_of_task, read_files, split_of_task
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
    task: which task it is. For one of a task file, the splits are the files that this file names.
    """
    if is_world(root):
        for d in all_of_world():
            yield Finding(task=d.task.name, language=d.lang, split=d.split, source=WORLD).of(d)
        return
    known = None if task is None else task_of(task)
    if known is not None and known.files:
        yield from _named_by(known, malformed)
        return
    if not Path(root).is_dir():
        hint = "name a folder of data: deadhead data check DIR"
        raise DataError(f"{root}: there is no such folder.", hint)
    entries, skipped = survey(Path(root), known)
    entries = list(_paired(entries))
    if not entries:
        why = "".join(f"\n  {s.path.relative_to(root)}: {s.reason}" for s in skipped[:MAX_NAMED])
        if len(skipped) > MAX_NAMED:
            why += f"\n  and {len(skipped) - MAX_NAMED} more files"
        hint = "name folders by task, files by language and split: pos/en/train.conllu"
        raise DataError(f"{root}: nothing here that looks like data.{why}", hint)
    main = {_place(e) for e in entries if e.default and not e.variant}
    with_default = {place[:2] for place in main}
    for e in entries:
        if known is None or known.name in (e.task, e.task.partition("-")[0]):
            finding = _finding(e, task_of(e.task if task is None else task), malformed)
            name = e.variant if _place(e) in main else ""
            if not e.default and (e.task, e.lang) in with_default:
                name = e.source
            yield replace(finding, only_with=name)
        else:
            skipped.append(Skipped(e.first, f"data of another task, {e.task}"))
    for path, reason in sorted(skipped):
        yield Finding(source=str(path.relative_to(root)), skipped=reason)


def _place(entry: SplitFiles) -> tuple[str, ...]:
    return entry.task, entry.lang, entry.split, entry.source


def _finding(e: SplitFiles, task: Task, malformed: str | None) -> Finding:
    finding = Finding(task=e.task, language=e.lang, split=e.split, source=e.source)
    try:
        data = read_files(task, e, {"malformed": malformed})
    except DeadheadError as error:
        return replace(finding, error=error.message)
    release = release_of(e.first) if e.format == "conllu" else ""
    return replace(finding.of(data), release=release)


def _named_by(task: Task, malformed: str | None) -> Iterator[Finding]:
    """Yield a finding for each split and language of a task file.

    A language may lack a split, such as train, if another language has it.
    """
    skipped = []
    languages = _languages_of(task)
    for split in task.files:
        missing = {
            lang: [path for path in paths_of_task(task, lang, split).values() if not path.is_file()]
            for lang in languages
        }
        for lang, paths in missing.items():
            if paths and not all(missing.values()):
                skipped.append(Finding(source=str(paths[0]), skipped="there is no such file"))
                continue
            try:
                yield _finding(split_of_task(task, lang, split), task, malformed)
            except DeadheadError as error:  # its first line shows the format, and may be damaged
                yield Finding(
                    task=task.name, language=lang, split=split, source="", error=error.message
                )
    yield from skipped


def _languages_of(task: Task) -> tuple[str, ...]:
    """The languages that a task file lists; one without {lang} needs none."""
    if task.languages and task.traits.has_language:
        return task.languages
    if task.default_language is None:
        message = f"{task.file} does not say which languages its files are in."
        raise DataError(message, f"add a line such as languages: [{task.example_language}]")
    return (task.default_language,)


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
