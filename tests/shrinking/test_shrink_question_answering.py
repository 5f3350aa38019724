"""Models of question answering are shrunk without labels, saved and loaded."""

import copy

import pytest
import torch
from refit_by_hand import batches

from deadhead import gated, load, prune, save, shrink
from deadhead.rankers.loss import SPANS
from deadhead.shrinking.streams import TASK_LAYER
from tiny_readers import CONFIGS, reader


def answers(model, batch):
    """The logits of starts and ends of the real tokens."""
    with torch.no_grad():
        outputs = model(**batch)
    real = batch["attention_mask"].bool()
    return torch.stack([getattr(outputs, name)[real] for name in SPANS])


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_shrunk_saved_and_loaded_again(family, tmp_path):
    model, data = reader(family), batches()
    before = {name: value.clone() for name, value in model.qa_outputs.state_dict().items()}
    whole = copy.deepcopy(model)
    report = shrink(model, data, heads=0.5, loss="self", progress=False)
    assert report.losses["whole"] == pytest.approx(0, abs=1e-12)
    assert 0 < report.losses["refitted"] < report.losses["cut"]
    assert report.sizes["heads"] == (8, 4)
    # the refit is that of the layers below: the layer of starts and ends stays as it is
    assert TASK_LAYER not in {layer.block for layer in report.layers}
    after = model.qa_outputs.state_dict()
    assert all(before[name].equal(after[name]) for name in before)
    save(model, tmp_path / "small")
    again = load(tmp_path / "small")
    assert type(again) is type(whole)
    assert torch.allclose(answers(again.double(), data[0]), answers(model, data[0]), atol=1e-12)


@pytest.mark.parametrize("family", CONFIGS)
def test_masked_is_pruned_is_reloaded(family, tmp_path):
    model, data = reader(family), batches()
    small = copy.deepcopy(model)
    report = shrink(small, data, heads=0.5, loss="self", repair="none", progress=False)
    heads = report.choice.heads
    with gated(model, closed=heads):
        masked = answers(model, data[0])
    assert not torch.allclose(masked, answers(model, data[0]), atol=1e-3)
    prune(model, heads)
    save(model, tmp_path / "small")
    loaded = load(tmp_path / "small", auto="AutoModelForQuestionAnswering").double()
    for other in (model, small, loaded):
        assert torch.allclose(answers(other, data[0]), masked, atol=1e-10)
