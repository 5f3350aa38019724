"""Trials that score few rows: for tests of what a trial does, and not of its scores."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

ROWS = 40  # in each dev and test set


def clear_caches():
    """Forget the data, models and cells that trials and readers of this process share."""
    from deadhead.results import cells
    from deadhead.studies.steps import data, models, training

    for module in (cells, data, models, training):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


@contextmanager
def few_rows():
    """Dev and test sets of `ROWS` rows in every trial that this process runs."""
    from deadhead.studies.steps import data

    load = data.load_data

    def first_rows(task, lang, split, **options):
        whole = load(task, lang, split, **options)
        return whole if split == "train" else replace(whole, rows=whole.rows[:ROWS])

    clear_caches()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data, "load_data", first_rows)
        yield
    clear_caches()
