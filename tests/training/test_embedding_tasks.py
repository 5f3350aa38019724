"""Sentence encoders and regression models on pairs and on search: numbers by hand, equal ones."""

import json
import random
import shutil
from itertools import pairwise

import numpy as np
import pytest
import sentence_transformers
import torch
import transformers

from deadhead import rank
from deadhead.display.progress import silent
from deadhead.errors import DataError, DeadheadError
from deadhead.heads import load, save
from deadhead.tasks import Row, batches, dataset
from deadhead.training import evaluate, finetune, predict, preset
from deadhead.training.inference import _nearest, unit_embeddings
from deadhead.training.models import encode_for, fits_task, labels_for, tokenizer_for, window_length
from deadhead.training.update import loss_sum
from deadhead.world import MODELS
from tiny_models import build_class
from tiny_sentence_encoders import TEXTS, bare_encoder, sentence_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return sentence_encoder(tmp_path_factory.mktemp("models") / "encoder", "mean")


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODELS / "encoder")
    sizes = {"vocab_size": len(tokenizer), "pad_token_id": 0, "num_labels": 1}
    model = build_class(transformers.BertForSequenceClassification, **sizes).float()
    model.config.problem_type = "regression"
    return save(model, tmp_path_factory.mktemp("models") / "regression", tokenizer)


def pairs(size=24):
    draw = random.Random(0)
    rows = [Row((*draw.choices(TEXTS, k=2),)) for _ in range(size)]
    scored = [Row(row.texts, (repr(len(row.texts[0].split()) / 2),)) for row in rows]
    return dataset("similarity", "en", "dev", scored)


def search(documents, queries=TEXTS[:3]):
    rows = [Row((text,), (f"q{n}", f"d{n}", "1")) for n, text in enumerate(queries)]
    return dataset("retrieval", "text", "test", rows, documents=documents)


def encoded(folder, data):
    model = load(folder).eval()
    return model, encode_for(model, tokenizer_for(str(folder)), data)


def test_the_number_of_a_pair_is_the_cosine_of_sentence_transformers(encoder):
    data = pairs()
    predictions = predict(*encoded(encoder, data), tokens=64)
    theirs = sentence_transformers.SentenceTransformer(str(encoder), device="cpu")
    sides = [theirs.encode([row.texts[i] for row in data.rows]) for i in (0, 1)]
    expected = theirs.similarity_pairwise(*sides).numpy()
    np.testing.assert_allclose(predictions.values[:, 0], expected, atol=1e-5)
    turned = theirs.similarity_pairwise(sides[0], sides[1][::-1].copy()).numpy()
    assert np.abs(predictions.values[:, 0] - turned).max() > 1e-2


def test_predictions_are_stored(encoder, tmp_path):
    for data in (pairs(), search({f"d{n}": text for n, text in enumerate(TEXTS)})):
        predictions = predict(*encoded(encoder, data))
        again = type(predictions).load(predictions.save(tmp_path / "predictions.npz"))
        assert again.score(data) == predictions.score(data)
        assert again.examples == len(data)
        assert str(again.named()) == str(predictions.named())


def test_the_prompt_and_the_length_of_the_encoder_count(encoder, tmp_path):
    folder = shutil.copytree(encoder, tmp_path / "asking")
    settings = {"prompts": {"query": "The dog "}, "default_prompt_name": "query"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 8}))
    (model, prompted), (_, bare) = encoded(folder, pairs()), encoded(encoder, pairs())
    assert prompted.arrays["lengths"].max() == window_length(model, pairs().task, None) == 8
    assert prompted.notes["texts cut"]
    assert not bare.notes
    assert window_length(model, pairs().task, 7) == 7
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    sides = [theirs.encode([row.texts[i] for row in pairs().rows]) for i in (0, 1)]
    expected = theirs.similarity_pairwise(*sides).numpy()
    ours = predict(model, prompted).values[:, 0]
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    assert np.abs(ours - predict(load(encoder), bare).values[:, 0]).max() > 1e-3


def test_the_nearest_documents_are_those_of_all_pairs(encoder):
    documents = {f"d{n}": f"{a[:-1]} and {b}" for n, (a, b) in enumerate(pairwise(TEXTS))}
    data = search(documents)
    rankings = predict(*encoded(encoder, data)).named()
    theirs = sentence_transformers.SentenceTransformer(str(encoder), device="cpu")
    queries = theirs.encode([row.texts[0] for row in data.rows])
    near = theirs.similarity(queries, theirs.encode([*documents.values()])).numpy()
    for own, similarities in zip(rankings, near, strict=True):
        scores = dict(zip(documents, similarities, strict=True))
        assert own == sorted(scores, key=scores.__getitem__, reverse=True)


def test_queries_and_documents_have_prompts_of_their_own(encoder, tmp_path):
    folder = shutil.copytree(encoder, tmp_path / "prompted")
    prompts = {"query": "The dog : ", "document": "She sings : ", "other": "A house : "}
    settings = {"prompts": prompts, "default_prompt_name": "other"}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))
    data = search({"d0": TEXTS[0], **{f"d{n}": text for n, text in enumerate(TEXTS, start=1)}})
    model, texts = encoded(folder, data)
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    queries = theirs.encode_query([row.texts[0] for row in data.rows])
    documents = theirs.encode_document([*data.documents.values()])
    units = unit_embeddings(model, texts, None, silent).numpy()
    place = {key: number for number, key in enumerate(data.single_texts)}
    ours = units[[place["query", row.texts[0]] for row in data.rows]]
    np.testing.assert_allclose(ours, queries / np.linalg.norm(queries, axis=1)[:, None], atol=1e-5)
    ours = units[[place["document", text] for text in data.documents.values()]]
    lengths = np.linalg.norm(documents, axis=1)[:, None]
    np.testing.assert_allclose(ours, documents / lengths, atol=1e-5)


def test_equal_documents_and_the_query_itself(encoder):
    documents = {"d1": TEXTS[0], "d10": TEXTS[0], "d2": TEXTS[0], "q0": TEXTS[0], "d0": TEXTS[5]}
    rankings = predict(*encoded(encoder, search(documents))).named()
    assert rankings[0] == ["d2", "d10", "d1", "d0"]  # larger ids first, and never itself
    assert set(rankings[1]) == {*documents}


def test_many_equal_documents_at_the_limit():
    similarities = torch.tensor([0.5] * 150 + [0.9, 0.1])
    assert _nearest(similarities) == [150, *range(99)]
    assert _nearest(torch.tensor([0.1, -torch.inf, 0.2])) == [2, 0]


def test_a_regression_scores_the_same_one_by_one(regression):
    data = pairs()
    model, windows = encoded(regression, data)
    assert fits_task(model, data.task)
    together = predict(model, windows).values[:, 0]
    alone = predict(model, windows, tokens=1).values[:, 0]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    tokenizer = tokenizer_for(str(regression))
    with torch.no_grad():
        logits = [
            float(model(**tokenizer(*row.texts, return_tensors="pt")).logits) for row in data.rows
        ]
    np.testing.assert_allclose(together, logits, atol=1e-5)
    assert np.ptp(logits) > 1e-2


def test_the_loss_of_scores_is_that_of_transformers(regression):
    model, windows = encoded(regression, pairs())
    batch = batches(windows, size=len(windows))[0]
    assert batch["labels"].dtype == torch.float32
    theirs = model(**batch).loss
    torch.testing.assert_close(loss_sum(model, batch) / len(windows), theirs)
    batch["labels"][3:] = -100.0  # filler
    few = {name: value[:3] for name, value in batch.items()}
    torch.testing.assert_close(loss_sum(model, batch), 3 * model(**few).loss)


def test_a_regression_learns(regression):
    data = pairs()
    model, windows = encoded(regression, data)
    before = evaluate(model, {"en": windows}, progress=False)["en"]
    settings = preset("weak-link-bert", "sst2", epochs=8, rate=3e-3, batch=8)
    history = finetune(model, windows, settings, dev=windows, progress=False)
    assert history.epochs[-1].loss < history.epochs[0].loss / 2
    assert history.metric == "spearman"
    assert history.epochs[-1].scores["spearman"] > max(0.6, before["spearman"])


def test_the_accuracy_of_scores_is_refused(regression):
    model, windows = encoded(regression, pairs(6))
    data = [*batches(windows, size=4)]
    for method, options in (("shapley", {}), ("ablation", {"measure": "accuracy"})):
        with pytest.raises(DeadheadError, match="needs labels that are classes, got scores"):
            rank(model, data, method, progress=False, **options)
    ranking = rank(model, data, "shapley", measure="loss", permutations=4, progress=False)
    assert len({*ranking.scores.values()}) > 1


def test_models_that_do_not_fit(encoder, regression, tmp_path):
    searched, scored = search({"d0": "x"}), pairs()
    bare = load(bare_encoder(tmp_path / "bare"))
    many = build_class(transformers.BertForSequenceClassification, num_labels=3)
    for model, data, message in (
        (bare, searched, "BertModel does not fit retrieval, which needs a sentence encoder"),
        (load(regression), searched, "which needs a sentence encoder"),
        (bare, scored, "or a regression model"),
        (many, scored, "num_labels=1"),
    ):
        with pytest.raises(DataError, match=message) as error:
            labels_for(model, data)
        if model is bare:
            assert "pooling is unknown" in error.value.hint
    with pytest.raises(DataError, match="retrieval") as error:
        labels_for(many, searched)
    assert "cross-encoder" in error.value.hint
    assert labels_for(load(encoder), searched) is labels_for(load(regression), scored) is None
