"""Language models on plain text: perplexities by hand, in any batches, and training."""

import copy
import math

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertLMHeadModel

import tiny_decoders
from deadhead import rank, shrink
from deadhead.errors import DataError
from deadhead.forward import token_limit
from deadhead.rankers.loss import example_losses
from deadhead.tasks import batches, encode, load_data, task_of
from deadhead.training import Settings, finetune
from deadhead.training.evaluation import evaluate
from deadhead.training.history import Epoch, History
from deadhead.training.models import fits_task, window_length

DECODERS = {"gpt2": (tiny_decoders.gpt2, False), "llama": (tiny_decoders.llama, True)}


@pytest.fixture(scope="module")
def encoded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    (folder / "text.txt").write_text(tiny_decoders.TEXT * 4 + "one more\n")
    data = load_data("lm", root=folder / "text.txt")
    return {
        name: encode(data, tiny_decoders.tokenizer(bos), max_length=20, cache=folder)
        for name, (_, bos) in DECODERS.items()
    }


def _by_hand(model, encoded):
    """The loss, the tokens and the right ones, a window at a time, without padding or mask."""
    loss, tokens, right = 0.0, 0, 0
    for number in range(len(encoded)):
        ids = torch.tensor(
            encoded.arrays["ids"][encoded.starts[number] : encoded.starts[number + 1]]
        )
        with torch.no_grad():
            scores = model(ids[None].long()).logits[0, :-1].log_softmax(-1)
        target = ids[1:].long()
        loss -= float(scores[torch.arange(len(target)), target].sum())
        right += int((scores.argmax(-1) == target).sum())
        tokens += len(target)
    return loss, tokens, right


@pytest.mark.parametrize("name", DECODERS)
def test_perplexities_are_those_by_hand_in_any_batches(name, encoded):
    model, data = DECODERS[name][0](), encoded[name]
    loss, tokens, right = _by_hand(model, data)
    text = data.data.rows[0].texts[0]
    words, size = sum(data.arrays["word_counts"]), sum(data.arrays["byte_counts"])
    if name == "llama":  # its special token is the first of each window, so all of the text counts
        assert (words, size) == (len(text.split()), len(text.encode()))
    expected = {
        "perplexity": math.exp(loss / tokens),
        "word_perplexity": math.exp(loss / words),
        "byte_perplexity": math.exp(loss / size),
        "next_token_accuracy": right / tokens,
    }
    assert len({*np.asarray(data.arrays["lengths"])}) > 1  # the last window is shorter
    for budget in (1, 45, 10_000):  # one by one, a few, all at once
        values = evaluate(model, {"text": data}, tokens=budget, progress=False)["text"]
        assert values == pytest.approx(expected, rel=1e-10)
    assert expected["perplexity"] > 100  # the weights are random, so it knows nothing


@pytest.mark.parametrize("name", DECODERS)
def test_left_and_right_padding_give_the_same_numbers(name, encoded):
    model, data = DECODERS[name][0](), encoded[name]
    (right,) = batches(data, size=1000)
    lengths = right["attention_mask"].sum(1).tolist()
    width = right["input_ids"].shape[1]
    left = {n: t.clone() for n, t in right.items()}
    for n, tensor in left.items():
        for row, length in enumerate(lengths):
            tensor[row] = right[n][row].roll(width - length)
    assert (left["attention_mask"][:, 0] == 0).any()
    losses = [example_losses(model, batch) for batch in (left, right)]
    torch.testing.assert_close(*losses)
    with torch.no_grad():  # without the care for it the numbers would differ
        raw = model(**left).loss, model(**right).loss
    if name == "gpt2":
        assert float((raw[0] - raw[1]).abs()) > 1e-4
    for method in ("gradient", "taylor"):
        rankings = [rank(model, [batch], method, progress=False) for batch in (left, right)]
        assert dict(rankings[0].scores) == pytest.approx(dict(rankings[1].scores), rel=1e-8)
    reports = [
        shrink(copy.deepcopy(model), [batch], heads=2, progress=False) for batch in (left, right)
    ]
    assert reports[0].losses == pytest.approx(reports[1].losses, rel=1e-6)
    assert reports[0].losses["cut"] != reports[0].losses["whole"]


def test_training_lowers_the_perplexity(encoded):
    model, data = tiny_decoders.gpt2().float(), encoded["gpt2"]
    before = evaluate(model, {"text": data}, progress=False)["text"]
    settings = Settings(epochs=3, rate=0.01, batch=4)
    history = finetune(model, data, settings, dev=data, progress=False)
    assert (history.state, history.metric, history.best) == ("done", "perplexity", 3)
    values = [epoch.scores["perplexity"] for epoch in history.epochs]
    assert before["perplexity"] > values[0] > values[1] > values[2]
    assert evaluate(model, {"text": data}, progress=False)["text"]["perplexity"] == pytest.approx(
        values[2]
    )


def test_the_first_update_has_the_causal_loss(encoded):
    model, data = tiny_decoders.llama().float(), encoded["llama"]
    loss, tokens, _ = _by_hand(model, data)
    history = finetune(
        model, data, Settings(epochs=1, rate=1e-4, batch=1000), graphs=False, progress=False
    )
    assert history.losses[0] == pytest.approx(loss / tokens, rel=1e-5)


def test_the_best_epoch_has_the_lowest_perplexity():
    history = History(settings=Settings())
    for number, value in enumerate((40.0, 30.0, 35.0, float("nan")), 1):
        epoch = Epoch(number=number, loss=1.0, updates=1, examples=1, scores={"perplexity": value})
        assert history.take(epoch) is (number < 3)
    assert history.best == 2
    other = History(settings=Settings())
    for number, value in enumerate((0.4, 0.3), 1):
        other.take(
            Epoch(number=number, loss=1.0, updates=1, examples=1, scores={"accuracy": value})
        )
    assert other.best == 1


def _bert(cls, **options):
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(vocab_size=300, intermediate_size=16, **size, **options)
    return cls(config)


def test_only_a_model_that_reads_no_later_token_fits(encoded):
    task, data = task_of("lm"), encoded["gpt2"]
    for model in (_bert(BertForMaskedLM), _bert(BertLMHeadModel), tiny_decoders.gpt2().transformer):
        assert not fits_task(model, task)
        with pytest.raises(DataError, match="does not predict the next token"):
            evaluate(model, {"text": data}, progress=False)
    decoder = _bert(BertLMHeadModel, is_decoder=True).double().eval()
    assert fits_task(decoder, task)
    loss, tokens, _ = _by_hand(decoder, data)
    values = evaluate(decoder, {"text": data}, progress=False)["text"]
    assert values["perplexity"] == pytest.approx(math.exp(loss / tokens), rel=1e-10)


def test_what_does_not_fit_the_model(encoded):
    data = encoded["gpt2"]
    with pytest.raises(DataError, match="windows of 20 positions and the model has 16"):
        evaluate(tiny_decoders.gpt2(positions=16), {"text": data}, progress=False)
    with pytest.raises(DataError, match=r"sub-word [0-9]+ and the model knows 50"):
        evaluate(tiny_decoders.gpt2(vocabulary=50), {"text": data}, progress=False)
    with pytest.raises(DataError, match=r"sub-word [0-9]+ and the model knows 50"):
        finetune(tiny_decoders.llama(vocabulary=50), data, progress=False)


def test_the_default_window_fits_the_model(tmp_path):
    task = task_of("lm")
    assert token_limit(tiny_decoders.llama(48)) == 48
    assert window_length(tiny_decoders.gpt2(48), task, None) == 48
    assert window_length(tiny_decoders.gpt2(2048), task, None) == 512
    assert window_length(tiny_decoders.gpt2(48), task, 30) == 30
    assert window_length(tiny_decoders.gpt2(48), task_of("pos"), None) == 256
