"""Gates: the formula of one head closed, under every kernel, mode and wrapper, and nothing left
behind.
"""

import platform
from contextlib import ExitStack

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import flex_attention
from transformers.integrations.flex_attention import WrappedFlexAttention

from deadhead.heads import captured, discover, gated, head_means, prune
from deadhead.layout import Head
from slow import slow_but
from tiny_models import answers, apart, batch_of, build, hooks, limit

NOT_COMPILED = "torch.compile on current platform is not supported for CPU"  # the words of torch
SHUT = ["encoder.0.1", "encoder.1.0", "encoder.1.3"]


@torch.no_grad()
def zeroed_by_hand(model, heads):
    """The formula of a closed head, without deadhead: its columns of BERT's output projection are
    zero.
    """
    for head in map(Head.parse, heads):
        model.get_submodule(f"bert.encoder.layer.{head.layer}.attention.output.dense").weight[
            :, head.index * 8 : head.index * 8 + 8
        ] = 0
    return answers(model)


def masked(model, heads=SHUT):
    with gated(model, closed=heads):
        return answers(model)


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_a_closed_gate_is_a_zeroed_slice_of_the_output_projection(kernel):
    model = build("bert")
    model.set_attn_implementation(kernel)
    whole, shut = answers(model), masked(model)
    assert apart(shut, zeroed_by_hand(model, SHUT)) < 1e-12
    assert apart(whole, shut) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_flex_attention_too(compiled, monkeypatch):
    """transformers compiles it. torch compiles it for some CPUs only, so that everywhere it is
    tried uncompiled as well.
    """
    # flex attention on a CPU wants heads of a width of 16
    model = build("llama", head_dim=16, num_hidden_layers=1).float()
    shut = ["decoder.0.0", "decoder.0.1"]
    by_eager = masked(model, shut)
    model.set_attn_implementation("flex_attention")
    if not compiled:
        monkeypatch.setattr(WrappedFlexAttention, "__call__", lambda self: flex_attention)
    try:
        whole = answers(model)
    except Exception as problem:
        if not compiled or NOT_COMPILED not in str(problem):
            raise
        pytest.skip(
            f"torch compiles no flex attention for {platform.machine()} with "
            f"{torch.backends.cpu.get_cpu_capability()}"
        )
    assert apart(by_eager, masked(model, shut)) < 1e-3
    assert apart(whole, by_eager) > 0.1
    assert apart(whole, answers(model)) == 0


@pytest.mark.parametrize("family", ["gpt2", "marian", "deberta"])
def test_open_gates_change_nothing_and_closed_ones_do(family):
    model = build(family)
    layout, whole = discover(model), answers(model)
    ones = {b: torch.ones(layout.layers(b), layout.size(b)) for b in layout.blocks}
    with gated(model, ones):
        assert apart(whole, answers(model)) == 0
    for head in layout:
        assert apart(whole, masked(model, [head])) > 1e-4, (
            head
        )  # every gate is at a head that matters
    assert apart(whole, answers(model)) == 0


def test_train_mode_draws_the_same_dropout():
    model = build("bert").train()
    shut = masked(model)
    assert apart(shut, masked(model)) == 0  # seeded
    assert apart(shut, zeroed_by_hand(model, SHUT)) < 1e-12
    assert apart(shut, zeroed_by_hand(model.eval(), SHUT)) > 1e-2  # dropout was on


@pytest.mark.parametrize("fill", ["zero", "resample"])
def test_autocast_keeps_the_lower_precision(fill):
    model = build("bert").float()
    seen: list[torch.dtype] = []
    with gated(model, closed=SHUT, fill=fill):
        high = answers(model)
        model.bert.encoder.layer[0].attention.output.dense.register_forward_hook(
            lambda _, args, out: seen.append(args[0].dtype)
        )
        with torch.autocast("cpu", torch.bfloat16):
            low = answers(model)
    assert seen == [torch.bfloat16]
    assert 0 < apart([t.float() for t in low], high) < 0.1 * float(high[0].abs().max())


@pytest.mark.slow
def test_compiled_before_or_after():
    """All kinds of fills are nested, since each compilation takes seconds."""
    model = build("bert", num_hidden_layers=1)
    batch, whole = batch_of(model), answers(model)
    means = head_means(model, [batch])
    with captured(model) as clean:
        answers(model, {**batch, "input_ids": batch["input_ids"].flip(1)})

    def gates(gated_model):
        stack = ExitStack()
        positions = {"positions": [1, -2]}
        stack.enter_context(gated(gated_model, closed=["encoder.0.0"], fill=means, **positions))
        stack.enter_context(gated(gated_model, closed=["encoder.0.1"], fill="resample"))
        stack.enter_context(gated(gated_model, closed=["encoder.0.2"], fill=clean))
        stack.enter_context(gated(gated_model, closed=["encoder.0.3"]))
        return stack

    with gates(model), captured(model) as expected:
        shut = answers(model)
    assert apart(whole, shut) > 1e-2
    compiled = torch.compile(model, backend="eager")
    assert apart(whole, answers(compiled, batch)) < 1e-10
    for gated_model in (model, compiled):
        with gates(gated_model), captured(gated_model) as run:
            assert apart(shut, answers(compiled, batch)) < 1e-10
        assert apart(expected.values["encoder", 0], run.values["encoder", 0]) < 1e-10
        assert apart(whole, answers(compiled, batch)) < 1e-10
    with gates(model):  # compiled while gated
        fresh = torch.compile(model, backend="eager")
        assert apart(shut, answers(fresh, batch)) < 1e-10
    assert apart(whole, answers(fresh, batch)) < 1e-10


@pytest.mark.parametrize("family", ["bert", "xlnet", "marian"])
def test_nothing_is_left_behind_also_after_an_exception(family):
    model = build(family)
    heads, whole, hooks_before = list(discover(model)), answers(model), hooks(model)
    with (
        pytest.raises(ZeroDivisionError, match="True"),
        gated(model, closed=heads[:2], neurons={("encoder", 0): [1]}),
        gated(model, closed=heads[-1:]),
    ):
        raise ZeroDivisionError(hooks(model) != hooks_before)
    assert hooks(model) == hooks_before
    with pytest.raises((TypeError, ValueError)), gated(model, closed=heads[:2]):
        model(no_such_input=1)
    assert hooks(model) == hooks_before
    assert apart(whole, answers(model)) == 0


@settings(max_examples=15)
@given(st.lists(st.floats(-3, 3, width=16), min_size=8, max_size=8))
def test_soft_gates_scale_the_output_projection(values):
    model = build("bert")
    gates = torch.tensor(values, dtype=torch.float64).view(2, 4)
    with gated(model, gates):
        soft = answers(model)
    with gated(model, dict(zip(discover(model), values, strict=True))):
        assert apart(soft, answers(model)) < 1e-9
    for layer in range(2):
        with torch.no_grad():
            model.get_submodule(f"bert.encoder.layer.{layer}.attention.output.dense").weight.mul_(
                gates[layer].repeat_interleave(8)
            )
    assert apart(soft, answers(model)) < 1e-9


FAMILIES = "bert gpt2 fsmt xlnet longformer led prophetnet deberta modernbert t5 xlm whisper vit"


@pytest.mark.parametrize("family", slow_but("fsmt longformer t5 xlnet", FAMILIES.split()))
def test_each_example_its_own_gates(family):
    """A batch with a row of gates each answers as the examples do one by one; FSMT and XLNet run
    time first.
    """
    model = build(family)
    layout, batch = discover(model), batch_of(model)
    drawn = torch.Generator().manual_seed(3)
    gates = {
        b: torch.rand(2, layout.layers(b), layout.size(b), generator=drawn) for b in layout.blocks
    }
    with gated(model, gates):
        together = answers(model, batch)[0]
    for i in (0, 1):
        with gated(model, {b: g[i] for b, g in gates.items()}):
            alone = answers(model, batch)[0][i]
        with gated(model, {b: g[1 - i] for b, g in gates.items()}):
            other = answers(model, batch)[0][i]
        assert (together[i] - alone).abs().max() < limit(model)
        assert (together[i] - other).abs().max() > 1e-3


def test_gates_of_heads_get_gradients_of_their_own():
    model = build("bert")
    gate = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    with gated(model, {Head("encoder", 1, 2): gate}):
        model(**batch_of(model)).logits.square().mean().backward()
    assert gate.grad is not None
    assert abs(float(gate.grad)) > 1e-6


def test_a_number_as_a_gate_is_exact_in_double_precision():
    model = build("bert")
    tensor = torch.ones(2, 4, dtype=torch.float64)
    tensor[0, 1] = 0.1
    with gated(model, tensor):
        exact = answers(model)
    with gated(model, {Head("encoder", 0, 1): 0.1}):
        assert apart(answers(model), exact) == 0
    with gated(model, {"encoder.0.1": torch.tensor(0.1)}):
        assert apart(answers(model), exact) > 0  # it is rounded


def test_a_pruned_model_takes_the_gates_of_the_model_it_was():
    model = build("bert")
    soft = torch.linspace(0.1, 2.0, 8).view(2, 4)
    with gated(model, soft, closed=SHUT):
        expected = answers(model)
    prune(model, SHUT)
    with gated(model, soft):
        assert apart(expected, answers(model)) < 1e-12
    assert apart(expected, answers(model)) > 1e-2
