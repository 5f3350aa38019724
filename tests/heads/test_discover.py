"""Model in, heads out: blocks, counts and groups are right, also after pruning, and the model is
not touched.
"""

import pytest
from torch import nn
from transformers import BertLMHeadModel

from deadhead import gated, rank, refit, shrink
from deadhead.errors import NoAttention, UnknownArchitecture, UnsupportedModel
from deadhead.heads import discover, prune
from deadhead.layout import Head
from tiny_models import answers, apart, build, build_class, hooks

BLOCKS = {
    "bert": ("encoder",),
    "xlnet": ("encoder",),
    "gpt2": ("decoder",),
    "llama": ("decoder",),
    "marian": ("encoder", "decoder", "cross"),
    "t5": ("encoder", "decoder", "cross"),
    "prophetnet": ("encoder", "decoder", "cross"),
    "clip": ("vision", "text"),
    "vit": ("encoder",),
}


@pytest.mark.parametrize("family", BLOCKS)
def test_blocks_and_counts(family):
    layout, blocks = discover(build(family)), BLOCKS[family]
    assert layout.blocks == blocks
    assert [(layout.layers(b), layout.size(b)) for b in blocks] == [(2, 4)] * len(blocks)
    assert list(layout) == [Head(b, layer, i) for b in blocks for layer in (0, 1) for i in range(4)]
    assert all(a.width == 8 for a in layout.attentions)


def test_a_bert_that_reads_left_to_right_is_a_decoder_and_may_have_cross_attention():
    layout = discover(build_class(BertLMHeadModel, is_decoder=True, add_cross_attention=True))
    assert layout.blocks == ("decoder", "cross")
    assert len(layout) == 16


@pytest.mark.parametrize(("layers", "groups", "uses"), [(5, 1, [(0, 5)]), (4, 2, [(0, 2), (1, 2)])])
def test_albert_shares_its_layers(layers, groups, uses):
    layout = discover(build("albert", num_hidden_layers=layers, num_hidden_groups=groups))
    assert [(a.layer, a.shared_by) for a in layout.attentions] == uses
    assert {a.shared_by for a in discover(build("bert")).attentions} == {1}


@pytest.mark.parametrize("family", ["t5", "xlnet"])
def test_looking_changes_nothing(family):
    model = build(family)
    before, hooks_before, config = answers(model), hooks(model), model.config.to_dict()
    discover(model, neurons=True)
    assert hooks(model) == hooks_before
    assert model.config.to_dict() == config
    assert apart(before, answers(model)) == 0


def test_what_cannot_be_gated_is_skipped_with_the_reason():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.bert, self.torch_attention = build("bert"), nn.MultiheadAttention(8, 2)

    layout = discover(Both())
    assert len(layout) == 8
    assert list(layout.skipped) == ["torch_attention"]
    assert "no place for a gate" in layout.skipped["torch_attention"]
    assert discover(build("bert")).skipped == {}


class StrangeAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.ask, self.look, self.tell, self.answer = (nn.Linear(8, 8) for _ in range(4))


def test_an_unknown_architecture_says_what_was_found_and_how_to_add_it():
    model = nn.Module()
    model.layer = StrangeAttention()
    with pytest.raises(UnknownArchitecture) as error:
        discover(model)
    assert "layer  (ask, look, tell, answer)" in error.value.message
    assert "names.py" in str(error.value.hint)


def test_a_known_attention_of_a_refused_kind_says_why():
    with pytest.raises(
        UnknownArchitecture, match="ConvBertSelfAttention: expected 2 heads of width 8"
    ):
        discover(build("convbert"))


@pytest.mark.parametrize("family", ["mamba", "mamba2"])
def test_a_model_of_states_has_no_heads(family):
    with pytest.raises(
        NoAttention,
        match=r"has no attention heads:\n.*MambaMixer|Mamba2Mixer is not softmax attention",
    ) as error:
        discover(build(family))
    assert error.value.hint == "name a model that has softmax attention"


def test_attention_that_mixes_heads_is_refused_for_what_it_is():
    with pytest.raises(
        UnknownArchitecture, match=r"BitNetAttention\.attn_sub_norm seems to work on all heads"
    ) as error:
        discover(build("bitnet"))
    assert not isinstance(error.value, NoAttention)
    assert "names.py" not in str(error.value.hint)
    assert "queries, keys and values of their own" in str(error.value.hint)


def test_a_model_without_attention_says_so():
    with pytest.raises(NoAttention, match="has no attention"):
        discover(nn.Sequential(nn.Linear(2, 2)))


@pytest.mark.parametrize(
    "call",
    [
        discover,
        lambda model: prune(model, ["encoder.0.0"]),
        lambda model: rank(model, []),
        lambda model: shrink(model, [], heads=0.5),
        lambda model: refit(model, [], ["encoder.0.0"]),
        lambda model: gated(model, closed=["encoder.0.0"]).__enter__(),
    ],
)
def test_the_name_of_a_model_is_no_model(call):
    with pytest.raises(UnsupportedModel, match=r"expected a model, .*, got './pos-en'"):
        call("./pos-en")
