"""What a task is: `Task` describes one, KINDS says what tasks of a kind share, `Row` is its data.

The files of TASKS are in `registry.py`, tasks of your own in YAML files (`task_file.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .hub_sets import HubSet
from .metrics import METRICS

SPLITS = ("train", "dev", "test")
SHORTEST_WINDOW = 4  # in tokens: the least that commands and recipes take as a length
TEXT = "text"  # in place of a language, for data that has none
SPLIT_NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(
        ("dev", "devel", "development", "valid", "validation", "val", "eval", "testa"), "dev"
    ),
    **dict.fromkeys(("test", "testb"), "test"),
}
CHOICE_METRICS = ("acc", "acc_norm", "acc_bytes")  # one for each option that is predicted


def split_of(word: str) -> str | None:
    """Return the split a word names, with or without a number after it (`test2014`)."""
    return SPLIT_NAMES.get(re.sub(r"[0-9]+$", "", word.lower()))


class Row(NamedTuple):
    """One example.

    tag: words and their tags; classify: one or two texts and a label; translate: source and target;
    lm: a text, which `encode` cuts into windows; choice: a context and its options, and the number
    of the right one; qa: a question and a context, and as labels the id, then of each answer the
    character where it starts and its text; similarity: two texts and their score; retrieval: a
    query, its id, and then the id and the grade of each document that was judged for it.
    """

    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()

    @property
    def answers(self) -> tuple[str, ...]:
        """The texts of the right answers to a question."""
        return self.labels[2::2]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What all tasks of a kind share."""

    model: str  # the transformers auto class
    # What has a label: the `row`, each `word`, each `token` (the next one), each token of an
    # `option`, the `pair` (a number), each `query` (graded documents); or it is a `text`, or a
    # `span` of one.
    label_unit: str
    compares: tuple[str, ...]  # which metrics fit: what they compare
    has_language: bool = True  # else its data is named TEXT
    usual_language: str = ""  # that of its data where nothing says another
    reads_one_file: bool = False  # its data may be one file in place of a folder
    language_pair: bool = False  # its languages are pairs such as en-de
    cut_from_train: bool = False  # splits that a corpus lacks are cut out of its training file
    window: int = 256  # sub-words of a window, if the user does not say otherwise
    # What a task file takes if it does not say otherwise:
    metrics: tuple[str, ...]
    texts: tuple[str, ...] = ()
    label: str = "label"

    @property
    def needs_decoder(self) -> bool:
        """Whether its model has to predict the next token."""
        return self.label_unit in ("token", "option")

    @property
    def has_labels(self) -> bool:
        """Whether a classifier has to know its labels: they are names, not texts."""
        return self.label_unit in ("row", "word")

    @property
    def cuts_texts(self) -> bool:
        """Whether a long text becomes several windows, each as long as the model allows."""
        return self.needs_decoder or self.label_unit == "span"

    @property
    def has_task_layer(self) -> bool:
        """Whether a model for it ends in a layer that is trained for the task alone."""
        return self.has_labels or self.label_unit in ("pair", "span")

    @property
    def of_embeddings(self) -> bool:
        """Whether a sentence encoder is scored on it, by the embedding of each text."""
        return self.label_unit in ("pair", "query")


KINDS: dict[str, Kind] = {
    "classify": Kind(
        model="AutoModelForSequenceClassification",
        label_unit="row",
        compares=("labels", "spans"),
        metrics=("accuracy", "macro_f1"),
    ),
    "tag": Kind(
        model="AutoModelForTokenClassification",
        label_unit="word",
        compares=("labels", "spans"),
        cut_from_train=True,  # many tagged corpora have no official splits
        metrics=("span_f1", "accuracy"),
        texts=("tokens|words|utterance",),
        label="tags|labels",
    ),
    "translate": Kind(
        model="AutoModelForSeq2SeqLM",
        label_unit="text",
        compares=("texts",),
        language_pair=True,
        metrics=("bleu", "bleu_13a", "bleu_uncased"),
    ),
    "lm": Kind(
        model="AutoModelForCausalLM",
        label_unit="token",
        compares=("likelihoods",),
        has_language=False,
        reads_one_file=True,
        window=512,
        metrics=("perplexity", "word_perplexity", "byte_perplexity", "next_token_accuracy"),
        texts=("text",),
    ),
    "choice": Kind(
        model="AutoModelForCausalLM",
        label_unit="option",
        compares=("options",),
        has_language=False,
        reads_one_file=True,
        window=2048,
        metrics=CHOICE_METRICS,
        texts=("context", "options"),
        label="answer",
    ),
    "qa": Kind(
        model="AutoModelForQuestionAnswering",
        label_unit="span",
        compares=("answers",),
        window=384,
        metrics=("f1", "exact_match"),
        texts=("question", "context"),
        label="answers",
        reads_one_file=True,
    ),
    "similarity": Kind(
        model="AutoModelForSequenceClassification",  # or a sentence encoder
        label_unit="pair",
        compares=("numbers",),
        usual_language="en",
        reads_one_file=True,
        metrics=("spearman", "pearson"),
        texts=("sentence1", "sentence2"),
        label="score|label|similarity|similarity_score",
    ),
    "retrieval": Kind(
        model="AutoModel",  # of a sentence encoder
        label_unit="query",
        compares=("rankings",),
        has_language=False,
        metrics=("ndcg_at_10", "recall_at_100", "mrr_at_10"),
        texts=("text",),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a task reads, which metrics score it, and where its data can be downloaded."""

    name: str
    kind: str  # a name in KINDS
    metrics: tuple[str, ...]  # keys of METRICS; tables show the first
    languages: tuple[str, ...]  # those of the papers; others are read if a file is there
    texts: tuple[str, ...] = ()  # columns of the text(s); `a|b` where corpora use either name
    label: str = "label|gold_label"  # column of the label(s)
    labels: tuple[str, ...] = ()  # in the order of their numbers; empty: those in the data
    scores: tuple[float, float] = (0.0, 5.0)  # for similarity: the lowest and the highest
    types: Mapping[str, str] | None = None  # entity types to merge; None: keep the tags
    hub: tuple[HubSet, ...] = ()  # sets on the hub that hold its data
    train_on: str = ""  # the task whose training set this task borrows (zero-shot)
    malformed: str = "error"  # `drop`: skip and count the broken lines of the official file
    # Task files only:
    file: str = ""  # the path of the task file, for messages
    files: Mapping[str, str] = field(default_factory=dict)  # split -> path, with {lang}
    format: str = ""  # a key of FORMATS; empty: guessed from the file
    columns: Mapping[str, int] = field(default_factory=dict)  # numbers of `word` and `tag`

    @property
    def metric(self) -> str:
        """The metric that tables show."""
        return self.metrics[0]

    @property
    def title(self) -> str:
        """Its name in messages, with its task file if it has one."""
        return f"{self.name} ({self.file})" if self.file else self.name

    @property
    def default_language(self) -> str | None:
        """What its data is called where no language is named; None: one has to be named."""
        if not self.traits.has_language:
            return TEXT
        if not self.files and self.traits.usual_language:
            return self.traits.usual_language
        if not self.files or self.why_language:
            return None
        return self.languages[0] if self.languages else TEXT

    @property
    def example_language(self) -> str:
        """What to type where a language has to be named."""
        return "en-de" if self.traits.language_pair else "en"

    @property
    def why_language(self) -> str:
        """Why a language of a task file has to be named; empty: its files are the same in all."""
        if self.traits.language_pair:
            return "a translation has a source and a target"
        if any("\0" in path.format(lang="\0") for path in self.files.values()):
            return f"the paths in {self.file} contain {{lang}}"
        if len(self.languages) > 1:
            return f"{self.file} lists {', '.join(self.languages)}"
        return ""

    @property
    def traits(self) -> Kind:
        """What it shares with all tasks of its kind."""
        return KINDS[self.kind]

    @property
    def spans(self) -> bool:
        """Whether its tags mark spans, so that each is O or has a prefix."""
        compared = {METRICS[name].compares for name in self.metrics}
        return self.types is not None or "spans" in compared
