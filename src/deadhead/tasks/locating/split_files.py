"""The files of one split of one corpus."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from deadhead.errors import DataError
from deadhead.tasks.task import split_of

from .file_name import words_in

NUMBER = re.compile(r"(?<![0-9])(?!(19|20)[0-9]{2}$)[0-9]+$")  # of a part; a year is none
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
    more: tuple[Path, ...] = ()  # further files, read after `files` as parts of one split
    clash: tuple[Path, ...] = ()  # all files, where several claim to be this split

    @property
    def first(self) -> Path:
        return next(iter(self.files.values()))

    @property
    def parts(self) -> list[Mapping[str, Path]]:
        """The files of each part of the split, in the order in which they are read."""
        return [self.files, *({"": path} for path in self.more)]

    @property
    def paths(self) -> list[Path]:
        return [*self.files.values(), *self.more]

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
    """Yield one entry for each split of a corpus.

    Several files are the parts of a split, or else they claim it, and the entry names them.
    """
    groups = defaultdict(list)
    for e in entries:
        groups[e.task, e.lang, e.split, e.source, e.variant].append(e)
    for first, *others in groups.values():
        if not others:
            yield first
            continue
        group = [first, *others]
        if _are_parts(group):
            yield replace(first, more=tuple(e.first for e in others))
            continue
        paths = tuple(dict.fromkeys(path for e in group for path in e.files.values()))
        own = tuple(path for path in paths if any(path not in e.files.values() for e in group))
        yield replace(first, clash=own or paths)


def _are_parts(group: list[SplitFiles]) -> bool:
    """Whether files are parts of one split: alike, in one folder, and named as parts.

    Their names say no split, since the folder does (`train/`) or the corpus has none (one file an
    article), or differ only in a number or a letter (`train-a-1`). `train` and `train_old` are no
    parts, nor is a file beside its packed copy.
    """
    if any([*e.files] != [""] or e.partition for e in group):
        return False
    names = [Path(e.first.name.removesuffix(".gz")) for e in group]
    kinds = {(e.first.parent, e.format, name.suffix) for e, name in zip(group, names, strict=True)}
    if len(kinds) > 1 or len({*names}) < len(names):
        return False
    if group[0].format == "sts":  # the sub-sets of a year
        return True
    words = [words_in(name.stem.lower()) for name in names]
    if not any(map(split_of, chain(*words))):
        return bool(group[0].source or split_of(group[0].first.parent.name))
    bases = [[w for word in ws if len(w := NUMBER.sub("", word)) > 1] for ws in words]
    return all(base == bases[0] != ws for base, ws in zip(bases, words, strict=True))
