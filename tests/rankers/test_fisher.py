"""The ranker fisher: its matrix against single examples, its order against the greedy sets."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from ranker_cases import KINDS, by_real_gates

from architectures.tiny import tiny
from deadhead.heads import discover, prune
from deadhead.rankers import rank
from deadhead.rankers.fisher import greedy
from deadhead.rankers.gate_gradients import products
from deadhead.rankers.ranker import RankerInputs


@pytest.mark.parametrize("kind", KINDS)
def test_the_matrix_is_that_of_single_examples(case, kind):
    setup = case(kind)
    setup.model.requires_grad_(False)
    inputs = RankerInputs(model=setup.model, layout=discover(setup.model), batches=[setup.batch])
    matrix = products(inputs).numpy()
    rows = np.array([*by_real_gates(setup.model, setup.batch).values()]).T
    np.testing.assert_allclose(matrix, rows.T @ rows / len(rows), rtol=0, atol=1e-12)
    assert matrix.diagonal().min() > 1e-9
    divided = products(replace(inputs, batches=setup.singles())).numpy()
    np.testing.assert_allclose(divided, matrix, rtol=0, atol=1e-12)


def test_the_forms_use_their_part_of_the_matrix(case):
    setup = case("classify")
    by_head = by_real_gates(setup.model, setup.batch)
    layout, rows = list(by_head), np.array([*by_head.values()])
    matrix = rows @ rows.T / rows.shape[1]
    diagonal = rank(setup.model, [setup.batch], "fisher", form="diagonal")
    assert [diagonal[h] for h in layout] == pytest.approx(matrix.diagonal().tolist(), rel=1e-9)
    ranking, (order, sums) = rank(setup.model, [setup.batch], "fisher"), greedy(matrix)
    assert list(ranking.order) == [layout[number] for number in order]
    last = ranking[ranking.order[-1]]
    assert last == pytest.approx(max(sums), rel=1e-6)
    assert abs(last - matrix.diagonal().sum()) > 1e-3 * last


def test_lowest_heads_are_the_greedy_set_though_a_larger_set_may_cost_less(monkeypatch):
    """The first three heads cost less together than the first two: the order must not change."""
    rows = torch.tensor([[1.0, 0.0, -0.9, 9.0], [0.0, 1.1, -0.9, 9.0]], dtype=torch.float64)
    monkeypatch.setattr(
        "deadhead.rankers.gate_gradients.products", lambda *_: (rows.T @ rows).repeat(2, 2)
    )
    model = tiny("bert").double()
    batch = {"input_ids": torch.ones(1, 3, dtype=torch.long), "labels": torch.ones(1, 3).long()}
    ranking = rank(model, [batch], "fisher")
    layout = list(discover(model))
    order, sums = greedy((rows.T @ rows).repeat(2, 2).numpy())
    assert any(after < before for before, after in pairwise(sums))
    assert list(ranking.order) == [layout[number] for number in order]
    assert len(set(ranking.scores.values())) == len(layout)


def test_heads_that_share_a_key_leave_together(case):
    setup = case("causal")
    layout = discover(setup.model)
    assert layout.attentions[0].group > 1
    for form in ("whole", "diagonal"):
        ranking = rank(setup.model, [setup.batch], "fisher", form=form)
        groups = [group for attention in layout.attentions for group in attention.groups]
        assert all(len({ranking[head] for head in group}) == 1 for group in groups)
        assert len(set(ranking.scores.values())) == len(groups)
    prune(setup.model, ranking.lowest(2))
