"""`check_ablation` on hooks with a mistake: each mistake gets its name."""

from contextlib import contextmanager
from functools import partial

import pytest
import torch
from hooks_by_hand import WIDTH, at_input, at_output, correct, out, part, queries, zero

from deadhead import check_ablation
from slow import slow_but
from tiny_models import build, hooks

FAMILIES = ["gpt2", "llama", "bert"]


@contextmanager
def head_mask(model, heads):
    """As in transformers 4: transformers 5 ignores the argument."""
    mask = torch.ones(2, 4)
    for head in heads:
        mask[head.layer, head.index] = 0
    forward = model.forward
    model.forward = partial(forward, head_mask=mask)
    try:
        yield
    finally:
        del model.forward


def late_binding(model, heads):
    """All hooks see the last head of the loop."""
    handles = []
    for head in heads:

        def hook(module, args):
            changed = args[0].clone()
            changed[..., part(head)] = 0  # noqa: B023
            return (changed,) if module is out(model, head.layer) else None  # noqa: B023

        handles.append(out(model, head.layer).register_forward_pre_hook(hook))
    return handles


def wrong_axes(x, head):
    x.view(x.shape[0], 4, x.shape[1], WIDTH)[:, head.index] = 0


def last(x, head):
    x[:, -1, part(head)] = 0


def first_example(x, head):
    x[0, :, part(head)] = 0


def one_based(x, head):
    x[..., part(head._replace(index=head.index - 1))] = 0


def other_layer(model, heads):
    return correct(model, tuple(head._replace(layer=1 - head.layer) for head in heads))


MISTAKES = {
    "output_side": partial(at_output, out, zero),
    "even_attention": partial(at_output, queries, zero),
    "wrong_axes": partial(at_input, wrong_axes),
    "whole_layer": partial(at_input, lambda x, head: x.zero_()),
    "one_position": partial(at_input, last),
    "one_example": partial(at_input, first_example),
    "nothing": head_mask,
    "other_head": partial(at_input, one_based),
    "unknown": partial(at_input, lambda x, head: x * 0.5),
}


@pytest.mark.parametrize("family", slow_but("gpt2", FAMILIES))
@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_gets_its_name(mistake, family):
    model = build(family)
    state = hooks(model)
    block = "encoder" if family == "bert" else "decoder"
    result = check_ablation(model, MISTAKES[mistake], [f"{block}.0.1", f"{block}.1.3"])
    assert not result.ok
    assert [problem.name for problem in result.problems] == [mistake]
    assert all(case.problems for case in result.cases)
    assert "NOT equal" in str(result)
    assert result.problems[0].words in str(result)
    assert hooks(model) == state


def test_all_of_a_layer_also_with_its_bias():
    result = check_ablation(
        build("gpt2"), partial(at_output, out, lambda x, head: x.zero_()), ["decoder.0.1"]
    )
    assert [(p.name, "its bias too" in p.words) for p in result.problems] == [("whole_layer", True)]


def test_heads_of_another_layer_and_one_of_several_heads():
    result = check_ablation(build("gpt2"), other_layer, ["decoder.0.1"])
    assert [p.words for p in result.problems] == ["removes the heads of another layer"]
    result = check_ablation(build("gpt2"), late_binding, ["decoder.0.1", "decoder.0.2"])
    assert [case.problems for case in result.cases][:2] == [(), ()]  # one by one it is right
    assert [p.words for p in result.problems] == ["removes one of the heads alone"]


# -- widths and groups


def test_a_width_that_is_not_hidden_size_by_heads():
    """Heads of width 16 beside a hidden size of 32 and 4 heads."""
    model, heads = build("llama", head_dim=16), ["decoder.0.1", "decoder.1.1"]

    def narrow(x, head):
        x[..., part(head, 32 // 4)] = 0

    def wide(x, head):
        x[..., part(head, 16)] = 0

    assert check_ablation(model, partial(at_input, wide), heads).ok
    result = check_ablation(model, partial(at_input, narrow), heads)
    assert [problem.name for problem in result.problems] == ["wrong_width"]


def values(model, layer):
    return model.model.layers[layer].self_attn.v_proj


def own_values(x, head):
    x[..., part(head._replace(index=head.index // 2))] = 0


def pairs(x, head):
    x[..., part(head, 2 * WIDTH)] = 0


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (partial(at_output, values, zero), "key_value_head"),
        (partial(at_output, values, own_values), "whole_group"),
        (partial(at_input, pairs), "key_value_head"),
    ],
)
def test_heads_that_share_keys_and_values(function, name):
    model = build("llama")  # 4 heads, 2 key/value heads
    result = check_ablation(model, function, ["decoder.0.1", "decoder.1.1"])
    assert [problem.name for problem in result.problems] == [name]


# -- the cache


def long_only(x, head):
    if x.shape[1] > 1:
        zero(x, head)


def fixed_length(x, head):
    mask = torch.ones(12, 4 * WIDTH, dtype=x.dtype)
    mask[:, part(head)] = 0
    return x * mask[:, :] if x.shape[1] == 12 else x.view(-1, 12, 4 * WIDTH) * mask


def twice(x, head):
    if x.shape[1] > 1:
        zero(x, head)
    else:
        x *= 2


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (long_only, "removes the heads in the first pass alone, not in the steps with a cache"),
        (fixed_length, "fails in generation with a cache: "),
        (twice, "differs in generation with a cache alone"),
    ],
)
def test_a_hook_that_misses_the_cache(change, words, family):
    model = build(family)
    result = check_ablation(model, partial(at_input, change), ["decoder.0.1", "decoder.1.3"])
    assert {problem.name for problem in result.problems} == {"missed_cache"}
    assert result.problems[0].words.startswith(words)
    assert all(case.difference < 1e-9 for case in result.cases)
