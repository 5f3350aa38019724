"""Fills and positions under everything a model runs in: gradients, precision, compilation, caches,
copies.
"""

import copy
import warnings
from dataclasses import replace

import pytest
import torch

from deadhead import captured, discover, gated, head_means, prune
from deadhead.errors import DataError, UnsupportedModel
from tiny_models import answers, apart, batch_of, build, finite_difference, hooks

KINDS = ["zero", "means", "resample", "captured"]
FAMILIES = ["bert", "gpt2", "marian", "xlnet", "fsmt"]
SHUT = ["decoder.0.1", "decoder.1.0", "decoder.1.3"]


def fill_of(model, kind, batch=None):
    batch = batch_of(model) if batch is None else batch
    if kind == "captured":
        with captured(model) as clean:
            answers(model, {**batch, "input_ids": batch["input_ids"].flip(1)})
        return clean
    return head_means(model, [batch]) if kind == "means" else kind


def filled(model, fill, batch=None, **options):
    with gated(model, closed=SHUT, fill=fill, **options):
        return answers(model, batch)


@pytest.mark.parametrize(
    ("family", "kind"),
    [*((name, "zero") for name in FAMILIES), *(("gpt2", kind) for kind in KINDS[1:])],
)
def test_the_gradient_of_a_gate_is_the_finite_difference(family, kind):
    model = build(family)
    layout, batch, fill = discover(model), batch_of(model), fill_of(model, kind)
    sizes = {block: (layout.layers(block), layout.size(block)) for block in layout.blocks}
    gates = {
        block: torch.full(size, 0.7, dtype=torch.float64, requires_grad=True)
        for block, size in sizes.items()
    }

    def loss(at):
        with gated(model, gates, fill=fill, positions=at):
            return model(**batch).logits.tanh().square().mean()

    for at in (None, {block: [1, -2] for block in gates}):
        gradients = torch.autograd.grad(loss(at), gates.values())
        slopes = []
        for gate, gradient in zip(gates.values(), gradients, strict=True):
            for place in [(0, 1), (1, 2)]:
                slopes.append(finite_difference(lambda at=at: loss(at), gate, place))
                assert float(gradient[place]) == pytest.approx(slopes[-1], abs=1e-7)
        assert max(map(abs, slopes)) > 1e-5


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


@pytest.mark.parametrize(
    ("kind", "reentrant"), [*((kind, False) for kind in KINDS), ("zero", True)]
)
def test_gradient_checkpointing(kind, reentrant):
    def gradients(checkpointed, **options):
        model = build("gpt2", resid_pdrop=0.0, attn_pdrop=0.0, embd_pdrop=0.0)
        fill, batch = fill_of(model, kind), batch_of(model)
        if checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": reentrant})
            model.enable_input_require_grads()
        with gated(model.train(), closed=SHUT, fill=fill, **options), captured(model) as run:
            model(**batch, use_cache=False).logits.square().mean().backward()
        assert len(run.values["decoder", 0]) == 1
        return [p.grad for p in model.parameters() if p.grad is not None]

    kept = gradients(False, positions=[1, -2])
    assert apart(kept, gradients(True, positions=[1, -2])) < 1e-12
    assert apart(kept, gradients(False)) > 1e-3


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


def generate(model, prompt, **options):
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


@pytest.mark.parametrize("kind", KINDS[:3])
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


@pytest.mark.parametrize("kind", [*KINDS, "dropped bias"])
@pytest.mark.parametrize("family", ["gpt2", "xlnet"])
def test_a_copy_made_inside_is_not_gated(family, kind):
    model = build(family)
    whole, heads = answers(model), list(discover(model))[:4]
    drop = kind == "dropped bias"
    fill = "zero" if drop else fill_of(model, kind)
    with gated(model, closed=heads, fill=fill, drop_output_bias=drop):
        copied = copy.deepcopy(model)
        assert apart(answers(copied), whole) == 0
        inside = answers(model)  # a run of the copy leaves no trace
    assert apart(inside, whole) > 1e-3
    with captured(model) as run:
        answers(copy.deepcopy(model))
    assert not run.values
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert apart(answers(copied), whole) == 0  # it computes with weights of its own
    assert len(discover(prune(copied, heads[:1]))) == len(discover(model)) - 1


def replica_of(model):
    """A copy as nn.DataParallel makes it for a GPU: modules of its own, hooks of the model."""
    copies = {module: module._replicate_for_data_parallel() for module in model.modules()}
    for module, twin in copies.items():
        for name, child in module._modules.items():
            if child is not None:
                twin._modules[name] = copies[child]
        for name, parameter in module._parameters.items():
            setattr(twin, name, parameter)
    return copies[model]


def test_a_replica_has_gates_and_no_fill():
    model = build("gpt2")
    batch = batch_of(model)
    with gated(model, closed=SHUT):
        expected = answers(model)
        assert apart(answers(replica_of(model), batch), expected) == 0
    assert apart(answers(model), expected) > 1e-3
    for options in ({"fill": "resample"}, {"positions": [1]}):
        with (
            gated(model, closed=SHUT, **options),
            pytest.raises(UnsupportedModel, match="DataParallel divides"),
        ):
            answers(replica_of(model), batch)
    with captured(model), pytest.raises(UnsupportedModel, match="DataParallel divides"):
        answers(replica_of(model), batch)


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
