"""Decoding: each sentence alone or among others, with its own limit, greedily or with a beam."""

import pytest
import torch

from deadhead.training.evaluation import predict
from deadhead.training.inference import FURTHER, _Limits

END = 1


@pytest.mark.parametrize("beams", [1, 4])
def test_translations_do_not_depend_on_the_batch(beams, model, tokenizer, toy):
    data = toy(30, seed=7)
    together = predict(model, data, tokenizer=tokenizer, beams=beams).texts
    assert together == predict(model, data, tokenizer=tokenizer, beams=beams, tokens=1).texts
    assert len(set(together)) > 5
    longest = max(len(tokenizer(text)["input_ids"]) for text in together)
    assert longest <= int(data.arrays["lengths"].max()) + FURTHER


def test_a_beam_gives_other_translations(model, tokenizer, toy):
    data = toy(30, seed=7)
    assert predict(model, data, tokenizer=tokenizer, beams=4) != predict(
        model, data, tokenizer=tokenizer, beams=1
    )


def test_every_sentence_ends_at_its_own_limit(model):
    limits = _Limits(model, torch.tensor([3, 9]))
    scores = torch.zeros(4, 5)  # two beams for each sentence
    for length, ended in ((2, [False, False]), (3, [True, False]), (9, [True, True])):
        allowed = limits(torch.zeros(4, length), scores) > -torch.inf
        assert (allowed.sum(1) == 1).tolist() == [end for end in ended for _ in range(2)]
        assert allowed[:, END].all()
