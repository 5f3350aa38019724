"""`check_ablation` on hooks as people write them: correct ones pass, each mistake gets its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from tiny_models import answers, apart, build, hooks

from deadhead import check_ablation, gated, head_means, prune
from deadhead.errors import DeadheadError, HeadError
from deadhead.heads.verify.tiny import batch_for, tiny
from deadhead.layout import Head

FAMILIES = ["gpt2", "llama", "bert"]
WIDTH = 8
Change = Callable[[torch.Tensor, Head], Any]


def attention(model: Any, layer: int) -> Any:
    if hasattr(model, "transformer"):
        return model.transformer.h[layer].attn
    if hasattr(model, "bert"):
        return model.bert.encoder.layer[layer].attention
    return model.model.layers[layer].self_attn


def out(model: Any, layer: int) -> Any:
    core = attention(model, layer)
    return getattr(core, "c_proj", None) or getattr(core, "o_proj", None) or core.output.dense


def queries(model: Any, layer: int) -> Any:
    core = attention(model, layer)
    return getattr(core, "c_attn", None) or getattr(core, "q_proj", None) or core.self.query


def part(head: Head, width: int = WIDTH) -> slice:
    return slice(head.index * width, (head.index + 1) * width)


def at_input(change: Change, model: Any, heads: tuple[Head, ...]) -> list[Any]:
    """The handles of hooks that change what the output projection reads."""

    def hook(head: Head, module: Any, args: Any) -> Any:
        changed = args[0].clone()
        answer = change(changed, head)
        return (changed if answer is None else answer,)

    return [out(model, head.layer).register_forward_pre_hook(partial(hook, head)) for head in heads]


def at_output(module: Any, change: Change, model: Any, heads: tuple[Head, ...]) -> list[Any]:
    def hook(head: Head, projection: Any, args: Any, output: Any) -> Any:
        changed = output.clone()
        change(changed, head)
        return changed

    return [module(model, head.layer).register_forward_hook(partial(hook, head)) for head in heads]


def zero(x: torch.Tensor, head: Head) -> None:
    x[..., part(head)] = 0


correct = partial(at_input, zero)


@contextmanager
def as_context(model: Any, heads: tuple[Head, ...]) -> Iterator[None]:
    handles = correct(model, heads)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def as_generator(model: Any, heads: tuple[Head, ...]) -> Iterator[None]:
    with as_context(model, heads):
        yield


def as_undo(model: Any, heads: tuple[Head, ...]) -> Callable[[], None]:
    handles = correct(model, heads)
    return lambda: [handle.remove() for handle in handles] and None


FORMS = {
    "context": as_context,
    "handles": correct,
    "undo": as_undo,
    "generator": as_generator,
    "mapping": lambda model, heads: dict(zip(heads, correct(model, heads), strict=True)),
    "gates": lambda model, heads: gated(model, closed=heads),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("form", FORMS)
def test_a_correct_ablation_is_equal_in_every_form(form: str, family: str) -> None:
    model = build(family)
    before, state = answers(model), hooks(model)
    result = check_ablation(model, FORMS[form])
    assert result.ok
    assert str(result).startswith("equal: ")
    assert len(result.cases) == 3
    assert all(case.effect > 1e-3 and case.difference < 1e-9 for case in result.cases)
    assert all(case.cached is not None and case.cached < 1e-9 for case in result.cases)
    assert (apart(answers(model), before), hooks(model)) == (0, state)


@contextmanager
def head_mask(model: Any, heads: tuple[Head, ...]) -> Iterator[None]:
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


def late_binding(model: Any, heads: tuple[Head, ...]) -> list[Any]:
    """All hooks see the last head of the loop."""
    handles = []
    for head in heads:

        def hook(module: Any, args: Any) -> Any:
            changed = args[0].clone()
            changed[..., part(head)] = 0  # noqa: B023
            return (changed,) if module is out(model, head.layer) else None  # noqa: B023

        handles.append(out(model, head.layer).register_forward_pre_hook(hook))
    return handles


def wrong_axes(x: torch.Tensor, head: Head) -> None:
    x.view(x.shape[0], 4, x.shape[1], WIDTH)[:, head.index] = 0


def interleaved(x: torch.Tensor, head: Head) -> None:
    x.view(*x.shape[:2], WIDTH, 4)[..., head.index] = 0


def mean(x: torch.Tensor, head: Head) -> None:
    x[..., part(head)] = x[..., part(head)].mean((0, 1))


def last(x: torch.Tensor, head: Head) -> None:
    x[:, -1, part(head)] = 0


def first_example(x: torch.Tensor, head: Head) -> None:
    x[0, :, part(head)] = 0


def one_based(x: torch.Tensor, head: Head) -> None:
    x[..., part(head._replace(index=head.index - 1))] = 0


def other_layer(model: Any, heads: tuple[Head, ...]) -> list[Any]:
    return correct(model, tuple(head._replace(layer=1 - head.layer) for head in heads))


MISTAKES = {
    "output_side": partial(at_output, out, zero),
    "even_attention": partial(at_output, queries, zero),
    "interleaved": partial(at_input, interleaved),
    "wrong_axes": partial(at_input, wrong_axes),
    "whole_layer": partial(at_input, lambda x, head: x.zero_()),
    "one_position": partial(at_input, last),
    "one_example": partial(at_input, first_example),
    "batch_mean": partial(at_input, mean),
    "nothing": head_mask,
    "other_head": partial(at_input, one_based),
    "unknown": partial(at_input, lambda x, head: x * 0.5),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_gets_its_name(mistake: str, family: str) -> None:
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


def test_all_of_a_layer_also_with_its_bias() -> None:
    result = check_ablation(
        build("gpt2"), partial(at_output, out, lambda x, head: x.zero_()), ["decoder.0.1"]
    )
    assert [(p.name, "its bias too" in p.words) for p in result.problems] == [("whole_layer", True)]


def test_heads_of_another_layer_and_one_of_several_heads() -> None:
    result = check_ablation(build("gpt2"), other_layer, ["decoder.0.1"])
    assert [p.words for p in result.problems] == ["removes the heads of another layer"]
    result = check_ablation(build("gpt2"), late_binding, ["decoder.0.1", "decoder.0.2"])
    assert [case.problems for case in result.cases][:2] == [(), ()]  # one by one it is right
    assert [p.words for p in result.problems] == ["removes one of the heads alone"]


# -- widths and groups


def test_a_width_that_is_not_hidden_size_by_heads() -> None:
    """Heads of width 16 beside a hidden size of 32 and 4 heads."""
    model, heads = build("llama", head_dim=16), ["decoder.0.1", "decoder.1.1"]

    def narrow(x: torch.Tensor, head: Head) -> None:
        x[..., part(head, 32 // 4)] = 0

    def wide(x: torch.Tensor, head: Head) -> None:
        x[..., part(head, 16)] = 0

    assert check_ablation(model, partial(at_input, wide), heads).ok
    result = check_ablation(model, partial(at_input, narrow), heads)
    assert [problem.name for problem in result.problems] == ["wrong_width"]
    result = check_ablation(model, partial(at_output, out, narrow), heads)
    assert [problem.name for problem in result.problems] == ["output_side"]


def values(model: Any, layer: int) -> Any:
    return model.model.layers[layer].self_attn.v_proj


def own_values(x: torch.Tensor, head: Head) -> None:
    x[..., part(head._replace(index=head.index // 2))] = 0


def pairs(x: torch.Tensor, head: Head) -> None:
    x[..., part(head, 2 * WIDTH)] = 0


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (partial(at_output, values, zero), "key_value_head"),
        (partial(at_output, values, own_values), "whole_group"),
        (partial(at_input, pairs), "key_value_head"),
    ],
)
def test_heads_that_share_keys_and_values(function: Any, name: str) -> None:
    model = build("llama")  # 4 heads, 2 key/value heads
    result = check_ablation(model, function, ["decoder.0.1", "decoder.1.1"])
    assert [problem.name for problem in result.problems] == [name]


# -- the cache


def long_only(x: torch.Tensor, head: Head) -> None:
    if x.shape[1] > 1:
        zero(x, head)


def fixed_length(x: torch.Tensor, head: Head) -> torch.Tensor:
    mask = torch.ones(12, 4 * WIDTH, dtype=x.dtype)
    mask[:, part(head)] = 0
    return x * mask[:, :] if x.shape[1] == 12 else x.view(-1, 12, 4 * WIDTH) * mask


def twice(x: torch.Tensor, head: Head) -> None:
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
def test_a_hook_that_misses_the_cache(change: Change, words: str, family: str) -> None:
    model = build(family)
    result = check_ablation(model, partial(at_input, change), ["decoder.0.1", "decoder.1.3"])
    assert {problem.name for problem in result.problems} == {"missed_cache"}
    assert result.problems[0].words.startswith(words)
    assert all(case.difference < 1e-9 for case in result.cases)


# -- what is left behind


def test_hooks_that_stay_are_reported_and_removed() -> None:
    model = build("gpt2")
    before, state = answers(model), hooks(model)

    def forgets(model: Any, heads: tuple[Head, ...]) -> None:
        correct(model, heads)

    result = check_ablation(model, forgets)
    assert [problem.name for problem in result.problems] == ["left_behind"]
    assert all(case.difference < 1e-9 for case in result.cases)  # beside that it is right
    assert (apart(answers(model), before), hooks(model)) == (0, state)

    def replaces(model: Any, heads: tuple[Head, ...]) -> None:
        model.forward = partial(model.forward, head_mask=torch.ones(2, 4))

    result = check_ablation(model, replaces, ["decoder.0.1"])
    assert [problem.name for problem in result.problems] == ["nothing", "left_behind"]
    assert hooks(model) == state


def test_weights_that_stay_changed_are_reported_at_once() -> None:
    model = build("gpt2")

    def cuts(model: Any, heads: tuple[Head, ...]) -> None:
        for head in heads:
            out(model, head.layer).weight.data[part(head)] = 0

    result = check_ablation(model, cuts)
    assert [problem.name for problem in result.problems] == ["weights_changed"]
    assert len(result.cases) == 1


def test_the_model_is_as_before_after_an_error_in_the_function() -> None:
    model = build("gpt2").train()
    before, state = answers(model.eval()), hooks(model)
    model.train()

    def breaks(x: torch.Tensor, head: Head) -> None:
        raise ArithmeticError("my own mistake")

    def forgets(model: Any, heads: tuple[Head, ...]) -> None:
        at_input(breaks, model, heads)

    with pytest.raises(ArithmeticError, match="my own mistake"):
        check_ablation(model, forgets)
    assert model.training
    assert hooks(model) == state
    assert apart(answers(model.eval()), before) == 0


# -- fills, precision, pruned models


def test_means_as_a_fill() -> None:
    model = build("llama")
    means = head_means(model, [batch_for(model)])

    def to_mean(x: torch.Tensor, head: Head) -> None:
        x[..., part(head)] = means.values[head.block, head.layer][head.index].to(x)

    assert check_ablation(model, partial(at_input, to_mean), fill=means).ok
    assert not check_ablation(model, partial(at_input, to_mean)).ok
    result = check_ablation(model, correct, fill=means)
    assert [problem.name for problem in result.problems] == ["zero"]


def test_half_precision_is_compared_in_float32_and_comes_back() -> None:
    model = tiny("llama").half()
    pointers = [parameter.data_ptr() for parameter in model.parameters()]
    assert check_ablation(model, correct).ok
    assert not check_ablation(model, partial(at_output, out, zero)).ok
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float16}
    assert [parameter.data_ptr() for parameter in model.parameters()] == pointers


def test_a_pruned_model_has_its_heads_at_other_places() -> None:
    model = build("gpt2")
    prune(model, ["decoder.0.0"])
    result = check_ablation(model, correct, ["decoder.0.1", "decoder.0.2"])
    assert {problem.name for problem in result.problems} == {"other_head"}

    def placed(x: torch.Tensor, head: Head) -> None:
        zero(x, head._replace(index=head.index - 1))

    assert check_ablation(model, partial(at_input, placed), ["decoder.0.1", "decoder.0.2"]).ok


@pytest.mark.parametrize("family", ["t5", "marian", "xlnet"])
def test_other_families(family: str) -> None:
    model = build(family)
    assert check_ablation(model, FORMS["gates"]).ok
    result = check_ablation(model, lambda model, heads: None, ["encoder.0.1"])
    assert [problem.name for problem in result.problems] == ["nothing"]


def test_a_small_vocabulary_and_a_model_too_short_to_generate() -> None:
    model = build("gpt2", vocab_size=9, max_position_embeddings=12)
    result = check_ablation(model, correct, ["decoder.0.1"])
    assert (result.ok, result.cases[0].cached) == (True, None)


# -- bad input


def test_bad_input() -> None:
    model = build("gpt2")
    with pytest.raises(DeadheadError, match=r"expects a function of \(model, heads\), got str"):
        check_ablation(model, "zero")  # type: ignore[arg-type]
    with pytest.raises(DeadheadError, match=r"handles of hooks or a function .*, got int"):
        check_ablation(model, lambda model, heads: 3)
    with pytest.raises(DeadheadError, match="expects at least one head"):
        check_ablation(model, correct, [])
    with pytest.raises(HeadError, match=r"head decoder\.7\.0"):
        check_ablation(model, correct, ["decoder.7.0"])
    for layer in range(2):
        out(model, layer).weight.data.zero_()
    with pytest.raises(DeadheadError, match="does not change the outputs"):
        check_ablation(model, correct)
