"""FORMATS: the reader of each file format.

A reader takes the files of one split (by field, where they are line-parallel; "" for a single one),
the task, and a counter of notes. It returns the rows, or raises one `DataError` that names the file
and the line. What it drops or repairs is counted in the notes.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from deadhead.errors import unknown_name
from deadhead.tasks.task import Row, Task

from .columns import Sentence, read_columns, read_conllu, tagged_rows
from .lines import at_blanks, bad, lines
from .records import NO_SCORE, Unusable, read_csv, read_jsonl, read_tsv, score_of
from .squad import read_squad

Reader = Callable[..., list[Row]]
Files = Mapping[str, Path]


def read_slot_lines(files: Files, task: Task, notes: Counter[str], **_: Any) -> list[Row]:
    """Read seq.in with seq.out, or text with `tags<TAB>intent`; intents must only be complete."""
    text = files.get("seq.in") or files["text"]
    label = files.get("seq.out") or files["label"]
    paths = [text, label] + ([files["label"]] if "seq.out" in files and "label" in files else [])
    sentences = []
    for number, (line, tag_line, *_intent) in _together(paths):
        words, tags = at_blanks(line), at_blanks(tag_line.partition("\t")[0])
        if len(words) != len(tags):
            message = f"{len(tags)} tags for the {len(words)} words of {text.name}."
            raise bad(label, number, message)
        if not words:
            notes["empty utterances dropped"] += 1
            continue
        sentences.append(Sentence(label, [number] * len(words), words, tags))
    return tagged_rows(task, notes, sentences)


def read_parallel(
    files: Files, task: Task, notes: Counter[str], *, lang: str = "", **_: Any
) -> list[Row]:
    """Read two files line by line, the source language first; drop pairs with an empty side."""
    source, target = (files[code] for code in lang.split("-")) if lang else files.values()
    rows = []
    for _number, pair in _together([source, target]):
        left, right = (side.strip() for side in pair)
        if left and right:
            rows.append(Row((left, right)))
        else:
            notes["pairs with an empty side dropped"] += 1
    return rows


def read_plain(files: Files, task: Task, notes: Counter[str], **_: Any) -> list[Row]:
    """Read a file as one text, with its line ends."""
    (path,) = files.values()
    text = "".join(line for _, line in lines(path, ends=True))
    return [Row((text,))] if text.strip() else []


def read_stsb(files: Files, task: Task, notes: Counter[str], **_: Any) -> list[Row]:
    """Read the STS benchmark as distributed: score and sentences in columns 5 to 7, no header."""
    (path,) = files.values()
    rows: list[Row] = []
    for number, line in lines(path):
        cells = line.split("\t")
        if not line.strip():
            continue
        if len(cells) < 7:
            message = f"{len(cells)} columns where 7 or more were expected."
            raise bad(path, number, message, "separate genre, file, ..., sentence2 by one tab each")
        rows += _scored(path, number, cells[5:7], cells[4], task, notes)
    return rows


def read_sts(files: Files, task: Task, notes: Counter[str], **_: Any) -> list[Row]:
    """Read STS.input.NAME.txt, two sentences a line, with the scores of STS.gs.NAME.txt."""
    (path,) = files.values()
    gold = gold_of(path)
    rows: list[Row] = []
    for number, (line, score) in _together([path, gold]):
        cells = line.split("\t")
        if len(cells) < 2:
            raise bad(path, number, "one sentence where two were expected.", "write A<TAB>B")
        rows += _scored(gold, number, cells[:2], score.strip(), task, notes)
    return rows


def gold_of(path: Path) -> Path:
    """Return the file of the scores of an STS.input.NAME.txt."""
    return path.with_name(path.name.replace(".input.", ".gs.", 1))


def _scored(
    path: Path, number: int, texts: list[str], score: str, task: Task, notes: Counter[str]
) -> Iterator[Row]:
    if not score:
        notes[f"dropped: {NO_SCORE}"] += 1
        return
    try:
        yield Row(tuple(texts), (score_of(score, task),))
    except Unusable as reason:
        raise bad(path, number, str(reason), "correct the score, or leave it out") from None


def _together(paths: list[Path]) -> Iterator[tuple[int, list[str]]]:
    for number, row in enumerate(zip_longest(*map(lines, paths)), 1):
        for path, item in zip(paths, row, strict=True):
            if item is None:
                hint = "line-parallel files need the same number of lines"
                raise bad(path, number, "the file ends here; its partner continues.", hint)
        yield number, [item[1] for item in row]


FORMATS: dict[str, Reader] = {
    "conllu": read_conllu,
    # the first and the last column: CoNLL-2002/2003, People's Daily, IOB2Corpus, AQMAR, ...
    "columns": read_columns,
    "tsv2": read_columns,
    "iob2": read_columns,
    "germeval": partial(read_columns, word=1, tag=2, numbered=True),
    "uner": partial(read_columns, word=1, tag=2, numbered=True),
    "xsid-conll": partial(read_columns, word=1, tag=3, numbered=True),
    "wikiann": partial(read_columns, prefixed=True),
    "lines-seq.in": read_slot_lines,
    "lines-text": read_slot_lines,
    "lines": read_parallel,
    "tsv": read_tsv,
    "tsv-header": read_tsv,
    "csv": read_csv,
    "jsonl": read_jsonl,
    "stsb": read_stsb,
    "sts": read_sts,
    "text": read_plain,
    "squad": read_squad,
}


def reader_of(name: str) -> Reader:
    """Return the reader of a format."""
    if name not in FORMATS:
        raise unknown_name("file format", name, FORMATS)
    return FORMATS[name]
