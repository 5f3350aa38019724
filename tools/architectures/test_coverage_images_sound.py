"""Models of images and sound: inputs in the shape they read, and positions cut with their heads."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from architectures.coverage import measure_heads
from architectures.runnable import inputs_for, runnable
from architectures.tiny import NotApplicable, tiny
from deadhead.errors import UnknownArchitecture, UnsupportedModel
from deadhead.files.hub import quiet
from deadhead.heads import discover, gated, prune
from deadhead.verify.proof import outputs


@pytest.mark.parametrize(
    "model_type",
    [
        "siglip2_vision_model",  # patches in padded rows
        "qwen2_5_vl_vision",  # patches of all images in one row; attention gives no weights
        "timesformer",  # videos
        "parakeet_encoder",  # biases and projections of relative positions
        "wav2vec2-bert",  # a table of distances
        "gemma4_vision",  # linear modules inside of others
    ],
)
def test_images_and_sound(model_type):
    with quiet():
        try:
            model = runnable(model_type)
        except NotApplicable:
            pytest.skip("an older transformers has this model as a part of others alone")
        row = measure_heads(model_type, model)
    assert (row.status, row.mean_fill) == ("pass", "pass"), row


def test_a_config_that_no_list_of_names_fits_is_divided():
    with quiet():
        model = runnable("swinv2")
        layout = discover(model)
    assert len({attention.size for attention in layout.attentions}) > 1  # stages with more heads


def test_what_no_batch_can_have_is_named():
    with quiet(), pytest.raises(UnsupportedModel, match="reads inference_session"):
        inputs_for(tiny("sam2_video"))


def test_the_projection_of_relative_positions_is_cut_with_its_heads():
    with quiet():
        model = tiny("wav2vec2-conformer").double()
        batch, _ = inputs_for(model)
    batch = {name: value.double() for name, value in batch.items()}
    removed = ["encoder.0.1", "encoder.0.2"]
    with torch.no_grad():
        before = outputs(model, batch)
        with gated(model, closed=removed):
            closed = outputs(model, batch)
    prune(model, removed)
    (core,) = (m for path, m in model.named_modules() if path == "encoder.layers.0.self_attn")
    assert core.linear_pos.weight.shape == (16, 32)
    with torch.no_grad():
        cut = outputs(model, batch)
    assert all(torch.allclose(a, b) for a, b in zip(closed, cut, strict=True))
    assert not torch.allclose(before[0], cut[0])


class TalkingHeads(nn.Module):
    """Attention whose heads are mixed by a matrix."""

    def __init__(self, *shape: int):
        super().__init__()
        self.num_heads, self.head_dim = 4, 8
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(32, 32) for _ in range(4))
        self.table = nn.Parameter(torch.zeros(*shape))


@pytest.mark.parametrize("shape", [(1, 9, 8), (49, 4), (1, 4, 1, 1), (4, 8)])
def test_a_table_for_each_head_keeps_heads_apart(shape):
    assert len(discover(nn.Sequential(TalkingHeads(*shape)))) == 4


@pytest.mark.parametrize("shape", [(4, 4), (32,), (32, 32), (4, 49)])
def test_a_matrix_between_heads_is_refused(shape):
    with pytest.raises(UnknownArchitecture, match=r"table seems to work on all heads at once"):
        discover(nn.Sequential(TalkingHeads(*shape)))
