"""Embeddings: the vectors are the model's own; distances and silhouette are as by hand."""

import sys

import numpy as np
import pytest
import torch

from deadhead.errors import DataError, MissingExtra, UnsupportedModel
from deadhead.measures import MeasureInputs, embeddings, measure
from deadhead.measures.embeddings import described, on_map, silhouette, vectors
from deadhead.world import MODELS

SENTENCES = ["Maria bought a red car in Berlin .", "The dog sleeps .", "Maria sees the dog ."]


def test_by_hand():
    """Two languages, two sentences each, on a line: 0, 2 and 8, 10; the centres are 1 and 9.

    Silhouette (b - a) / max(a, b): a to the other of its own, b the mean to the other language:
    0: a = 2, b = (8 + 10) / 2 = 9, 7/9. 2: a = 2, b = (6 + 8) / 2 = 7, 5/7. The others by symmetry.
    """
    clouds = {"en": np.array([[0.0, 0.0], [2.0, 0.0]]), "de": np.array([[8.0, 0.0], [10.0, 0.0]])}
    description = described(clouds)
    assert description["silhouette"] == pytest.approx((7 / 9 + 5 / 7) / 2)
    assert description["centroids"] == {"languages": ["en", "de"], "distances": [[0, 8], [8, 0]]}
    assert {lang: len(points) for lang, points in description["points"].items()} == {
        "en": 2,
        "de": 2,
    }
    assert silhouette({"en": clouds["en"]}) is None  # one language is apart from nothing


def test_one_map_for_all_and_the_same_again():
    rng = np.random.default_rng(0)
    clouds = {"en": rng.normal(0, 1, (20, 8)), "de": rng.normal(30, 1, (20, 8))}
    description = described(clouds)
    points = np.array([*description["points"]["en"], *description["points"]["de"]])
    assert np.allclose(points, on_map(np.concatenate(list(clouds.values()))).round(2))
    gaps = np.linalg.norm(points[:, None] - points[None], axis=-1)
    np.fill_diagonal(gaps, np.inf)
    nearest = gaps.argmin(1)
    assert (
        (nearest < 20) == (np.arange(40) < 20)
    ).all()  # every point has its own language nearest


@pytest.fixture(scope="module")
def encoder():
    from transformers import AutoTokenizer

    from deadhead import load

    return load(MODELS / "encoder"), AutoTokenizer.from_pretrained(MODELS / "encoder")


@torch.no_grad()
def test_vectors_are_those_of_the_first_token_alone_or_in_a_batch(encoder, monkeypatch):
    monkeypatch.setattr(embeddings, "AT_ONCE", 2)
    model, tokenizer = encoder
    model.train()
    clouds = vectors(model, tokenizer, SENTENCES)
    assert model.training  # left as it was, though dropout was off
    model.eval()
    for text, vector in zip(SENTENCES, clouds, strict=True):
        alone = model.base_model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0, 0]
        assert np.allclose(vector, alone.numpy(), atol=1e-5)
    assert np.abs(clouds[0] - clouds[1]).max() > 1e-2


def test_as_a_measure(encoder):
    inputs = MeasureInputs(
        lambda split, most: [],
        lambda split, most: {"en": SENTENCES[:most], "de": SENTENCES[:most]},
        tokenizer=encoder[1],
    )
    description = measure("embeddings", sentences=2)(encoder[0], inputs)
    # the same two sentences at a distance d: to the other of its own d, to the other language
    # (0 + d) / 2, so (d/2 - d) / d
    assert description["silhouette"] == pytest.approx(-0.5, abs=1e-4)
    assert description["centroids"]["distances"][0][1] == pytest.approx(0, abs=1e-6)


def test_what_has_no_first_token_or_no_sentences(encoder):
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=20,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        pad_token_id=0,
        forced_eos_token_id=0,
        decoder_start_token_id=0,
    )
    with pytest.raises(UnsupportedModel, match="first token"):
        vectors(MarianMTModel(config), None, SENTENCES)
    with pytest.raises(DataError):
        vectors(*encoder, [])
    with pytest.raises(DataError, match="too few for a map"):
        on_map(np.zeros((3, 2)))


def test_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[measures\]"):
        on_map(np.zeros((9, 2)))
