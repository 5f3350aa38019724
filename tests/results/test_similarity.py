"""Rankings compared, and gains against distance and similarity: by hand and against scipy."""

import math

import pytest
from scipy import stats

from deadhead.errors import DataError
from deadhead.results.statistics import ranking_rho, similarity, with_distance, with_similarity

NAMES = [f"encoder.{layer}.{head}" for layer in range(2) for head in range(3)]


def scores(*values):
    return dict(zip(NAMES, values, strict=True))


EN, DE, ZH = scores(1, 2, 3, 4, 5, 6), scores(2, 1, 3, 4, 6, 5), scores(6, 5, 4, 3, 2, 1)


def test_similarity_looks_at_heads_both_have():
    part = {name: score for name, score in EN.items() if name != "encoder.1.2"}
    assert similarity({"one": part, "other": EN})["one", "other"].n == 5
    with pytest.raises(DataError, match="2 heads in common"):
        similarity({"one": {name: EN[name] for name in NAMES[:2]}, "other": EN})


def test_ranking_rho():
    """1 2 3 4 against 1 2 4 3: 1 - 6 * 2 / (4 * 15)."""
    heads = NAMES[:4]
    one = dict(zip(heads, (1.0, 2.0, 3.0, 4.0), strict=True))
    other = dict(zip(heads, (10.0, 20.0, 40.0, 30.0), strict=True))
    assert ranking_rho(one, other) == pytest.approx(0.8)
    assert ranking_rho(one, {**other, NAMES[5]: 9.0}) == pytest.approx(0.8)
    assert math.isnan(ranking_rho(one, dict.fromkeys(heads, 1.0)))
    assert math.isnan(ranking_rho(one, {}))


GAINS = [("en", "de", 1.0), ("en", "nl", 2.0), ("en", "ar", 3.0), ("en", "zh", 5.0)]


def test_distance_by_hand():
    """near: 1 2 3 4 rises with the gains, rho 1; odd: 1 2 4 3, rho 0.8; their mean 1 2 3.5 3.5
    against 1 2 3 4.

    Ranks 1 2 3.5 3.5: centred -1.5 -.5 1 1 against -1.5 -.5 .5 1.5: 4.5 / sqrt(4.5 * 5).
    """
    apart = {"de": (1, 1), "nl": (2, 2), "ar": (3, 4), "zh": (4, 3)}
    correlations = with_distance(
        GAINS, lambda source, target: dict(zip(("near", "odd"), apart[target], strict=True))
    )
    assert [correlations[name].rho for name in ("near", "odd")] == pytest.approx([1, 0.8])
    assert correlations["mean"].rho == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    assert correlations["near"].p == pytest.approx(2 / 24)
    assert list(correlations) == ["near", "odd", "mean"]
    assert with_distance([]) == {}


def test_distances_that_are_not_known():
    """Without the distance of en-ar three pairs are left for it, 1 2 3 against gains 1 2 5; the
    mean is by the other two.
    """
    apart = {"de": (1, 1, 4), "nl": (2, 2, 3), "ar": (math.nan, 4, 2), "zh": (3, 3, 1)}
    correlations = with_distance(
        GAINS,
        lambda source, target: dict(zip(("some", "odd", "falling"), apart[target], strict=True)),
    )
    assert (correlations["some"].rho, correlations["some"].n) == (pytest.approx(1), 3)
    assert [correlations[name].rho for name in ("odd", "falling")] == pytest.approx([0.8, -1])
    assert correlations["mean"].n == 4
    # means 2.5 2.5 3 2 against 1 2 3 4: ranks 2.5 2.5 4 1, centred 0 0 1.5 -1.5 against -1.5 -.5 .5
    # 1.5: (0.75 - 2.25) / sqrt(4.5 * 5)
    assert correlations["mean"].rho == pytest.approx(-1.5 / math.sqrt(22.5))


def test_uriel_distances_have_the_documented_sign():
    """Gains that grow from German to Japanese go with distance, so rho is above 0; with gains
    turned round, below.
    """
    correlations = with_distance([("en", "de", 0.1), ("en", "nl", 0.2), ("en", "ja", 1.0)])
    assert correlations["phonological"].n == 3
    assert set(correlations) == {
        "genetic",
        "geographic",
        "syntactic",
        "phonological",
        "inventory",
        "featural",
        "mean",
    }
    assert correlations["syntactic"].rho > 0
    turned = with_distance([("en", "de", 1.0), ("en", "nl", 0.9), ("en", "ja", 0.1)])
    assert turned["syntactic"].rho < 0


def test_similarity_of_rankings_with_gains():
    """en-de 1 - 4/35, en-zh -1, en-nl by hand 1 - 6 * 2 / 210; gains 2, 1, 3 rise with them: rho
    1.
    """
    rankings = {"en": EN, "de": DE, "zh": ZH, "nl": scores(2, 1, 3, 4, 5, 6)}
    gains = [
        ("en", "de", 2.0),
        ("zh", "en", 1.0),
        ("en", "nl", 3.0),
        ("en", "fa", 9.0),
        ("en", "en", 9.0),
    ]  # the last two are no pairs
    correlations = with_similarity(gains, rankings)
    assert (correlations.rho, correlations.n) == (pytest.approx(1), 3)
    expected = stats.spearmanr([1 - 4 / 35, -1, 1 - 12 / 210], [2, 1, 3]).statistic
    assert correlations.rho == pytest.approx(expected)
