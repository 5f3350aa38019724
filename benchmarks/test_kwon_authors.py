"""The comparison with the authors' code of Kwon et al.: all of it but that code, and its rows."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import SimpleNamespace

import kwon_authors
import numpy as np
import pytest
import torch
from kwon_authors import KINDS
from kwon_authors_code import Lsmr, MaskedBert

from deadhead import gated
from deadhead.layout import Head

RESULTS = sorted((Path(__file__).parent / "results").glob("kwon-authors-*.json"))
TOKENS = 8


@pytest.fixture(scope="module", autouse=True)
def double():
    """As `main` does."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def tiny(double):
    return kwon_authors.tiny(160)


@pytest.fixture(scope="module")
def ours(tiny):
    model, data = tiny
    gradients = kwon_authors.gradients_of(model, data)
    return kwon_authors.our_result(model, data, 0.5, TOKENS, gradients)


def shape_of(value):
    """The names in a row, and the types of its numbers."""
    if isinstance(value, dict):
        return {name: shape_of(part) for name, part in value.items()}
    return type(value)


def test_a_mask_of_heads_closes_heads(tiny):
    model, (batch,) = tiny
    masks = torch.ones(4, 6)
    with torch.no_grad():
        whole = model(**batch).logits
        assert torch.allclose(MaskedBert(model)(masks, **batch).logits, whole)
        masks[1, 4] = masks[3, 0] = 0
        closed = MaskedBert(model)(masks, **batch).logits
        with gated(model, closed=[Head("encoder", 1, 4), Head("encoder", 3, 0)]):
            assert torch.allclose(model(**batch).logits, closed)
        assert not torch.allclose(closed, whole)


def test_batches_have_the_same_examples(tiny):
    _, (batch,) = tiny
    batches = kwon_authors.in_batches([{n: v[:50] for n, v in batch.items()}])
    assert [len(b["input_ids"]) for b in batches] == [32, 18]
    assert all(torch.equal(torch.cat([b[n] for b in batches]), batch[n][:50]) for n in batch)
    long, short = {"input_ids": torch.ones(1, 5), "labels": torch.ones(1, 5)}, {}
    short = {name: values[:, :3] for name, values in long.items()}
    (both,) = kwon_authors.in_batches([long, short])
    assert both["input_ids"][1].tolist() == [1, 1, 1, 0, 0]
    assert both["labels"][1].tolist() == [1, 1, 1, -100, -100]


def test_scales_are_those_of_the_small_model(tiny, ours):
    model, (batch,) = tiny
    result, small = ours
    assert result.scales["neurons"].unique().numel() > 100
    scaled = kwon_authors.with_scales(model, result.scales)
    cut = kwon_authors.with_scales(model, result.units)
    with torch.no_grad():
        logits = small(**batch).logits
        assert torch.allclose(scaled(**batch).logits, logits)
        assert not torch.allclose(cut(**batch).logits, logits)


def test_differences_of_results(ours):
    result, _ = ours
    same = (result.units, result.teacher)
    row = kwon_authors.compared(result, result, same, result.scales)
    assert row["scales"] == row["scales, rounding"] == {"heads": 0, "neurons": 0}
    assert row["units"] == row["teacher, same gradients"] == {"heads": 0, "neurons": 0}
    assert len(set(row["scaled projections"].values())) == 1

    other = copy.deepcopy(result)
    other.units["heads"][0, 1] = 1 - other.units["heads"][0, 1]
    other.teacher["neurons"][2, :2] = 1 - other.teacher["neurons"][2, :2]
    other.scales["neurons"][3] += 0.5
    other.fisher["heads"][0, 0] *= 2
    row = kwon_authors.compared(result, other, same, result.scales)
    assert row["units"] == {"heads": 1, "neurons": 0}
    assert row["teacher"] == {"heads": 0, "neurons": 2}
    assert row["units, same gradients"] == {"heads": 0, "neurons": 0}
    assert row["scales"] == pytest.approx({"heads": 0, "neurons": 0.5})
    assert row["squared gradients"]["heads"] > 0.01


def test_the_order_of_unknowns_changes_rounding_alone():
    draw = torch.Generator().manual_seed(0)
    matrix = torch.randn(20, 8, generator=draw)
    matrix, vector = (matrix.T @ matrix).numpy(), torch.randn(8, generator=draw).numpy()
    solver = Lsmr()
    forward, reason, *_ = solver.solve(matrix, vector, damp=1)
    solver.is_reversed = True
    backward, *_ = solver.solve(matrix, vector, damp=1)
    assert reason < 3
    assert forward == pytest.approx(backward, rel=1e-3)
    exact = np.linalg.solve(matrix @ matrix + np.eye(8), matrix @ vector)
    assert forward == pytest.approx(exact, rel=1e-3)


def autograd(model, heads, neurons, batches):
    """Gradients of masks, by autograd alone."""
    gradients = []
    for batch in batches:
        masks = heads.clone().requires_grad_(), neurons.clone().requires_grad_()
        outputs = [layer.output for layer in model.bert.encoder.layer]
        hooks = [
            output.register_forward_pre_hook(lambda _, args, mask=mask: (args[0] * mask, args[1]))
            for output, mask in zip(outputs, masks[1], strict=True)
        ]
        gradients.append(torch.autograd.grad(model(masks[0], **batch).loss, masks))
        for hook in hooks:
            hook.remove()
    return [torch.stack(own) for own in zip(*gradients, strict=True)]


def test_rows_have_the_shape_of_the_committed_ones(tiny, ours):
    """With functions that give our own units and no scales instead of the authors'."""
    model, data = tiny
    result, _ = ours
    units = [result.units[kind] for kind in KINDS]
    authors = SimpleNamespace(
        solver=Lsmr(),
        collect_mask_grads=autograd,
        compute_fisher_info=lambda gradients: gradients.square().sum(0),
        search_mac=lambda *_: units,
        rearrange_mask=lambda mask, _: mask,
        rescale_mask=lambda *arguments, **_: [mask.cuda() for mask in arguments[4:6]],
    )
    row = kwon_authors.row_of(authors, model, data, 0.5, None)
    assert row["squared gradients"] == pytest.approx({"heads": 0, "neurons": 0}, abs=1e-9)
    assert row["units"] == {"heads": 0, "neurons": 0}
    assert row["scales"]["neurons"] > 0.01
    assert RESULTS
    for file in RESULTS:
        for committed in json.loads(file.read_text())["rows"]:
            assert shape_of(row).items() <= shape_of(committed).items()
            assert row.keys() <= committed.keys() <= {
                *row, "model", "task", "trained", "score"
            }  # fmt: skip


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_the_committed_units_are_the_same(file):
    """The claim of the page."""
    for row in json.loads(file.read_text())["rows"]:
        for name in ("units", "units, same gradients", "teacher", "teacher, same gradients"):
            assert row[name] == {"heads": 0, "neurons": 0}


def test_a_folder_without_the_code(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["kwon_authors.py", "--authors", str(tmp_path)])
    with pytest.raises(SystemExit):
        kwon_authors.main()
    assert "clone https://github.com" in capsys.readouterr().err
