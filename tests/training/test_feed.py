"""Batches are windows with padding, and filler changes no loss."""

import numpy as np
import pytest
import torch
from small_tasks import bert, tagger

from deadhead.forward import IGNORED
from deadhead.tasks import batches
from deadhead.tasks.encoding.feed import WIDTHS, Feed, Shape, filled, rounded
from deadhead.training.update import loss_sum


@pytest.mark.parametrize("kind", ["foxes", "letters", "pairs"])
def test_batches_are_the_windows_with_padding(kind, request):
    encoded = request.getfixturevalue(kind)
    feed, built = Feed(encoded, "cpu"), batches(encoded, size=7, seed=1)

    def padded(name, starts, n, width, filler):
        values = encoded.arrays[name][starts[n] : starts[n + 1]].tolist()
        return values + [filler] * (width - len(values))

    for numbers, batch in zip(built.numbers, built, strict=True):
        assert all(tensor.dtype == torch.int64 for tensor in batch.values())
        width, lengths = batch["input_ids"].shape[1], encoded.arrays["lengths"][numbers]
        assert width == lengths.max()
        assert batch["attention_mask"].sum(1).tolist() == lengths.tolist()
        assert batch["attention_mask"][:, 0].all()
        labels = batch["labels"].reshape(len(numbers), -1).tolist()
        for row, n in enumerate(numbers):
            assert batch["input_ids"][row].tolist() == padded(
                "ids", encoded.starts, n, width, encoded.pad
            )
            assert labels[row] == padded(
                "labels", encoded.label_starts, n, len(labels[row]), IGNORED
            )
        labelled = feed.labelled(torch.from_numpy(numbers))
        assert int(labelled) == int((batch["labels"] != IGNORED).sum())


@pytest.mark.parametrize("kind", ["foxes", "letters"])
def test_filler_and_wider_shapes_leave_the_loss_alone(kind, request):
    encoded = request.getfixturevalue(kind)
    model = (bert() if kind == "foxes" else tagger()).double().eval()
    feed, numbers = Feed(encoded, "cpu"), np.array([3, 1, 20])
    simple = loss_sum(model, feed(torch.from_numpy(numbers), feed.shape(numbers)))
    more = torch.from_numpy(filled(numbers, 8))
    shape = feed.shape(numbers, few=True)
    built = loss_sum(model, feed(more, Shape(8, shape.width, shape.label_width)))
    torch.testing.assert_close(built, simple, rtol=0, atol=1e-10)
    assert int(feed.labelled(more)) == int(feed.labelled(torch.from_numpy(numbers)))
    other = loss_sum(
        model,
        feed(torch.from_numpy(np.resize(numbers, 8)), Shape(8, shape.width, shape.label_width)),
    )
    assert abs(float((other - simple).detach())) > 0.1  # the same rows with their labels do count


def test_shapes_are_few():
    assert {rounded(n) for n in range(1, 513)} == set(WIDTHS)
    assert all(rounded(n) >= n for n in range(1, 2000))
    assert rounded(513) == 1024
