"""The format of a file, and whether it can be data of a task, by its name and first line."""

import re
from pathlib import Path

from deadhead.errors import DataError
from deadhead.tasks.languages import code_of
from deadhead.tasks.reading.lines import lines
from deadhead.tasks.reading.tags import split_tag
from deadhead.tasks.registry import TASKS
from deadhead.tasks.task import TEXT, Task

# Columns of sentence tasks: a file that begins with one of these holds no words and tags.
_TEXTS = [task.texts for task in TASKS.values() if task.traits.label_unit == "row"]
SENTENCE_COLUMNS = {name for texts in _TEXTS for names in texts for name in names.split("|")}
MAX_COLUMNS = 4  # public corpora of words with tags have no more; CoNLL-2003 has 4
STS_INPUT = re.compile(r"STS.*\.input\..+\.txt")  # has its scores in STS.gs beside it
SELF_DESCRIBING = (".jsonl", ".csv", ".conllu")
PLAIN = (".txt", ".raw", ".tokens", ".jsonl")  # files of plain text; jsonl has a text on each line


def guess_format(path: Path, task: Task, lang: str, fields: tuple[str, ...] = ("",)) -> str:
    """Return the format of a file: a key of FORMATS."""
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if task.traits.label_unit == "token":
        return "jsonl" if suffix == ".jsonl" else "text"
    if task.traits.label_unit == "option":
        return "jsonl"  # a list of options fits into no column
    if task.traits.label_unit == "span":
        return "jsonl" if suffix == ".jsonl" else "squad"
    if task.traits.label_unit == "query":
        return "retrieval"
    if task.traits.label_unit == "pair":
        if STS_INPUT.fullmatch(path.name.removesuffix(".gz")):
            return "sts"
        if suffix == ".csv" and _is_stsb(path):
            return "stsb"
    if fields[0]:
        return "lines" if task.traits.language_pair else "lines-seq.in"
    if suffix in (".jsonl", ".csv"):
        return suffix[1:]
    if task.traits.label_unit != "word":
        return "conllu" if suffix == ".conllu" else "tsv"
    cells = first_cells(path)
    if _names_labels(cells, task):
        return "tsv"
    numbered = cells[0] == "1"
    if suffix == ".conllu" or (numbered and len(cells) == 10):
        return "conllu"
    if numbered and len(cells) > 2:
        return "germeval" if split_tag(cells[2]) else "xsid-conll"
    prefix, colon, _ = cells[0].partition(":")
    is_prefix = prefix == lang or (lang == TEXT and code_of(prefix) == prefix)
    return "wikiann" if colon and is_prefix else "columns"


def fits(path: Path, task: Task, parallel: bool) -> bool:
    """Whether a file in a folder that names no task can be data of this one, by its first line."""
    if task.traits.label_unit == "token":
        return path.name.removesuffix(".gz").endswith(PLAIN)
    if task.traits.label_unit == "span":
        return path.name.removesuffix(".gz").endswith((".json", ".jsonl"))
    cells = first_cells(path)
    if parallel or cells == [""] or path.name.removesuffix(".gz").endswith(SELF_DESCRIBING):
        return True  # its reader says what is wrong with it, with the line
    if task.traits.label_unit != "word":
        return len(cells) > 1
    if cells[0] == "1" or _names_labels(cells, task):
        return True
    if SENTENCE_COLUMNS & {*cells} or any(" " in cell for cell in cells):
        return False
    if task.spans:  # some corpora tag without prefixes
        return split_tag(cells[-1]) is not None or len(cells) <= MAX_COLUMNS
    return not task.labels or cells[-1] in task.labels


def _is_stsb(path: Path) -> bool:
    """Whether a csv is one of the STS benchmark, whose columns are between tabs."""
    return "," not in (cells := first_cells(path))[0] and len(cells) >= 7


def lacks_labels(path: Path, task: Task) -> bool:
    """Whether the header of a file of a sentence task names the texts but no label."""
    if task.traits.label_unit not in ("row", "pair"):
        return False
    cells = first_cells(path)
    has_texts = all({*cells} & {*names.split("|")} for names in task.texts)
    return has_texts and not _names_labels(cells, task)


def _names_labels(cells: list[str], task: Task) -> bool:
    return any(name in cells for name in task.label.split("|"))


def first_cells(path: Path) -> list[str]:
    """Return the cells of the first line that is not blank or a comment.

    A file that cannot be read gives one empty cell; its reader says why.
    """
    try:
        data = (line for _, line in lines(path) if line.strip() and not re.match(r"#[ \t]", line))
        line = next(data, "")
    except DataError:
        line = ""
    return line.split("\t" if "\t" in line else " ")
