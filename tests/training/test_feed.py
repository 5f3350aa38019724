"""Batches picked on the device are those that `tasks.batches` makes, and filler changes no loss."""

import numpy as np
import pytest
import torch
from small_tasks import bert, tagger

from deadhead.forward import IGNORED
from deadhead.tasks import batches
from deadhead.training.feed import WIDTHS, Feed, Shape, filled, rounded
from deadhead.training.update import loss_sum


@pytest.mark.parametrize("kind", ["foxes", "letters", "pairs"])
def test_picked_batches_are_the_batches(kind, request):
    encoded = request.getfixturevalue(kind)
    feed, built = Feed(encoded, "cpu"), batches(encoded, size=7, seed=1)
    for numbers, expected in zip(built.numbers, built, strict=True):
        got = feed(torch.from_numpy(numbers), feed.shape(numbers))
        assert got.keys() == expected.keys()
        assert all(torch.equal(got[name], expected[name]) for name in expected)
        assert int(feed.labelled(torch.from_numpy(numbers))) == int(
            (expected["labels"] != IGNORED).sum()
        )


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
