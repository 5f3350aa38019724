"""One target over layers, heads and neurons: useless layers go, promises hold, times decide."""

import copy
from dataclasses import replace
from functools import cache

import pytest
import torch
from refit_by_hand import is_same, state
from transformers import AlbertConfig, AlbertForMaskedLM, LlamaConfig, LlamaForCausalLM

from deadhead.errors import DeadheadError
from deadhead.heads.layers import copy_with_same_weights
from deadhead.shrinking import latency as timing
from deadhead.shrinking import shrink
from deadhead.shrinking.mixture import Mixer
from deadhead.shrinking.shrunk import Speed

QUIET = {"progress": False, "on": (1, 8), "loss": "self"}
LAYERS, USELESS = 4, 2
SIZE = {"hidden_size": 16, "num_hidden_layers": LAYERS, "num_attention_heads": 2}
SIZE |= {"vocab_size": 40, "intermediate_size": 24, "pad_token_id": 0, "initializer_range": 0.3}


@cache
def _built():
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZE))
    useless = model.model.layers[USELESS]
    with torch.no_grad():
        for out in (useless.self_attn.o_proj, useless.mlp.down_proj):
            out.weight.zero_()
    return model.double().eval()


def build():
    return copy.deepcopy(_built())


def data():
    ids = torch.randint(5, 40, (48, 8), generator=torch.Generator().manual_seed(1))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return [{name: value[i : i + 8] for name, value in batch.items()} for i in range(0, 48, 8)]


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


def share_without_a_layer(model):
    return 1 - size(model.model.layers[0]) / size(model)


def test_a_useless_layer_is_what_the_target_takes():
    model = build()
    report = shrink(model, data(), parameters=share_without_a_layer(model), **QUIET)
    assert report.removed_layers == (f"decoder.{USELESS}",)
    assert not report.choice.heads
    assert not report.choice.neurons
    assert report.losses["refitted"] == pytest.approx(0, abs=1e-9)
    assert report.tried_layers[1] == pytest.approx(0, abs=1e-9)
    assert report.tried_layers[0] > 1e-6  # the norms of the layer are a part of the target


def test_layers_stay_where_heads_and_neurons_lose_less():
    model = build()
    report = shrink(model, data(), parameters=0.95, **QUIET)
    assert report.removed_layers == ()
    assert report.tried_layers[1] >= report.tried_layers[0]


def test_the_final_repair_decides_between_some_layers_and_none(monkeypatch):
    """A quick repair of heads and neurons may be far worse than the final one."""
    mixture_of = Mixer.mixture

    def with_a_poor_quick_repair(self, layers, *, compare=False):
        mixture = mixture_of(self, layers, compare=compare)
        return replace(mixture, loss=1e9, is_final=False) if layers is None else mixture

    monkeypatch.setattr(Mixer, "mixture", with_a_poor_quick_repair)
    model = build()
    with torch.no_grad():
        for out in (
            model.model.layers[USELESS].self_attn.o_proj,
            model.model.layers[USELESS].mlp.down_proj,
        ):
            out.weight.normal_(std=0.3, generator=torch.Generator().manual_seed(1))
    report = shrink(model, data(), parameters=0.95, **QUIET)
    assert report.removed_layers == ()
    assert report.tried_layers[0] == 1e9
    assert min(loss for count, loss in report.tried_layers.items() if count) < 1e9
    (note,) = [note for note in report.notes if "whole layers stay" in note]
    assert f"loss is {report.losses['refitted']:.4f}, and " in note


@pytest.mark.parametrize(
    ("precision", "bytes_each"), [(None, 8), (torch.float32, 4), (torch.bfloat16, 2)]
)
def test_megabytes_are_kept(precision, bytes_each):
    model = build()
    megabytes = 0.6 * size(model) * bytes_each / 1e6
    shrink(model, data(), megabytes=megabytes, precision=precision, **QUIET)
    assert 0.5 * megabytes < size(model) * bytes_each / 1e6 <= megabytes


@pytest.mark.parametrize("layers", [1, [3], 0])
def test_heads_and_neurons_take_what_given_layers_leave(layers):
    model = build()
    whole = size(model)
    report = shrink(model, data(), parameters=0.5, layers=layers, **QUIET)
    assert 0.45 * whole < size(model) <= 0.5 * whole
    assert len(report.removed_layers) == LAYERS - len(model.model.layers) == bool(layers)
    assert report.choice.neurons
    assert report.tried_layers == {}
    assert report.sizes["parameters"] == (whole, size(model))


def test_layers_that_save_more_than_the_target_leave_heads_and_neurons_alone():
    model = build()
    report = shrink(model, data(), parameters=0.9, layers=2, **QUIET)
    assert len(report.removed_layers) == 2
    assert not report.choice.heads
    assert not report.choice.neurons
    assert any("all heads and neurons stay" in note for note in report.notes)


def test_the_target_counts_from_the_full_model():
    """As after the removal of tokens, which here is enough by itself, or not."""
    for share, enough in ((0.99, True), (0.5, False)):
        model = build()
        full = copy_with_same_weights(model)
        for name in ("embed_tokens", "lm_head"):
            owner = model if name == "lm_head" else model.model
            weight = getattr(owner, name).weight
            getattr(owner, name).weight = torch.nn.Parameter(weight[:39].clone())
        rows = [{k: v.clamp(max=38) for k, v in batch.items()} for batch in data()]
        report = shrink(model, rows, parameters=share, full=full, **QUIET)
        assert report.sizes["parameters"] == (size(full), size(model))
        assert size(model) <= share * size(full)
        assert (not report.choice.neurons and not report.removed_layers) == enough


def test_layers_that_share_weights_stay():
    torch.manual_seed(0)
    config = AlbertConfig(embedding_size=16, num_hidden_groups=1, **SIZE)
    model = AlbertForMaskedLM(config).double().eval()
    report = shrink(model, data(), parameters=0.9, **QUIET)
    (note,) = [note for note in report.notes if "whole layers stay" in note]
    assert "share weights" in note
    assert report.choice.neurons


def clock(seconds):
    """Times by a function of the module that runs."""

    def in_turns(calls, device, rounds, **_):
        modules = [getattr(call, "func", None) for call in calls]
        timed = [
            module if isinstance(module, torch.nn.Module) else call.args[0]
            for module, call in zip(modules, calls, strict=True)
        ]
        return [[seconds(module)] * rounds for module in timed]

    return in_turns


def by_layers(module):
    """Only the number of layers counts, as for one short text on a GPU."""
    return 1.0 + len(module.model.layers) if isinstance(module, LlamaForCausalLM) else 1.0


def by_parameters(module):
    return 1e-6 * size(module)


def test_where_only_depth_saves_time_layers_leave(monkeypatch):
    monkeypatch.setattr(timing, "in_turns", clock(by_layers))
    model = build()
    report = shrink(model, data(), speedup=1.5, **QUIET)
    assert len(report.removed_layers) == 2  # 5 / 3; one would be 5 / 4
    assert f"decoder.{USELESS}" in report.removed_layers
    assert not report.choice.neurons
    assert report.speed is not None
    assert report.speed.measured == pytest.approx(5 / 3)
    assert report.speed.predicted == pytest.approx(5 / 3)
    model, before = build(), state(build())
    with pytest.raises(DeadheadError, match="runs no faster on inputs of 1 x 8"):
        shrink(model, data(), speedup=1.5, layers=0, **QUIET)
    with pytest.raises(DeadheadError, match=r"`speedup` expects at most about 2\.50"):
        shrink(model, data(), speedup=3, **QUIET)
    assert is_same(state(model), before)


def test_layers_and_neurons_reach_a_speed_up_together(monkeypatch):
    monkeypatch.setattr(timing, "in_turns", clock(by_parameters))
    model = build()
    report = shrink(model, data(), speedup=2, layers=1, **QUIET)
    assert report.speed is not None
    assert 2 * 0.99 < report.speed.measured < 2.2
    assert report.speed.measured == pytest.approx(report.speed.predicted, rel=0.05)
    assert report.speed.next_target is None
    assert report.choice.neurons


def test_times_are_left_to_the_caller(monkeypatch):
    monkeypatch.setattr(timing, "in_turns", clock(by_parameters))
    report = shrink(build(), data(), speedup=1.5, timed=False, **QUIET)
    assert report.speed is not None
    assert report.speed.seconds is None
    assert report.speed.next_target is None
    assert report.to_dict()["speed"]["measured"] is None
    assert "not measured" in str(report)


@pytest.mark.parametrize(("seconds", "next_target"), [(0.55, None), (0.56, 2.24)])
def test_a_speed_up_missed_by_more_than_a_tenth_has_a_next_target(seconds, next_target):
    speed = Speed(shape=(1, 8), target=2.0, predicted=2.0, seconds=(1.0, seconds))
    assert speed.next_target == next_target
