"""The effect of removing a head, against cases worked out by hand."""

import math

import numpy as np
import pytest

from deadhead.results.statistics import removal_effects


def test_a_difference_of_means_by_hand():
    """Head 0 goes in the first two trials: (70 + 72) / 2 - (80 + 82) / 2; head 1 in all, head 2
    in none.
    """
    scores = np.array([[70.0], [72.0], [80.0], [82.0]])
    removed = np.array([[1, 1, 0], [1, 1, 0], [0, 1, 0], [0, 1, 0]], float)
    effects = removal_effects([(scores, removed)], (3, 1))
    assert effects[0, 0] == pytest.approx(-10)
    assert np.isnan(effects[1:]).all()


def test_trials_are_compared_within_their_group():
    """-10 with weight 2 * 2 / 4 and -1 with weight 1 * 1 / 2; pooled, the groups would give +30."""
    hard = np.array([[20.0], [20.0], [30.0], [30.0]]), np.array([[1.0], [1.0], [0.0], [0.0]])
    easy = np.array([[89.0], [90.0]]), np.array([[1.0], [0.0]])
    assert removal_effects([hard, easy], (1, 1))[0, 0] == pytest.approx((-10 * 1 - 1 * 0.5) / 1.5)


def test_missing_and_infinite_scores():
    """A language without a score leaves its trial out; an infinite score has no difference."""
    scores = np.array([[70.0, math.nan], [80.0, 1.0], [90.0, math.inf]])
    removed = np.array([[1.0], [0.0], [1.0]])
    effects = removal_effects([(scores, removed)], (1, 2))
    assert effects[0, 0] == pytest.approx(0)
    assert math.isnan(effects[0, 1])
    assert np.isnan(removal_effects([], (1, 2))).all()
