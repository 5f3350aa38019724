"""A layer without heads may drop its output bias: closed, cut out, saved and loaded then agree, and
it stays dropped.
"""

import pytest
import torch
import transformers
from folders import edit_record

from deadhead.errors import FolderError, UnsupportedModel
from deadhead.heads import discover, gated, load, prune, save
from slow import slow_but
from tiny_models import answers, apart, build, build_class, limit, refused

FAMILIES = ["bert", "xlm-roberta", "gpt2", "deberta", "marian", "albert", "t5", "xlnet", "fsmt"]


def emptied(model):
    """All heads of each block's first layer, and one head of every other."""
    layout = discover(model)
    firsts = [h for b in layout.blocks if layout.layers(b) > 1 for h in layout.of(b)[0].heads]
    return firsts + [
        g[0] for a in layout.attentions for g in [a.heads] if a.group == 1 and g[0] not in firsts
    ]


@pytest.mark.parametrize("family", slow_but("albert deberta marian xlnet", FAMILIES))
def test_closed_is_cut_out(family):
    model, kept = build(family), build(family)
    removed = emptied(model)
    with gated(model, closed=removed, drop_output_bias=True):
        masked = answers(model)
    with gated(model, closed=removed):
        with_bias = answers(model)
    prune(model, removed, drop_output_bias=True)
    assert apart(masked, answers(model)) < limit(model)
    prune(kept, removed)
    assert apart(with_bias, answers(kept)) < limit(model)
    has_bias = family in ("bert", "xlm-roberta", "gpt2", "deberta", "marian", "fsmt")
    assert (apart(masked, with_bias) > 1e-3) == has_bias


def test_attention_adds_exactly_nothing():
    """What follows a layer of BERT without heads reads the norm of what the layer read: the layer
    before, when it is normed.
    """
    model = build("bert")
    layer = model.base_model.encoder.layer[0].attention
    prune(model, discover(model).of("encoder")[0].heads, drop_output_bias=True)
    seen: list[torch.Tensor] = []
    layer.register_forward_hook(
        lambda _, args, output: seen.extend(
            [args[0], output[0] if isinstance(output, tuple) else output]
        )
    )
    answers(model)
    assert torch.equal(seen[1], layer.output.LayerNorm(seen[0]))


def test_gates_of_examples_and_numbers_empty_a_layer_too():
    model = build("bert")
    removed = discover(model).of("encoder")[0].heads
    (whole,) = answers(model)
    with gated(model, closed=removed, drop_output_bias=True):
        (masked,) = answers(model)
    with gated(model, dict.fromkeys(removed, 0.0), drop_output_bias=True):
        assert apart([masked], answers(model)) == 0
    gates = torch.ones(2, 2, 4)
    gates[1, 0] = 0  # in the second example
    with gated(model, gates, drop_output_bias=True):
        (mixed,) = answers(model)
    assert float((mixed[0] - whole[0]).abs().max()) < 1e-9
    assert float((mixed[1] - masked[1]).abs().max()) < 1e-9


@pytest.mark.parametrize("form", ["compact", "padded"])
def test_saved_and_loaded(form, tmp_path):
    model = build_class(transformers.MarianMTModel, pad_token_id=0)
    prune(model, emptied(model), drop_output_bias=True)
    expected = answers(model)
    again = load(save(model, tmp_path, form=form)).eval()
    assert apart(expected, answers(again)) == 0
    assert again.config.deadhead == model.config.deadhead
    frozen, again_frozen = (
        {n for n, p in m.named_parameters() if n.endswith("bias") and not p.requires_grad}
        for m in (model, again)
    )
    assert frozen == again_frozen != set()
    if form == "padded":
        padded = type(model).from_pretrained(tmp_path, dtype=torch.float64).eval()
        assert apart(expected, answers(padded)) < 1e-9


def test_a_bias_that_grew_back_is_refused(tmp_path):
    model = build_class(transformers.BertModel)
    prune(model, discover(model).of("encoder")[0].heads, drop_output_bias=True)
    save(model, tmp_path, form="padded")
    unpruned = transformers.BertModel.from_pretrained(tmp_path)
    unpruned.encoder.layer[0].attention.output.dense.bias.data += 1.0
    unpruned.save_pretrained(tmp_path)
    with pytest.raises(FolderError, match="encoder layer 0 was dropped, and is no longer zero"):
        load(tmp_path)
    edit_record(tmp_path, dropped_output_biases=[1])
    with pytest.raises(FolderError, match="list of dropped biases"):
        load(tmp_path)


def test_a_bias_outside_of_the_layer_is_refused():
    model = build("gpt_neox_japanese")
    assert any(getattr(m, "dense_bias", None) is not None for m in model.modules())
    heads = discover(model).of("decoder")[0].heads
    with refused(model, UnsupportedModel, "outside of the projection"):
        prune(model, heads, drop_output_bias=True)
    with (
        refused(model, UnsupportedModel, "outside of the projection"),
        gated(model, closed=heads, drop_output_bias=True),
    ):
        pass
