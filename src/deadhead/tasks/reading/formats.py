"""Files in, rows out: CoNLL-U, word-and-tag columns, parallel lines. (Tables of records: `records.py`.)

Every reader takes the files of one split and returns its rows, or raises one `DataError` that names
the file and the line. Nothing is left out in silence: what is dropped or repaired is counted in
`notes`. A row has the same two fields whatever the kind of task.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from deadhead.errors import unknown_name
from deadhead.tasks.task import Row, Task

from . import records
from .facebook import read_facebook
from .lines import bad, lines
from .tags import is_plain, split_tag, to_bio

Notes = Counter[str]
Files = Mapping[
    str, Path
]  # by field, where one split is several line-parallel files; "" for the only one
Reader = Callable[..., list[Row]]


class Sentence(NamedTuple):
    """A sentence as it stands in a file, with the line of each word."""

    path: Path
    numbers: list[int]
    words: list[str]
    tags: list[str]


def read_conllu(files: Files, task: Task, notes: Notes, **_: Any) -> list[Row]:
    """CoNLL-U: syntactic words and their UPOS; ranges (`1-2`) and empty nodes (`3.1`) carry no tag and are passed over."""
    (path,) = files.values()
    return _rows(task, notes, list(_conllu(path, notes)))


_UNTAGGED = re.compile(r"[1-9][0-9]*-[1-9][0-9]*|[0-9]+\.[1-9][0-9]*")


def _conllu(path: Path, notes: Notes) -> Iterator[Sentence]:
    sentence = Sentence(path, [], [], [])
    for number, line in lines(path):
        if not line.strip(" "):
            if sentence.words:
                yield sentence
                sentence = Sentence(path, [], [], [])
            continue
        if line.startswith("#") and not sentence.words:
            continue
        cells = line.split("\t")
        if len(cells) != 10:
            raise bad(
                path,
                number,
                f"{len(cells)} columns where CoNLL-U has 10.",
                "separate the columns by one tab each",
            )
        if _UNTAGGED.fullmatch(cells[0]):
            notes["multiword ranges and empty nodes passed over"] += 1
            continue
        want = len(sentence.words) + 1
        if cells[0] != str(want):
            hint = "put a blank line between sentences" if cells[0] == "1" else None
            raise bad(path, number, f"word id {_short(cells[0])} where {want} was to follow.", hint)
        if not cells[1].strip():
            raise bad(path, number, "no word in the FORM column.")
        _add(sentence, number, cells[1], cells[3])
    if sentence.words:
        yield sentence


def read_columns(
    files: Files,
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
    """One word a line with its tag in some column, a blank line between sentences.

    numbered: the first column counts the words, and lines that begin with `#` are comments.
    prefixed: words are written `lang:word` (WikiANN).
    document_starts: `keep` makes a sentence of each -DOCSTART- line, as some papers count them.
    """
    (path,) = files.values()
    sentences = list(
        _columns(path, notes, word, tag, numbered, prefixed, document_starts == "keep")
    )
    return _rows(task, notes, sentences)


def _columns(
    path: Path, notes: Notes, word: int, tag: int, numbered: bool, prefixed: bool, keep: bool
) -> Iterator[Sentence]:
    sentence = Sentence(path, [], [], [])
    width, tabbed = 0, False
    for number, line in lines(path):
        blank = not line.strip(" ")
        start = line.startswith("-DOCSTART-")
        if sentence.words and (blank or start):
            yield sentence
            sentence = Sentence(path, [], [], [])
        if blank or (numbered and line.startswith("#")):
            continue
        if start and not keep:
            notes["document starts dropped"] += 1
            continue
        if not width:  # the first line says how the file is written; the others must agree
            tabbed = "\t" in line
        cells = line.split("\t") if tabbed else _blanks(line)
        if len(cells) != width:
            width = _width(path, number, len(cells), width, word, tag)
        form = _word(cells[word], prefixed)
        notes[
            records.BLANK_WORDS
        ] += not form.strip()  # some corpora tag them, so they are kept and counted
        if numbered and cells[0] != str(len(sentence.words) + 1):
            raise bad(
                path,
                number,
                f"word number {_short(cells[0])} where {len(sentence.words) + 1} was to follow.",
            )
        _add(sentence, number, form, "O" if start else cells[tag])
        if start:
            yield sentence
            sentence = Sentence(path, [], [], [])
    if sentence.words:
        yield sentence


def _word(cell: str, prefixed: bool) -> str:
    return cell.partition(":")[2] if prefixed else cell


def _width(path: Path, number: int, got: int, width: int, word: int, tag: int) -> int:
    if width:
        raise bad(
            path,
            number,
            f"{got} columns where the file has {width}.",
            "give every word as many columns as the first",
        )
    if got < max(2, *(max(i, -1 - i) + 1 for i in (word, tag))):
        raise bad(
            path,
            number,
            f"{got} column{'s' * (got != 1)} where a word and a tag were expected.",
            "write WORD<TAB>TAG",
        )
    return got


def _add(sentence: Sentence, number: int, word: str, tag: str) -> None:
    sentence.numbers.append(number)
    sentence.words.append(word)
    sentence.tags.append(tag.strip())


def _rows(task: Task, notes: Notes, sentences: list[Sentence]) -> list[Row]:
    """Sentences as rows of the task: tags checked, and brought to BIO where the task merges types."""
    plain = task.types is not None and is_plain(tag for s in sentences for tag in s.tags)
    known = set(task.labels)
    rows = []
    for s in sentences:
        _check_tags(task, s, known, plain, notes)
        tags = tuple(s.tags)
        if task.types is not None:
            tags, begun = to_bio(s.tags, task.types or None, plain)
            notes["spans begun by I-"] += begun
        rows.append(Row(tuple(s.words), tags))
    return rows


def _check_tags(task: Task, s: Sentence, known: set[str], plain: bool, notes: Notes) -> None:
    for i, (number, tag) in enumerate(zip(s.numbers, s.tags, strict=True)):
        # xSID has Orecurring_datetime, of which scorers read the O; Facebook's slot files write NoLabel
        if (
            task.spans
            and task.types is None
            and tag != "O"
            and (tag[:1] == "O" or tag == "NoLabel")
        ):
            notes["tags read as O"] += 1
            tag = s.tags[i] = "O"
        if not tag or (task.spans and not plain and split_tag(tag) is None):
            raise bad(
                s.path, number, f"{_short(tag)} is not a tag.", "tags are O, B-TYPE and I-TYPE"
            )
        if known and not task.spans and tag not in known:
            raise bad(
                s.path,
                number,
                f"{_short(tag)} is not a label of {task.name}.",
                f"use one of {', '.join(task.labels)}",
            )


def read_slot_lines(files: Files, task: Task, notes: Notes, **_: Any) -> list[Row]:
    """Utterances and their tags line by line: seq.in with seq.out, or text with `tags<TAB>intent`; intents are only counted off."""
    text = files.get("seq.in") or files["text"]
    label = files.get("seq.out") or files["label"]
    sides = [text, label] + ([files["label"]] if "seq.out" in files and "label" in files else [])
    sentences = []
    for number, (words, tags, *_intent) in _together(sides):
        sentence = Sentence(text, [], _blanks(words), _blanks(tags.partition("\t")[0]))
        if len(sentence.words) != len(sentence.tags):
            raise bad(
                label,
                number,
                f"{len(sentence.tags)} tags for the {len(sentence.words)} words of {text.name}.",
            )
        if not sentence.words:
            notes["empty utterances dropped"] += 1
            continue
        sentences.append(sentence._replace(path=label, numbers=[number] * len(sentence.words)))
    return _rows(task, notes, sentences)


def read_parallel(files: Files, task: Task, notes: Notes, *, lang: str = "", **_: Any) -> list[Row]:
    """Two files line by line, the source language first; a pair with an empty side is dropped and counted."""
    source, target = (files[code] for code in lang.split("-")) if lang else files.values()
    rows = []
    for _number, (left, right) in _together([source, target]):
        if left.strip() and right.strip():
            rows.append(Row((left.strip(), right.strip())))
        else:
            notes["pairs with an empty side dropped"] += 1
    return rows


def _together(paths: list[Path]) -> Iterator[tuple[int, list[str]]]:
    for number, row in enumerate(zip_longest(*map(lines, paths)), 1):
        for path, item in zip(paths, row, strict=True):
            if item is None:
                raise bad(
                    path,
                    number,
                    "the file ends here; its partner goes on.",
                    "line-parallel files need the same number of lines",
                )
        yield number, [item[1] for item in row]


def _blanks(line: str) -> list[str]:
    """Cut at blanks and nowhere else: a no-break space is part of a word."""
    return [cell for cell in line.split(" ") if cell]


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")


FORMATS: Mapping[str, Reader] = {
    "conllu": read_conllu,
    "columns": read_columns,  # CoNLL-2002/2003, People's Daily, IOB2Corpus, AQMAR, ArmanPersoNER, MK-PUCIT, Hebrew: first and last column
    "tsv2": read_columns,
    "iob2": read_columns,
    "germeval": partial(read_columns, word=1, tag=2, numbered=True),
    "uner": partial(read_columns, word=1, tag=2, numbered=True),
    "xsid-conll": partial(read_columns, word=1, tag=3, numbered=True),
    "wikiann": partial(read_columns, prefixed=True),
    "fb-tsv": read_facebook,
    "lines-seq.in": read_slot_lines,
    "lines-text": read_slot_lines,
    "lines": read_parallel,
    "tsv": records.read_tsv,
    "tsv-header": records.read_tsv,
    "csv": records.read_csv,
    "jsonl": records.read_jsonl,
}


def reader_of(name: str) -> Reader:
    if name not in FORMATS:
        raise unknown_name("file format", name, FORMATS)
    return FORMATS[name]
