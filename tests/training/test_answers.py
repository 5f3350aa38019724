"""Question answering: training, answers by hand, and what is refused."""

import copy
import itertools
import json

import numpy as np
import pytest
import torch
from small_tasks import tokenizer
from transformers import BertConfig, BertForQuestionAnswering, BertForSequenceClassification

from deadhead import gated, load, prune, rank, save
from deadhead.errors import DataError
from deadhead.forward import IGNORED
from deadhead.layout import Head
from deadhead.rankers.loss import example_losses
from deadhead.tasks import Row, batches, dataset, encode
from deadhead.tasks.encoding.feed import Feed, filled
from deadhead.tasks.predictions import Predictions
from deadhead.training import Settings, finetune
from deadhead.training.evaluation import evaluate, predict
from deadhead.training.inference import LONGEST_ANSWER, best_span
from deadhead.training.models import encode_for, labels_for, load_for_task
from deadhead.training.update import loss_sum
from tiny_readers import reader

CONTEXTS = [
    "the quick brown fox jumps over a lazy dog and runs away",
    "a lazy dog runs and jumps over the fox and the fox and the quick brown dog",
    "the fox runs",
]
ANSWERS = {"quick": "brown fox", "lazy": "dog", "fox": "runs"}  # to a question of one word


def rows():
    result = []
    for question, answer in ANSWERS.items():
        for context in CONTEXTS:
            if answer in context:
                number = str(len(result))
                labels = (number, str(context.index(answer)), answer)
                result.append(Row((question, context), labels))
    return result


def encoded(tmp_path, lang="en", **options):
    data = dataset("qa", lang, "dev", rows())
    return encode(data, tokenizer(), cache=tmp_path / "cache", **{"max_length": 12, **options})


def test_the_best_span_is_that_of_all_pairs():
    draw = np.random.default_rng(0)
    for size in (1, 2, 7, 45):
        starts, ends = draw.normal(size=(2, size))
        ends[0] = 3  # often before the best start
        score, start, end = best_span(starts, ends)
        pairs = itertools.combinations_with_replacement(range(size), 2)
        allowed = [(a, b) for a, b in pairs if b - a < LONGEST_ANSWER]
        assert (start, end) == max(allowed, key=lambda p: starts[p[0]] + ends[p[1]])
        assert score == starts[start] + ends[end]
    far = np.full(45, -9.0)
    far[[0, 44]] = 9
    assert best_span(far, far)[1:] == (0, 0)  # from 0 to 44 it would be too long


def by_hand(model, e):
    """The answers: each window alone, all pairs of tokens of the context."""
    best: dict[int, tuple[float, str]] = {}
    for n in range(len(e)):
        place, row = slice(*e.starts[n : n + 2]), int(e.arrays["rows"][n])
        names = {"input_ids": "ids", "token_type_ids": "types"}
        batch = {key: torch.tensor(e.arrays[name][place])[None] for key, name in names.items()}
        with torch.no_grad():
            outputs = model(**{key: value.long() for key, value in batch.items()})
        begins, ends = e.arrays["begins"][place], e.arrays["ends"][place]
        inside = [i for i, begin in enumerate(begins) if begin >= 0]
        for a, b in itertools.combinations_with_replacement(inside, 2):
            score = float(outputs.start_logits[0, a] + outputs.end_logits[0, b])
            if row not in best or score > best[row][0]:
                best[row] = score, e.data.rows[row].texts[1][begins[a] : ends[b]]
    return [best[row][1] for row in range(len(e.data))]


def test_answers_are_those_of_single_windows(tmp_path):
    model, e = reader("bert"), encoded(tmp_path)
    assert len(e) > len(e.data)  # some contexts have several windows
    expected = by_hand(model, e)
    for tokens in (1, 40, None):  # one by one, in some batches, in one
        assert predict(model, e, tokens=tokens).named() == expected
    assert len(set(expected)) > 2
    assert predict(model, encoded(tmp_path, max_length=30)).named() != expected


def test_masked_is_pruned_is_reloaded(tmp_path):
    model, e, closed = (
        reader("bert"),
        encoded(tmp_path),
        {Head("encoder", 0, 1), Head("encoder", 1, 2)},
    )
    whole = predict(model, e).named()
    with gated(model, closed=closed):
        masked = predict(model, e).named()
    assert masked != whole
    small = prune(copy.deepcopy(model), closed)
    save(small, tmp_path / "small")
    for other in (small, load(tmp_path / "small").double()):
        assert predict(other, e).named() == masked


def test_scores_and_the_file_for_the_official_script(tmp_path):
    model, e = reader("bert"), encoded(tmp_path)
    scores = evaluate(model, {"en": e}, folder=tmp_path / "out", progress=False)["en"]
    predictions = Predictions.load(tmp_path / "out" / "en.npz")
    answers = json.loads((tmp_path / "out" / "en.answers.json").read_text(encoding="utf-8"))
    assert answers == {str(i): text for i, text in enumerate(predictions.texts)}
    assert predictions.score(e.data) == scores
    assert [*scores] == ["f1", "exact_match"]
    interval = predictions.bootstrap(e.data)
    assert interval.value == pytest.approx(scores["f1"])
    assert interval.rows == len(e.data)


def test_finetuning_learns_the_answers(tmp_path):
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32,
        vocab_size=20, hidden_dropout_prob=0, attention_probs_dropout_prob=0, initializer_range=0.1,
    )  # fmt: skip
    model, e = BertForQuestionAnswering(config).eval(), encoded(tmp_path)
    before = evaluate(model, {"en": e}, progress=False)["en"]
    settings = Settings(epochs=40, batch=8, rate=1e-2, warmup=0, decay=0.0, seed=0, accumulate=2)
    history = finetune(model, e, settings, progress=False)
    after = evaluate(model, {"en": e}, progress=False)["en"]
    assert before["f1"] < 0.3 < 0.8 < after["f1"]
    assert history.losses[-1] < 0.5 < 2 < history.losses[0]


def test_the_loss_of_training_is_that_of_ranking(tmp_path):
    model, e = reader("bert").float(), encoded(tmp_path)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    (batch,) = batches(e, size=99)
    with torch.no_grad():
        expected = float(example_losses(model, batch).mean())
    history = finetune(model, e, Settings(epochs=1, batch=99, rate=1e-9), progress=False)
    assert history.losses == [pytest.approx(expected, rel=1e-5)]


def test_few_shapes_and_filler_change_no_loss(tmp_path):
    """As on a GPU, where batches are padded to few shapes."""
    model, e = reader("bert"), encoded(tmp_path)
    feed, numbers = Feed(e, "cpu"), np.array([0, 3, 5])
    shape = feed.shape(numbers, few=True)
    assert shape.width > feed.shape(numbers).width
    padded = feed(torch.from_numpy(filled(numbers, 4)), shape._replace(rows=4))
    assert padded["labels"][:3].tolist() == [[5, 6], [7, 7], [0, 0]]
    assert padded["labels"][3].tolist() == [IGNORED] * 2
    tight = feed(torch.from_numpy(numbers), feed.shape(numbers))
    with torch.no_grad():
        difference = loss_sum(model, padded) - loss_sum(model, tight)
    assert abs(float(difference)) < 1e-9


def test_every_kind_of_ranker_takes_the_batches(tmp_path):
    model, data = reader("bert"), batches(encoded(tmp_path), size=4)
    for method in ("gradient", "ablation", "l0", "lrp", "entropy"):
        options = {"steps": 5} if method == "l0" else {}
        scores = rank(model, data, method, progress=False, **options).scores
        assert len({*scores.values()}) > 1


def test_a_classifier_becomes_a_reader_with_two_outputs(tmp_path):
    config = BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        vocab_size=20, num_labels=5,
    )  # fmt: skip
    save(BertForSequenceClassification(config).eval(), tmp_path / "classifier", tokenizer())
    e = encoded(tmp_path)
    with pytest.raises(DataError, match="BertForSequenceClassification does not fit qa") as error:
        labels_for(load(tmp_path / "classifier"), e.data)
    assert "deadhead finetune MODEL --task qa --lang en --out DIR" in str(error.value.hint)
    model = load_for_task(str(tmp_path / "classifier"), e.data.task, None, seed=0)
    assert model.qa_outputs.out_features == 2
    assert len(predict(model, e).named()) == len(e.data)


def test_what_is_refused(tmp_path):
    e = encoded(tmp_path)
    with pytest.raises(DataError, match="'qa', which BartForQuestionAnswering does not do"):
        evaluate(reader("bart"), {"en": e}, progress=False)
    smoothed = Settings(epochs=1, smoothing=0.1)
    with pytest.raises(DataError, match="no labels to smooth"):
        finetune(reader("bert").float(), e, smoothed, progress=False)


def test_windows_are_no_longer_than_the_model_reads(tmp_path, monkeypatch):
    monkeypatch.setenv("DEADHEAD_CACHE", str(tmp_path))
    model = reader("bert")
    model.config.max_position_embeddings = 12
    e = encode_for(model, tokenizer(), dataset("qa", "en", "dev", rows()))
    assert max(e.arrays["lengths"]) == 12
