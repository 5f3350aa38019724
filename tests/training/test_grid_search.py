"""Searching a grid of settings: the best first, nothing twice."""

from __future__ import annotations

import pytest
from small_tasks import bert, tagger

from deadhead.errors import DataError
from deadhead.training import Settings, SettingsError, finetune, grid, search


def test_search_puts_the_best_first_and_runs_nothing_twice(letters, tmp_path):
    points = grid(Settings(epochs=4), rate=(1e-5, 1e-2), batch=(8, 40))
    actual = search(tagger, letters, points, dev=letters, folder=tmp_path, progress=False)
    assert len(actual) == 4
    assert (actual[0].settings.rate, actual[0].settings.batch) == (1e-2, 8)
    values = [history.scores["accuracy"] for history in actual]
    assert values == sorted(values, reverse=True)
    assert values[0] > values[-1]
    alone = finetune(
        tagger(), letters, points[2], dev=letters, progress=False
    )  # every point from the same start
    assert next(h for h in actual if h.settings == points[2]).losses == alone.losses

    def never(_):
        raise AssertionError("it was trained again")

    again = search(tagger, letters, points, dev=letters, folder=tmp_path, progress=never)
    assert [h.losses for h in again] == [h.losses for h in actual]
    assert sorted(f.name for f in tmp_path.iterdir())[0] == "batch=40,rate=0.01"


def test_search_puts_scores_of_nan_behind_all_others(foxes):
    scores = iter([0.5, float("nan"), 0.9, 0.7])
    points = grid(Settings(epochs=1, batch=40), rate=(1e-5, 1e-4, 1e-3, 1e-2))
    actual = search(bert, foxes, points, score=lambda _: next(scores), progress=False)
    assert [history.settings.rate for history in actual] == [1e-3, 1e-2, 1e-5, 1e-4]


def test_search_needs_something_to_compare(letters):
    with pytest.raises(DataError, match="a score to compare by"):
        search(tagger, letters, [Settings()])
    with pytest.raises(SettingsError, match="no point"):
        search(tagger, letters, [], dev=letters)
