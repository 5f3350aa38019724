"""Readers of words and tags: CoNLL-U, and one word a line with its tag in some column."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from deadhead.tasks.task import Row, Task

from .lines import at_blanks, bad, lines, shorten
from .tags import has_no_prefixes, split_tag, tags_expected, to_bio

Notes = Counter[str]
BLANK_WORDS = "words that are blank"
STARTS = "document starts dropped"
_UNTAGGED = re.compile(r"[1-9][0-9]*-[1-9][0-9]*|[0-9]+\.[1-9][0-9]*")


class Sentence(NamedTuple):
    """A sentence as it is in a file, with the line of each word."""

    path: Path
    numbers: list[int]
    words: list[str]
    tags: list[str]

    def add(self, number: int, word: str, tag: str) -> None:
        self.numbers.append(number)
        self.words.append(word)
        self.tags.append(tag.strip())

    def check_number(self, number: int, cell: str, name: str, hint: str | None = None) -> None:
        """Check that a cell has the number of the next word."""
        expected = len(self.words) + 1
        if cell != str(expected):
            message = f"{name} {shorten(cell)} where {expected} was expected."
            raise bad(self.path, number, message, hint)


def _new(path: Path) -> Sentence:
    return Sentence(path, [], [], [])


def read_conllu(files: Mapping[str, Path], task: Task, notes: Notes, **_: Any) -> list[Row]:
    """Read CoNLL-U: syntactic words and their UPOS.

    Ranges (`1-2`) and empty nodes (`3.1`) have no tag and are skipped.
    """
    (path,) = files.values()
    sentences = [_new(path)]
    for number, line in lines(path):
        sentence = sentences[-1]
        if not line.strip(" "):
            if sentence.words:
                sentences.append(_new(path))
            continue
        if line.startswith("#") and not sentence.words:
            continue
        cells = line.split("\t")
        if len(cells) != 10:
            hint = "separate the columns by one tab each"
            raise bad(path, number, f"{len(cells)} columns where CoNLL-U has 10.", hint)
        if _UNTAGGED.fullmatch(cells[0]):
            notes["multiword ranges and empty nodes skipped"] += 1
            continue
        hint_1 = "put a blank line between sentences" if cells[0] == "1" else None
        sentence.check_number(number, cells[0], "word id", hint_1)
        if not cells[1].strip():
            raise bad(path, number, "no word in the FORM column.")
        sentence.add(number, cells[1], cells[3])
    return tagged_rows(task, notes, sentences)


def read_columns(
    files: Mapping[str, Path],
    task: Task,
    notes: Notes,
    *,
    word: int = 0,
    tag: int = -1,
    numbered: bool = False,
    prefixed: bool = False,
    document_starts: str = "drop",
    **_: Any,
) -> list[Row]:
    """Read one word a line with its tag in some column, a blank line between sentences.

    numbered: the first column counts the words, and lines that begin with `#` are comments.
    prefixed: words are written `lang:word` (WikiANN).
    document_starts: `keep` makes a sentence of each -DOCSTART- line, as some papers count them.
    """
    (path,) = files.values()
    sentences = [_new(path)]
    width, separator = 0, ""
    for number, line in lines(path):
        blank, start = not line.strip(" "), line.startswith("-DOCSTART-")
        if (blank or start) and sentences[-1].words:
            sentences.append(_new(path))
        if blank or (numbered and line.startswith("#")):
            continue
        if start and document_starts != "keep":
            notes[STARTS] += 1
            continue
        separator = separator or ("\t" if "\t" in line else " ")  # all lines as the first
        cells = line.split("\t") if separator == "\t" else at_blanks(line)
        if len(cells) != width:
            least = max(2, *(max(column, -1 - column) + 1 for column in (word, tag)))
            width = _width(path, number, len(cells), width, least)
        form = cells[word].partition(":")[2] if prefixed else cells[word]
        notes[BLANK_WORDS] += not form.strip()  # some corpora tag them: keep and count
        sentence = sentences[-1]
        if numbered:
            sentence.check_number(number, cells[0], "word number")
        sentence.add(number, form, "O" if start else cells[tag])
        if start:
            sentences.append(_new(path))
    return tagged_rows(task, notes, sentences)


def _width(path: Path, number: int, got: int, width: int, least: int) -> int:
    """Return the number of columns of a file; refuse too few, and another number than before."""
    if width:
        hint = "give every word the same number of columns as the first"
        raise bad(path, number, f"{got} columns where the file has {width}.", hint)
    if got < least:
        message = f"{got} column{'s' * (got != 1)} where a word and a tag were expected."
        raise bad(path, number, message, "write WORD<TAB>TAG")
    return got


def tagged_rows(task: Task, notes: Notes, sentences: list[Sentence]) -> list[Row]:
    """Return sentences as rows of the task: tags checked, and in BIO if the task merges types.

    Sentences without words are left out: behind its last sentence a reader has an empty one.
    """
    tags_of_file = (tag for s in sentences for tag in s.tags)
    unprefixed = task.types is not None and has_no_prefixes(tags_of_file)
    rows = []
    for s in sentences:
        if not s.words:
            continue
        _check_tags(task, s, unprefixed, notes)
        tags = tuple(s.tags)
        if task.types is not None:
            tags, begun = to_bio(s.tags, task.types or None, unprefixed)
            notes["spans begun by I-"] += begun
        rows.append(Row(tuple(s.words), tags))
    return rows


def _check_tags(task: Task, s: Sentence, unprefixed: bool, notes: Notes) -> None:
    known = set(task.labels)
    for i, (number, tag) in enumerate(zip(s.numbers, s.tags, strict=True)):
        # xSID has Orecurring_datetime, which scorers read as O
        if task.spans and task.types is None and tag != "O" and tag.startswith("O"):
            notes["tags read as O"] += 1
            tag = s.tags[i] = "O"
        if not tag or (task.spans and not unprefixed and split_tag(tag) is None):
            hint = f"tags are {tags_expected(task_file=bool(task.files))}"
            raise bad(s.path, number, f"{shorten(tag)} is not a tag.", hint)
        if known and not task.spans and tag not in known:
            message = f"{shorten(tag)} is not a label of {task.title}."
            raise bad(s.path, number, message, f"use one of {', '.join(task.labels)}")
