"""The table of times, with a clock that counts parameters instead of seconds."""

from typing import Any

import pytest
import torch
from transformers import BertConfig, BertModel

from deadhead.heads import prune
from deadhead.heads.discover import find_every_site
from deadhead.shrinking import latency as module
from deadhead.shrinking.latency import in_turns, latency, time_models

SHAPE = (2, 6)
BATCH = {"input_ids": torch.arange(5, 9)[None], "attention_mask": torch.ones(1, 4).long()}


def build(neurons=64):
    torch.manual_seed(0)
    size = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
    config = BertConfig(vocab_size=30, intermediate_size=neurons, **size)
    return BertModel(config, add_pooling_layer=False).eval()


class Clock:
    """Every parameter of a module takes a microsecond; each call also runs, since it must."""

    def __call__(self, calls, device, rounds, **_):
        times = []
        for call in calls:
            call()
            part: Any = call
            timed = part.func if isinstance(part.func, torch.nn.Module) else part.args[0]
            times.append([1e-6 * sum(p.numel() for p in timed.parameters())] * rounds)
        return times


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "in_turns", clock)
    return clock


def measured(model, shape=SHAPE):
    return latency(model, find_every_site(model), BATCH, shape)


def test_times_of_the_table_are_those_of_the_pruned_model(clock):
    model = build()
    table = measured(model)
    assert set(map(len, table.layers.values())) == {5, 65}
    heads = [f"encoder.0.{i}" for i in range(4)] + ["encoder.2.1"]
    neurons = {("encoder", 1): range(16), ("encoder", 2): range(64)}
    removed = {("heads", "encoder", 0): 4, ("heads", "encoder", 2): 1}
    removed |= {("neurons", "encoder", 1): 16, ("neurons", "encoder", 2): 64}
    predicted = table.after(removed)
    whole = 1e-6 * sum(p.numel() for p in model.parameters())
    small = 1e-6 * sum(p.numel() for p in prune(model, heads, neurons=neurons).parameters())
    assert table.whole == pytest.approx(whole)
    assert small < 0.8 * whole
    assert predicted == pytest.approx(small)


def test_only_multiples_of_neurons_pay(clock):
    times = measured(build()).layers["neurons", "encoder", 0]
    assert len(set(times)) == 9  # 0, 8, ..., 64
    assert times[57:] == [times[64]] * 8
    assert times[56] < times[57]


def test_a_limit_of_seconds_sets_the_rounds(monkeypatch):
    rounds: list[int] = []

    def half_a_second(calls, _, count, **__):
        rounds.append(count)
        return [[0.5] * count for _ in calls]

    monkeypatch.setattr(module, "in_turns", half_a_second)
    models = [build(), build()]
    assert time_models(models, BATCH, SHAPE) == [0.5, 0.5]
    for limit in (5.0, 0.1):
        time_models(models, BATCH, SHAPE, limit=limit)
    assert rounds == [1, 15, 1, 5, 1, 3]  # a run to know how long one takes, then the rounds


def test_turns():
    order: list[int] = []
    calls = [lambda: order.append(0), lambda: order.append(1)]
    times = in_turns(calls, torch.device("cpu"), 3, repeats=2)
    assert [len(own) for own in times] == [3, 3]
    assert order == [0, 0, 1, 1] * 5  # two rounds to warm up
    assert min(min(own) for own in times) > 0
