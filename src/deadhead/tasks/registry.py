"""TASKS: one entry for each task, and `task_of` to look one up.

A language is an argument of a task, not a task of its own. A name with a dash picks one corpus:
`slots-atis` is the task `slots` read from the corpus `atis`. A path to a YAML file is a task of
your own (`task_file.py`).
"""

from dataclasses import replace

from deadhead.errors import unknown_name
from deadhead.tasks.reading.tags import BIO_ENTITIES, NER_TYPES, UPOS

from . import hub_sets
from .task import (
    ANSWER_METRICS,
    BLEU_METRICS,
    CHOICE_METRICS,
    KINDS,
    LM_METRICS,
    RETRIEVAL_METRICS,
    SENTENCE_METRICS,
    SIMILARITY_METRICS,
    SPAN_METRICS,
    TAG_COLUMNS,
    TEXT,
    WORD_COLUMNS,
    Task,
)
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
XQUAD = ("en", "ar", "de", "el", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh")
STSB = ("en", "de", "es", "fr", "it", "nl", "pl", "pt", "ru", "zh")
ATIS = ("en", "es", "pt", "de", "fr", "zh", "ja", "hi", "tr")

_TABLE = (
    Task(name="mnli", kind="classify", metrics=SENTENCE_METRICS, languages=("en",), labels=NLI,
         texts=TWO_SENTENCES, hub=hub_sets.glue("mnli", 392_702, dev="validation_matched")),
    Task(name="qqp", kind="classify", metrics=SENTENCE_METRICS, languages=("en",),
         texts=("question1", "question2"), label="label|is_duplicate",
         labels=("not_duplicate", "duplicate"), hub=hub_sets.glue("qqp", 363_846),
         malformed="drop"),
    Task(name="qnli", kind="classify", metrics=SENTENCE_METRICS, languages=("en",),
         texts=("question", "sentence"), labels=ENTAILED, hub=hub_sets.glue("qnli", 104_743)),
    Task(name="rte", kind="classify", metrics=SENTENCE_METRICS, languages=("en",),
         texts=TWO_SENTENCES, labels=ENTAILED, hub=hub_sets.glue("rte", 2_490)),
    Task(name="sst2", kind="classify", metrics=SENTENCE_METRICS, languages=("en",),
         texts=("sentence|content|text",), labels=("negative", "positive"),
         hub=hub_sets.glue("sst2", 67_349)),
    Task(name="xnli", kind="classify", metrics=SENTENCE_METRICS, languages=XNLI, labels=NLI,
         texts=TWO_SENTENCES, hub=(replace(hub_sets.XNLI, languages=XNLI),), train_on="mnli"),
    Task(name="pos", kind="tag", metrics=("micro_f1", "macro_f1", "chunk_f1"), languages=NINE,
         texts=(WORD_COLUMNS,), label=TAG_COLUMNS, labels=UPOS, hub=hub_sets.POS),
    Task(name="ner", kind="tag", metrics=SPAN_METRICS, languages=NINE, texts=(WORD_COLUMNS,),
         label=TAG_COLUMNS, labels=BIO_ENTITIES, types=NER_TYPES, hub=hub_sets.NER),
    Task(name="slots", kind="tag", metrics=SPAN_METRICS, languages=ATIS, texts=(WORD_COLUMNS,),
         label=TAG_COLUMNS),
    Task(name="wmt14", kind="translate", metrics=BLEU_METRICS, languages=("en-de", "en-ru"),
         hub=hub_sets.WMT14),
    Task(name="parallel", kind="translate", metrics=BLEU_METRICS, languages=("en-de", "en-ru")),
    Task(name="lm", kind="lm", metrics=LM_METRICS, languages=(TEXT,), texts=("text",),
         hub=hub_sets.WIKITEXT),
    Task(name="choice", kind="choice", metrics=CHOICE_METRICS, languages=(TEXT,),
         texts=("context", "options"), label="answer"),
    Task(name="qa", kind="qa", metrics=ANSWER_METRICS, languages=XQUAD,
         texts=("question", "context"), label="answers",
         hub=(hub_sets.SQUAD, replace(hub_sets.XQUAD, languages=XQUAD))),
    Task(name="similarity", kind="similarity", metrics=SIMILARITY_METRICS, languages=(*STSB, "ja"),
         texts=KINDS["similarity"].texts, label=KINDS["similarity"].label,
         hub=hub_sets.similarity(STSB)),
    Task(name="retrieval", kind="retrieval", metrics=RETRIEVAL_METRICS, languages=(TEXT,),
         texts=("text",), hub=hub_sets.retrieval()),
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
