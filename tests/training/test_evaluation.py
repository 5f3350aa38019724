"""Evaluation: predictions do not depend on the batch, are kept and scored again, and translate."""

import json
import warnings

import numpy as np
import pytest
import torch
from small_tasks import TAGGING, Task, bert, classify, marian, tag, tagger, tokenizer, translate

from deadhead.errors import DataError, FolderError
from deadhead.tasks import Row, batches, dataset, encode, score
from deadhead.tasks.predictions import Predictions
from deadhead.training import Settings, finetune
from deadhead.training.evaluation import evaluate, predict
from predicted_rows import collect


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def by_hand(model, encoded):
    """One window at a time."""
    built = batches(encoded, size=1)
    model.eval()
    with torch.no_grad():
        return collect(built, [model(**batch).logits.argmax(-1) for batch in built])


@pytest.mark.parametrize("tokens", [None, 30, 1])
def test_predictions_are_those_of_each_window_alone(tokens, cache):
    for model, data in ((bert(), classify(cache)), (tagger(), tag(cache, max_length=8))):
        actual = predict(model.train(), data, tokens=tokens)
        assert actual.named() == by_hand(model, data)
        assert len({str(first) for first in actual.named()}) > 1
    assert data.notes["sentences split"] > 3  # windows were put together again


def test_predict_leaves_the_model_as_it_was(cache):
    model = tagger().train()
    predict(model, tag(cache))
    assert model.training
    assert all(p.grad is None and not p.is_inference() for p in model.parameters())


def test_words_cut_off_get_the_first_label(cache):
    data = tag(cache, max_length=6, long="cut")
    assert data.notes["words cut off"] > 3
    assert predict(tagger(), data).named() == by_hand(tagger(), data)


def test_many_languages_with_one_model_and_again_from_what_was_kept(cache, tmp_path):
    model = tagger()
    train = tag(cache, n=60)
    finetune(model, train, Settings(batch=8, rate=1e-2, epochs=4), progress=False)
    sets = {name: tag(cache, n=12, seed=seed) for name, seed in (("de", 1), ("ar", 2))}
    actual = evaluate(model, sets, folder=tmp_path)
    assert set(actual) == {"de", "ar"}
    assert actual["de"]["accuracy"] > 0.8
    assert actual["de"] == score(TAGGING, by_hand(model, sets["de"]), sets["de"].data)
    kept = {name: Predictions.load(tmp_path / f"{name}.npz") for name in sets}
    assert {name: kept[name].score(encoded.data) for name, encoded in sets.items()} == actual
    other = Task(
        name="other", kind="tag", metrics=("chunk_f1",), languages=("en",), labels=("A", "B", "C")
    )
    assert kept["de"].score(sets["de"].data, other).keys() == {"chunk_f1"}
    with pytest.raises(DataError, match="not of this"):
        kept["de"].score(sets["ar"].data)


def test_kept_predictions_are_small_and_whole(cache, tmp_path):
    data = tag(cache, n=400)
    built = predict(tagger(), data)
    path = built.save(tmp_path / "deep" / "en.npz")
    assert path.stat().st_size < len(built.numbers)
    back = Predictions.load(path)
    assert back.named() == built.named()
    assert (back.labels, back.task, back.fingerprint) == (
        built.labels,
        built.task,
        built.fingerprint,
    )
    assert [f.name for f in path.parent.iterdir()] == ["en.npz"]
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="holds no predictions"):
        Predictions.load(path)


def test_out_of_memory_halves_the_batch(cache, monkeypatch):
    model, data = tagger(), tag(cache)
    expected = predict(model, data)
    forward, seen = model.bert.encoder.forward, []

    def tight(hidden, *args, **kwargs):
        seen.append(len(hidden))
        if len(hidden) > 6:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(hidden, *args, **kwargs)

    monkeypatch.setattr(model.bert.encoder, "forward", tight)
    assert np.array_equal(predict(model, data).numbers, expected.numbers)
    assert seen[:4] == [40, 20, 10, 5]
    assert max(seen[3:]) == 5


def test_unknown_labels_count_as_wrong_and_are_reported(cache):
    rows = [Row(("the", "fox"), ("A", "Z")), Row(("dog",), ("A",))]
    data = dataset(
        Task(name="small", kind="tag", metrics=("accuracy",), languages=("en",)), "xx", "test", rows
    )
    encoded = encode(data, tokenizer(), labels=("A", "B", "C"), cache=cache)
    with pytest.warns(
        UserWarning, match="xx has labels that the model does not know, which count as wrong: Z"
    ):
        actual = evaluate(tagger(), {"xx": encoded})
    assert actual["xx"]["accuracy"] <= 2 / 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(tagger(), {"en": tag(cache)})


def test_bad_input_is_refused_before_anything_is_run(cache, monkeypatch):
    model, data = tagger(), tag(cache)
    monkeypatch.setattr(model, "forward", None)
    with pytest.raises(DataError, match="nothing to score"):
        evaluate(model, {})
    with pytest.raises(DataError, match="the model has 3 labels and the fr data has 2"):
        evaluate(model, {"en": data, "fr": tag(cache, labels=("A", "B"))})
    with pytest.raises(DataError, match="tokenizer"):
        predict(marian(), translate(cache))
    with pytest.raises(DataError, match="`beams` expects 1 or more, got 0"):
        predict(marian(), translate(cache), tokenizer=tokenizer(), beams=0)
    with pytest.raises(DataError, match="the en data is a Dataset, not sub-words"):
        evaluate(model, {"en": data.data})
    (cache / "taken").write_text("")
    with pytest.raises(FolderError, match="taken cannot be written"):
        evaluate(model, {"en": data}, folder=cache / "taken")


def test_translations_are_scored_and_stored(cache, tmp_path):
    model, data, words = marian(), translate(cache), tokenizer()
    sets = {"en-en": data}
    actual = evaluate(model, sets, tokenizer=words, beams=1, folder=tmp_path)["en-en"]
    texts = predict(model, data, tokenizer=words, beams=1).texts
    assert actual == score(data.data.task, texts, data.data)
    assert "tok:intl" in actual.signature
    assert actual.signature in repr(actual)
    assert json.loads((tmp_path / "en-en.json").read_text()) == {
        "metrics": dict(actual),
        "signature": actual.signature,
    }
