"""Models that accelerate has spread: no code may assume that all weights are on one device."""

import copy

import pytest
import torch
from accelerate import dispatch_model
from accelerate.utils import infer_auto_device_map

from architectures.tiny import randomise, tiny
from deadhead import discover, gated, prune, rank, shrink
from deadhead.errors import UnsupportedModel
from deadhead.forward import device_of

CLOSED = ["decoder.0.0", "decoder.0.1"]


def batches():
    ids = torch.randint(3, 90, (6, 8), generator=torch.Generator().manual_seed(0))
    return [{"input_ids": rows, "labels": rows} for rows in ids.split(3)]


@pytest.fixture
def model():
    model = tiny("llama")
    randomise(model, 0)
    return model.double().eval()


def offloaded(model, tmp_path, places):
    """A copy of the model whose parts at these places are on disk until they run."""
    names = [name for name, part in model.named_modules() if not [*part.children()]]
    device_map = {
        name: "disk" if name.startswith(places) else "cpu"
        for name in names
        if [*model.get_submodule(name).parameters()]
    }
    model = copy.deepcopy(model)
    return dispatch_model(
        model, device_map, main_device="cpu", offload_dir=str(tmp_path), force_hooks=True
    )


@pytest.mark.parametrize("places", [("model.layers.1",), ("model", "lm_head")])
def test_layers_on_disk_are_found_gated_and_ranked(model, tmp_path, places):
    spread = offloaded(model, tmp_path, places)
    assert any(p.device.type == "meta" for p in spread.parameters())  # or nothing is offloaded
    assert device_of(spread) == torch.device("cpu")
    assert discover(spread) == discover(model)
    batch = {"input_ids": batches()[0]["input_ids"]}
    with torch.no_grad(), gated(model, closed=CLOSED), gated(spread, closed=CLOSED):
        torch.testing.assert_close(spread(**batch).logits, model(**batch).logits)
    expected = rank(model, batches(), progress=False)
    for checkpointing in (False, True):
        ranking = rank(spread, batches(), progress=False, checkpointing=checkpointing)
        for head, score in expected.scores.items():
            assert ranking[head] == pytest.approx(score, rel=1e-9)
    with pytest.raises(UnsupportedModel, match="load the weights, then prune"):
        prune(spread, CLOSED)


def test_a_model_with_hooks_of_accelerate_is_cut_and_shrunk(model):
    whole = copy.deepcopy(model)
    device_map = infer_auto_device_map(whole, max_memory={"cpu": 10**9})
    spread = dispatch_model(whole, dict(device_map), main_device="cpu", force_hooks=True)
    assert hasattr(spread, "_hf_hook")  # or it is an ordinary model
    for small in (model, spread):
        shrink(small, batches(), heads=0.25, repair="mean", progress=False)
    assert discover(spread) == discover(model)
    assert len(discover(spread).removed) > 0
    with torch.no_grad():
        ids = batches()[0]["input_ids"]
        torch.testing.assert_close(spread(ids).logits, model(ids).logits)
