"""Counted costs are those that torch counts in a run, to the last multiply-accumulate."""

import copy
import warnings

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from architectures.tiny import tiny
from deadhead.errors import DeadheadError
from deadhead.files.hub import quiet
from deadhead.forward import forward
from deadhead.heads import prune
from deadhead.heads.discover import find_every_site, layout_of
from deadhead.shrinking.allocate import units_of
from deadhead.shrinking.costs import costs, sample, shape_for
from deadhead.verify.inputs import batch_for

SHAPE = (3, 12)
FAMILIES = ("bert", "gpt2", "llama", "t5", "modernbert", "vit")


@torch.no_grad()
def flops(model, feed):
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:
        forward(model, feed)
    return int(counter.get_total_flops())


def build(family):
    with warnings.catch_warnings(), quiet():
        warnings.simplefilter("ignore")
        model = tiny(family)
        batch = batch_for(model)
        return model, batch, costs(model, find_every_site(model), batch, SHAPE)


def without(model, place, count):
    """A copy of the model whose place lost its last units."""
    units = units_of(layout_of(find_every_site(model)))[place][-count:]
    kind, block, layer = place
    numbers = [number for unit in units for number in unit]
    if kind == "neurons":
        return prune(copy.deepcopy(model), neurons={(block, layer): numbers})
    return prune(copy.deepcopy(model), [f"{block}.{layer}.{number}" for number in numbers])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_counts_are_those_of_a_run(family):
    model, batch, counted = build(family)
    feed = sample(model, batch, SHAPE)
    whole = flops(model, feed)
    assert counted.model_parameters == sum(p.numel() for p in model.parameters())
    kinds = {place[0]: place for place in counted.macs}  # the last layer of each kind
    assert set(kinds) == {"heads", "neurons"}
    for place in kinds.values():
        units = len(counted.macs[place]) - 1
        # torch's counter cannot follow GPT-2's layers without units
        for count in {1, units if family != "gpt2" else units - 1}:
            small = without(model, place, count)
            saved = counted.of(counted.macs) - counted.of(counted.macs, {place: count})
            assert saved > 0
            assert whole - flops(small, feed) == 2 * saved
            saved = counted.of(counted.parameters) - counted.of(counted.parameters, {place: count})
            left = sum(p.numel() for p in small.parameters())
            assert counted.model_parameters - left == saved


def test_shared_layers_count_as_often_as_they_run():
    model, batch, counted = build("albert")
    place = ("neurons", "encoder", 0)
    small = without(model, place, 5)
    feed = sample(model, batch, SHAPE)
    saved = counted.macs[place][-1] - counted.macs[place][-6]
    assert flops(model, feed) - flops(small, feed) == 2 * saved
    once = 5 * 2 * model.config.hidden_size * SHAPE[0] * SHAPE[1]
    assert saved == model.config.num_hidden_layers * once


def test_shapes():
    model = tiny("bert")
    assert shape_for(model, None) == (32, 128)
    assert shape_for(tiny("roberta", pad_token_id=1), None) == (
        32,
        126,
    )  # its tokens are numbered from 2
    model.config.max_position_embeddings = 64
    assert shape_for(model, None) == (32, 64)
    model.config.max_position_embeddings = 512
    assert shape_for(model, None) == (32, 128)
    assert shape_for(model, (4, 512)) == (4, 512)
    with pytest.raises(DeadheadError, match="at most the 512 positions of this model, got 513"):
        shape_for(model, (4, 513))
    for wrong in ((0, 8), "32", (1, 2, 3), (4, "many"), (True, 8), (4, True)):
        with pytest.raises(DeadheadError, match="`on` expects examples and tokens of each"):
            shape_for(model, wrong)


def test_what_is_given_for_every_token_gets_the_length_of_the_texts():
    bert = tiny("bert")
    ids = torch.tensor([[1, 7, 9], [1, 8, 0]])
    batch = {
        "input_ids": ids,
        "attention_mask": (ids != 0).long().flip(0),  # the first example is padded
        "bbox": torch.arange(24).view(2, 3, 4),
        "inputs_embeds": torch.randn(2, 3, 5),
        "global_attention_mask": torch.tensor([[1, 0, 0], [1, 0, 0]]),
    }
    feed = sample(bert, batch, (2, 7))
    assert feed["input_ids"].tolist() == [[1, 7, 9, 1, 7, 9, 1]] * 2
    assert feed["attention_mask"].tolist() == [[1] * 7] * 2
    for name in ("bbox", "inputs_embeds"):
        assert torch.equal(feed[name][1, 3:6], batch[name][0])
        assert feed[name].shape[:2] == (2, 7)
    assert feed["global_attention_mask"].tolist() == [[1, 0, 0, 0, 0, 0, 0]] * 2


def test_the_mask_of_a_sound_keeps_the_length_of_the_sound():
    mask = (torch.arange(4000) < 3000).long()[None]
    batch = {"input_values": torch.randn(1, 4000), "attention_mask": mask}
    feed = sample(tiny("wav2vec2"), batch, (2, 7))
    assert feed["input_values"].shape == (2, 4000)
    assert feed["attention_mask"].tolist() == [[1] * 4000] * 2
