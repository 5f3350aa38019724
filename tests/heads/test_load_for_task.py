"""`load(..., auto=...)`: a pruned folder of one class becomes a model for a task, with a new
classifier on the heads that are left.
"""

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
)

from deadhead import discover, load, prune, save
from deadhead.errors import Notice, UnknownName, UnsupportedModel
from deadhead.heads.load import load_complete
from deadhead.heads.save import FolderError

GONE = [
    "encoder.0.1",
    "encoder.0.2",
    *(f"encoder.1.{head}" for head in range(4)),
]  # uneven, and a layer emptied
NAMES = {0: "NOUN", 1: "VERB", 2: "ADJ"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    torch.manual_seed(0)
    size = {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 16,
        "vocab_size": 50,
    }
    model = BertForMaskedLM(BertConfig(**size))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter)  # zeros would hide a bias that was lost
    return save(model, tmp_path_factory.mktemp("whole") / "model")


@pytest.fixture(params=["compact", "padded"])
def pruned(whole, tmp_path, request):
    return save(prune(load(whole), GONE), tmp_path / "pruned", form=request.param)


def test_what_is_left_of_the_encoder_is_kept(pruned, whole, tmp_path):
    tagger = load(pruned, auto=AutoModelForTokenClassification, id2label=NAMES).eval()
    ids = torch.arange(20).reshape(2, 10)
    assert type(tagger).__name__ == "BertForTokenClassification"
    assert tagger.config.id2label == NAMES
    assert [str(head) for head in discover(tagger).removed] == GONE
    again = load(save(tagger, tmp_path / "again")).eval()
    assert type(again) is type(tagger)
    with torch.no_grad():
        expected, got, unpruned = (
            model.eval().base_model(ids).last_hidden_state
            for model in (load(pruned), tagger, load(whole))
        )
        assert torch.equal(got, expected)
        assert not torch.allclose(got, unpruned, atol=1e-3)
        assert torch.equal(again(ids).logits, tagger(ids).logits)


def test_mistakes(whole, tmp_path):
    with pytest.raises(FolderError, match="is a bert, for which there is no AutoModelForSeq2SeqLM"):
        load(whole, auto=AutoModelForSeq2SeqLM)
    tagger = save(
        load(whole, auto=AutoModelForTokenClassification, id2label=NAMES), tmp_path / "tagger"
    )
    with pytest.raises(
        FolderError,
        match=r"(?s)classifier\.(weight|bias) has another shape.*before it learnt another task",
    ):
        load(tagger, auto=AutoModelForTokenClassification, id2label={0: "a", 1: "b"})


@pytest.mark.parametrize(
    "missing",
    ["bert.encoder.layer.2.output.LayerNorm.bias", "bert.embeddings.word_embeddings.weight"],
)
def test_new_weights_belong_to_no_layer_and_no_embedding(whole, missing, tmp_path):
    folder = save(load(whole), tmp_path / "broken")
    weights = load_file(folder / "model.safetensors")
    del weights[missing]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(FolderError, match=rf"(?s){missing} is missing.*damaged"):
        load(folder, auto=AutoModelForTokenClassification)


@pytest.mark.parametrize("auto", [BertForMaskedLM, AutoTokenizer])
def test_only_auto_classes_of_models_are_accepted(whole, auto):
    with pytest.raises(UnsupportedModel, match="expects an auto class") as problem:
        load(whole, auto=auto)
    assert "AutoModelForTokenClassification" in (problem.value.hint or "")


def test_classes_and_precisions_by_their_names(whole):
    tagger = load(whole, auto="AutoModelForTokenClassification", dtype="bfloat16")
    assert type(tagger).__name__ == "BertForTokenClassification"
    assert {p.dtype for p in tagger.parameters()} == {torch.bfloat16}
    with pytest.raises(
        UnknownName,
        match=r"no auto class .*'AutoModelForTokenClassifier'.*AutoModelForTokenClassification",
    ):
        load(whole, auto="AutoModelForTokenClassifier")
    for wrong in ("bf17", "int8", torch.int8, None):
        with pytest.raises(UnknownName, match=r"no dtype .*bfloat16, float16, float32"):
            load(whole, dtype=wrong)


def test_a_complete_model_has_no_random_weights(pruned):
    with pytest.raises(FolderError, match=r"no weights for .* of BertForSequenceClassification"):
        load_complete(pruned, auto="AutoModelForSequenceClassification")
    with pytest.warns(Notice, match="pooled output is of random numbers"):
        load_complete(pruned, auto="AutoModel")
    assert type(load_complete(pruned)).__name__ == "BertForMaskedLM"
