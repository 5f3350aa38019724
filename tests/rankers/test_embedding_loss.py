"""The loss of sentence encoders, by finite differences and by hand, and what shrink says of it."""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from transformers import AutoTokenizer

from deadhead import discover, gated, load, rank, shrink
from deadhead.errors import DataError
from deadhead.forward import token_limit
from deadhead.rankers import embedding_loss, label_free
from deadhead.rankers.embedding_loss import EmbeddingLoss
from deadhead.world import MODELS
from tiny_sentence_encoders import TEXTS, sentence_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return sentence_encoder(tmp_path_factory.mktemp("models") / "encoder")


@pytest.fixture
def model(folder):
    return load(folder, dtype="float64").eval()


def batches_of(folder, texts):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return [
        dict(tokenizer(texts[i : i + 4], padding=True, return_tensors="pt"))
        for i in range(0, len(texts), 4)
    ]


@pytest.fixture(scope="module")
def batches(folder):
    return batches_of(folder, TEXTS)


def embeddings(model, batch, gates=None):
    with torch.no_grad(), gated(model, gates or {}):
        tokens = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    return F.normalize((tokens * mask).sum(1) / mask.sum(1), dim=-1)


def test_ablation_measures_one_minus_the_cosine(model, batches):
    scores = rank(model, batches, "ablation", loss="embedding").scores
    for head in [*discover(model)][::5]:
        less = [
            1 - (embeddings(model, batch) * embeddings(model, batch, {head: 0.0})).sum(1)
            for batch in batches
        ]
        assert scores[head] == pytest.approx(float(torch.cat(less).mean()), rel=1e-6)


def test_gradients_measure_its_curvature(model, batches, monkeypatch):
    """The gradient of a probe is as large as the step that finite differences find."""
    monkeypatch.setattr(label_free, "DRAWS", 300)
    raw = rank(model, batches, "gradient", loss="embedding", unit="per_example").raw
    tokens = sum(int(batch["attention_mask"].sum()) for batch in batches)
    for head in [*discover(model)][::5]:
        steps = [
            (
                embeddings(model, batch, {head: 1 + 1e-4})
                - embeddings(model, batch, {head: 1 - 1e-4})
            )
            for batch in batches
        ]
        size = float(torch.cat(steps).norm(dim=1).sum()) / 2e-4 / tokens
        # a mean of 2,400 draws: five standard errors
        assert raw[head] == pytest.approx(math.sqrt(2 / math.pi) * size, rel=0.08)


def test_one_text_does_not_depend_on_its_batch(model, batches):
    loss = EmbeddingLoss(model)
    together = label_free.with_loss(model, batches[:1], loss, False, 0)[0]
    alone = {name: value[:1] for name, value in batches[0].items()}
    torch.testing.assert_close(together[embedding_loss.TARGET][:1], loss.target(model, alone))


def test_it_is_the_default_of_a_sentence_encoder(model, batches):
    ranking = rank(model, batches)
    assert ranking.options["loss"] == "embedding"
    assert ranking.scores == rank(model, batches, loss="embedding").scores
    with pytest.raises(DataError, match="expects a sentence encoder"):
        rank(load(MODELS / "encoder"), batches, loss="embedding")


def test_shrink_says_how_embeddings_changed(model, folder):
    batches = batches_of(folder, [f"{one} {two}" for one in TEXTS for two in TEXTS[:3]])
    report = shrink(model, batches, heads=0.5, repair="mean")
    change, whole = report.embeddings, load(folder, dtype="float64").eval()
    assert report.loss == "embedding"
    cosines = {
        tuple(ids[mask.bool()].tolist()): float(cosine)
        for batch in batches
        for ids, mask, cosine in zip(
            batch["input_ids"],
            batch["attention_mask"],
            (embeddings(model, batch) * embeddings(whole, batch)).sum(1),
            strict=True,
        )
    }
    assert cosines[change.worst] == pytest.approx(change.lowest, abs=1e-6)
    assert change.lowest <= change.low <= change.mean < 1 - 1e-6
    assert report.losses["refitted"] == pytest.approx(1 - change.mean, abs=1e-6)
    assert -1 <= change.similarity < 1
    assert "similarities correlate" in str(report)
    assert report.to_dict()["embeddings"]["worst"] == change.worst


def test_a_batch_may_have_no_mask(model):
    room = token_limit(model)
    tokens = torch.randint(5, 30, (16, room), generator=torch.Generator().manual_seed(0))
    report = shrink(model, [{"input_ids": tokens}], heads=0.5, repair="mean")
    assert len(report.embeddings.worst) == room


def test_equal_texts_have_no_correlation(model, folder):
    report = shrink(model, batches_of(folder, TEXTS[:1] * 24), heads=0.5, repair="mean")
    assert report.embeddings.similarity is None
    assert "nan" not in json.dumps(report.to_dict()["embeddings"]).lower()
    assert "no correlation" in str(report.embeddings)
