"""The held-out examples are spread, the same in any batches; the loss there is a mean by hand."""

from itertools import pairwise

import pytest
import torch
from choice_cases import model_of
from torch.nn import functional

from deadhead.errors import DataError
from deadhead.shrinking.held_out import mean_loss, split_examples


def batches(*sizes):
    """Batches whose inputs are the numbers of the examples."""
    numbers = torch.arange(sum(sizes))
    return [
        {"input_ids": part[:, None], "labels": part, "flag": True} for part in numbers.split(sizes)
    ]


def numbers(part):
    return [int(number) for batch in part for number in batch["input_ids"][:, 0]]


def test_the_split_does_not_depend_on_the_batches():
    parts = [split_examples(batches(*sizes)) for sizes in ([40], [7, 3, 30], [1] * 40)]
    fit, held_out = map(numbers, parts[0])
    assert all(tuple(map(numbers, other)) == (fit, held_out) for other in parts[1:])
    assert len(held_out) == 5
    assert sorted(fit + held_out) == list(range(40))
    gaps = {b - a for a, b in pairwise(held_out)}
    assert gaps == {8}  # spread over all of the data


def test_a_few_examples():
    fit, held_out = split_examples(batches(1, 1))
    assert (len(numbers(fit)), len(numbers(held_out))) == (1, 1)
    assert held_out[0]["flag"] is True
    with pytest.raises(DataError, match="at least 2 examples, one of them to measure on, got 1"):
        split_examples(batches(1))


def test_the_mean_loss_is_that_of_labelled_examples():
    model = model_of("tag")
    ids = torch.tensor([[5, 6, 7], [8, 9, 10], [11, 12, 13]])
    labels = torch.tensor([[0, 1, -100], [2, -100, -100], [-100, -100, -100]])
    with torch.no_grad():
        logits = model(input_ids=ids).logits
    expected = [functional.cross_entropy(logits[i], labels[i], ignore_index=-100) for i in range(2)]
    data = [
        {"input_ids": ids[:1], "labels": labels[:1]},
        {"input_ids": ids[1:], "labels": labels[1:]},
    ]
    assert mean_loss(model, data) == pytest.approx(float(sum(expected)) / 2, abs=1e-9)
    with pytest.raises(DataError, match="none of the held-out examples has a label"):
        mean_loss(model, [{"input_ids": ids[2:], "labels": labels[2:]}])
