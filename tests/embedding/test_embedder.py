"""Embeddings are those of sentence-transformers, for every pooling; what is unknown is refused."""

import json

import pytest
import sentence_transformers
import torch

from deadhead.embedding import embedder_of, read_embedder
from deadhead.embedding.embedder import POOLINGS
from deadhead.errors import FolderError, UnsupportedModel
from deadhead.forward import forward
from deadhead.heads import load
from sentence_encoders import MODULES, TEXTS, bare_encoder, sentence_encoder


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return bare_encoder(tmp_path_factory.mktemp("models") / "bert")


def saved(bert, folder, *modules):
    return sentence_encoder(folder, *modules, bare=bert)


def same_as_theirs(folder):
    """Compare the embeddings of texts, padded on either side."""
    model, embedder = load(folder).eval(), embedder_of(load(folder))
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    for side in ("right", "left"):
        theirs.tokenizer.padding_side = side
        batch = theirs.tokenizer(TEXTS, padding=True, return_tensors="pt")
        assert batch["attention_mask"].all() == 0
        with torch.no_grad():
            ours = embedder(forward(model, batch), batch)
            expected = theirs({name: value.clone() for name, value in batch.items()})
        torch.testing.assert_close(ours, expected["sentence_embedding"], rtol=0, atol=1e-5)
    return ours


@pytest.mark.parametrize("mode", [*POOLINGS, ("cls", "mean")])
def test_every_pooling(mode, bert, tmp_path):
    ours = same_as_theirs(saved(bert, tmp_path / "st", mode))
    assert float((ours[0] - ours[1]).abs().max()) > 1e-3


def test_dense_layers_and_normalisation(bert, tmp_path):
    width = MODULES.Transformer(str(bert)).get_embedding_dimension()
    layers = [
        MODULES.Dense(width, 12, activation_function=torch.nn.Tanh()),
        MODULES.Dense(12, 6, bias=False, activation_function=torch.nn.Identity()),
        MODULES.Normalize(),
    ]
    ours = same_as_theirs(saved(bert, tmp_path / "st", "mean", *layers))
    assert ours.shape == (len(TEXTS), 6)
    torch.testing.assert_close(ours.norm(dim=1), torch.ones(len(TEXTS)))


def test_what_a_folder_says_of_its_texts(bert, tmp_path):
    folder = saved(bert, tmp_path / "st", "mean")
    settings = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 48}))
    embedder = read_embedder(folder)
    assert (embedder.max_length, embedder.prompt) == (48, "query: ")
    assert read_embedder(bert) is None


def damage(folder, name, change):
    file = folder / name
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("modules.json", lambda m: m[1].update(type="x.WordWeights"), "got Transformer, WordWei"),
        ("modules.json", lambda m: m[0].update(path="0_Transformer"), "in the folder itself"),
        ("modules.json", lambda m: m.append({"type": "x.LSTM"}), "the module LSTM"),
        ("modules.json", lambda m: m[1].pop("type"), "missing or damaged"),
        ("1_Pooling/config.json", lambda c: c.update(pooling_mode="attention"), "'attention'"),
        ("1_Pooling/config.json", lambda c: c.update(include_prompt=False), "of the prompt"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(name, change, message, bert, tmp_path):
    folder = saved(bert, tmp_path / "st", "mean")
    damage(folder, name, change)
    with pytest.raises((FolderError, UnsupportedModel), match=message):
        read_embedder(folder)
