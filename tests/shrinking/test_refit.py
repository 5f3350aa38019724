"""A refit: what it computes, against two models run by hand, and what it makes up for."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from torch.nn.functional import linear

from deadhead.errors import (
    DataError,
    DeadheadError,
    GroupError,
    HeadError,
    UnknownName,
    UnsupportedModel,
)
from deadhead.heads import discover, gated, load, prune, save
from deadhead.heads.verify.tiny import tiny
from deadhead.layout import Head
from deadhead.shrinking import streams
from deadhead.shrinking.held_out import held_out_numbers
from deadhead.shrinking.refitting import RefitReport, refit

REMOVED = {
    "bert": ["encoder.0.0", "encoder.1.2"],
    "llama": ["decoder.0.0", "decoder.0.1", "decoder.1.2", "decoder.1.3"],
    "gpt2": ["decoder.0.0", "decoder.1.2"],
}


def build(family: str, **overrides: Any) -> Any:
    return tiny(family, **overrides).double()


def batches(count: int = 12, size: int = 4, length: int = 9, *, left: bool = False) -> list[Any]:
    """Random text in batches of padded examples, of 3 tokens or more."""
    random = torch.Generator().manual_seed(0)
    result = []
    for _ in range(count):
        ids = torch.randint(5, 30, (size, length), generator=random)
        lengths = torch.randint(3, length + 1, (size, 1), generator=random)
        mask = (torch.arange(length)[None] < lengths).long()
        if left:  # the same tokens
            ids, mask = (
                torch.stack([row.roll(int(length - n)) for row, n in zip(t, lengths, strict=True)])
                for t in (ids, mask)
            )
        result.append({"input_ids": ids, "attention_mask": mask})
    return result


def state(model: Any) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def is_same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(first[n].equal(second[n]) for n in first)


def marks(model: Any) -> dict[str, Any]:
    """Where hooks and replaced functions could hide, and the modes."""
    return {
        path: (list(m._forward_hooks), list(m._forward_pre_hooks), sorted(m.__dict__), m.training)
        for path, m in model.named_modules()
    }


@torch.no_grad()
def logits(model: Any, batch: dict[str, Tensor]) -> Tensor:
    output = model(**batch)[0]
    return output[batch["attention_mask"].bool()]


def neurons_of(model: Any, step: int = 3) -> dict[tuple[str, int], tuple[int, ...]]:
    layers = discover(model, neurons=True).feed_forwards
    return {(layer.block, layer.layer): layer.kept[::step] for layer in layers}


# --- two models by hand ---


class Reader:
    """Records what a module reads and gives."""

    def __init__(self, module: torch.nn.Module):
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        module.register_forward_hook(self)

    def __call__(self, module: Any, args: Any, output: Any) -> None:
        self.inputs.append(args[0])
        self.outputs.append(output[0] if isinstance(output, tuple) else output)


def layer_parts(model: Any, family: str, layer: int) -> tuple[Any, Any]:
    """The output projection of the attention, and a module that reads the stream before it."""
    if family == "bert":
        inner = model.base_model.encoder.layer[layer]
        return inner.attention.output.dense, inner.attention.self.query
    inner = model.base_model.layers[layer]
    return inner.self_attn.o_proj, inner.input_layernorm


@torch.no_grad()
def refit_by_hand(family: str, ridge: float, target: str) -> Any:
    """Two copies: the small one is cut and refitted layer by layer, every token by itself."""
    whole, small, data = build(family), build(family), batches()
    held_out = held_out_numbers(48, 0.125)
    flags = torch.tensor([number in held_out for number in range(48)]).split(4)
    for layer in range(2):
        removed = [Head.parse(h).index for h in REMOVED[family] if int(h.split(".")[1]) == layer]
        models = {}
        for name, model in (("whole", whole), ("small", small)):
            copied = copy.deepcopy(model)
            out, before = layer_parts(copied, family, layer)
            models[name] = (Reader(out), Reader(before))
            for batch in data:
                copied(**batch)
        keep = torch.ones(whole.config.hidden_size, dtype=torch.bool)
        for head in removed:
            width = whole.config.hidden_size // whole.config.num_attention_heads
            keep[head * width : (head + 1) * width] = False
        fit = [
            batch["attention_mask"].bool() & ~held[:, None]
            for batch, held in zip(data, flags, strict=True)
        ]

        def chosen(values: list[Tensor], fit: list[Tensor] = fit) -> Tensor:
            return torch.cat([value[rows] for value, rows in zip(values, fit, strict=True)])

        y = chosen(models["whole"][0].outputs)
        if target == "residual":
            y = y + chosen(models["whole"][1].inputs) - chosen(models["small"][1].inputs)
        x = chosen(models["small"][0].inputs)[:, keep]
        out = layer_parts(small, family, layer)[0]
        old = out.weight[:, keep]
        e = y - linear(x, old, out.bias)
        cx, ce = x - x.mean(0), e - e.mean(0)
        size = (ridge * cx.square().sum(0).mean()).sqrt() * torch.eye(cx.shape[1]).double()
        zeros = torch.zeros(cx.shape[1], ce.shape[1]).double()
        change = torch.linalg.lstsq(torch.cat([cx, size]), torch.cat([ce, zeros])).solution
        bias = e.mean(0) - x.mean(0) @ change
        out.weight.zero_()
        out.weight[:, keep] = old + change.T
        out.bias = torch.nn.Parameter(bias if out.bias is None else out.bias + bias)
    return small


@pytest.mark.parametrize("target", ["residual", "output"])
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_it_is_what_two_models_by_hand_give(
    family: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ridge = 0.1
    monkeypatch.setattr("deadhead.shrinking.solve.RIDGES", (ridge,))
    monkeypatch.setattr("deadhead.shrinking.solve._rounding_ridge", lambda *_: 1.0)
    model, data = build(family), batches()
    before = logits(model, data[0])
    report = refit(model, data, REMOVED[family], target=target, candidates="refit", progress=False)
    assert [layer.candidate for layer in report.layers] == ["refit 1e-01"] * 2
    by_hand = refit_by_hand(family, ridge, target)
    assert torch.allclose(logits(model, data[0]), logits(by_hand, data[0]), atol=1e-8)
    other = refit_by_hand(family, ridge, "output" if target == "residual" else "residual")
    for wrong in (before, logits(other, data[0])):
        assert float((logits(model, data[0]) - wrong).abs().max()) > 1e-3


# --- what it makes up for ---


@torch.no_grad()
def repeat_head(model: Any, family: str) -> None:
    """Make the first head of layer 1 the same as the second, but for the output projection."""
    inner = model.base_model.encoder.layer[1].attention.self
    width = inner.query.weight.shape[0] // model.config.num_attention_heads
    for module in (inner.query, inner.key, inner.value):
        module.weight[:width] = module.weight[width : 2 * width]
        module.bias[:width] = module.bias[width : 2 * width]


def test_a_head_that_others_can_give_is_recovered_exactly() -> None:
    model, data = build("bert"), batches()
    repeat_head(model, "bert")
    expected = [logits(model, batch) for batch in data]
    cut = prune(copy.deepcopy(model), ["encoder.1.0"])
    assert float((logits(cut, data[0]) - expected[0]).abs().max()) > 1e-2
    (layer,) = refit(model, data, ["encoder.1.0"], progress=False).layers
    assert layer.error_refitted < 1e-12 < 1e-3 < layer.error_cut
    for batch, value in zip(data, expected, strict=True):
        assert float((logits(model, batch) - value).abs().max()) < 1e-6


def test_a_neuron_that_others_can_give_is_recovered_exactly() -> None:
    model, data = build("bert"), batches()
    inner = model.base_model.encoder.layer[0].intermediate.dense
    with torch.no_grad():
        inner.weight[5], inner.bias[5] = inner.weight[6], inner.bias[6]
    expected = logits(model, data[0])
    cut = prune(copy.deepcopy(model), neurons={("encoder", 0): [5]})
    assert float((logits(cut, data[0]) - expected).abs().max()) > 1e-3
    (layer,) = refit(model, data, neurons={("encoder", 0): [5]}, progress=False).layers
    assert (layer.kind, layer.layer) == ("neurons", 0)
    assert float((logits(model, data[0]) - expected).abs().max()) < 1e-6


@pytest.mark.parametrize("family", ["bert", "llama", "gpt2"])
def test_heads_and_neurons_of_all_layers(family: str, tmp_path: Path) -> None:
    model, data = build(family), batches()
    whole, neurons = copy.deepcopy(model), neurons_of(model)
    cut = prune(copy.deepcopy(model), REMOVED[family], neurons=neurons)
    report = refit(model, data, REMOVED[family], neurons, progress=False)
    assert [(layer.layer, layer.kind) for layer in report.layers] == [
        (n, kind) for n in range(2) for kind in ("heads", "neurons")
    ]
    assert all(0 < layer.error_refitted <= layer.error_cut for layer in report.layers)
    assert not report.notes
    assert report.tokens > 5 * report.held_out_tokens > 0
    assert discover(model, neurons=True) == discover(cut, neurons=True)
    far, near = (
        sum(float((logits(m, b) - logits(whole, b)).square().sum()) for b in data)
        for m in (cut, model)
    )
    assert near < 0.8 * far
    for form in ("compact", "padded"):
        save(model, tmp_path / form, form=form)
        again = (
            load(tmp_path / form).double()
            if form == "compact"
            else type(model).from_pretrained(tmp_path / form).double()
        )
        assert float((logits(again, data[0]) - logits(model, data[0])).abs().max()) < 1e-9


def test_everywhere_refits_layers_that_lose_nothing() -> None:
    few, every, data = build("bert"), build("bert"), batches()
    assert len(refit(few, data, ["encoder.0.0"], progress=False).layers) == 1
    report = refit(every, data, ["encoder.0.0"], everywhere=True, progress=False)
    assert len(report.layers) == 4
    later = [layer for layer in report.layers[1:] if layer.candidate != "nothing"]
    assert later
    assert not is_same(state(few), state(every))


def test_an_emptied_layer_keeps_the_mean_of_what_it_gave() -> None:
    model, data = build("llama"), batches()
    heads = [head for head in discover(model) if head.layer == 0]
    (layer,) = refit(model, data, heads, progress=False).layers
    assert layer.candidate == "mean"
    assert layer.error_refitted < layer.error_cut
    assert float(model.base_model.layers[0].self_attn.o_proj.bias.detach().abs().max()) > 0


def test_no_candidates_only_cut() -> None:
    model = build("bert")
    expected = prune(copy.deepcopy(model), REMOVED["bert"])
    assert refit(model, batches(), REMOVED["bert"], candidates=(), progress=False).layers == ()
    assert is_same(state(model), state(expected))


@pytest.mark.parametrize("family", ["t5", "bart", "albert", "gemma2", "xlnet"])
def test_other_structures(family: str) -> None:
    """Encoder and decoder, shared layers, an output that a norm reads, and no projection module."""
    model, data = build(family), batches()
    for batch in data if family in ("t5", "bart") else []:
        batch["decoder_input_ids"] = batch["input_ids"].flip(0)
    heads = [head for a in discover(model).attentions for head in a.groups[0]]
    cut = prune(copy.deepcopy(model), heads)
    report = refit(model, data, heads, progress=False)
    assert {layer.target for layer in report.layers} <= {"residual", "output"}
    if family == "xlnet":
        assert not report.layers
        assert "not a module" in report.notes[0]
        assert is_same(state(model), state(cut))
        return
    assert len(report.layers) == len(discover(model).attentions)
    assert all(layer.error_refitted <= layer.error_cut for layer in report.layers)
    assert {layer.target for layer in report.layers} == {
        "output" if family == "gemma2" else "residual"
    }
    assert bool(report.notes) == (family == "gemma2")
    if family == "albert":  # both layers use its only projection
        assert report.tokens == 2 * tokens_to_fit(data)


def tokens_to_fit(data: list[Any]) -> int:
    mask = torch.cat([batch["attention_mask"] for batch in data])
    fit = sorted({*range(len(mask))} - held_out_numbers(len(mask), 0.125))
    return int(mask[fit].sum())


def test_layers_that_the_data_do_not_run_are_only_cut() -> None:
    model, data = build("bart"), batches()
    encoder = transformers.BartModel.get_encoder(model.base_model)
    model.forward = lambda **batch: encoder(  # type: ignore[method-assign]
        batch["input_ids"], attention_mask=batch["attention_mask"]
    )
    report = refit(model, data, ["encoder.0.0", "decoder.0.0"], progress=False)
    assert [layer.block for layer in report.layers] == ["encoder"]
    assert "decoder layer 0 is cut, but not refitted: the data do not run it" in report.notes[0]
    assert len(discover(model)["decoder", 0].kept) == discover(model)["decoder", 0].size - 1


# --- the same result however it is run ---


def reports_and_weights(model: Any, data: Any, **options: Any) -> tuple[RefitReport, Any]:
    report = refit(model, data, REMOVED["llama"], neurons_of(model), progress=False, **options)
    return report, state(model)


def assert_equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.allclose(value, second[name], atol=1e-7), name


def test_batches_one_by_one_padding_sides_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
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
    monkeypatch.setattr(streams, "MEMORY", 0)  # every run starts at the first layer
    assert_equal(weights, reports_and_weights(build("llama"), batches())[1])


def test_kept_outputs_of_layers_stay_within_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same peak for twice the data, and runs that skip layers where there is room."""
    peaks, skipped = [], []
    store, give = streams.Streams._store, streams._give

    def recorded(self: Any, *args: Any) -> None:
        store(self, *args)
        peaks[-1] = max(peaks[-1], self._bytes)
        kept = sum(streams._size(o) for stored in self._stored.values() for o in stored.values())
        assert kept <= self._bytes <= streams.MEMORY

    def counted(*args: Any, **kwargs: Any) -> Any:
        skipped.append(1)
        return give(*args, **kwargs)

    monkeypatch.setattr(streams.Streams, "_store", recorded)
    monkeypatch.setattr(streams, "_give", counted)
    monkeypatch.setattr(streams, "MEMORY", 30_000)
    for count in (12, 24):
        peaks.append(0)
        refit(build("bert"), batches(count), REMOVED["bert"], progress=False)
    assert peaks[0] > 20_000
    assert peaks[1] <= 30_000
    assert skipped


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_precisions(dtype: torch.dtype) -> None:
    model = build("llama").to(dtype)
    report = refit(model, batches(), REMOVED["llama"], progress=False)
    assert all(layer.error_refitted < layer.error_cut for layer in report.layers)
    assert {p.dtype for p in model.parameters()} == {dtype}


def test_modes_gradients_and_configs() -> None:
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


def test_progress_counts_batches_of_layers() -> None:
    steps: list[tuple[int, int]] = []
    refit(
        build("bert"),
        batches(),
        REMOVED["bert"],
        progress=lambda done, total, note="": steps.append((done, total)),
    )
    assert steps == [(n + 1, 24) for n in range(24)]


# --- errors, which change nothing ---


class Broken(Exception):
    pass


def test_an_exception_in_the_middle_leaves_the_model_as_it_was() -> None:
    model = build("bert")
    model.train()
    before, where = state(model), marks(model)

    def stop(done: int, total: int, note: str = "") -> None:
        if done == 15:
            raise Broken

    with pytest.raises(Broken):
        refit(model, batches(), REMOVED["bert"], progress=stop)
    assert is_same(state(model), before)
    assert marks(model) == where


def nan_at(layer: int) -> Any:
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
        ("bert", batches(), {"target": "logits"}, UnknownName, "no target 'logits'"),
        ("bert", batches(), {"candidates": ["all"]}, UnknownName, "no candidate 'all'"),
        ("bert", batches(), {"held_out": 1.5}, DeadheadError, "a share above 0"),
    ],
)
def test_errors_come_before_any_change(
    model: Any, data: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    model = build(model) if isinstance(model, str) else copy.deepcopy(model)
    before, where = state(model), marks(model)
    with pytest.raises(error, match=message):
        refit(model, data, **{"heads": ["encoder.0.0", "encoder.1.0"], "progress": False} | options)
    after = state(model)
    assert all(torch.equal(before[n].nan_to_num(), after[n].nan_to_num()) for n in before)
    assert marks(model) == where


def test_a_gated_model_is_refused() -> None:
    model = build("bert")
    with (
        gated(model, closed=["encoder.0.0"]),
        pytest.raises(UnsupportedModel, match="without gates"),
    ):
        refit(model, batches(), ["encoder.1.0"], progress=False)
