"""One split of one corpus on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from deadhead.errors import DataError

ON_REQUEST = ("mismatched",)  # variants that are read only by their name


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The files of one split of one corpus."""

    task: str  # as the folder calls it: `slots`, `slots-atis`
    lang: str
    split: str
    source: str  # the corpus
    format: str
    files: Mapping[
        str, Path
    ]  # by field, where one split is several line-parallel files; "" for the only one
    default: bool = True  # meant when no source is named
    partition: str | None = None  # the part of a file that holds all splits (MASSIVE)
    variant: str = ""  # an alternative to the main file of the split: `fold2`, `mismatched`
    clash: tuple[Path, ...] = ()  # all files, where several claim to be this split

    @property
    def first(self) -> Path:
        return next(iter(self.files.values()))

    def check(self) -> None:
        """Refuse a split that several files claim: any choice between them could be the wrong one."""
        if self.clash:
            names = " and ".join(map(str, self.clash))
            raise DataError(
                f"{len(self.clash)} files for one split, {self.split} of {self.task} in {self.lang}: {names}.",
                "keep one of them, or list the right one in manifest.json, under `tasks`",
            )


class Skipped(NamedTuple):
    """A file that is not read, and why."""

    path: Path
    reason: str
