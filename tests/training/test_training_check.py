"""A training that cannot work is refused before it starts; unusual input is noted."""

import dataclasses

import pytest
import torch
from small_tasks import bert, marian, tag, tagger

from deadhead.errors import DataError, UnknownName
from deadhead.training import Settings, SettingsError, finetune

FAST = Settings(batch=8, rate=3e-3, epochs=3)


def trained(model, data, settings=FAST, **options):
    return finetune(model, data, settings, progress=False, **options)


def test_bad_input_is_refused_before_training(foxes, letters, pairs, cache, monkeypatch):
    monkeypatch.setattr("deadhead.training.loop.Run", None)  # nothing starts
    for model, data, printed in (
        (bert(labels=2), foxes, "the model has 2 labels and the training data has 3"),
        (bert(), pairs, "which BertForSequenceClassification does not do"),
        (
            marian(),
            foxes,
            r"(?s)which MarianMTModel does not do.*use an encoder or a decoder model",
        ),
        (tagger(), tag(cache, labels=("X", "Y", "Z")), "no label of the training data"),
    ):
        with pytest.raises(DataError, match=printed):
            trained(model, data)
    wide = tagger()
    wide.config.max_position_embeddings = 8
    with pytest.raises(DataError, match="the model has 8") as caught:
        trained(wide, letters)
    assert "--max-length 8, or encode it with max_length=8" in str(caught.value.hint)
    small = tagger()
    small.set_input_embeddings(torch.nn.Embedding(10, 16))
    with pytest.raises(DataError, match="the model knows 10"):
        trained(small, letters)
    with pytest.raises(DataError, match="pads with token 99999 and the model knows"):
        trained(tagger(), dataclasses.replace(letters, pad=99999))
    with pytest.raises(DataError, match="other labels"):
        trained(tagger(), letters, dev=tag(cache, labels=("C", "B", "A")))
    frozen = tagger().requires_grad_(False)
    with pytest.raises(DataError, match="every weight of the model is frozen"):
        trained(frozen, letters)
    with pytest.raises(UnknownName, match="no device 'gpu'"):
        trained(tagger(), letters, device="gpu")
    with pytest.raises(DataError, match="the training data is a Dataset, not sub-words"):
        trained(bert(), foxes.data)
    with pytest.raises(SettingsError, match="`settings` expects Settings, got a dict"):
        trained(bert(), foxes, {"epochs": 1})


def test_a_score_that_is_no_number_is_refused(foxes):
    for actual in (None, "x", {"f1": None}):
        with pytest.raises(DataError, match="`score` expects a number"):
            trained(bert(), foxes, Settings(epochs=1), score=lambda _, actual=actual: actual)


def test_unusual_input_is_handled_and_noted(foxes):
    history = trained(bert(), foxes, Settings(batch=500, epochs=2))
    assert [e.updates for e in history.epochs] == [1, 1]
    assert (
        "batch 500 is larger than the data: every epoch is one update with all 40 windows"
        in history.notes
    )
    assert not any("warm-up" in note for note in history.notes)
    history = trained(bert(), foxes, Settings(batch=10, epochs=2, rate=1e-3, warmup=16))
    note = (
        "the warm-up of 16 updates is longer than the training (8 updates): "
        "the rate rises to 0.0005 of 0.001"
    )
    assert history.notes == [note]
    assert trained(bert(), foxes, Settings(batch=10, epochs=2, warmup=8)).notes == []
