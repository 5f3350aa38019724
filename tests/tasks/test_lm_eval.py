"""The lm-evaluation-harness takes a pruned model as it is, and gives the numbers of `choice`."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def against():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("against_lm_eval")


@pytest.mark.parametrize("family", ["GPT-2", "Llama"])
def test_the_harness_gives_the_numbers_of_choice(against, family, tmp_path):
    """Log-likelihoods of the options and three accuracies, of the whole and the pruned model."""
    model, tokenizer = against.small(family)
    whole = against.compared(family, model, tokenizer, None)
    model = against.pruned(model, tokenizer, tmp_path / "pruned")
    pruned = against.compared(family, model, tokenizer, whole["values"])
    assert pruned["moved"] > 1.0  # what was removed counts
    for row in (whole, pruned):
        assert row["contexts cut"] > 0  # the harness cuts long contexts on the left, too
        assert row["difference"] < 1e-9  # in float64; summed in other batches
        assert row["ours"] == pytest.approx(row["theirs"])
    assert 0 < pruned["ours"]["acc"] < 1
