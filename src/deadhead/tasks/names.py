"""A data folder without a manifest: task, language, split and format read from names, as corpora write them.

`ner/conll2003/eng.testa`, `pos/UD_German-GSD/de_gsd-ud-test.conllu`, `slots/train_FR.tsv`,
`slots-atis/train/seq.in`, `slots/massive/en-US.jsonl`, `parallel/valid.en` beside `valid.de`,
`SST-2/dev.tsv`, `xnli.test.tsv` with a language column. A tagged file that names no split is a
corpus that has none, and counts as train.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ..errors import DataError
from .dataset import SPLITS
from .entry import SPLIT_NAMES, Entry
from .languages import code_of
from .table import TASKS, Task
from .tags import split_tag
from .text import lines

FIELDS = ("seq.in", "seq.out", "label", "text")  # of one utterance, in line-parallel files
TABLES = (".tsv", ".csv", ".jsonl")
NOT_DATA = {".md", ".json", ".yaml", ".yml", ".py", ".html", ".pdf", ".zip", ".log", ".npy"}
# The language of corpora whose names do not say it.
CORPUS_LANG = {"people": "zh", "weibo": "zh", "msra": "zh", "aqmar": "ar", "arman": "fa", "iob2corpus": "ja", "hironsan": "ja",
               "pucit": "ur", "germeval": "de", "conll2003": "en", "atis": "en", "snips": "en"}  # fmt: skip
UNKNOWN = "und"


class Place(NamedTuple):
    """What the name of a file says."""

    task: str
    lang: str
    split: str  # empty: all of them are in the file
    source: str
    stem: str  # tells files apart that agree in all else
    field: str = ""


def from_names(root: Path, task: Task | None) -> list[Entry]:
    """The entries of a folder; where a task has several corpora in a language, none of them is the default."""
    groups: dict[Place, dict[str, Path]] = {}
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        place = None if _passed_over(path) else _place(path, root, task)
        if place is not None:
            groups.setdefault(place._replace(field=""), {})[place.field] = path
    entries = [entry for place, files in groups.items() for entry in _entries(place, files, task)]
    corpora = Counter((task, lang) for task, lang, _ in {(e.task, e.lang, e.source) for e in entries})
    return [replace(entry, default=corpora[entry.task, entry.lang] == 1) for entry in entries]


def _passed_over(path: Path) -> bool:
    name = path.name.removesuffix(".gz")
    return name.startswith((".", "README", "LICENSE")) or Path(name).suffix in NOT_DATA


def task_name(part: str) -> str | None:
    """The task a folder is named after: `ner`, `slots-atis`, `SST-2`."""
    low = part.lower()
    if low.partition("-")[0] in TASKS:
        return low
    return low.replace("-", "") if low.replace("-", "") in TASKS else None


def _place(path: Path, root: Path, task: Task | None) -> Place | None:
    parts = [*path.relative_to(root).parts[:-1], path.name.removesuffix(".gz")]
    name = next(filter(None, map(task_name, parts[:-1])), None) or (task.name if task else task_name(root.name))
    if name is None:
        return None
    kind = _known(name, task).kind
    words = [re.split(r"[._\-]", part) for part in reversed(parts)]  # the file's own name first
    codes = [code for part in words for word in part if (code := code_of(word))]
    split = _first(words, lambda word: SPLIT_NAMES.get(word.lower()))
    if split is None:
        split = "" if parts[-1].endswith(".jsonl") else "train" if kind == "tag" else None
    source = next((p for p in reversed(parts[:-1]) if not (task_name(p) or code_of(p) or p.lower() in SPLIT_NAMES)), "")
    lang = codes[0] if codes else _lang_of_corpus(parts, _known(name, task))
    field, stem = (parts[-1], "") if parts[-1] in FIELDS else ("", parts[-1])
    if kind == "translate" and Path(parts[-1]).suffix not in TABLES:
        field, lang, stem = code_of(words[0][-1]) or lang, "", ""
    elif kind == "translate":
        lang = "-".join(codes[:2])
    return None if split is None else Place(name, lang, split, source, stem, field)


def _known(name: str, task: Task | None) -> Task:
    return task if task is not None and task.name == name else TASKS[name.partition("-")[0]]


def _lang_of_corpus(parts: list[str], task: Task) -> str:
    if task.languages == ("en",):  # GLUE does not say
        return "en"
    whole = "/".join(parts).lower()
    return next((code for name, code in CORPUS_LANG.items() if name in whole), UNKNOWN)


def _first(words: list[list[str]], known: Callable[[str], str | None]) -> str | None:
    return next((found for part in words for word in part if (found := known(word))), None)


def _entries(place: Place, files: dict[str, Path], task: Task | None) -> Iterator[Entry]:
    known = _known(place.task, task)
    langs = [place.lang]
    if known.kind == "translate" and "" not in files:
        langs = ["-".join(sorted(files, key=lambda code: (code != "en", code)))]
    elif place.lang == UNKNOWN and "language" in _head(next(iter(files.values()))):
        langs = list(known.languages)
    for lang in langs:
        form = guess(next(iter(files.values())), known, lang, tuple(files))
        for split in [place.split] if place.split else SPLITS:
            yield Entry(place.task, lang, split, place.source, form, files, partition=None if place.split else split)


def guess(path: Path, task: Task, lang: str, fields: tuple[str, ...] = ("",)) -> str:
    """The format of a file, by its name and its first line of data."""
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if fields[0]:
        return "lines" if task.kind == "translate" else "lines-seq.in"
    if suffix in (".conllu", ".jsonl", ".csv"):
        return suffix[1:]
    if task.kind != "tag":
        return "tsv"
    cells = _head(path)
    if any(name in cells for name in task.label.split("|")):
        return "tsv"
    if cells[0] == "1" and len(cells) == 10:
        return "conllu"
    if cells[0] == "1" and len(cells) > 2:
        return "germeval" if split_tag(cells[2]) else "xsid-conll"
    return "wikiann" if cells[0].startswith(f"{lang}:") else "columns"


def _head(path: Path) -> list[str]:
    """The cells of the first line that is not blank or a comment; none of a file that cannot be read (its reader will say so)."""
    try:
        line = next((line for _, line in lines(path) if line.strip() and not re.match(r"#[ \t]", line)), "")
    except DataError:
        line = ""
    return line.split("\t") if "\t" in line else line.split(" ")
