"""Datasets built from others: distinct rows, parts, fingerprints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadhead.errors import DataError
from deadhead.tasks import Row, concatenate, dataset, distinct, first_parts
from deadhead.tasks.dataset import shuffled


def words(data):
    return [row.texts[0] for row in data.rows]


rows = st.lists(st.integers(0, 9), max_size=40).map(
    lambda numbers: [Row((f"t{n}",), ("positive",)) for n in numbers]
)


@given(rows, rows)
def test_distinct_keeps_each_row_once_and_counts_the_rest(mine, theirs):
    data, other = dataset("sst2", "en", "train", mine), dataset("sst2", "en", "test", theirs)
    left = distinct(data, other)
    assert len(set(left.rows)) == len(left)
    assert set(left.rows) == set(mine) - set(theirs)
    assert len(left) + sum(left.notes.values()) == len(data)


@given(st.integers(0, 57), st.integers(0, 5))
def test_ten_parts_are_nested_and_whole(size, seed):
    data = dataset("sst2", "en", "train", [Row((f"t{i}",), ("positive",)) for i in range(size)])
    before: set[str] = set()
    for parts in range(1, 11):
        part = words(first_parts(data, parts, seed=seed))
        assert before <= set(part)
        assert part == [word for word in words(data) if word in part]  # in file order
        assert len(part) == round(size * parts / 10)
        before = set(part)
    assert before == set(words(data))


def test_the_order_is_pinned():
    assert shuffled(10, "parts/42") == [3, 6, 4, 0, 1, 5, 2, 7, 9, 8]
    assert shuffled(10, "parts/43") != shuffled(10, "parts/42")


def test_data_of_different_kinds_does_not_mix():
    with pytest.raises(DataError, match="different kinds"):
        concatenate([dataset("sst2", "en", "test", []), dataset("pos", "en", "test", [])])


def test_the_fingerprint_is_pinned():
    """It is kept with results, so it must not change from version to version."""
    assert (
        dataset("sst2", "en", "test", [Row(("Größe 北京",), ("positive",))]).fingerprint
        == "d3a5fb217b150ab3"
    )


@given(
    st.lists(st.lists(st.text(max_size=3), min_size=1, max_size=3), max_size=3),
    st.lists(st.lists(st.text(max_size=3), min_size=1, max_size=3), max_size=3),
)
def test_different_rows_have_different_fingerprints(left, other):
    first, second = (
        dataset("slots", "en", "test", [Row(tuple(w), ("O",) * len(w)) for w in part])
        for part in (left, other)
    )
    assert (first.fingerprint == second.fingerprint) == (left == other)
