"""nDCG, recall and MRR are those of trec_eval, and correlations those of SciPy, also resampled."""

import math
import random

import numpy as np
import pytest
import scipy.stats

from deadhead.errors import Notice
from deadhead.tasks import METRICS, Row, dataset, score
from deadhead.tasks.bootstrap import bootstrap, difference
from deadhead.tasks.metrics import grades_of

DOCUMENTS = [f"d{number}" for number in range(130)]


def judged():
    """The run and the qrels that the values of trec_eval below were computed on."""
    rng = random.Random(5)
    run = {f"q{n}": {d: round(rng.random(), 1) for d in DOCUMENTS} for n in range(6)}
    qrels = {
        q: {d: int(rng.random() * 5) - 1 for d in DOCUMENTS if rng.random() < 0.5} for q in run
    }
    qrels["q1"]["missing"] = 3  # in no corpus
    qrels["q2"] = {"d3": 0, "d4": -1}
    qrels["q3"] = {"d129": 1}
    return run, qrels


def ranked(scores, size=100):
    """The best documents; of equal ones the larger id comes first."""
    return sorted(scores, key=lambda name: (scores[name], name), reverse=True)[:size]


def queries(qrels):
    rows = [
        Row((f"text of {query}",), (query, *(str(cell) for pair in own.items() for cell in pair)))
        for query, own in qrels.items()
    ]
    return dataset("retrieval", "text", "test", rows)


# By pytrec_eval-terrier 0.5.11: ndcg_cut_10, recall_100, and recip_rank where it is 1/10 or more.
OF_TREC_EVAL = (
    (0.236714, 0.74359, 1.0),
    (0.195428, 0.733333, 0.5),
    (0.0, 0.0, 0.0),
    (0.430677, 1.0, 0.25),
    (0.145711, 0.763158, 0.166667),
    (0.021207, 0.72973, 0.1),
)


def test_each_query_scores_as_in_trec_eval():
    run, qrels = judged()
    for (query, own), expected in zip(run.items(), OF_TREC_EVAL, strict=True):
        values = score("retrieval", [ranked(own)], queries({query: qrels[query]}))
        assert [*values] == ["ndcg_at_10", "recall_at_100", "mrr_at_10"]
        assert [*values.values()] == pytest.approx(expected, abs=1e-6)
    data = queries(qrels)
    values = score("retrieval", [ranked(own) for own in run.values()], data)
    assert [*values.values()] == pytest.approx(np.mean(OF_TREC_EVAL, axis=0), abs=1e-6)
    turned = [ranked(own)[::-1] for own in run.values()]
    assert score("retrieval", turned, data)["ndcg_at_10"] != pytest.approx(values["ndcg_at_10"])


def test_ndcg_by_hand():
    data = queries({"q": {"a": 3, "b": 1, "c": 0}})
    best = 3 + 1 / math.log2(3)
    scores = score("retrieval", [["x", "b", "a"]], data)
    assert scores["ndcg_at_10"] == pytest.approx((1 / math.log2(3) + 3 / 2) / best)
    assert (scores["recall_at_100"], scores["mrr_at_10"]) == (1.0, 0.5)
    late = score("retrieval", [[*map(str, range(10)), "a"]], data)
    assert [*late.values()] == [0.0, 0.5, 0.0]
    assert grades_of(data.rows[0].labels) == {"a": 3, "b": 1, "c": 0}


def test_intervals_of_retrieval_resample_queries():
    run, qrels = judged()
    data, predictions = queries(qrels), [ranked(own) for own in run.values()]
    interval = bootstrap(predictions, data, resamples=50, seed=3)
    each = np.array([values[0] for values in OF_TREC_EVAL])
    samples = np.random.default_rng(3).choice(len(each), size=(50, len(each)))
    np.testing.assert_allclose(interval.draws, each[samples].mean(1), atol=1e-6)
    best = bootstrap([ranked(qrels[query]) for query in run], data, resamples=50, seed=3)
    assert difference(interval, best).value > 0.2


def pairs(gold):
    rows = [Row((f"a {n}", f"b {n}"), (repr(float(value)),)) for n, value in enumerate(gold)]
    return dataset("similarity", "en", "test", rows)


@pytest.mark.parametrize("ties", [False, True])
def test_correlations_are_those_of_scipy_also_of_samples(ties):
    rng = np.random.default_rng(1)
    gold = rng.uniform(0, 5, 40)
    predicted = gold**3 / 100 + rng.normal(0, 0.3, 40) + 1e4
    if ties:
        gold, predicted = gold.round(), predicted.round(1)
    data, predictions = pairs(gold), [[value] for value in predicted]
    values = score("similarity", predictions, data)
    expected = {
        "spearman": scipy.stats.spearmanr(gold, predicted).statistic,
        "pearson": scipy.stats.pearsonr(gold, predicted).statistic,
    }
    assert values == pytest.approx(expected, abs=1e-9)
    assert abs(values["spearman"] - values["pearson"]) > 1e-3
    samples = np.random.default_rng(2).choice(40, size=(30, 40))
    for metric, theirs in (("spearman", scipy.stats.spearmanr), ("pearson", scipy.stats.pearsonr)):
        draws = bootstrap(predictions, data, metric=metric, resamples=30, seed=2).draws
        each = [theirs(gold[sample], predicted[sample]).statistic for sample in samples]
        np.testing.assert_allclose(draws, each, atol=1e-9)


def test_a_correlation_with_one_number_is_zero():
    with pytest.warns(Notice, match="no correlation.*: all scores of the model are equal"):
        assert score("similarity", [[1.0]] * 3, pairs([1, 2, 3])) == {"spearman": 0, "pearson": 0}
    with pytest.warns(Notice, match="there are fewer than two pairs"):
        score("similarity", [[1.0]], pairs([1]))
    assert METRICS["spearman"]([["1"], ["2"]], [["2"], ["1"]]) == pytest.approx(-1)
