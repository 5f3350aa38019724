"""FORMATS: the reader of each file format.

A reader takes the files of one split (by field, where they are line-parallel; "" for a single one),
the task, and a counter of notes. It returns the rows, or raises one `DataError` that names the file
and the line. What it drops or repairs is counted in the notes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from deadhead.errors import unknown_name
from deadhead.tasks.task import Row

from .columns import read_columns, read_conllu
from .facebook import read_facebook
from .parallel import read_parallel, read_slot_lines
from .records import read_csv, read_jsonl, read_tsv

Reader = Callable[..., list[Row]]

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
    "fb-tsv": read_facebook,
    "lines-seq.in": read_slot_lines,
    "lines-text": read_slot_lines,
    "lines": read_parallel,
    "tsv": read_tsv,
    "tsv-header": read_tsv,
    "csv": read_csv,
    "jsonl": read_jsonl,
}


def reader_of(name: str) -> Reader:
    """Return the reader of a format."""
    if name not in FORMATS:
        raise unknown_name("file format", name, FORMATS)
    return FORMATS[name]
