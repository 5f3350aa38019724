"""Direct effects: they add up to the logits, and each is the stream's share by hand."""

import pytest
import torch
from transformers import (
    AlbertForMaskedLM,
    BertForMaskedLM,
    BertForSequenceClassification,
    DistilBertForMaskedLM,
    ModernBertForMaskedLM,
    ViTForImageClassification,
)

from deadhead import Head, direct_effects, discover, gated, prune
from deadhead.effects import logit, logit_difference
from deadhead.errors import DataError, UnsupportedModel
from tiny_models import answers, apart, batch_of, build, build_class, hooks

# pre-norm and post-norm, sandwich norms and capped logits, shared layers, time first, cross
FAMILIES = ["gpt2", "llama", "gemma2", "bloom", "gptj", "xlnet", "opt", "marian", "t5", "m2m_100"]
CLASSES = [
    BertForMaskedLM,
    DistilBertForMaskedLM,
    AlbertForMaskedLM,
    ModernBertForMaskedLM,
    BertForSequenceClassification,
    ViTForImageClassification,
]


def model_of(kind):
    return build(kind) if isinstance(kind, str) else build_class(kind)


def total(effects):
    parts = [*effects.heads.values(), *effects.feed_forward.values(), *effects.others.values()]
    return sum(parts) + effects.embeddings + effects.biases


def some_logit(outputs, batch):
    return outputs.logits[:, 2, 7] if outputs.logits.dim() > 2 else outputs.logits[:, 1]


def by_class(kind):
    return kind if isinstance(kind, str) else kind.__name__


@pytest.mark.parametrize("kind", [*FAMILIES, *CLASSES], ids=by_class)
def test_the_effects_add_up_to_the_logit(kind):
    model = model_of(kind)
    batch, before, layout = batch_of(model), hooks(model), discover(model)
    flags = [p.requires_grad for p in model.parameters()]
    logits = answers(model, batch)
    effects = direct_effects(model, batch, some_logit)
    with torch.no_grad():
        expected = float(some_logit(model(**batch), batch).mean())
    # norms of some decoders compute in float32
    assert total(effects) == pytest.approx(expected, abs=1e-5)
    assert effects.target == pytest.approx(expected, abs=1e-5)
    assert set(effects.by_head()) == set(layout)
    assert len(effects.feed_forward) == len(discover(model, neurons=True).feed_forwards)
    assert abs(sum(effects.heads.values())) > 1e-3
    assert abs(total(effects) - sum(effects.heads.values())) > 1e-3
    encoder = [head for head in layout if head.block == "encoder"]
    if model.config.is_encoder_decoder:  # its heads are read by cross-attention alone
        assert all(effects.heads[head, None] == 0 for head in encoder)
    assert hooks(model) == before
    assert [p.requires_grad for p in model.parameters()] == flags
    assert apart(logits, answers(model, batch)) == 0


def test_by_hand_in_a_decoder_before_norms():
    """Projection, then the frozen scale of the last norm, then the row of the unembedding."""
    model = build("llama")
    batch, layout = {"input_ids": torch.arange(5, 14)[None]}, discover(model)
    with torch.no_grad():
        hidden = model.model(**batch, output_hidden_states=True)
    seen, layers = {}, model.model.layers

    def keep(layer):
        return lambda module, args: seen.update({layer: args[0]})

    undo = [
        layer.self_attn.o_proj.register_forward_pre_hook(keep(n)) for n, layer in enumerate(layers)
    ]
    last = []
    undo.append(model.model.norm.register_forward_pre_hook(lambda m, args: last.append(args[0])))
    with torch.no_grad():
        model(**batch)
    for handle in undo:
        handle.remove()
    scale = (last[0][0, -1].square().mean() + model.config.rms_norm_eps).rsqrt()
    row = model.lm_head.weight[7] * model.model.norm.weight * scale
    effects = direct_effects(model, batch, 7)
    for head in layout:
        width = layout[head[:2]].width
        columns = slice(head.index * width, (head.index + 1) * width)
        output = (
            layers[head.layer].self_attn.o_proj.weight[:, columns]
            @ seen[head.layer][0, -1, columns]
        )
        assert effects.heads[head, None] == pytest.approx(float((row @ output).detach()), abs=1e-6)
    assert effects.embeddings == pytest.approx(
        float(row @ hidden.hidden_states[0][0, -1]), abs=1e-6
    )


def test_a_logit_difference_is_the_difference_of_effects():
    model = build("gpt2")
    batch = {"input_ids": torch.arange(5, 25).view(2, 10)}
    both = direct_effects(model, batch, logit_difference([7, 8], [9, 10], [3, -2]))
    first = direct_effects(model, batch, logit([7, 8], [3, -2]))
    second = direct_effects(model, batch, logit(torch.tensor([9, 10]), [3, -2]))
    for head, value in both.by_head().items():
        assert value == pytest.approx(first.by_head()[head] - second.by_head()[head], abs=1e-9)
    with torch.no_grad():
        logits = model(**batch).logits
    assert first.target == pytest.approx(float((logits[0, 3, 7] + logits[1, 8, 8]) / 2))


def test_batches_padding_and_positions():
    model = build("llama")
    ids = torch.arange(5, 23).view(2, 9)
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    together = direct_effects(model, {"input_ids": ids, "attention_mask": mask}, 7)
    single = [direct_effects(model, {"input_ids": row}, 7) for row in (ids[:1], ids[1:, :6])]
    in_list = direct_effects(model, [{"input_ids": ids[:1]}, {"input_ids": ids[1:, :6]}], 7)
    for head, value in together.by_head().items():
        mean = sum(one.by_head()[head] for one in single) / 2
        assert value == pytest.approx(mean, abs=1e-6)
        assert in_list.by_head()[head] == pytest.approx(mean, abs=1e-9)
    spread = direct_effects(model, {"input_ids": ids}, 7, positions=True)
    added = direct_effects(model, {"input_ids": ids}, 7)
    head = next(iter(discover(model)))
    assert spread.heads[head, 8] == pytest.approx(added.heads[head, None], abs=1e-9)
    assert all(spread.heads[head, position] == 0 for position in range(8))
    batches = [{"input_ids": ids[:1]}, {"input_ids": ids[1:, :6]}]
    with pytest.raises(DataError, match="rows of one length"):
        direct_effects(model, batches, 7, positions=True)
    rows = added.rows()
    assert sum(row["effect"] for row in rows) == pytest.approx(added.target, abs=1e-5)
    assert [row["part"] for row in rows[-2:]] == ["embeddings", "biases"]
    assert len(added.frame()) == len(rows)
    assert "direct effect of each head" in added.title
    assert added._repr_html_()


def test_a_closed_or_removed_head_adds_nothing():
    model = build_class(BertForMaskedLM)
    batch = batch_of(model)
    head = Head("encoder", 1, 2)
    whole = direct_effects(model, batch, some_logit).by_head()
    with gated(model, closed=[head]):
        closed = direct_effects(model, batch, some_logit)
    assert closed.by_head()[head] == 0 != whole[head]
    prune(model, [head])
    pruned = direct_effects(model, batch, some_logit)
    assert head not in pruned.by_head()
    for other, value in pruned.by_head().items():
        assert value == pytest.approx(closed.by_head()[other], abs=1e-9)


@pytest.mark.parametrize("family", ["mixtral", "jamba"])
def test_skipped_layers_count_as_a_whole(family):
    model = build(family).float()  # whose experts have no kernel in double precision
    batch = {"input_ids": torch.arange(5, 23).view(2, 9)}
    effects = direct_effects(model, batch, 7)
    with torch.no_grad():
        expected = float(model(**batch).logits[:, -1, 7].mean())
    assert total(effects) == pytest.approx(expected, abs=1e-5)
    assert set(effects.others) == set(discover(model, neurons=True).skipped)
    assert abs(sum(effects.others.values())) > 1e-3
    assert {*effects.others} < {row["part"] for row in effects.rows()}


def test_a_skipped_layer_that_adds_its_input_itself_is_refused():
    model = build("mixtral").float()
    layer = model.model.layers[0].mlp
    own = layer.forward
    layer.forward = lambda hidden: own(hidden) + hidden
    with pytest.raises(UnsupportedModel, match="adds its input to its output itself"):
        direct_effects(model, {"input_ids": torch.arange(5, 14)[None]}, 7)


def test_a_model_in_half_precision():
    model = build("llama").to(torch.bfloat16)
    batch = {"input_ids": torch.arange(5, 23).view(2, 9)}
    effects = direct_effects(model, batch, 7)
    assert total(effects) == pytest.approx(effects.target, abs=0.1)


@pytest.mark.parametrize(
    ("family", "target", "message"),
    [
        ("xlm", some_logit, "the effects add up to"),
        ("llama", lambda o, b: o.logits[:, -1].log_softmax(-1)[:, 3], "is not linear in the"),
        ("llama", lambda o, b: o.logits[:, -1, 3].detach(), "does not depend on the residual"),
        ("llama", lambda o, b: o.logits[:, -1], "the target function gave a tensor of shape"),
        ("llama", 10**6, "expected tokens from 0"),
    ],
)
def test_what_cannot_be_exact_is_refused(family, target, message):
    model = build(family)
    with pytest.raises((UnsupportedModel, DataError), match=message) as error:
        direct_effects(model, {"input_ids": torch.arange(5, 14)[None]}, target)
    assert error.value.hint
    with pytest.raises(DataError, match="got an empty list"):
        direct_effects(model, [], target)
