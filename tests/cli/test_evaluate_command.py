"""`deadhead evaluate`: numbers in points, with their uncertainty."""

import json
import sys
from pathlib import Path

import pytest
from command_line import output_of

sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
import small_tasks

from deadhead import save
from deadhead.training import Settings, finetune
from deadhead.training.evaluation import predict


def message(*words):
    return output_of(*words).stdout


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    """A model that says something, with a task led by another BLEU than the usual."""
    home, model = tmp_path_factory.mktemp("translator"), small_tasks.marian()
    data = small_tasks.translate(home / "cache")
    finetune(model, data, Settings(batch=8, rate=5e-3, epochs=6), progress=False)
    save(model, home / "model", small_tasks.tokenizer())
    texts = predict(
        model, data, tokenizer=small_tasks.tokenizer()
    ).texts  # what it says is right, in two of three sentences
    expected = ["the dog runs" if i % 3 == 0 else text for i, text in enumerate(texts)]
    (home / "dev.en").write_text("".join(row.texts[0] + "\n" for row in data.data.rows))
    (home / "dev.de").write_text("".join(text + "\n" for text in expected))
    (home / "mine.yaml").write_text(
        "kind: translate\nmetrics: [bleu_13a, bleu]\nfiles: {dev: dev.en|dev.de}\n"
    )
    return home


def test_every_bleu_is_printed_in_points(translator):
    task = ("--task", translator / "mine.yaml", "--lang", "en-de", "--device", "cpu")
    arguments = (translator / "model", *task)
    (scores,) = json.loads(message("evaluate", *arguments, "--json"))["scores"].values()
    assert 5 < scores["en-de"]["bleu_13a"] < 100
    table = message("evaluate", *arguments)
    assert f" {scores['en-de']['bleu_13a']:.2f} " in table
    assert "tok:13a" in table


LETTERS = """
kind: tag
labels: [A, B, C]
metrics: [accuracy, macro_f1]
languages: [en, de]
files: {dev: '{lang}.tsv'}
"""


@pytest.fixture(scope="module")
def taggers(tmp_path_factory):
    """Two taggers of the same letters, of which one has learnt more, and the data."""
    home = tmp_path_factory.mktemp("taggers")
    data = small_tasks.tag(home / "cache", n=60)
    for name, epochs in (("more", 2), ("less", 1)):
        model = small_tasks.tagger(
            id2label=dict(enumerate("ABC")), label2id={label: i for i, label in enumerate("ABC")}
        )
        finetune(model, data, Settings(batch=8, rate=3e-3, epochs=epochs), progress=False)
        save(model, home / name, small_tasks.tokenizer())
    for lang, seed in (("en", 1), ("de", 2)):
        rows = small_tasks.tag(home / "cache", n=50, seed=seed).data.rows
        lines = (
            "".join(f"{word}\t{tag}\n" for word, tag in zip(row.texts, row.labels, strict=True))
            for row in rows
        )
        (home / f"{lang}.tsv").write_text("\n".join(lines))
    (home / "letters.yaml").write_text(LETTERS)
    return home


def arguments(home, *more):
    task = ("--task", home / "letters.yaml", "--lang", "en,de", "--device", "cpu")
    return ("evaluate", home / "less", home / "more", *task, *more)


def test_scores_and_differences_carry_their_uncertainty(taggers):
    printed = json.loads(message(*arguments(taggers, "--json")))
    less, more = (str(taggers / name) for name in ("less", "more"))
    for model in (less, more):
        for lang in ("en", "de"):
            interval = printed["intervals"][model][lang]
            assert interval["value"] == printed["scores"][model][lang]["accuracy"]
            assert interval["low"] <= interval["value"] <= interval["high"]
            assert interval["low"] < interval["high"]
    assert list(printed["differences"]) == [more]
    gain = printed["differences"][more]["mean"]
    assert gain["value"] == pytest.approx(
        printed["intervals"][more]["mean"]["value"] - printed["intervals"][less]["mean"]["value"]
    )
    assert 0 < gain["low"] < gain["high"]
    assert gain["p"] < 0.05
    assert (printed["examples"], printed["resamples"], printed["seed"]) == (
        {"en": 50, "de": 50},
        1000,
        0,
    )
    table = message(*arguments(taggers))
    value, low, high = (f"{100 * gain[name]:+.2f}" for name in ("value", "low", "high"))
    assert f"{value} [{low}, {high}], p {gain['p']:.3f}" in table
    assert "1,000 bootstrap samples of sentences (seed 0)" in table


def test_the_same_seed_draws_the_same(taggers):
    one, same, other = (
        json.loads(message(*arguments(taggers, "--json", "--seed", seed)))["intervals"]
        for seed in (1, 1, 2)
    )
    assert one == same != other


def test_fewer_examples_are_less_sure(taggers):
    printed = json.loads(message(*arguments(taggers, "--json", "--max-examples", 25)))
    assert printed["examples"] == {"en": 25, "de": 25}
    whole = json.loads(message(*arguments(taggers, "--json")))
    widths = [
        interval["high"] - interval["low"]
        for interval in (
            facts["intervals"][str(taggers / "less")]["mean"] for facts in (printed, whole)
        )
    ]
    assert widths[0] > widths[1]
