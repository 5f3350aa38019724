"""Bootstrap intervals: against a plain loop, the textbook and sacrebleu, and they cover."""

import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from deadhead.errors import DataError, UnknownName
from deadhead.tasks import Row, Task, dataset, score
from deadhead.tasks.bootstrap import Interval, bootstrap, difference, mean, side_by_side

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
SLOTS = Task(
    name="mine",
    kind="tag",
    metrics=("span_f1", "macro_f1", "accuracy", "span_precision", "span_recall"),
    languages=("en",),
    labels=TAGS,
)
YES = Task(
    name="mine",
    kind="classify",
    metrics=("accuracy", "macro_f1"),
    languages=("en",),
    labels=("no", "yes"),
)


def tagged(seed, rows=40):
    draw = random.Random(seed)
    gold = [tuple(draw.choice(TAGS) for _ in range(draw.randint(1, 9))) for _ in range(rows)]
    message = [[tag if draw.random() < 0.8 else draw.choice(TAGS) for tag in tags] for tags in gold]
    return dataset(SLOTS, "en", "dev", [Row(("w",) * len(tags), tags) for tags in gold]), message


@pytest.mark.parametrize("metric", SLOTS.metrics)
def test_each_draw_is_the_metric_of_the_rows_drawn(metric):
    data, message = tagged(1)
    result = bootstrap(message, data, metric=metric, resamples=20, seed=7)
    assert result.value == score(SLOTS, message, data)[metric]
    numbers = np.random.default_rng(7).choice(len(data), size=(20, len(data)), replace=True)
    for value, rows in zip(result.draws, numbers, strict=True):
        again = dataset(SLOTS, "en", "dev", [data.rows[i] for i in rows])
        assert value == pytest.approx(
            score(SLOTS, [message[i] for i in rows], again)[metric], abs=1e-12
        )
    assert result.low < result.value < result.high


def answers(rows, right):
    data = dataset(YES, "en", "dev", [Row(("text",), ("yes",)) for _ in range(rows)])
    return data, ["yes"] * right + ["no"] * (rows - right)


@pytest.mark.parametrize(
    ("rows", "right", "certain"), [(4, 4, False), (19, 10, False), (20, 10, True), (99, 99, False)]
)
def test_few_rows_and_equal_samples_give_no_interval(rows, right, certain):
    data, predictions = answers(rows, right)
    result = bootstrap(predictions, data)
    assert result.is_certain is certain
    assert (result.to_dict()["low"] is None) is not certain
    assert difference(result, result).is_certain is (rows >= 20)
    assert mean([result, result]).is_certain is certain


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    draw, stored = random.Random(0), 0
    for _ in range(200):
        data, message = answers(100, sum(draw.random() < 0.7 for _ in range(100)))
        result = bootstrap(message, data, resamples=200)
        stored += result.low <= 0.7 <= result.high
    assert 0.88 <= stored / 200 <= 0.99


def test_what_is_hard_for_both_cancels_out():
    data, message = answers(200, 140)
    better = list(message)
    better[140:146] = ["yes"] * 6  # right wherever the first is, and six times more
    first, other = bootstrap(message, data), bootstrap(better, data)
    result = difference(first, other)
    assert result.value == pytest.approx(0.03)
    assert result.low > 0
    assert result.p is not None
    assert result.p < 0.05
    assert result.high - result.low < 0.5 * (
        other.high - other.low
    )  # unpaired the two intervals would overlap
    same = difference(first, bootstrap(list(message), data))
    assert (same.value, same.low, same.high, same.p) == (0, 0, 0, 1)


def test_bleu_agrees_with_the_paired_bootstrap_of_sacrebleu():
    draw = random.Random(3)
    words = [f"w{i}" for i in range(30)]
    gold = [[draw.choice(words) for _ in range(draw.randint(4, 15))] for _ in range(60)]
    systems = {
        name: [
            " ".join(w if draw.random() < right else draw.choice(words) for w in text)
            for text in gold
        ]
        for name, right in (("Baseline: a", 0.85), ("b", 0.88))
    }
    references = [" ".join(text) for text in gold]
    data = dataset("parallel", "en-de", "test", [Row(("source", text)) for text in references])
    first, other = (
        bootstrap(texts, data, metric="bleu_13a", seed=12345) for texts in systems.values()
    )
    _, theirs = PairedTest(
        list(systems.items()), {"BLEU": BLEU()}, [references], test_type="bs", n_samples=1000
    )()
    a, b = theirs["BLEU"]
    for mine, their in ((first, a), (other, b)):
        assert mine.value == pytest.approx(their.score, abs=1e-9)
        assert mine.draws.mean() == pytest.approx(
            their.mean, abs=1e-4
        )  # the same draws; they sum in float32
        assert (mine.high - mine.low) / 2 == pytest.approx(their.ci, rel=0.02)
    result = difference(first, other)
    apart = np.abs(result.draws)  # their p-value, of one side, out of our draws
    assert (np.sum(apart - apart.mean() > result.value) + 1) / 1001 == pytest.approx(
        b.p_value, abs=2e-3
    )
    assert result.p is not None
    assert b.p_value < result.p < 0.05


def test_several_languages_and_models():
    models: dict[str, dict[str, Interval]] = {"whole": {}, "half": {}}
    for lang in ("de", "en"):
        data, predicted = tagged(len(models["whole"]))
        half = predicted[:30] + [["O"] * len(tags) for tags in predicted[30:]]
        models["whole"][lang], models["half"][lang] = (
            bootstrap(tags, data) for tags in (predicted, half)
        )
        assert models["whole"][lang] == bootstrap(predicted, data)  # seeded
        assert models["whole"][lang] != bootstrap(predicted, data, seed=1)
    ((name, apart),) = side_by_side(models).items()
    assert name == "half"
    assert all(interval.high < 0 for interval in apart.values())
    sets = models["whole"].values()
    both = mean([*sets])
    assert both.value == pytest.approx(sum(interval.value for interval in sets) / 2)
    assert both.high - both.low < max(interval.high - interval.low for interval in sets)


def test_bad_input():
    data, message = answers(10, 5)
    with pytest.raises(UnknownName, match="metric of mine"):
        bootstrap(message, data, metric="bleu")
    with pytest.raises(DataError, match="`resamples` expects 1 or more, got 0"):
        bootstrap(message, data, resamples=0)
    with pytest.raises(DataError, match="no rows"):
        bootstrap([], dataset(YES, "en", "dev", []))
    with pytest.raises(DataError, match="drawn 1000 and 10 times"):
        difference(bootstrap(message, data), bootstrap(message, data, resamples=10))
