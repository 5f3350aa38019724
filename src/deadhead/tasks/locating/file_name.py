"""What the path of one data file says: task, language, split, corpus, as corpora write them.

`ner/conll2003/eng.testa`, `pos/UD_German-GSD/de_gsd-ud-test.conllu`, `slots/train_FR.tsv`,
`slots-atis/train/seq.in`, `slots/massive/en-US.jsonl`, `parallel/valid.en` beside `valid.de`,
`SST-2/dev.tsv`, `xnli.test.tsv` with a language column. Each property is one rule.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from deadhead.tasks.languages import code_of
from deadhead.tasks.reading.formats import gold_of
from deadhead.tasks.registry import TASKS
from deadhead.tasks.task import TEXT, Task, split_of

from .file_format import STS_INPUT, first_cells, fits, lacks_labels

FIELDS = ("seq.in", "seq.out", "label", "text")  # parts of one utterance, in line-parallel files
TABLES = (".tsv", ".csv", ".jsonl")
# fmt: off
CORPUS_LANG = {  # the language of corpora whose names do not say it
    "people": "zh", "weibo": "zh", "msra": "zh", "aqmar": "ar", "arman": "fa", "iob2corpus": "ja",
    "hironsan": "ja", "pucit": "ur", "germeval": "de", "conll2003": "en", "atis": "en",
    "snips": "en", "squad": "en",
}
OF_SLOTS = {"atis", "snips"}
OF_NER = {*CORPUS_LANG, "conll2002"} - {*OF_SLOTS, "squad"}
# fmt: on
LEFT_OUT = {
    "original": "the original files that GLUE packs beside its own",
    "not-to-release": "not part of a release",
}
# hironsan.txt is another corpus than ja.wikipedia.conll beside it
VARIANT = re.compile(r"fold[0-9]+|mismatched|hironsan")
TREEBANK_FILE = re.compile(r"([a-z]{2,3})_[a-z0-9]+-ud-")
UNKNOWN = "und"
NO_SPLIT = "no split"
ALL_SPLITS = ""


def words_in(name: str) -> list[str]:
    """Split a name at dots, underscores and dashes."""
    return re.split(r"[._\-]", name)


def variant_of(name: str) -> str:
    """Return the variant that the name of a file says, or an empty text."""
    match = VARIANT.search(name.lower())
    return match[0] if match else ""


def task_name(folder: str) -> str | None:
    """Return the task a folder is named after: `ner`, `slots-atis`, `SST-2`."""
    name = folder.lower()
    if name.partition("-")[0] in TASKS:
        return name
    name = name.replace("-", "")
    return name if name in TASKS else None


@dataclass(frozen=True)
class FileName:
    """The path of a data file, read part by part."""

    path: Path
    folders: tuple[str, ...]  # between the root and the file
    requested: Task | None
    default_task: str | None  # the task of files in folders that name none

    @cached_property
    def file(self) -> str:
        return self.path.name.removesuffix(".gz")

    @cached_property
    def file_words(self) -> list[str]:
        """The words of the file; those of STS name the origin of its sentences, and say no more."""
        return [] if self.is_sts else words_in(self.file)

    @property
    def is_sts(self) -> bool:
        return bool(STS_INPUT.fullmatch(self.file))

    @cached_property
    def words(self) -> list[str]:
        """The words of the file and of its folders, the innermost first."""
        return [*self.file_words, *(w for part in reversed(self.folders) for w in words_in(part))]

    @cached_property
    def folder_task(self) -> str | None:
        """The task that a folder names."""
        return next(filter(None, map(task_name, self.folders)), None)

    @cached_property
    def task(self) -> str | None:
        return self.folder_task or self.default_task or ("pos" if self.is_treebank else None)

    @cached_property
    def is_treebank(self) -> bool:
        """Whether the name is that of a treebank's file in Universal Dependencies."""
        return bool(TREEBANK_FILE.match(self.file))

    @cached_property
    def known(self) -> Task:
        """The task that reads the file: the requested one, or an entry of TASKS."""
        name = str(self.task)
        if self.requested is not None and self.requested.name == name:
            return self.requested
        return TASKS[name.partition("-")[0]]

    @property
    def is_data(self) -> bool:
        """Whether it may be data: a json file (not jsonl) is data of question answering alone."""
        return not self.file.endswith(".json") or self._answers

    @property
    def _answers(self) -> bool:
        return self.task is not None and self.known.traits.label_unit == "span"

    @cached_property
    def codes(self) -> list[str]:
        """The languages that the words name; a treebank's file has the code of its language."""
        if match := TREEBANK_FILE.match(self.file):  # UD_Ancient_Greek is not Greek
            return [code_of(match[1]) or match[1]]
        return [code for word in self.words if (code := code_of(word))]

    @cached_property
    def split(self) -> str:
        """`train`, `dev` or `test`; ALL_SPLITS for a jsonl file that names none; else NO_SPLIT.

        XQuAD has a file for each language, which names none and is for evaluation.
        """
        named = next(filter(None, map(split_of, self.words)), "dev" if self._answers else None)
        if self.is_sts:
            return named or "test"
        return named or (ALL_SPLITS if self.file.endswith(".jsonl") else NO_SPLIT)

    @cached_property
    def source(self) -> str:
        """The corpus: the innermost folder that is not a task, a language or a split."""
        others = (p for p in reversed(self.folders) if not (task_name(p) or code_of(p)))
        root = self.home if self.split == NO_SPLIT and self.corpus_lang else ""
        return next((part for part in others if not split_of(part)), root)

    @cached_property
    def home(self) -> str:
        """The folders below the root, or else the root itself: it may be a corpus."""
        return "/".join(self.folders) or self.path.absolute().parent.name

    @cached_property
    def corpus_lang(self) -> str | None:
        """The language of the corpus that the folders name."""
        home = self.home.lower()
        return next((code for name, code in CORPUS_LANG.items() if name in home), None)

    @cached_property
    def variant(self) -> str:
        return variant_of(self.file)

    @cached_property
    def field(self) -> str:
        """What a line-parallel file holds: seq.in, label, or a language of a translation."""
        if self.known.traits.language_pair and Path(self.file).suffix not in TABLES:
            codes = filter(None, map(code_of, reversed(self.file_words)))
            return next(codes, UNKNOWN)
        last = words_in(self.file)[-1]
        name = self.file.removesuffix(f".{last}") if code_of(last) else self.file  # text.en
        return name if name in FIELDS else ""

    @cached_property
    def lang(self) -> str:
        if not self.known.traits.has_language:
            return TEXT
        if self.known.traits.language_pair:
            return "" if self.field else "-".join(self.codes[:2])
        if self.split == NO_SPLIT and self.corpus_lang:  # AQMAR's article on the UK is in Arabic
            return self.corpus_lang
        if self.codes:
            return self.codes[0]
        if self.known.languages == ("en",):  # the files of GLUE do not say it
            return "en"
        if self.known.traits.usual_language and "language" not in first_cells(self.path):
            return self.known.traits.usual_language
        file = self.file.lower()
        in_file = next((code for name, code in CORPUS_LANG.items() if name in file), UNKNOWN)
        return self.corpus_lang or in_file

    @cached_property
    def pair_stem(self) -> str:
        """The name of one side of a translation without its language."""
        places = [i for i, word in enumerate(self.file_words) if code_of(word) == self.field]
        return ".".join(w for i, w in enumerate(self.file_words) if i not in places[-1:])

    @cached_property
    def other_task(self) -> str | None:
        """The task of the corpus that the name says, if it is not the one to be read."""
        folders = re.sub(r"[-_]", "", "/".join(self.folders).lower())
        corpora = {"ner": OF_NER, "slots": OF_SLOTS} if self.known.spans else {}
        matches = (
            task for task, words in corpora.items() if any(word in folders for word in words)
        )
        task = "pos" if self.is_treebank else next(matches, self.known.name)
        return task if self.known.name in TASKS and self.known.name != task else None

    def reason_to_skip(self, has_own_folder: bool) -> str | None:
        """Say why the file is not read, if so.

        has_own_folder: some folder is named after the requested task.
        """
        for part in self.folders:
            if part.lower() in LEFT_OUT:
                return LEFT_OUT[part.lower()]
        if self.is_sts and not gold_of(self.path).is_file():
            return f"its scores, {gold_of(self.path).name}, are not beside it"
        if self.task is None:
            return "no folder names its task: put it into pos/, ner/ or the like, or give --task"
        if self.folder_task is None and (task := self.other_task):
            return f"a corpus of {task}, which has no labels of {self.task}"
        if self.folder_task is None and has_own_folder:
            return f"outside the folder of {self.task}"
        if self.folder_task is None and not fits(self.path, self.known, bool(self.field)):
            return f"does not look like data of {self.task}"
        if self.split == NO_SPLIT and not self.known.traits.cut_from_train:
            return "its name says neither train, dev nor test"
        if self.split == "test" and lacks_labels(self.path, self.known):
            return "it has no labels, as the test sets of GLUE"
        return None
