"""What a file is, by its name and its first line of data: its format, and whether it can belong to a task."""

from __future__ import annotations

import re
from pathlib import Path

from deadhead.errors import DataError
from deadhead.tasks.reading.facebook import is_facebook
from deadhead.tasks.reading.lines import lines
from deadhead.tasks.reading.tags import split_tag
from deadhead.tasks.registry import TASKS
from deadhead.tasks.task import Task

# Columns of sentence tasks: a file that begins with one of these holds no words and tags.
SENTENCE_COLUMNS = {
    name
    for task in TASKS.values()
    if task.kind == "classify"
    for names in task.texts
    for name in names.split("|")
}
MOST_COLUMNS = 4  # of words with tags in public corpora; CoNLL-2003 has this many


def guess(path: Path, task: Task, lang: str, fields: tuple[str, ...] = ("",)) -> str:
    """The format of a file."""
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if fields[0]:
        return "lines" if task.kind == "translate" else "lines-seq.in"
    if suffix in (".jsonl", ".csv"):
        return suffix[1:]
    if task.kind != "tag":
        return "conllu" if suffix == ".conllu" else "tsv"
    cells = head(path)
    if any(name in cells for name in task.label.split("|")):
        return "tsv"
    if is_facebook(cells):
        return "fb-tsv"
    if (suffix == ".conllu" and not (task.spans and len(cells) == 4)) or (
        cells[0] == "1" and len(cells) == 10
    ):
        return (
            "conllu"  # Facebook's slot files are called .conllu and have the four columns of xSID
        )
    if cells[0] == "1" and len(cells) > 2:
        return "germeval" if split_tag(cells[2]) else "xsid-conll"
    return "wikiann" if cells[0].startswith(f"{lang}:") else "columns"


def fits(path: Path, task: Task, parallel: bool) -> bool:
    """Whether a file in a folder that names no task can be data of this one, by its first line."""
    cells = head(path)
    if (
        parallel
        or cells == [""]
        or path.name.removesuffix(".gz").endswith((".jsonl", ".csv", ".conllu"))
    ):
        return True  # what its reader cannot read it refuses, with the line
    if task.kind != "tag":
        return len(cells) > 1
    if (
        cells[0] == "1"
        or is_facebook(cells)
        or any(name in cells for name in task.label.split("|"))
    ):
        return True
    if SENTENCE_COLUMNS & {*cells} or any(" " in cell for cell in cells):
        return False
    if task.spans:
        return (
            split_tag(cells[-1]) is not None or len(cells) <= MOST_COLUMNS
        )  # some corpora tag without prefixes
    return not task.labels or cells[-1] in task.labels


def lacks_labels(path: Path, task: Task) -> bool:
    """Whether the header of a file of a sentence task names the texts and no label."""
    if task.kind != "classify":
        return False
    cells = {*head(path)}
    texts = all(cells & {*names.split("|")} for names in task.texts)
    return texts and not cells & {*task.label.split("|")}


def head(path: Path) -> list[str]:
    """The cells of the first line that is not blank or a comment; empty for a file that cannot be read (its reader says why)."""
    try:
        line = next(
            (line for _, line in lines(path) if line.strip() and not re.match(r"#[ \t]", line)), ""
        )
    except DataError:
        line = ""
    return line.split("\t") if "\t" in line else line.split(" ")
