"""Gates: the formula of one head closed, under every kernel, mode and wrapper, and nothing left behind."""

from __future__ import annotations

import platform
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import flex_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.flex_attention import WrappedFlexAttention
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from deadhead.heads import discover, gated, prune
from deadhead.layout import Head
from tiny_models import answers, apart, batch_of, build, hooks, limit

NOT_COMPILED = "torch.compile on current platform is not supported for CPU"  # the words of torch
SHUT = ["encoder.0.1", "encoder.1.0", "encoder.1.3"]


@torch.no_grad()
def zeroed_by_hand(model, heads: list[str]) -> list[torch.Tensor]:
    """The formula of a closed head, without deadhead: its columns of BERT's output projection are zero."""
    for head in map(Head.parse, heads):
        model.get_submodule(f"bert.encoder.layer.{head.layer}.attention.output.dense").weight[
            :, head.index * 8 : head.index * 8 + 8
        ] = 0
    return answers(model)


def masked(model, heads=SHUT) -> list[torch.Tensor]:
    with gated(model, closed=heads):
        return answers(model)


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_a_closed_gate_is_a_zeroed_slice_of_the_output_projection(kernel):
    model = build("bert")
    model.set_attn_implementation(kernel)
    whole, shut = answers(model), masked(model)
    assert apart(shut, zeroed_by_hand(model, SHUT)) < 1e-12
    assert apart(whole, shut) > 0.1


def test_any_kernel_that_is_registered():
    """Flash attention comes as a package of its own, for GPUs alone; a kernel of ours stands in its place."""
    called: list[str] = []

    def kernel(module, query, key, value, mask, **kwargs) -> tuple[torch.Tensor, None]:
        called.append(type(module).__name__)
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, mask).transpose(
            1, 2
        ).contiguous(), None

    AttentionInterface.register("of_ours", kernel)
    AttentionMaskInterface.register("of_ours", ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    model = build("bert")
    by_eager = masked(model)
    model.set_attn_implementation("of_ours")
    whole = answers(model)
    assert apart(by_eager, masked(model)) < 1e-12
    assert apart(whole, by_eager) > 0.1
    assert called


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_flex_attention_too(compiled, monkeypatch):
    """transformers compiles it. torch compiles it for some CPUs only, so that everywhere it is tried uncompiled as well."""
    model = build(
        "llama", head_dim=16
    ).float()  # flex attention on a CPU wants heads of a width of 16
    shut = ["decoder.0.0", "decoder.1.2"]
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
            f"torch compiles no flex attention for {platform.machine()} with {torch.backends.cpu.get_cpu_capability()}"
        )
    assert apart(by_eager, masked(model, shut)) < 1e-3
    assert apart(whole, by_eager) > 0.1
    assert apart(whole, answers(model)) == 0


@pytest.mark.parametrize("family", ["bert", "gpt2", "marian", "xlnet", "deberta"])
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


def test_no_head_of_a_block_closed_leaves_the_output_bias_alone():
    model = build("bert")
    attention = model.get_submodule("bert.encoder.layer.0.attention")
    seen: list[torch.Tensor] = []
    attention.output.dense.register_forward_hook(lambda _, args, out: seen.append(out))
    masked(model, [f"encoder.0.{i}" for i in range(4)])
    assert torch.equal(seen[0], attention.output.dense.bias.expand_as(seen[0]))


def test_train_mode_draws_the_same_dropout():
    model = build("bert").train()
    shut = masked(model)
    assert apart(shut, masked(model)) == 0  # seeded
    assert apart(shut, zeroed_by_hand(model, SHUT)) < 1e-12
    assert apart(shut, zeroed_by_hand(model.eval(), SHUT)) > 1e-2  # dropout was on


def test_autocast_keeps_the_lower_precision():
    model = build("bert").float()
    seen: list[torch.dtype] = []
    with gated(model, closed=SHUT), torch.autocast("cpu", torch.bfloat16):
        model.bert.encoder.layer[0].attention.output.dense.register_forward_hook(
            lambda _, args, out: seen.append(args[0].dtype)
        )
        low = answers(model)
    assert seen == [torch.bfloat16]
    high = masked(model)
    assert 0 < apart([t.float() for t in low], high) < 0.1 * float(high[0].abs().max())


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_runs_the_gates_again(reentrant):
    gradients = []
    for checkpointed in (False, True):
        model = build("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0).train()
        if checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
            model.enable_input_require_grads()
        with gated(model, closed=SHUT):
            model(**batch_of(model)).logits.square().mean().backward()
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    assert apart(*gradients) < 1e-12
    ungated = build("bert").eval()
    ungated(**batch_of(ungated)).logits.square().mean().backward()
    assert apart(gradients[0], [p.grad for p in ungated.parameters() if p.grad is not None]) > 1e-3


@pytest.mark.slow
def test_compiled_before_or_after():
    model, backend = build("bert", num_hidden_layers=1), "eager"
    closed = ["encoder.0.1", "encoder.0.3"]
    whole, shut, other = answers(model), masked(model, closed), masked(model, closed[:1])
    compiled = torch.compile(model, backend=backend)
    batch = batch_of(model)
    assert apart(whole, answers(compiled, batch)) < 1e-10
    with gated(model, closed=closed):  # compiled before, the gates come after
        assert apart(shut, answers(compiled, batch)) < 1e-10
    assert apart(whole, answers(compiled, batch)) < 1e-10
    with gated(compiled, closed=closed[:1]):  # the compiled model itself is gated, with other heads
        assert apart(other, answers(compiled, batch)) < 1e-10
    with gated(model, closed=closed):  # compiled while gated
        fresh = torch.compile(model, backend=backend)
        assert apart(shut, answers(fresh, batch)) < 1e-10
    assert apart(whole, answers(fresh, batch)) < 1e-10


@pytest.mark.parametrize("family", ["bert", "xlnet", "marian"])
def test_nothing_is_left_behind_also_after_an_exception(family):
    model = build(family)
    layout, whole, hooks_before = discover(model), answers(model), hooks(model)
    with gated(model, closed=list(layout)[:2]):
        assert hooks(model) != hooks_before
    assert hooks(model) == hooks_before
    with (
        pytest.raises(ZeroDivisionError),
        gated(model, closed=list(layout)[:2]),
        gated(model, closed=list(layout)[-1:]),
    ):
        raise ZeroDivisionError
    assert hooks(model) == hooks_before
    with pytest.raises((TypeError, ValueError)), gated(model, closed=list(layout)[:2]):
        model(no_such_input=1)
    assert hooks(model) == hooks_before
    assert apart(whole, answers(model)) == 0


def test_nested_gates_multiply():
    model = build("bert")
    half = torch.full((2, 4), 0.5)
    with gated(model, half), gated(model, half):
        twice = answers(model)
    with gated(model, half * half):
        assert apart(twice, answers(model)) < 1e-12
    with gated(model, half):
        assert apart(twice, answers(model)) > 1e-2
    with gated(model, closed=SHUT[:1]), gated(model, closed=SHUT[1:]):
        assert apart(masked(build("bert")), answers(model)) == 0


def test_gates_and_closed_heads_together():
    model = build("bert")
    soft = torch.linspace(0.1, 2.0, 8).view(2, 4)
    both = soft.clone()
    both[0, 1] = 0
    with gated(model, both):
        expected = answers(model)
    with gated(model, soft, closed=["encoder.0.1"]):
        assert apart(expected, answers(model)) == 0
    with gated(model, soft):
        assert apart(expected, answers(model)) > 1e-2


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


FAMILIES = [
    "bert",
    "gpt2",
    "fsmt",
    "xlnet",
    "longformer",
    "led",
    "prophetnet",
    "deberta",
    "modernbert",
    "t5",
    "xlm",
    "whisper",
    "vit",
]


@pytest.mark.parametrize("family", FAMILIES)
def test_each_example_its_own_gates(family):
    """A batch with a row of gates each answers as the examples do one by one; FSMT and XLNet run time first."""
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


@pytest.mark.parametrize("family", ["bert", "gpt2", "marian", "xlnet", "fsmt"])
def test_the_gradient_of_a_gate_is_the_finite_difference(family):
    model = build(family)
    layout, batch = discover(model), batch_of(model)
    gates = {
        b: torch.ones(layout.layers(b), layout.size(b), dtype=torch.float64, requires_grad=True)
        for b in layout.blocks
    }

    def loss() -> torch.Tensor:
        with gated(model, gates):
            return model(**batch).logits.tanh().square().mean()

    loss().backward()
    step, moved = 1e-5, 0.0
    for block, gate in gates.items():
        slope = torch.zeros_like(gate)
        for place in [(0, 0), (1, 3), (1, 1)]:
            ends = []
            for sign in (1, -1):
                with torch.no_grad():
                    gate[place] += sign * step
                    ends.append(float(loss()))
                    gate[place] -= sign * step
            slope[place] = (ends[0] - ends[1]) / (2 * step)
            assert gate.grad is not None
            assert float(gate.grad[place] - slope[place]) == pytest.approx(0, abs=1e-7), (
                block,
                place,
            )
        moved = max(moved, float(slope.abs().max()))
    assert moved > 1e-4


def test_gates_of_heads_get_gradients_of_their_own():
    model = build("bert")
    gate = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    with gated(model, {Head("encoder", 1, 2): gate}):
        model(**batch_of(model)).logits.square().mean().backward()
    assert gate.grad is not None
    assert abs(float(gate.grad)) > 1e-6


def test_a_pruned_model_takes_the_gates_of_the_model_it_was():
    model = build("bert")
    soft = torch.linspace(0.1, 2.0, 8).view(2, 4)
    with gated(model, soft, closed=SHUT):
        expected = answers(model)
    prune(model, SHUT)
    with gated(model, soft):
        assert apart(expected, answers(model)) < 1e-12
    assert apart(expected, answers(model)) > 1e-2


def test_generation_runs_under_gates():
    model = build("gpt2")
    prompt = torch.tensor([[5, 6, 7]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        free = model.generate(prompt, max_new_tokens=12, do_sample=False)
        with gated(model, closed=["decoder.0.0", "decoder.1.1"]):
            text = model.generate(prompt, max_new_tokens=12, do_sample=False)
            slowly = model.generate(prompt, max_new_tokens=12, do_sample=False, use_cache=False)
    assert torch.equal(text, slowly)
    assert not torch.equal(text, free)
