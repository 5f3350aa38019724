"""The files of one split of one corpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from deadhead.errors import DataError

ON_REQUEST = ("mismatched",)  # variants that are read only by their name


@dataclass(frozen=True, kw_only=True)
class SplitFiles:
    """The files of one split of one corpus."""

    task: str  # as the folder names it: `slots`, `slots-atis`
    lang: str
    split: str
    source: str  # the corpus
    format: str  # a key of FORMATS
    files: Mapping[str, Path]  # by field, where a split has line-parallel files; else by ""
    default: bool = True  # read if no source is named
    partition: str | None = None  # the part of a file that holds all splits (MASSIVE)
    variant: str = ""  # an alternative to the main file of the split: `fold2`, `mismatched`
    clash: tuple[Path, ...] = ()  # all files, where several claim to be this split

    @property
    def first(self) -> Path:
        return next(iter(self.files.values()))

    def check(self) -> None:
        """Refuse a split that several files claim: any choice could be the wrong one."""
        if self.clash:
            files = " and ".join(map(str, self.clash))
            split = f"{self.split} of {self.task} in {self.lang}"
            hint = "keep one of them, or list the right one in manifest.json, under `tasks`"
            raise DataError(f"{len(self.clash)} files for one split, {split}: {files}.", hint)


class Skipped(NamedTuple):
    """A file that is not read, and why."""

    path: Path
    reason: str


def mark_clashes(entries: Iterable[SplitFiles]) -> Iterator[SplitFiles]:
    """Yield one entry for each split of a corpus; where several files claim it, it names them."""
    groups: dict[tuple[str, ...], list[SplitFiles]] = defaultdict(list)
    for e in entries:
        groups[e.task, e.lang, e.split, e.source, e.variant].append(e)
    for first, *others in groups.values():
        if not others:
            yield first
            continue
        group = [first, *others]
        paths = tuple(dict.fromkeys(path for e in group for path in e.files.values()))
        own = tuple(path for path in paths if any(path not in e.files.values() for e in group))
        yield replace(first, clash=own or paths)
