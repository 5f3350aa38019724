"""`check_ablation` on correct hooks, whatever their form, and what it leaves behind."""

from contextlib import contextmanager
from functools import partial

import pytest
import torch
from hooks_by_hand import at_input, at_output, correct, out, part, zero

from architectures.tiny import tiny
from deadhead import check_ablation, gated, head_means, prune
from deadhead.errors import DeadheadError, HeadError
from deadhead.verify.inputs import batch_for
from slow import slow_but
from tiny_models import answers, apart, build, hooks

FAMILIES = ["gpt2", "llama", "bert"]


@contextmanager
def as_context(model, heads):
    handles = correct(model, heads)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def as_generator(model, heads):
    with as_context(model, heads):
        yield


def as_undo(model, heads):
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


@pytest.mark.parametrize("family", slow_but("gpt2", FAMILIES))
@pytest.mark.parametrize("form", FORMS)
def test_a_correct_ablation_is_equal_in_every_form(form, family):
    model = build(family)
    before, state = answers(model), hooks(model)
    result = check_ablation(model, FORMS[form])
    assert result.ok
    assert str(result).startswith("equal: ")
    assert len(result.cases) == 3
    assert all(case.effect > 1e-3 and case.difference < 1e-9 for case in result.cases)
    assert all(case.cached is not None and case.cached < 1e-9 for case in result.cases)
    assert (apart(answers(model), before), hooks(model)) == (0, state)


# -- what is left behind


def test_hooks_that_stay_are_reported_and_removed():
    model = build("gpt2")
    before, state = answers(model), hooks(model)

    def forgets(model, heads):
        correct(model, heads)

    result = check_ablation(model, forgets)
    assert [problem.name for problem in result.problems] == ["left_behind"]
    assert all(case.difference < 1e-9 for case in result.cases)  # beside that it is right
    assert (apart(answers(model), before), hooks(model)) == (0, state)

    def replaces(model, heads):
        model.forward = partial(model.forward, head_mask=torch.ones(2, 4))

    result = check_ablation(model, replaces, ["decoder.0.1"])
    assert [problem.name for problem in result.problems] == ["nothing", "left_behind"]
    assert hooks(model) == state


def test_weights_that_stay_changed_are_reported_at_once():
    model = build("gpt2")

    def cuts(model, heads):
        for head in heads:
            out(model, head.layer).weight.data[part(head)] = 0

    result = check_ablation(model, cuts)
    assert [problem.name for problem in result.problems] == ["weights_changed"]
    assert len(result.cases) == 1


def test_the_model_is_as_before_after_an_error_in_the_function():
    model = build("gpt2").train()
    before, state = answers(model.eval()), hooks(model)
    model.train()

    def breaks(x, head):
        raise ArithmeticError("my own mistake")

    def forgets(model, heads):
        at_input(breaks, model, heads)

    with pytest.raises(ArithmeticError, match="my own mistake"):
        check_ablation(model, forgets)
    assert model.training
    assert hooks(model) == state
    assert apart(answers(model.eval()), before) == 0


# -- fills, precision, pruned models


def test_means_as_a_fill():
    model = build("llama")
    means = head_means(model, [batch_for(model)])

    def to_mean(x, head):
        x[..., part(head)] = means.values[head.block, head.layer][head.index].to(x)

    assert check_ablation(model, partial(at_input, to_mean), fill=means).ok
    assert not check_ablation(model, partial(at_input, to_mean)).ok
    result = check_ablation(model, correct, fill=means)
    assert [problem.name for problem in result.problems] == ["zero"]


def test_half_precision_is_compared_in_float32_and_comes_back():
    model = tiny("llama").half()
    pointers = [parameter.data_ptr() for parameter in model.parameters()]
    assert check_ablation(model, correct).ok
    assert not check_ablation(model, partial(at_output, out, zero)).ok
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float16}
    assert [parameter.data_ptr() for parameter in model.parameters()] == pointers


def test_a_pruned_model_has_its_heads_at_other_places():
    model = build("gpt2")
    prune(model, ["decoder.0.0"])
    result = check_ablation(model, correct, ["decoder.0.1", "decoder.0.2"])
    assert {problem.name for problem in result.problems} == {"other_head"}

    def placed(x, head):
        zero(x, head._replace(index=head.index - 1))

    assert check_ablation(model, partial(at_input, placed), ["decoder.0.1", "decoder.0.2"]).ok


@pytest.mark.parametrize("family", ["t5", "marian", "xlnet"])
def test_other_families(family):
    model = build(family)
    assert check_ablation(model, FORMS["gates"]).ok
    result = check_ablation(model, lambda model, heads: None, ["encoder.0.1"])
    assert [problem.name for problem in result.problems] == ["nothing"]


def test_a_small_vocabulary_and_a_model_too_short_to_generate():
    model = build("gpt2", vocab_size=9, max_position_embeddings=12)
    result = check_ablation(model, correct, ["decoder.0.1"])
    assert (result.ok, result.cases[0].cached) == (True, None)


# -- bad input


def test_bad_input():
    model = build("gpt2")
    with pytest.raises(DeadheadError, match=r"expects a function of \(model, heads\), got str"):
        check_ablation(model, "zero")
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
