"""A pruned encoder in sentence-transformers: cut in place, saved, and loaded with equal embeddings."""

import pytest
import sentence_transformers
import torch
import transformers

from deadhead.heads import discover, load, prune, save
from deadhead.world import MODELS
from tiny_models import build_class, uneven

TEXTS = ["Maria bought a red car .", "The dog sleeps .", "A house stands there ."]


def embeddings(encoder):
    result: torch.Tensor = encoder.encode(
        TEXTS, convert_to_tensor=True, show_progress_bar=False, device="cpu"
    )
    return result.double()


@pytest.fixture
def folder(tmp_path):
    """A whole encoder that averages its tokens and normalises, as SentenceTransformer saves it."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODELS / "encoder")
    size = {"vocab_size": len(tokenizer), "pad_token_id": 0}
    save(build_class(transformers.BertModel, **size), tmp_path / "bert", tokenizer)
    modules = sentence_transformers.sentence_transformer.modules
    transformer = modules.Transformer(str(tmp_path / "bert"))
    pooling = modules.Pooling(transformer.get_embedding_dimension(), "mean")
    normalize = modules.Normalize()
    parts = [transformer, pooling, normalize]
    encoder = sentence_transformers.SentenceTransformer(modules=parts, device="cpu")
    encoder.save(str(tmp_path / "whole"))
    return tmp_path / "whole"


def opened(folder):
    return sentence_transformers.SentenceTransformer(str(folder), device="cpu")


def test_saved_and_loaded_with_equal_embeddings(folder, tmp_path):
    encoder = opened(folder)
    whole = embeddings(encoder)
    prune(encoder[0].model, uneven(encoder[0].model))
    expected = embeddings(encoder)
    assert float((expected - whole).abs().max()) > 1e-3
    # the padded form is a folder of sentence-transformers; `load` makes it small again in memory
    save(encoder[0].model, tmp_path / "padded", encoder.tokenizer, form="padded")
    again = opened(tmp_path / "padded")
    torch.testing.assert_close(embeddings(again), expected, rtol=0, atol=1e-5)
    assert not discover(again[0].model).removed
    again[0].model = load(tmp_path / "padded").eval()
    torch.testing.assert_close(embeddings(again), expected, rtol=0, atol=1e-5)
    assert discover(again[0].model) == discover(encoder[0].model)
    # the compact form, and what sentence-transformers saves, go into the encoder of the whole model
    save(encoder[0].model, tmp_path / "small", encoder.tokenizer)
    encoder.save(str(tmp_path / "theirs"))
    for name, words in (("small", "this model is pruned"), ("theirs", "ignore_mismatched_sizes")):
        again = opened(folder)
        again[0].model = load(tmp_path / name).eval()
        assert torch.equal(embeddings(again), expected)
        with pytest.raises((RuntimeError, ValueError), match=words):
            opened(tmp_path / name)
