"""Fills and positions under everything a model runs in: gradients, precision, compilation, caches, copies."""

from __future__ import annotations

import copy
import platform
import threading
import warnings
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
import torch
from test_gates import NOT_COMPILED
from torch.nn.attention.flex_attention import flex_attention
from transformers.integrations.flex_attention import WrappedFlexAttention

from deadhead import captured, discover, gated, head_means
from deadhead.errors import DataError, UnsupportedModel
from tiny_models import answers, apart, batch_of, build, hooks

KINDS = ["zero", "means", "means per position", "resample", "captured"]
SHUT = ["decoder.0.1", "decoder.1.0", "decoder.1.3"]
POSITIONS: list[Any] = [None, [1, -2]]


def fill_of(model, kind: str, batch=None):
    batch = batch_of(model) if batch is None else batch
    if kind == "captured":
        with captured(model) as clean:
            answers(model, {**batch, "input_ids": batch["input_ids"].flip(1)})
        return clean
    if kind.startswith("means"):
        return head_means(model, [batch], per_position=kind != "means")
    return kind


def filled(model, fill, batch=None, **options) -> list[torch.Tensor]:
    with gated(model, closed=SHUT, fill=fill, **options):
        return answers(model, batch)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_of_a_gate_is_the_finite_difference(kind):
    model = build("gpt2")
    batch, fill = batch_of(model), fill_of(model, kind)
    gates = torch.full((2, 4), 0.7, dtype=torch.float64, requires_grad=True)

    def loss(positions) -> torch.Tensor:
        with gated(model, gates, fill=fill, positions=positions):
            return model(**batch).logits.tanh().square().mean()

    for positions in POSITIONS:
        gates.grad = None
        loss(positions).backward()
        assert gates.grad is not None
        for place in [(0, 1), (1, 2)]:
            ends = []
            for sign in (1, -1):
                with torch.no_grad():
                    gates[place] += sign * 1e-5
                    ends.append(float(loss(positions)))
                    gates[place] -= sign * 1e-5
            slope = (ends[0] - ends[1]) / 2e-5
            assert abs(slope) > 1e-5
            assert float(gates.grad[place]) == pytest.approx(slope, abs=1e-8)


def test_gradients_reach_the_values_of_a_fill():
    """Means that are learned, and a run that is attributed to."""
    model = build("gpt2")
    batch = batch_of(model)
    means = fill_of(model, "means")
    learned = {place: value.clone().requires_grad_() for place, value in means.values.items()}
    with gated(model, closed=SHUT, fill=replace(means, values=learned)):
        for _ in range(2):  # as in training, a graph for each step
            model(**batch).logits.square().mean().backward()
    gradient = learned["decoder", 0].grad
    assert gradient is not None
    assert gradient[1].abs().min() > 0
    assert not gradient[0].any()  # its gate is open
    clean = fill_of(model, "captured")
    values = clean.values["decoder", 1][0].requires_grad_()
    with gated(model, closed=SHUT, fill=clean, positions=[2]):
        model(**batch).logits.square().mean().backward()
    assert values.grad is not None
    assert values.grad[:, 2, :8].abs().min() > 0
    assert not values.grad[:, 3].any()


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_checkpointing(kind):
    gradients = []
    for checkpointed in (False, True):
        model = build("gpt2", resid_pdrop=0.0, attn_pdrop=0.0, embd_pdrop=0.0)
        fill, batch = fill_of(model, kind), batch_of(model)
        model.train()
        if checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        with gated(model, closed=SHUT, fill=fill, positions=[1, -2]), captured(model) as run:
            model(**batch, use_cache=False).logits.square().mean().backward()
        assert len(run.values["decoder", 0]) == 1
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    assert apart(*gradients) < 1e-12
    with gated(model, closed=SHUT):
        model(**batch, use_cache=False).logits.square().mean().backward()
    assert apart(gradients[0], [p.grad for p in model.parameters() if p.grad is not None]) > 1e-3


def test_layers_that_share_weights_lose_their_order_under_checkpointing():
    model = build("albert")
    with captured(model) as clean:
        answers(model)
    model.train().encoder.gradient_checkpointing = True
    with (
        pytest.raises(UnsupportedModel, match="gradient checkpointing"),
        gated(model, closed=["encoder.0.1"], fill=clean),
    ):
        model(**batch_of(model))


@pytest.mark.parametrize("kind", KINDS)
def test_autocast_keeps_the_lower_precision(kind):
    model = build("gpt2").float()
    fill = fill_of(model, kind)
    high = filled(model, fill, positions=[1, -2])
    dtypes: list[torch.dtype] = []
    hook = model.transformer.h[0].attn.c_proj.register_forward_hook(
        lambda _, args, out: dtypes.append(args[0].dtype)
    )
    with torch.autocast("cpu", torch.bfloat16):
        low = filled(model, fill, positions=[1, -2])
    hook.remove()
    assert set(dtypes) == {torch.bfloat16}
    assert 0 < apart([t.float() for t in low], high) < 0.1 * float(high[0].abs().max())


@pytest.mark.slow
def test_compiled_models():
    """All kinds of fills nested, since each compilation takes seconds."""
    model = build("gpt2", n_layer=1)
    batch, whole = batch_of(model), answers(model)
    means, clean = fill_of(model, "means"), fill_of(model, "captured")
    compiled = torch.compile(model, backend="eager")
    with (
        gated(model, closed=["decoder.0.0"], fill=means, positions=[1, -2]),
        gated(model, closed=["decoder.0.1"], fill="resample"),
        gated(model, closed=["decoder.0.2"], fill=clean),
        captured(model) as run,
    ):
        values = answers(compiled, batch)
    with (
        gated(model, closed=["decoder.0.0"], fill=means, positions=[1, -2]),
        gated(model, closed=["decoder.0.1"], fill="resample"),
        gated(model, closed=["decoder.0.2"], fill=clean),
        captured(model) as plain,
    ):
        expected = answers(model, batch)
    assert apart(values, expected) < 1e-10
    assert apart(expected, whole) > 1e-3
    (read,), (other,) = run.values["decoder", 0], plain.values["decoder", 0]
    assert (read - other).abs().max() < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_flex_attention(compiled, monkeypatch):
    """All kinds of fills nested, since each call of it takes a second."""
    model = build("llama", head_dim=16, num_hidden_layers=1).float()
    fills = {kind: fill_of(model, kind) for kind in ("means", "resample", "captured")}

    def nested(without: str = "") -> list[torch.Tensor]:
        with ExitStack() as stack:
            for index, (kind, fill) in enumerate(fills.items()):
                gates = {"closed": [f"decoder.0.{index}"], "fill": fill, "positions": [1, -5]}
                if kind != without:
                    stack.enter_context(gated(model, **gates))
            return answers(model)

    expected = nested()
    for kind in fills:  # each of them counts
        assert apart(nested(without=kind), expected) > 0.01, kind
    model.set_attn_implementation("flex_attention")
    if not compiled:
        monkeypatch.setattr(WrappedFlexAttention, "__call__", lambda self: flex_attention)
    try:
        whole = answers(model)
    except Exception as problem:
        if not compiled or NOT_COMPILED not in str(problem):
            raise
        pytest.skip(f"torch compiles no flex attention for {platform.machine()}")
    result = nested()
    assert apart(result, expected) < 1e-3
    assert apart(result, whole) > 0.01


def generate(model, prompt: dict[str, Any], **options) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text: torch.Tensor = model.generate(
            **prompt,
            max_new_tokens=8,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
            **options,
        )
    return text


@pytest.mark.parametrize("kind", KINDS[:4])
@pytest.mark.parametrize("family", ["gpt2", "llama", "marian"])
def test_generation_with_a_cache_is_that_without(family, kind):
    model = build(family)
    long = {
        "input_ids": torch.arange(3, 45).view(2, 21),
        "attention_mask": torch.ones(2, 21).long(),
    }
    if family == "marian":
        long["decoder_input_ids"] = long["input_ids"]
    fill = fill_of(model, kind, long)
    prompt = {"input_ids": torch.tensor([[5, 6, 7], [8, 9, 4]])}
    prompt["attention_mask"] = torch.ones_like(prompt["input_ids"])
    free = generate(model, prompt)
    heads = list(discover(model))[::2]
    with gated(model, closed=heads, fill=fill):
        text = generate(model, prompt)
        slowly = generate(model, prompt, use_cache=False)
    assert torch.equal(text, slowly)
    assert not torch.equal(text, free)


def test_generation_after_padding_counts_real_tokens():
    """Means per position, with a cache, for prompts of different lengths padded on the left."""
    model = build("gpt2")
    long = {"input_ids": torch.arange(3, 45).view(2, 21)}
    fill = fill_of(model, "means per position", long)
    prompt = {"input_ids": torch.tensor([[5, 6, 7, 8], [0, 0, 8, 9]])}
    prompt["attention_mask"] = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    with gated(model, closed=list(discover(model)), fill=fill):
        together = generate(model, prompt)
        alone = generate(
            model, {"input_ids": torch.tensor([[8, 9]]), "attention_mask": torch.ones(1, 2).long()}
        )
    assert together[1, 4:].tolist() == alone[0, 2:].tolist()


def test_a_step_of_generation_has_no_whole_sequence():
    model = build("gpt2")
    batch = {"input_ids": torch.tensor([[5, 6, 7], [8, 9, 4]])}
    before = hooks(model)
    run = fill_of(model, "captured", batch)
    for name, hint, options in (
        ("positions", "use_cache=False", {"positions": [1]}),
        ("fill", "max_new_tokens=1", {"fill": run}),
    ):
        with (
            pytest.raises(
                DataError, match=f"`{name}` expects whole sequences, got a step"
            ) as error,
            gated(model, closed=SHUT, **options),
        ):
            generate(model, batch)
        assert hint in str(error.value.hint)
    with (
        pytest.raises(DataError, match="captured run of 2 x 4 tokens, got 2 x 3") as error,
        gated(model, closed=SHUT, fill=run),
    ):
        generate(model, batch, use_cache=False)
    assert "max_new_tokens=1" in str(error.value.hint)
    with gated(model, closed=SHUT, positions=[1]):
        assert generate(model, batch, use_cache=False).shape == (2, 11)
    with (
        pytest.raises(DataError, match="one run of the model to capture, got a second one"),
        captured(model),
    ):
        generate(model, batch)
    assert hooks(model) == before


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("family", ["gpt2", "xlnet"])
def test_a_copy_made_inside_is_not_gated(family, kind):
    model = build(family)
    whole, fill = answers(model), fill_of(model, kind)
    with gated(model, closed=list(discover(model))[:3], fill=fill, positions=[1, 3]):
        copied = copy.deepcopy(model)
        assert apart(answers(copied), whole) == 0
        inside = answers(model)  # a run of the copy leaves no trace
    assert apart(inside, whole) > 1e-3
    with captured(model) as run:
        answers(copy.deepcopy(model))
    assert not run.values
    assert apart(answers(copied), whole) == 0


def replica_of(model: torch.nn.Module):
    """A copy as nn.DataParallel makes it for a GPU: modules of its own, hooks of the model."""
    copies = {module: module._replicate_for_data_parallel() for module in model.modules()}
    for module, twin in copies.items():
        for name, child in module._modules.items():
            if child is not None:
                twin._modules[name] = copies[child]
        for name, parameter in module._parameters.items():
            setattr(twin, name, parameter)
    return copies[model]


def test_replicas_know_their_own_part_of_the_batch():
    model = build("gpt2")
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(3, 90, (4, 9), generator=draw)
    mask = torch.ones(4, 9, dtype=torch.long)
    mask[0, 6:] = mask[3, 4:] = 0
    parts = [{"input_ids": ids[i : i + 2], "attention_mask": mask[i : i + 2]} for i in (0, 2)]
    start = threading.Barrier(2)
    for kind in KINDS[:4]:
        fill = fill_of(model, kind, {"input_ids": ids, "attention_mask": mask})
        alone = [filled(model, fill, part, positions=[1, -6]) for part in parts]
        with gated(model, closed=SHUT, fill=fill, positions=[1, -6]):
            replicas, results = [replica_of(model) for _ in parts], {}

            def work(number: int, replicas=replicas, results=results):
                start.wait()
                results[number] = answers(replicas[number], parts[number])

            threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for number in (0, 1):
            assert apart(results[number], alone[number]) < 1e-12, kind
    clean = fill_of(model, "captured", parts[0])
    with gated(model, closed=SHUT, fill=clean), pytest.raises(UnsupportedModel, match="in parts"):
        answers(replica_of(model), parts[0])
    with captured(model), pytest.raises(UnsupportedModel, match="in parts"):
        answers(replica_of(model), parts[0])


def test_a_part_of_the_model_called_by_itself():
    """Its masks are unknown, so what needs them is refused; means need none."""
    model = build("gpt2")
    batch, whole = batch_of(model), answers(model)
    with gated(model, closed=SHUT, fill=fill_of(model, "means")):
        assert apart(answers(model.transformer, batch), answers(build("gpt2").transformer)) > 1e-3
    for options in ({"fill": "resample"}, {"positions": [1]}):
        with gated(model, closed=SHUT, **options):
            answers(model, batch)
            with pytest.raises(UnsupportedModel, match="got a call of a part of it"):
                answers(model.transformer, batch)
    with gated(model.transformer, closed=SHUT, fill="resample"):  # the gated part may be called
        assert apart(answers(model, batch), whole) > 1e-3


def test_inputs_by_position_and_without_a_mask():
    model = build("bert")
    batch = batch_of(model)
    heads = list(discover(model))[:3]
    with gated(model, closed=heads, fill="resample"), torch.no_grad():
        named = model(**batch).logits
        placed = model(batch["input_ids"], batch["attention_mask"]).logits
        bare = model(batch["input_ids"]).logits
    assert torch.equal(named, placed)
    assert (named - bare)[0].abs().max() > 1e-3
