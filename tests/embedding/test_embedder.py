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
from tiny_sentence_encoders import MODULES, TEXTS, bare_encoder, sentence_encoder


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return bare_encoder(tmp_path_factory.mktemp("models") / "bert")


def saved(bert, folder, *modules):
    return sentence_encoder(folder, *modules, bare=bert)


def same_as_theirs(folder, empty=0):
    """Compare the embeddings of texts, padded on either side."""
    model, embedder = load(folder).eval(), embedder_of(load(folder))
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    for side in ("right", "left"):
        theirs.tokenizer.padding_side = side
        batch = theirs.tokenizer(TEXTS, padding=True, return_tensors="pt")
        assert batch["attention_mask"].all() == 0
        batch["attention_mask"][:empty] = 0
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
    embedder = read_embedder(folder)
    assert embedder.text("A Dog") == embedder.text("A Dog", "query") == "query: A Dog"
    assert embedder.text("A Dog", "document") == "A Dog"
    assert "query prompt 'query: '" in str(embedder)
    encoder = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    encoder.max_seq_length = 40  # saved with the tokenizer; older versions have it elsewhere
    encoder.save(str(tmp_path / "short"))
    assert read_embedder(tmp_path / "short").max_length == 40
    settings = {"max_seq_length": 48, "do_lower_case": True}
    (folder / "sentence_roberta_config.json").write_text(json.dumps(settings))
    embedder = read_embedder(folder)
    assert (embedder.max_length, embedder.text("A Dog")) == (48, "query: a dog")
    assert read_embedder(bert) is None


def test_a_cross_encoder_is_no_sentence_encoder(bert, tmp_path):
    sentence_transformers.CrossEncoder(str(bert), num_labels=1, device="cpu").save(
        str(tmp_path / "pairs")
    )
    assert (tmp_path / "pairs" / "modules.json").exists()
    assert read_embedder(tmp_path / "pairs") is None


def test_a_text_without_any_token(bert, tmp_path):
    """As some tokenizers read an empty text, in a batch with longer ones."""
    for mode in ("mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"):
        same_as_theirs(saved(bert, tmp_path / mode, mode), empty=1)


def damage(folder, name, change):
    file = folder / name
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def with_new_flag(config):
    """As older folders name what they pool, with a name of a later version."""
    config |= {"pooling_mode_mean_tokens": False, "pooling_mode_new_tokens": True}
    del config["pooling_mode"]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("modules.json", lambda m: m[1].update(type="x.WordWeights"), "got Transformer, WordWei"),
        ("modules.json", lambda m: m[0].update(path="0_Transformer"), "in the folder itself"),
        ("modules.json", lambda m: m.append({"path": "2", "type": "x.LSTM"}), "the module LSTM"),
        ("modules.json", lambda m: m[1].pop("type"), "missing or damaged"),
        ("1_Pooling/config.json", lambda c: c.update(pooling_mode="attention"), "'attention'"),
        ("1_Pooling/config.json", lambda c: c.update(pooling_mode=["mean", 5]), "pooling 5 in"),
        ("1_Pooling/config.json", lambda c: c.update(pooling_mode=[]), r"pooling \[\] in"),
        ("1_Pooling/config.json", with_new_flag, "'pooling_mode_new_tokens'"),
        ("1_Pooling/config.json", lambda c: c.update(include_prompt=False), "of the prompt"),
        ("2_Dense/config.json", lambda c: c.update(use_residual=True), "use_residual=True"),
        ("2_Dense/config.json", lambda c: c.update(out_features=7), "missing or damaged"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(name, change, message, bert, tmp_path):
    folder = saved(bert, tmp_path / "st", "mean", MODULES.Dense(32, 6))
    damage(folder, name, change)
    with pytest.raises((FolderError, UnsupportedModel), match=message):
        read_embedder(folder)
