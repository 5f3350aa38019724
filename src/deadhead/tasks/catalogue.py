"""The papers' corpora: which one they used for a task in a language, its release and its sizes.

The facts are in the `languages.csv` of each paper. A folder may hold several corpora of a language
(an archive of Universal Dependencies holds eight of English): the papers' own is the default.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from .languages import facts

# fmt: off
FOLDERS = {  # how the folders of the papers' corpora are called
    "CoNLL-2003": "conll2003", "CoNLL-2002": "conll2002", "AQMAR": "aqmar",
    "Ben Mordecai": "mordecai", "People's": "people", "IOB2Corpus": "iob2corpus",
    "MK-PUCIT": "pucit", "Arman": "arman",
}
# fmt: on
SPLITS = ("train", "dev", "test")  # columns
TREEBANK = re.compile(r"(UD_\w+-\w+) v([0-9.]+)")


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A corpus of a paper in one language."""

    paper: str
    task: str
    language: str
    name: str  # UD_English-EWT v2.7
    sizes: Mapping[str, int]  # rows by split, as far as they are known
    size_source: str  # who says so

    def has_rows(self, split: str, rows: int, starts: int = 0) -> bool:
        """Whether these may be the rows of a split, as far as its size is certain.

        starts: -DOCSTART- lines, which some papers count as sentences.
        """
        in_paper = split == "train" and "paper table 1" in self.size_source
        is_certain = in_paper or "memory" not in self.size_source
        size = self.sizes.get(split) if is_certain else None
        return size is None or size in (rows, rows + starts)

    def other_corpus(self, name: str, release: str) -> str:
        """Say what is read in place of this corpus; nothing if it may be this one.

        release: `2.7, by its folder`; on the hub the revision.
        """
        number = release.partition(",")[0]
        own = f"{self.language}_{self.treebank.partition('-')[2]}".lower()  # on the hub
        if self.treebank and name.lower() not in (self.treebank.lower(), own):
            return f"{name} where the paper has {self.name}"
        if self.treebank and number and number != self.release:
            return f"release {release} where the paper has {self.release}"
        is_named = any(self.name.startswith(start) for start in FOLDERS)
        on_hub = release and ", by " not in release  # the names of folders are up to the user
        if on_hub and is_named and not self.is_folder(name):
            return f"{name}, which is another corpus than the paper's"
        return ""

    @property
    def treebank(self) -> str:
        """`UD_English-EWT`; nothing for other corpora."""
        match = TREEBANK.match(self.name)
        return match[1] if match else ""

    @property
    def release(self) -> str:
        """The release of Universal Dependencies; nothing for other corpora."""
        match = TREEBANK.match(self.name)
        return match[2] if match else ""

    def is_folder(self, name: str) -> bool:
        """Whether a folder of this name holds the corpus."""
        if self.treebank:
            return name.lower() == self.treebank.lower()
        word = next((word for start, word in FOLDERS.items() if self.name.startswith(start)), None)
        return word is not None and word in re.sub(r"[-_]", "", name.lower())


def _task_of(name: str) -> str:
    if TREEBANK.match(name):
        return "pos"
    return {"XNLI": "xnli", "MultiATIS++": "slots"}.get(name, "ner")


@cache
def corpora() -> tuple[Corpus, ...]:
    """Return the corpora of all papers, in their order."""
    return tuple(
        Corpus(
            paper=row["paper"],
            task=_task_of(row["dataset"]),
            language=row["code"],
            name=row["dataset"],
            sizes={split: int(row[split]) for split in SPLITS if row[split]},
            size_source=row["size_source"],
        )
        for row in facts()
        if row["paper"] and row["dataset"]
    )


def papers_corpus(task: str, language: str) -> Corpus | None:
    """Return the papers' corpus of a task in a language."""
    return next((c for c in corpora() if (c.task, c.language) == (task, language)), None)
