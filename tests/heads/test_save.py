"""Saved and loaded: the right class, precision and answers, in both forms, by whoever wrote the folder."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from transformers import BertModel, XLNetModel

from architectures.tiny import tiny
from deadhead.errors import UnknownName
from deadhead.heads import discover, load, prune, save
from tiny_models import answers, apart, build, build_class, hooks, uneven

CLASSES = [
    "BertForSequenceClassification",
    "RobertaForTokenClassification",
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


def pruned(name: str):
    """A model of this class, its first layer emptied and the others thinned."""
    model = build_class(getattr(transformers, name), num_labels=3, pad_token_id=0)
    first = discover(model).attentions[0]
    return prune(model, [*first.heads, *(h for h in uneven(model) if h not in first.heads)])


@pytest.mark.parametrize("name", CLASSES)
def test_saved_and_loaded(name, tmp_path):
    model = pruned(name)
    expected, hooks_before, config = answers(model), hooks(model), model.config.to_dict()
    assert save(model, tmp_path / "out") == tmp_path / "out"
    assert hooks(model) == hooks_before
    assert model.config.to_dict() == config
    again = load(tmp_path / "out").eval()
    assert type(again) is getattr(transformers, name)
    assert again.dtype == torch.float64
    assert apart(expected, answers(again)) == 0
    assert discover(again) == discover(model)
    assert {k: v.shape for k, v in again.state_dict().items()} == {
        k: v.shape for k, v in model.state_dict().items()
    }
    assert {"config.json", "model.safetensors", "README.md"} <= {
        f.name for f in (tmp_path / "out").iterdir()
    }
    whole = build_class(getattr(transformers, name), num_labels=3, pad_token_id=0)
    assert apart(expected, answers(whole)) > 1e-2


@pytest.mark.parametrize("name", CLASSES)
def test_the_padded_form_loads_without_deadhead(name, tmp_path):
    model = pruned(name)
    expected = answers(model)
    save(model, tmp_path, form="padded")
    unpruned = getattr(transformers, name).from_pretrained(tmp_path, dtype=torch.float64).eval()
    assert apart(expected, answers(unpruned)) < 1e-9
    cut = load(tmp_path).eval()
    assert apart(expected, answers(cut)) < 1e-9
    assert discover(cut) == discover(model)
    assert sum(p.numel() for p in cut.parameters()) == sum(p.numel() for p in model.parameters())
    assert sum(p.numel() for p in unpruned.parameters()) > sum(p.numel() for p in cut.parameters())


@pytest.mark.parametrize(
    "family",
    [
        "deberta-v2",
        "xlnet",
        "olmo2",
        "falcon",
        "codegen",
        "umt5",
        "gpt_bigcode",
        "gpt_oss",
        "phi3",
        "longformer",
    ],
)
def test_the_padded_form_of_other_kinds(family, tmp_path):
    model = build(family).float()
    prune(model, uneven(model))
    expected = answers(model)
    save(model, tmp_path, form="padded")
    unpruned = type(model).from_pretrained(tmp_path).eval()
    assert apart(expected, answers(unpruned)) < 1e-3
    assert apart(expected, answers(load(tmp_path).eval())) < 1e-3
    assert apart(expected, answers(build(family).float())) > 1e-2


@pytest.mark.parametrize("form", ["compact", "padded"])
def test_a_loaded_model_can_be_saved_by_others(form, tmp_path):
    """The Trainer calls `save_pretrained`, on models of either form, also after a second cut."""
    model = pruned("BertForSequenceClassification")
    save(model, tmp_path / "first", form=form)
    again = load(tmp_path / "first").eval()
    again.save_pretrained(tmp_path / "second")
    third = load(tmp_path / "second").eval()
    assert apart(answers(model), answers(third)) < 1e-9
    left = list(discover(third))
    prune(third, left[:1])
    third.save_pretrained(tmp_path / "third")
    assert apart(answers(third), answers(load(tmp_path / "third").eval())) == 0
    assert len(discover(load(tmp_path / "third"))) == len(left) - 1


def test_a_folder_nobody_pruned(tmp_path):
    model = build("bert")
    model.save_pretrained(tmp_path)
    again = load(tmp_path).eval()
    assert apart(answers(model), answers(again)) == 0
    assert not hasattr(again.config, "deadhead")
    assert discover(again) == discover(model)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_saved_precision(dtype, tmp_path):
    model = pruned("BertModel").to(dtype)
    save(model, tmp_path)
    again = load(tmp_path)
    assert {p.dtype for p in again.parameters()} == {dtype}
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in again.state_dict().items())
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


def test_the_kernel_and_other_arguments_go_through(tmp_path):
    model = pruned("BertModel")
    save(model, tmp_path)
    eager = load(tmp_path, attn_implementation="eager").eval()
    assert eager.config._attn_implementation == "eager"
    assert apart(answers(model), answers(eager)) < 1e-9


def test_the_card_says_what_was_removed_and_how_to_load(tmp_path):
    model = build("marian")
    model.config._name_or_path = str(tmp_path)
    prune(model, ["encoder.0.1", "encoder.0.2", "encoder.0.3", "cross.1.0"])
    save(model, tmp_path / "compact")
    text = (tmp_path / "compact" / "README.md").read_text()
    assert text.startswith("---\nlibrary_name: transformers\n")
    assert "MarianMTModel with 20 of 24 heads" in text
    assert "| encoder | 0 | 1-3 | 1 of 4 |" in text
    assert "| cross | 1 | 0 | 3 of 4 |" in text
    assert "deadhead.load(" in text
    assert str(tmp_path) not in text
    assert str(tmp_path) not in (tmp_path / "compact" / "config.json").read_text()
    save(model, tmp_path / "padded", form="padded")
    text = (tmp_path / "padded" / "README.md").read_text()
    assert "zeroed heads grow back" in text
    assert "AutoModel.from_pretrained" in text


def test_a_machine_path_that_is_gone_is_still_no_name(tmp_path):
    model = build("bert")
    model.config._name_or_path = "/home/somebody/models/mine"
    save(model, tmp_path)
    assert "somebody" not in (tmp_path / "README.md").read_text()


def test_an_unknown_form(tmp_path):
    with pytest.raises(UnknownName, match="Did you mean 'padded'"):
        save(build("bert"), tmp_path, form="paded")


@pytest.mark.parametrize("family", ["bert", "gpt2", "distilbert", "xlm", "albert"])
def test_a_folder_of_transformers_4(family, tmp_path):
    """transformers 4 wrote small weights and `pruned_heads`; plain transformers 5 cannot load that."""
    model = tiny(family)
    removed = {0: [1]} if family == "albert" else {0: [1], 1: [0, 3]}
    whole = answers(model)
    prune(model, removed)
    model.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    del config["deadhead"]
    path.write_text(json.dumps({**config, "pruned_heads": {str(k): v for k, v in removed.items()}}))
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
