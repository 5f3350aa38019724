"""A refit gives the same however it is run, and changes nothing before its end."""

import copy
from collections import Counter
from functools import partial

import pytest
import torch
from refit_by_hand import REMOVED, batches, build, is_same, marks, neurons_of, state

from deadhead.errors import DataError, GroupError, HeadError, UnknownName, UnsupportedModel
from deadhead.heads import gated
from deadhead.shrinking import streams
from deadhead.shrinking.refitting import refit


def reports_and_weights(model, data, **options):
    report = refit(model, data, REMOVED["llama"], neurons_of(model), progress=False, **options)
    return report, state(model)


def assert_equal(first, second):
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.allclose(value, second[name], atol=1e-7), name


def test_batches_one_by_one_padding_sides_and_memory(monkeypatch):
    expected, weights = reports_and_weights(build("llama"), batches())
    one_by_one = [{n: t[i : i + 1] for n, t in b.items()} for b in batches() for i in range(4)]
    for data in (one_by_one, batches(left=True), iter(batches())):
        report, other = reports_and_weights(build("llama"), data)
        assert (report.tokens, report.held_out_tokens) == (
            expected.tokens,
            expected.held_out_tokens,
        )
        assert [a.candidate for a in report.layers] == [a.candidate for a in expected.layers]
        assert_equal(weights, other)
    # skipped layers that give something else are noticed, and run
    monkeypatch.setattr(streams, "_give", lambda value, *_, **__: value + 1)
    assert_equal(weights, reports_and_weights(build("llama"), batches())[1])
    monkeypatch.setattr(streams, "MEMORY", 0)  # every run starts at the first layer
    assert_equal(weights, reports_and_weights(build("llama"), batches())[1])


def test_what_a_run_has_computed_before_is_not_computed_again(monkeypatch):
    def runs(room):
        monkeypatch.setattr(streams, "MEMORY", room)
        model, calls = build("bert"), Counter()
        for name, module in model.named_modules():
            if name.endswith(("query", "intermediate.dense")):
                module.forward = partial(counted, calls, name, module.forward)
        refit(model, batches(), REMOVED["bert"], neurons_of(model), progress=False)
        return calls

    skipping, without = runs(streams.MEMORY), runs(0)
    assert all(skipping[name] < without[name] for name in without)
    last = max(without)
    # whole and small, for each batch; before them, what finds the order and checks the skipping
    assert skipping[last] <= 2 * len(batches()) + 4


def counted(calls, name, forward, *args):
    calls[name] += 1
    return forward(*args)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_precisions(dtype):
    model = build("llama").to(dtype)
    report = refit(model, batches(), REMOVED["llama"], progress=False)
    assert all(layer.error_refitted < layer.error_cut for layer in report.layers)
    assert {p.dtype for p in model.parameters()} == {dtype}


def test_modes_gradients_and_configs():
    model, data = build("bert"), batches()
    model.train()
    model.gradient_checkpointing_enable()
    model.base_model.pooler = None
    model.base_model.embeddings.eval()
    before, config = marks(model), copy.deepcopy(model.config.to_dict())
    original = model.config
    with torch.inference_mode():
        refit(model, data, REMOVED["bert"], progress=False)
    after = marks(model)
    assert {p: m[3] for p, m in after.items()} == {p: m[3] for p, m in before.items()}
    assert {p: m[:2] for p, m in after.items()} == {p: m[:2] for p, m in before.items()}
    assert original.to_dict() == config
    assert all(p.requires_grad and not p.is_inference() for p in model.parameters())
    assert model.config.deadhead["filled_output_biases"] == {"encoder": [0, 1]}


class Broken(Exception):
    pass


def test_an_exception_in_the_middle_leaves_the_model_as_it_was():
    model = build("bert")
    model.train()
    first = model.base_model.encoder.layer[0]
    first.forward = forward = first.forward  # as accelerate does to move weights
    before, where = state(model), marks(model)

    def stop(done, total, note=""):
        if done == 15:
            raise Broken

    with pytest.raises(Broken):
        refit(model, batches(), REMOVED["bert"], progress=stop)
    assert is_same(state(model), before)
    assert marks(model) == where
    assert first.__dict__["forward"] is forward


def nan_at(layer):
    model = build("bert")
    with torch.no_grad():
        model.base_model.encoder.layer[layer].attention.self.value.bias[0] = float("nan")
    return model


@pytest.mark.parametrize(
    ("model", "data", "options", "error", "message"),
    [
        ("bert", [], {}, DataError, "the list of batches is empty"),
        ("bert", batches(1, 1), {}, DataError, "at least 2 examples"),
        ("bert", batches(1), {}, DataError, r"expects at least \d+ tokens.*got \d+ and \d+"),
        (nan_at(1), batches(), {}, DataError, "encoder layer 1 are not finite"),
        ("bert", batches(), {"heads": ["encoder.9.0"]}, HeadError, "a layer of encoder"),
        ("llama", batches(), {"heads": ["decoder.0.0"]}, GroupError, "key/value head"),
        ("bert", batches(), {"candidates": ["all"]}, UnknownName, "no candidate 'all'"),
    ],
)
def test_errors_come_before_any_change(model, data, options, error, message):
    model = build(model) if isinstance(model, str) else copy.deepcopy(model)
    before, where = state(model), marks(model)
    with pytest.raises(error, match=message):
        refit(model, data, **{"heads": ["encoder.0.0", "encoder.1.0"], "progress": False} | options)
    assert is_same(before, state(model))
    assert marks(model) == where


def test_a_gated_model_is_refused():
    model = build("bert")
    with (
        gated(model, closed=["encoder.0.0"]),
        pytest.raises(UnsupportedModel, match="without gates"),
    ):
        refit(model, batches(), ["encoder.1.0"], progress=False)
