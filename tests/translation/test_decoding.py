"""Decoding: greedy is transformers' own, beam search finds what trying everything finds, and no sentence depends on another."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from deadhead.tasks import batches
from deadhead.training import decoding
from deadhead.training.decoding import FURTHER, BeamSearch, Marks, decode, greedy, norm
from deadhead.training.evaluation import predict

PIECES, END = 4, 0


def beam(decoder, marks: Marks, limits: Tensor, beams: int) -> Tensor:
    return BeamSearch(decoder, marks, limits, beams).run()


class Fake:
    """A decoder whose logits are a hash of the sentence and of all tokens so far; it counts its rows."""

    def __init__(self, sentences: Sequence[int], patience: float = 0.0):
        self.mask, self.patience = torch.ones(len(sentences), 1), patience
        self.prefixes: list[tuple[int, ...]] = [(number,) for number in sentences]
        self.rows: list[int] = []

    def __call__(self, tokens: Tensor) -> Tensor:
        self.prefixes = [
            (*prefix, token) for prefix, token in zip(self.prefixes, tokens.tolist(), strict=True)
        ]
        self.rows.append(len(self.prefixes))
        return torch.stack([self.logits(prefix) for prefix in self.prefixes])

    def logits(self, prefix: tuple[int, ...]) -> Tensor:
        seed = int(hashlib.sha256(repr(prefix).encode()).hexdigest()[:8], 16)
        built = 2 * torch.randn(PIECES, generator=torch.Generator().manual_seed(seed))
        built[END] -= self.patience
        return built

    def pick(self, rows: Tensor, sources: bool):
        before = [prefix[0] for prefix in self.prefixes]
        self.prefixes = [self.prefixes[i] for i in rows.tolist()]
        assert sources or before == [prefix[0] for prefix in self.prefixes]


MARKS = Marks(start=9, ends=(END,))


def best_of_all(sentence: int, limit: int) -> tuple[int, ...]:
    """Every translation tried, of at most N tokens, the end included."""
    fake, result = Fake([sentence], 1.5), {}
    for size in range(limit):
        for words in itertools.product(range(1, PIECES), repeat=size):
            total, prefix = 0.0, (sentence, 9)
            for token in (*words, END):
                total += float(fake.logits(prefix).log_softmax(-1)[token])
                prefix = (*prefix, token)
            result[words] = total / norm(size + 1)
    return max(result, key=result.__getitem__)


def test_beam_finds_what_trying_everything_finds():
    sentences, limits = list(range(12)), torch.tensor([1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 5])
    result = beam(Fake(sentences, 1.5), MARKS, limits, 90)
    expected = [best_of_all(n, int(limit)) for n, limit in zip(sentences, limits, strict=True)]
    assert [words(row) for row in result] == expected
    assert len({len(first) for first in expected}) > 2
    narrow = beam(Fake(sentences, 1.5), MARKS, limits, 1)
    assert [
        words(row) for row in narrow
    ] != expected  # the twin: a search that is too narrow misses some


def words(row: Tensor) -> tuple[int, ...]:
    tokens = row.tolist()
    return tuple(tokens[: tokens.index(END)] if END in tokens else tokens)


@pytest.mark.parametrize(
    "search", [greedy, lambda decoder, marks, limits: beam(decoder, marks, limits, 3)]
)
def test_alone_or_among_others(search):
    sentences, limits = list(range(20)), torch.arange(20) % 7 + 12
    fake = Fake(sentences, patience=2.0)
    together = [words(row) for row in search(fake, MARKS, limits)]
    alone = [words(search(Fake([n], patience=2.0), MARKS, limits[n : n + 1])[0]) for n in sentences]
    assert together == alone
    assert len(set(together)) > 10
    assert fake.rows[-1] < max(fake.rows)  # those that were done had left


@pytest.mark.parametrize("beams", [1, 3])
def test_every_sentence_ends_at_its_own_limit(beams):
    limits = torch.tensor([3, 9, 6])
    fake = Fake([0, 1, 2], patience=50.0)
    result = greedy(fake, MARKS, limits) if beams == 1 else beam(fake, MARKS, limits, beams)
    assert [len(words(row)) for row in result] == [2, 8, 5]  # and the end


def test_what_may_not_come_and_what_must():
    plain = greedy(Fake(range(8)), MARKS, torch.full((8,), 6))
    assert (plain == 2).any()
    for result in (
        greedy(Fake(range(8)), Marks(9, (END,), banned=(2,), first=3), torch.full((8,), 6)),
        beam(Fake(range(8)), Marks(9, (END,), banned=(2,), first=3), torch.full((8,), 6), 3),
    ):
        assert not (result == 2).any()
        assert (result[:, 0] == 3).all()


def test_greedy_is_that_of_transformers(model, toy):
    batch = batches(toy(16, seed=3))[0]
    marks = Marks.of(model)
    assert marks == Marks(start=1, ends=(1,))
    ours = decode(model, batch["input_ids"], batch["attention_mask"], marks, 1)
    theirs = model.generate(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        num_beams=1,
        max_new_tokens=60,
    )[:, 1:]
    result, expected = [words_of(row) for row in ours], [words_of(row) for row in theirs]
    assert all(first == other[: len(first)] for first, other in zip(result, expected, strict=True))
    assert (
        sum(first == other for first, other in zip(result, expected, strict=True)) > 12
    )  # others went on beyond their limit


def test_beam_finds_no_worse_than_transformers(model, toy, monkeypatch):
    """Theirs lets a translation end only where that is among the best four, ours among the best eight."""
    monkeypatch.setattr(decoding, "PENALTY", 0.0)  # their norm of length is another one
    batch, marks = batches(toy(16, seed=3))[0], Marks.of(model)
    assert marks is not None
    arguments = {name: batch[name] for name in ("input_ids", "attention_mask")}
    ours = decode(model, arguments["input_ids"], arguments["attention_mask"], marks, 4)
    theirs = model.generate(**arguments, num_beams=4, length_penalty=0.0, max_new_tokens=40)[:, 1:]
    result, expected = likelihood(model, arguments, ours), likelihood(model, arguments, theirs)
    assert (result > expected - 1e-4).all()
    assert ((result - expected).abs() < 1e-4).sum() >= 5
    alone = decode(model, arguments["input_ids"], arguments["attention_mask"], marks, 1)
    assert (
        result > likelihood(model, arguments, alone) + 1e-4
    ).sum() > 3  # the twin: searching finds better ones


@torch.no_grad()
def likelihood(model, arguments: dict[str, Tensor], tokens: Tensor) -> Tensor:
    """Of each translation up to its end, all of it given at once."""
    ended = (tokens == 1).cumsum(1)
    counts = (ended - (tokens == 1).long()) == 0
    before = torch.cat([torch.ones_like(tokens[:, :1]), tokens[:, :-1]], 1)
    sure = (
        model(**arguments, decoder_input_ids=before)
        .logits.log_softmax(-1)
        .gather(2, tokens[:, :, None])[:, :, 0]
    )
    return (sure * counts).sum(1)


def words_of(row: Tensor) -> list[int]:
    tokens = row.tolist()
    return list(itertools.takewhile(lambda token: token not in (0, 1), tokens))


@pytest.mark.parametrize("beams", [1, 4])
def test_translations_do_not_depend_on_the_batch(beams, model, tokenizer, toy):
    data = toy(30, seed=7)
    together = predict(model, data, tokenizer=tokenizer, beams=beams).texts
    assert together == predict(model, data, tokenizer=tokenizer, beams=beams, tokens=1).texts
    assert len(set(together)) > 5
    longest = max(len(tokenizer(text)["input_ids"]) for text in together)
    assert longest <= int(data.arrays["lengths"].max()) + FURTHER


def test_what_only_transformers_does_is_left_to_it(model, tokenizer, toy, monkeypatch):
    data = toy(8, seed=7)
    before = predict(model, data, tokenizer=tokenizer).texts
    model.generation_config.no_repeat_ngram_size = 1
    assert Marks.of(model) is None
    after = predict(model, data, tokenizer=tokenizer).texts
    assert after != before
    model.generation_config.no_repeat_ngram_size, model.generation_config.bad_words_ids = (
        None,
        [[5], [7]],
    )
    result = Marks.of(model)
    assert result is not None
    assert set(result.banned) == {5, 7}


def test_the_norm_of_length_is_the_papers():
    assert norm(1) == 1
    assert norm(13) == pytest.approx(3**0.6)
    assert float(norm(torch.tensor([13]))[0]) == pytest.approx(math.pow(3, 0.6))
