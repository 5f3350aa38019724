"""TASKS: one entry for each task, and `task_of` to look one up.

A language is an argument of a task, not a task of its own. A name with a dash picks one corpus:
`slots-atis` is the task `slots` read from the corpus `atis`. A path to a YAML file is a task of
your own (`task_file.py`).
"""

from __future__ import annotations

from dataclasses import replace

from deadhead.errors import unknown_name
from deadhead.tasks.reading.tags import BIO_ENTITIES, NER_TYPES, UPOS

from . import hub_sets
from .task import BLEU_METRICS, SENTENCE_METRICS, SPAN_METRICS, TAG_COLUMNS, WORD_COLUMNS, Task
from .task_file import is_task_file, read_task_file

TWO_SENTENCES = ("premise|sentence1|Premise", "hypothesis|sentence2|Hypothesis")
NLI = ("entailment", "neutral", "contradiction")
ENTAILED = ("entailment", "not_entailment")
# fmt: off
XNLI = (
    "en", "es", "de", "vi", "zh", "hi", "el", "ur", "ar", "tr", "sw",  # those of the papers
    "fr", "ru", "bg", "th",
)
NINE = ("en", "de", "nl", "ar", "he", "zh", "ja", "ur", "fa")
ATIS = ("en", "es", "pt", "de", "fr", "zh", "ja", "hi", "tr")

_TABLE = (
    #    name        kind         metrics           languages           columns of the texts
    Task("mnli",     "classify",  SENTENCE_METRICS, ("en",),            TWO_SENTENCES,
         labels=NLI, hub=hub_sets.glue("mnli", 392_702, dev="validation_matched")),
    Task("qqp",      "classify",  SENTENCE_METRICS, ("en",),            ("question1", "question2"),
         label="label|is_duplicate", labels=("not_duplicate", "duplicate"),
         hub=hub_sets.glue("qqp", 363_846), malformed="drop"),
    Task("qnli",     "classify",  SENTENCE_METRICS, ("en",),            ("question", "sentence"),
         labels=ENTAILED, hub=hub_sets.glue("qnli", 104_743)),
    Task("rte",      "classify",  SENTENCE_METRICS, ("en",),            TWO_SENTENCES,
         labels=ENTAILED, hub=hub_sets.glue("rte", 2_490)),
    Task("sst2",     "classify",  SENTENCE_METRICS, ("en",),            ("sentence|content|text",),
         labels=("negative", "positive"), hub=hub_sets.glue("sst2", 67_349)),
    Task("xnli",     "classify",  SENTENCE_METRICS, XNLI,               TWO_SENTENCES,
         labels=NLI, hub=(replace(hub_sets.XNLI, languages=XNLI),), train_on="mnli"),
    Task("pos",      "tag",       ("micro_f1", "macro_f1", "chunk_f1"), NINE, (WORD_COLUMNS,),
         label=TAG_COLUMNS, labels=UPOS, hub=hub_sets.POS),
    Task("ner",      "tag",       SPAN_METRICS,     NINE,               (WORD_COLUMNS,),
         label=TAG_COLUMNS, labels=BIO_ENTITIES, types=NER_TYPES, hub=hub_sets.NER),
    Task("slots",    "tag",       SPAN_METRICS,     ATIS,               (WORD_COLUMNS,),
         label=TAG_COLUMNS),
    Task("wmt14",    "translate", BLEU_METRICS,     ("en-de", "en-ru"), hub=hub_sets.WMT14),
    Task("parallel", "translate", BLEU_METRICS,     ("en-de", "en-ru")),
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
