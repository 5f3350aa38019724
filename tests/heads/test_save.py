"""Saved and loaded: the right class, precision and answers, in both forms, by whoever wrote the
folder.
"""

import pytest
import torch
import transformers
from folders import edit_config
from transformers import BertModel, XLNetModel

from architectures.tiny import tiny
from deadhead.errors import UnknownName
from deadhead.heads import discover, head_means, load, prune, save
from slow import slow_but
from tiny_models import answers, apart, batch_of, build, build_class, hooks, uneven

CLASSES = [
    "BertForSequenceClassification",
    "XLMRobertaForTokenClassification",
    "BertModel",
    "MarianMTModel",
    "GPT2LMHeadModel",
    "GPT2ForSequenceClassification",
    "T5ForConditionalGeneration",
    "T5EncoderModel",
    "LlamaForCausalLM",
    "DebertaForTokenClassification",
    "ViTForImageClassification",
]
FAST = "BertForSequenceClassification GPT2LMHeadModel LlamaForCausalLM T5ForConditionalGeneration"
OTHERS = "deberta-v2 xlnet olmo2 falcon codegen umt5 gpt_bigcode gpt_oss phi3 longformer"


def whole(name):
    return build_class(getattr(transformers, name), num_labels=3, pad_token_id=0)


def pruned(name):
    """A model of this class, its first layer emptied and the others thinned."""
    model = whole(name)
    first = discover(model).attentions[0]
    return prune(model, [*first.heads, *(h for h in uneven(model) if h not in first.heads)])


@pytest.mark.parametrize("name", slow_but(FAST, CLASSES))
def test_saved_and_loaded_in_both_forms(name, tmp_path):
    model, cls = pruned(name), getattr(transformers, name)
    expected, hooks_before, config = answers(model), hooks(model), model.config.to_dict()
    assert apart(expected, answers(whole(name))) > 1e-2
    for form, limit in (("compact", 0), ("padded", 1e-9)):
        assert save(model, tmp_path / form, form=form) == tmp_path / form
        again = load(tmp_path / form).eval()
        assert type(again) is cls
        assert again.dtype == torch.float64
        assert apart(expected, answers(again)) <= limit
        assert discover(again) == discover(model)
        shapes = [{k: v.shape for k, v in m.state_dict().items()} for m in (again, model)]
        assert shapes[0] == shapes[1]
    padded = cls.from_pretrained(tmp_path / "padded", dtype=torch.float64).eval()
    assert apart(expected, answers(padded)) < 1e-9
    assert padded.num_parameters() > model.num_parameters()
    assert hooks(model) == hooks_before
    assert model.config.to_dict() == config


@pytest.mark.parametrize("family", slow_but("codegen olmo2 umt5 xlnet", OTHERS.split()))
def test_the_padded_form_of_other_kinds(family, tmp_path):
    model = build(family).float()
    prune(model, uneven(model))
    expected = answers(model)
    save(model, tmp_path, form="padded")
    assert apart(expected, answers(type(model).from_pretrained(tmp_path).eval())) < 1e-3
    assert apart(expected, answers(load(tmp_path).eval())) < 1e-3
    assert apart(expected, answers(build(family).float())) > 1e-2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_saved_precision(dtype, tmp_path):
    """The biases that a fill added have it, too."""
    model = build("llama")
    prune(model, uneven(model), fill=head_means(model, [batch_of(model)]))
    save(model.to(dtype), tmp_path)
    again = load(tmp_path)
    assert {p.dtype for p in again.parameters()} == {dtype}
    assert all(torch.equal(v, again.state_dict()[k]) for k, v in model.state_dict().items())
    assert load(tmp_path, dtype=torch.float64).dtype == torch.float64


def test_sharded_weights_and_no_old_shard_left(tmp_path):
    model = pruned("BertForSequenceClassification")
    save(model, tmp_path, max_shard_size="20KB")
    shards = list(tmp_path.glob("model-*.safetensors"))
    assert len(shards) > 2
    assert apart(answers(model), answers(load(tmp_path).eval())) == 0
    save(model, tmp_path)
    assert {f.name for f in tmp_path.glob("model*")} == {"model.safetensors"}
    assert apart(answers(model), answers(load(tmp_path).eval())) == 0


def test_saving_over_another_model_replaces_the_card_it_made_and_no_other(tmp_path):
    save(prune(build("bert"), ["encoder.0.1"]), tmp_path)
    save(prune(build("bert"), ["encoder.1.2"]), tmp_path)
    assert "| encoder | 1 | 2 | 3 of 4 |" in (tmp_path / "README.md").read_text()
    (tmp_path / "README.md").write_text("# My model")
    save(build("bert"), tmp_path)
    assert (tmp_path / "README.md").read_text() == "# My model"
    assert not list(tmp_path.glob(".draft*"))


def test_an_unknown_form(tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'padded'"):
        save(build("bert"), tmp_path, form="paded")


@pytest.mark.parametrize("family", ["gpt2", "xlm", "albert"])
def test_a_folder_of_transformers_4(family, tmp_path):
    """transformers 4 wrote small weights and `pruned_heads`; transformers 5 cannot load that."""
    model = tiny(family)
    removed = {0: [1]} if family == "albert" else {0: [1], 1: [0, 3]}
    whole = answers(model)
    prune(model, removed)
    model.save_pretrained(tmp_path)
    edit_config(tmp_path, deadhead=None, pruned_heads={str(k): v for k, v in removed.items()})
    with pytest.raises(RuntimeError):
        type(model).from_pretrained(tmp_path)
    again = load(tmp_path).eval()
    assert apart(answers(model), answers(again)) == 0
    assert apart(whole, answers(again)) > 1e-2
    again.save_pretrained(tmp_path / "again")  # and it stays loadable
    assert discover(load(tmp_path / "again")) == discover(model)


def test_a_wrapped_model_remembers(tmp_path):
    model = tiny("bert")
    prune(torch.nn.DataParallel(model), ["encoder.0.1"])
    model.save_pretrained(tmp_path)
    assert len(discover(load(tmp_path))) == 7


@torch.no_grad()
def test_xlnet_comes_back_in_half_precision(tmp_path):
    model = XLNetModel(tiny("xlnet").config).to(torch.bfloat16).eval()
    ids = torch.randint(3, 90, (2, 6))
    save(model, tmp_path)
    again = load(tmp_path).eval()
    assert {p.dtype for p in again.parameters()} == {torch.bfloat16}
    assert torch.equal(again(ids).last_hidden_state, model(ids).last_hidden_state)


def test_a_subfolder_is_read_whole(tmp_path):
    save(prune(BertModel(tiny("bert").config), ["encoder.0.1"]), tmp_path / "inner")
    assert len(discover(load(tmp_path, subfolder="inner"))) == 7
