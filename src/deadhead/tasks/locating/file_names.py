"""A data folder without a manifest: task, language, split and format, as corpora write them in names.

`ner/conll2003/eng.testa`, `pos/UD_German-GSD/de_gsd-ud-test.conllu`, `slots/train_FR.tsv`,
`slots-atis/train/seq.in`, `slots/massive/en-US.jsonl`, `parallel/valid.en` beside `valid.de`,
`SST-2/dev.tsv`, `xnli.test.tsv` with a language column. A tagged file that names no split is a
corpus without splits, and counts as train, if no file beside it names one. Every file that looks
like data and is not read is reported with the reason.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path

from deadhead.tasks.languages import code_of
from deadhead.tasks.reading.facebook import is_facebook
from deadhead.tasks.registry import TASKS
from deadhead.tasks.splits import SPLITS, split_of
from deadhead.tasks.task import Task

from .file_format import fits, guess, head, lacks_labels
from .split_files import Entry, Skipped

FIELDS = ("seq.in", "seq.out", "label", "text")  # of one utterance, in line-parallel files
TABLES = (".tsv", ".csv", ".jsonl")
NOT_DATA = {
    ".md",
    ".json",
    ".yaml",
    ".yml",
    ".py",
    ".html",
    ".pdf",
    ".zip",
    ".log",
    ".npy",
    ".xml",
    ".bib",
    ".sh",
    ".parquet",
}
# The language of corpora whose names do not say it.
CORPUS_LANG = {"people": "zh", "weibo": "zh", "msra": "zh", "aqmar": "ar", "arman": "fa", "iob2corpus": "ja", "hironsan": "ja",
               "pucit": "ur", "germeval": "de", "conll2003": "en", "atis": "en", "snips": "en"}  # fmt: skip
# Folders of other tasks, which never stand for the task that is asked for.
OTHER_TASKS = {"pawsx", "paws", "cola", "mrpc", "stsb", "wnli", "ax", "diagnostic", "snli", "anli", "xcopa", "copa", "xquad", "squad",
               "mlqa", "tydiqa", "bucc", "bucc18", "tatoeba", "boolq", "cb", "multirc", "wic", "wsc", "record"}  # fmt: skip
LEFT_OUT = {
    "original": "the original files that GLUE packs beside its own",
    "not-to-release": "not part of a release",
}
VARIANT = re.compile(
    r"fold[0-9]+|mismatched|hironsan"
)  # hironsan.txt is another corpus than ja.wikipedia.conll beside it
UNKNOWN = "und"
NO_SPLIT = "no split"


@dataclass(frozen=True)
class Name:
    """What the path of a file says, part by part."""

    path: Path
    folders: tuple[str, ...]  # between the root and the file
    asked: Task | None
    around: str | None  # the task of files in folders that name none

    @cached_property
    def file(self) -> str:
        return self.path.name.removesuffix(".gz")

    @cached_property
    def words(self) -> list[str]:
        """The words of the name and of the folders, the file's own first."""
        return [
            word
            for part in (self.file, *reversed(self.folders))
            for word in re.split(r"[._\-]", part)
        ]

    @cached_property
    def named_task(self) -> str | None:
        return next(filter(None, map(task_name, self.folders)), None)

    @cached_property
    def task(self) -> str | None:
        return self.named_task or self.around

    @cached_property
    def known(self) -> Task:
        """The task of the table (or the one asked for) that reads the file."""
        name = str(self.task)
        return (
            self.asked
            if self.asked is not None and self.asked.name == name
            else TASKS[name.partition("-")[0]]
        )

    @cached_property
    def codes(self) -> list[str]:
        return [code for word in self.words if (code := code_of(word))]

    @cached_property
    def split(self) -> str:
        """`train`, `dev` or `test`; empty for a file of all three; NO_SPLIT where no name says it."""
        named = next(filter(None, map(split_of, self.words)), None)
        return named or ("" if self.file.endswith(".jsonl") else NO_SPLIT)

    @cached_property
    def source(self) -> str:
        """The corpus: the innermost folder that is not a task, a language or a split."""
        return next(
            (p for p in reversed(self.folders) if not (task_name(p) or code_of(p) or split_of(p))),
            "",
        )

    @cached_property
    def variant(self) -> str:
        match = VARIANT.search(self.file.lower())
        return match[0] if match else ""

    @cached_property
    def field(self) -> str:
        """What a line-parallel file holds: seq.in, label, or a language of a translation."""
        if self.known.kind == "translate" and Path(self.file).suffix not in TABLES:
            return next(
                (code for word in reversed(self.words_of_file) if (code := code_of(word))), UNKNOWN
            )
        name = (
            self.file.removesuffix(f".{self.words_of_file[-1]}")
            if code_of(self.words_of_file[-1])
            else self.file
        )  # text.en
        return name if name in FIELDS else ""

    @property
    def words_of_file(self) -> list[str]:
        return re.split(r"[._\-]", self.file)

    @cached_property
    def lang(self) -> str:
        if self.known.kind == "translate":
            return "" if self.field else "-".join(self.codes[:2])
        if self.codes:
            return self.codes[0]
        if self.known.languages == ("en",):  # GLUE does not say
            return "en"
        whole = "/".join((*self.folders, self.file)).lower()
        return next((code for name, code in CORPUS_LANG.items() if name in whole), UNKNOWN)

    @cached_property
    def pair_stem(self) -> str:
        """The name of one side of a translation without its language."""
        at = max(
            (i for i, word in enumerate(self.words_of_file) if code_of(word) == self.field),
            default=None,
        )
        return ".".join(word for i, word in enumerate(self.words_of_file) if i != at)

    def reason_to_skip(self, own_folders: bool) -> str | None:
        """Why the file is not read; `own_folders`: some folder is named after the task that is asked for."""
        left_out = next(
            (LEFT_OUT[part.lower()] for part in self.folders if part.lower() in LEFT_OUT), None
        )
        if left_out:
            return left_out
        other = next((part for part in self.folders if plain(part) in OTHER_TASKS), None)
        if other and self.named_task is None:
            return f"{other} is a folder of another task"
        if self.task is None:
            return "no folder names its task: put it into pos/, ner/ or the like, or give --task"
        if self.named_task is None and own_folders:
            return f"outside the folder of {self.task}"
        if self.named_task is None and not fits(self.path, self.known, bool(self.field)):
            return f"does not look like data of {self.task}"
        if self.split == NO_SPLIT and self.known.kind != "tag":
            return "its name says neither train, dev nor test"
        if self.split == "test" and lacks_labels(self.path, self.known):
            return "it has no labels, as the test sets of GLUE"
        return None


def plain(part: str) -> str:
    return re.sub(r"[-_]", "", part.lower())


def task_name(part: str) -> str | None:
    """The task a folder is named after: `ner`, `slots-atis`, `SST-2`."""
    low = part.lower()
    if low.partition("-")[0] in TASKS:
        return low
    return low.replace("-", "") if low.replace("-", "") in TASKS else None


def from_names(root: Path, task: Task | None) -> tuple[list[Entry], list[Skipped]]:
    """The entries of a folder and the files that are not read; of several corpora in a language none is the default."""
    around = task.name if task else task_name(root.name) or task_name(root.resolve().parent.name)
    paths = sorted(path for path in root.rglob("*") if path.is_file() and not _is_no_data(path))
    names = [Name(path, path.relative_to(root).parts[:-1], task, around) for path in paths]
    own = task is not None and any(
        name.named_task and name.known.name == task.name for name in names
    )
    reasons = [(name, name.reason_to_skip(own)) for name in names]
    skipped = [Skipped(name.path, reason) for name, reason in reasons if reason]
    read, twins = _without_twins([name for name, reason in reasons if not reason])
    read, unnamed = _without_split(read)
    entries = [entry for group in _groups(read) for entry in _entries(group)]
    corpora = Counter(
        (name, lang) for name, lang, _ in {(e.task, e.lang, e.source) for e in entries}
    )
    marked = [replace(entry, default=corpora[entry.task, entry.lang] == 1) for entry in entries]
    return list(clashes(marked)), sorted([*skipped, *twins, *unnamed])


def _is_no_data(path: Path) -> bool:
    name = path.name.removesuffix(".gz")
    return name.startswith((".", "README", "LICENSE")) or Path(name).suffix in NOT_DATA


def _without_twins(names: list[Name]) -> tuple[list[Name], list[Skipped]]:
    """Facebook's slot data has every split twice, as .tsv and as .conllu: one of them is read."""
    words = {
        name.path.parent / Path(name.file).stem for name in names if name.file.endswith(".conllu")
    }
    twins = [
        n for n in names if n.path.parent / Path(n.file).stem in words and is_facebook(head(n.path))
    ]
    return [n for n in names if n not in twins], [
        Skipped(n.path, "the same data as the .conllu file beside it") for n in twins
    ]


def _without_split(names: list[Name]) -> tuple[list[Name], list[Skipped]]:
    """Leave out files that name no split where others of their corpus do: only alone they are the whole corpus."""
    split = {(n.task, n.lang, n.source) for n in names if n.split != NO_SPLIT}
    left_out = [n for n in names if n.split == NO_SPLIT and (n.task, n.lang, n.source) in split]
    reason = "its name says neither train, dev nor test, and files beside it do"
    return [n for n in names if n not in left_out], [Skipped(n.path, reason) for n in left_out]


def _groups(names: list[Name]) -> Iterator[list[Name]]:
    """Files that belong together: all fields of one split, or one file alone."""
    groups: dict[tuple[str, ...], list[Name]] = defaultdict(list)
    for name in names:
        groups[str(name.task), name.lang, name.split, name.source, name.variant].append(name)
    for group in groups.values():
        if group[0].lang == "" and len({n.field for n in group}) < len(
            group
        ):  # several pairs: told apart by their names
            stems: dict[str, list[Name]] = defaultdict(list)
            for name in group:
                stems[name.pair_stem].append(name)
            yield from stems.values()
        else:
            yield group


def _entries(group: list[Name]) -> Iterator[Entry]:
    """The entries of a group; a field that is there twice gives two entries, which clash later."""
    by_field: dict[str, list[Path]] = defaultdict(list)
    for name in group:
        by_field[name.field].append(name.path)
    for at in range(max(map(len, by_field.values()))):
        files = {field: paths[min(at, len(paths) - 1)] for field, paths in by_field.items()}
        yield from _entries_of(group[0], files)


def _entries_of(name: Name, files: dict[str, Path]) -> Iterator[Entry]:
    known, path = name.known, next(iter(files.values()))
    splits = {"": SPLITS, NO_SPLIT: ("train",)}.get(name.split, (name.split,))
    sides: dict[str, dict[str, Path]] = {name.lang: files}
    if known.kind == "translate" and "" not in files:
        ordered = sorted(files, key=lambda code: (code != "en", code))
        sides = {f"{a}-{b}": {a: files[a], b: files[b]} for a, b in combinations(ordered, 2)} or {
            ordered[0]: files
        }
    elif name.lang == UNKNOWN and "language" in head(path):
        sides = dict.fromkeys(known.languages, files)
    for lang, parts in sides.items():
        form = guess(path, known, lang, tuple(files))
        for split in splits:
            yield Entry(
                task=str(name.task),
                lang=lang,
                split=split,
                source=name.source,
                format=form,
                files=parts,
                partition=None if name.split else split,
                variant=name.variant,
            )


def clashes(entries: list[Entry]) -> Iterator[Entry]:
    """One entry for each split of a corpus; where several files claim it, it names them all."""
    same: dict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for entry in entries:
        same[entry.task, entry.lang, entry.split, entry.source, entry.variant].append(entry)
    for several in same.values():
        paths = tuple(dict.fromkeys(path for entry in several for path in entry.files.values()))
        twice = tuple(path for path in paths if any(path not in e.files.values() for e in several))
        yield several[0] if len(several) == 1 else replace(several[0], clash=twice or paths)
