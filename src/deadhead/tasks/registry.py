"""The two tables of this room: TASKS says what a task is, KINDS what is done with tasks of a kind.

A task is one line of data and a language is an argument: a new task is a new line here (or a few
lines of YAML of your own, see `taskfile.py`), a new language a word in a tuple. A name
after a dash picks one corpus: `slots-atis` is the task `slots` read from the corpus `atis`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deadhead.errors import unknown_name
from deadhead.tasks.locating.hub_sets import HubSet
from deadhead.tasks.reading.tags import BIO_ENTITIES, NER_TYPES, UPOS

from .locating import hub_sets as hubsets


@dataclass(frozen=True)
class Task:
    """What a task reads, what it is scored by, and where else it can be had."""

    name: str
    kind: str  # of KINDS
    metrics: tuple[str, ...]  # of METRICS; the first is the one number that tables show
    languages: tuple[
        str, ...
    ]  # the papers' and the corpora's; any other is read if a file is there
    texts: tuple[str, ...] = ()  # columns of the text(s); `a|b` where corpora differ in the name
    label: str = "label|gold_label"  # column of the label(s)
    labels: tuple[str, ...] = ()  # in the order of their numbers; empty: those found in the data
    types: Mapping[str, str] | None = None  # entity types to merge; None: tags as they are
    hub: tuple[HubSet, ...] = ()  # sets on the hub that hold it
    train_on: str = ""  # the task whose training set this one borrows (zero-shot)
    malformed: str = (
        "error"  # `drop`: the official file has broken lines, which are skipped and counted
    )
    files: Mapping[str, str] = field(
        default_factory=dict
    )  # task files only: split -> path, with {lang}
    format: str = ""  # task files only: of FORMATS; empty: by the file
    columns: Mapping[str, int] = field(default_factory=dict)  # task files only: of word and tag

    @property
    def metric(self) -> str:
        return self.metrics[0]

    @property
    def spans(self) -> bool:
        """Whether its tags mark spans, so that each is O or has a prefix."""
        return self.types is not None or any(name.startswith("span") for name in self.metrics)


@dataclass(frozen=True)
class Kind:
    """What all tasks of a kind share."""

    model: str  # the transformers auto class
    labels: (
        str  # where labels sit: one for the `row`, one for each `word`, or a `text` of their own
    )


KINDS: Mapping[str, Kind] = {
    "classify": Kind("AutoModelForSequenceClassification", labels="row"),
    "tag": Kind("AutoModelForTokenClassification", labels="word"),
    "translate": Kind("AutoModelForSeq2SeqLM", labels="text"),
}

PREMISE, HYPOTHESIS = "premise|sentence1|Premise", "hypothesis|sentence2|Hypothesis"
NLI = ("entailment", "neutral", "contradiction")
RTE, QQP, SST = (
    ("entailment", "not_entailment"),
    ("not_duplicate", "duplicate"),
    ("negative", "positive"),
)
SENTENCE = ("accuracy", "macro_f1")
WORD = ("micro_f1", "macro_f1", "chunk_f1")
SPANS = ("span_f1", "span_precision", "span_recall", "accuracy")
BLEU = ("bleu", "bleu_13a", "bleu_uncased")
XNLI = (
    "en",
    "es",
    "de",
    "vi",
    "zh",
    "hi",
    "el",
    "ur",
    "ar",
    "tr",
    "sw",
    "fr",
    "ru",
    "bg",
    "th",
)  # the first 11 are the papers'
NINE = ("en", "de", "nl", "ar", "he", "zh", "ja", "ur", "fa")
ATIS = ("en", "es", "pt", "de", "fr", "zh", "ja", "hi", "tr")
TAGS = "tags|ner_tags|upos|slot_labels|labels"
WORDS = "tokens|words|utterance"

# fmt: off
_TABLE = (
    #    name        kind         metrics   languages  columns of the texts
    Task("mnli",     "classify",  SENTENCE, ("en",),   (PREMISE, HYPOTHESIS), labels=NLI,
         hub=hubsets.glue("mnli", 392_702, dev="validation_matched")),
    Task("qqp",      "classify",  SENTENCE, ("en",),   ("question1", "question2"), "label|is_duplicate", QQP,
         hub=hubsets.glue("qqp", 363_846), malformed="drop"),
    Task("qnli",     "classify",  SENTENCE, ("en",),   ("question", "sentence"), labels=RTE, hub=hubsets.glue("qnli", 104_743)),
    Task("rte",      "classify",  SENTENCE, ("en",),   (PREMISE, HYPOTHESIS), labels=RTE, hub=hubsets.glue("rte", 2_490)),
    Task("sst2",     "classify",  SENTENCE, ("en",),   ("sentence|content|text",), labels=SST, hub=hubsets.glue("sst2", 67_349)),
    Task("xnli",     "classify",  SENTENCE, XNLI,      (PREMISE, HYPOTHESIS), labels=NLI, hub=hubsets.xnli(XNLI), train_on="mnli"),
    Task("pos",      "tag",       WORD,     NINE,      (WORDS,), TAGS, UPOS, hub=hubsets.POS),
    Task("ner",      "tag",       SPANS,    NINE,      (WORDS,), TAGS, BIO_ENTITIES, NER_TYPES, hub=hubsets.NER),
    Task("slots",    "tag",       SPANS,    ATIS,      (WORDS,), TAGS),
    Task("wmt14",    "translate", BLEU,    ("en-de", "en-ru"), hub=hubsets.WMT14),
    Task("parallel", "translate", BLEU,    ("en-de", "en-ru")),
)
# fmt: on

TASKS: Mapping[str, Task] = {task.name: task for task in _TABLE}


def task_of(name: str | Task) -> Task:
    """The task of a name; `slots-atis` is the task `slots` read from one corpus."""
    if isinstance(name, Task):
        return name
    if name.endswith((".yaml", ".yml")):
        from .task_file import read_task_file

        return read_task_file(name)
    found = TASKS.get(name) or TASKS.get(name.partition("-")[0])
    if found is None:
        raise unknown_name("task", name, TASKS)
    return found
