"""Our numbers are those of seqeval, scikit-learn and sacrebleu."""

import warnings

import pytest
import sacrebleu
import seqeval.metrics as seqeval
import sklearn.metrics as sklearn
from hypothesis import example, given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from deadhead.errors import DataError
from deadhead.tasks import Row, Task, bleu_signature, dataset, points, points_text, score
from deadhead.tasks.metrics import METRICS, sign
from deadhead.tasks.reading.tags import UPOS
from deadhead.tasks.spans import find_spans

Pair = tuple[list[list[str]], list[list[str]]]


def pairs(tags):
    """Gold and predicted tags of the same shape."""
    sentence = st.lists(
        st.tuples(st.sampled_from(tags), st.sampled_from(tags)), min_size=1, max_size=8
    )
    return st.lists(sentence, min_size=1, max_size=5).map(
        lambda result: ([[g for g, _ in s] for s in result], [[p for _, p in s] for s in result])
    )


BIO = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "E-PER", "S-LOC", "B-a-b", "I-a-b", "B-a", "I"]


@example(([["ADJ", "ADJ"], ["X", "ADJ"]], [["ADJ", "ADP"], ["X", "ADJ"]]))
@given(pairs(BIO) | pairs(list(UPOS)) | pairs(["SYM", "SCONJ", "CCONJ", "X", "O"]))
def test_spans_agree_with_seqeval(pair):
    theirs = {
        "span_f1": seqeval.f1_score,
        "span_precision": seqeval.precision_score,
        "span_recall": seqeval.recall_score,
        "accuracy": seqeval.accuracy_score,
    }
    types = {}
    spans = find_spans(pair[0][0], types).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        named = [([*types][kind], first, last) for last, kind, first in spans]
        assert named == get_entities(pair[0][0])
        for name, value in theirs.items():
            assert METRICS[name](*pair) == pytest.approx(value(*pair), abs=1e-12)


@given(pairs(["a", "b", "c", "d"]))
def test_accuracy_and_macro_f1_agree_with_scikit_learn(pair):
    flat = [[label for row in side for label in row] for side in pair]
    accuracy, macro = METRICS["accuracy"](*pair), METRICS["macro_f1"](*pair)
    assert accuracy == pytest.approx(sklearn.accuracy_score(*flat), abs=1e-12)
    assert accuracy == pytest.approx(sklearn.f1_score(*flat, average="micro"), abs=1e-12)
    expected = sklearn.f1_score(*flat, average="macro", zero_division=0)
    assert macro == pytest.approx(expected, abs=1e-12)


texts = st.lists(
    st.sampled_from(["the", "cat", "sat", "on", "mat", ".", "über", "猫"]), min_size=1, max_size=9
).map(" ".join)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
def test_bleu_is_sacrebleu(both):
    gold, predicted = [g for g, _ in both], [p for _, p in both]
    data = dataset("parallel", "en-de", "test", [Row(("source", g)) for g in gold])
    ways = {
        "bleu": {"tokenize": "intl"},
        "bleu_13a": {},
        "bleu_uncased": {"tokenize": "intl", "lowercase": True},
    }
    expected = {
        name: sacrebleu.corpus_bleu(predicted, [gold], **options).score
        for name, options in ways.items()
    }
    assert score("parallel", predicted, data) == expected


def test_the_bleu_signature_says_how():
    assert "case:mixed" in bleu_signature("en-de")
    assert "tok:intl" in bleu_signature("en-de")
    assert "tok:zh" in bleu_signature("en-zh")
    assert "version:" in bleu_signature()


def test_score_gives_all_metrics_of_the_task():
    data = dataset("pos", "en", "test", [Row(("a", "b"), ("NOUN", "VERB"))])
    assert score("pos", [["NOUN", "NOUN"]], data) == {
        "micro_f1": 0.5,
        "macro_f1": pytest.approx(1 / 3),
        "chunk_f1": 0.0,
    }
    pair = dataset("sst2", "en", "test", [Row(("a",), ("positive",)), Row(("b",), ("negative",))])
    assert score("sst2", ["positive", "positive"], pair)["accuracy"] == 0.5


def test_predictions_must_fit():
    data = dataset("pos", "en", "test", [Row(("a", "b"), ("NOUN", "VERB"))])
    with pytest.raises(DataError, match="expected 1 predictions, one for each row, got 0"):
        score("pos", [], data)
    with pytest.raises(DataError, match="row 0 of pos in en: expected 2 predictions, got 1"):
        score("pos", [["NOUN"]], data)


def test_the_metric_alone_decides_about_points():
    assert [sign(name) for name in ("perplexity", "bleu", "my own")] == [-1, 1, 1]
    assert points("bleu_13a", 38.3) == 38.3
    assert points("span_f1", 0.383) == pytest.approx(38.3)


def test_the_signature_is_that_of_the_first_metric():
    data = dataset("parallel", "en-de", "test", [Row(("source", "Er sah das Haus ."))])
    task = Task(name="mine", kind="translate", metrics=("bleu_13a", "bleu"), languages=("en-de",))
    assert "tok:13a" in score(task, ["Er sah das Haus ."], data).signature


@given(pairs([tag for tag in BIO if tag != "I"]))
def test_counts_of_spans_stay_with_their_rows(pair):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [[len(get_entities(tags)) for tags in side] for side in pair]
    assert METRICS["span_f1"].counts(*pair, "")[:, 1:].T.tolist() == expected


def test_points_as_text():
    assert points_text("accuracy", 0.12345) == "12.35"
    assert points_text("accuracy", 0.01, "+") == "+1.00"
    assert points_text("perplexity", 999_999.0) == "999999.00"
    assert points_text("perplexity", 1.23456e30) == "1.23e+30"
    assert points_text("perplexity", float("inf")) == "inf"
