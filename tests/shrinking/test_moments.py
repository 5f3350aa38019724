"""Moments in several passes: the same orders, and never more of them than the bound allows."""

import pytest
import torch
from choice_cases import data, model_of

from deadhead.display.progress import silent
from deadhead.heads.discover import find_every_site
from deadhead.shrinking import statistics
from deadhead.shrinking.statistics import collect_with_orders

KINDS = ("heads", "neurons")


def orders(model, batches, progress=silent):
    sites = find_every_site(model.requires_grad_(False))
    options = {"kinds": KINDS, "gradients": True, "progress": progress}
    return collect_with_orders(model, sites, batches, **options)


@pytest.mark.parametrize("kind", ["tag", "causal"])
def test_passes_change_nothing(monkeypatch, kind):
    model, batches = model_of(kind), [data(kind)] * 2
    at_once = orders(model, batches)
    assert len(at_once.orders) == len(find_every_site(model)) > 2
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(statistics, "MEMORY", 1)  # one layer in a pass
    in_passes = orders(model, batches, lambda done, total, note="": calls.append((done, total)))
    assert calls[-1] == (len(at_once.orders) * 2, len(at_once.orders) * 2)
    for place, (order, errors) in at_once.orders.items():
        again, errors_again = in_passes.orders[place]
        assert order == again
        assert errors == pytest.approx(errors_again, rel=1e-9)
        assert in_passes.places[place].moment is None
    torch.testing.assert_close(in_passes.fisher, at_once.fisher)
