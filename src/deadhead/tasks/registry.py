"""TASKS: one entry for each task, and `task_of` to look one up.

A language is an argument of a task, not a task of its own. A name with a dash picks one corpus:
`slots-atis` is the task `slots` read from the corpus `atis`. A path to a YAML file is a task of
your own (`task_file.py`).
"""

from dataclasses import replace
from functools import partial
from typing import Any

from deadhead.errors import unknown_name
from deadhead.tasks.reading.tags import BIO_ENTITIES, NER_TYPES, UPOS

from . import hub_sets
from .task import KINDS, TEXT, Task
from .task_file import is_task_file, read_task_file

TWO_SENTENCES = ("premise|sentence1|Premise", "hypothesis|sentence2|Hypothesis")
NLI = ("entailment", "neutral", "contradiction")
SPAN_METRICS = ("span_f1", "span_precision", "span_recall", "accuracy")
ENTAILED = ("entailment", "not_entailment")
# fmt: off
XNLI = (
    "en", "es", "de", "vi", "zh", "hi", "el", "ur", "ar", "tr", "sw",  # those of the papers
    "fr", "ru", "bg", "th",
)
NINE = ("en", "de", "nl", "ar", "he", "zh", "ja", "ur", "fa")
XQUAD = ("en", "ar", "de", "el", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh")
STSB = ("en", "de", "es", "fr", "it", "nl", "pl", "pt", "ru", "zh")
ATIS = ("en", "es", "pt", "de", "fr", "zh", "ja", "hi", "tr")



def _task(kind: str, name: str, languages: tuple[str, ...], **own: Any) -> Task:
    """A task with the metrics and columns of its kind, unless it has its own."""
    usual = {field: getattr(KINDS[kind], field) for field in ("metrics", "texts", "label")}
    return Task(name=name, kind=kind, languages=languages, **{**usual, **own})


_classify = partial(_task, "classify", label="label|gold_label")
_tag = partial(_task, "tag", label="tags|ner_tags|upos|slot_labels|labels")
_TABLE = (
    _classify("mnli", ("en",), labels=NLI, texts=TWO_SENTENCES,
              hub=hub_sets.glue("mnli", 392_702, dev="validation_matched")),
    _classify("qqp", ("en",), texts=("question1", "question2"), label="label|is_duplicate",
              labels=("not_duplicate", "duplicate"), hub=hub_sets.glue("qqp", 363_846),
              malformed="drop"),
    _classify("qnli", ("en",), texts=("question", "sentence"), labels=ENTAILED,
              hub=hub_sets.glue("qnli", 104_743)),
    _classify("rte", ("en",), texts=TWO_SENTENCES, labels=ENTAILED,
              hub=hub_sets.glue("rte", 2_490)),
    _classify("sst2", ("en",), texts=("sentence|content|text",), labels=("negative", "positive"),
              hub=hub_sets.glue("sst2", 67_349)),
    _classify("mrpc", ("en",), texts=("sentence1|#1 String", "sentence2|#2 String"),
              label="label|Quality", labels=("not_equivalent", "equivalent"),
              hub=hub_sets.glue("mrpc", 3_668)),
    _classify("cola", ("en",), texts=("sentence",), labels=("unacceptable", "acceptable"),
              hub=hub_sets.glue("cola", 8_551)),
    _classify("xnli", XNLI, labels=NLI, texts=TWO_SENTENCES,
              hub=(replace(hub_sets.XNLI, languages=XNLI),), train_on="mnli"),
    _tag("pos", NINE, metrics=("micro_f1", "macro_f1", "chunk_f1"), labels=UPOS, hub=hub_sets.POS),
    _tag("ner", NINE, metrics=SPAN_METRICS, labels=BIO_ENTITIES, types=NER_TYPES,
         hub=hub_sets.NER),
    _tag("slots", ATIS, metrics=SPAN_METRICS),
    _task("translate", "wmt14", ("en-de", "en-ru"), hub=hub_sets.WMT14),
    _task("translate", "parallel", ("en-de", "en-ru")),
    _task("lm", "lm", (TEXT,), hub=hub_sets.WIKITEXT),
    _task("choice", "choice", (TEXT,)),
    _task("qa", "qa", XQUAD, hub=(hub_sets.SQUAD, replace(hub_sets.XQUAD, languages=XQUAD))),
    _task("similarity", "similarity", (*STSB, "ja"), hub=hub_sets.similarity(STSB)),
    _task("retrieval", "retrieval", (TEXT,), hub=hub_sets.retrieval()),
)
# fmt: on

TASKS: dict[str, Task] = {task.name: task for task in _TABLE}


def task_of(name: str | Task) -> Task:
    """Return the task of a name, of a name with a corpus (`slots-atis`) or of a YAML file."""
    if isinstance(name, Task):
        return name
    if is_task_file(name):
        return read_task_file(name)
    task = TASKS.get(name) or TASKS.get(name.partition("-")[0])
    if task is None:
        raise unknown_name("task", name, TASKS)
    return task


def name_of(task: str | Task) -> str:
    """Return the name under which data of the task is looked up: with its corpus, if it has one."""
    return task if isinstance(task, str) and not is_task_file(task) else task_of(task).name
