"""`deadhead finetune` and `evaluate` do what the library does, and refuse mistakes."""

import json

import pytest
import torch
from command_line import output_of
from reviews import ENCODER, learn
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
)
from typer.testing import CliRunner

from deadhead import discover, load, prune, save
from deadhead.cli import app
from deadhead.errors import DataError, DeadheadError, UnknownName
from deadhead.heads.save import FolderError
from deadhead.tasks import encode, load_data
from deadhead.training import Settings, finetune
from deadhead.training.evaluation import evaluate


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tagger with a random classifier, whole and cut in half: different numbers."""
    home, tokenizer = tmp_path_factory.mktemp("models"), AutoTokenizer.from_pretrained(ENCODER)
    names = dict(enumerate(load_data("pos", "en", "dev", root="world").labels))
    model = AutoModelForTokenClassification.from_pretrained(
        ENCODER, id2label=names, label2id={name: i for i, name in names.items()}
    )
    save(model, home / "whole", tokenizer)
    save(
        prune(model, [f"encoder.{layer}.{head}" for layer in range(5) for head in range(4)]),
        home / "half",
        tokenizer,
    )
    return home


def evaluated(*arguments):
    words = ("--data", "world", "--device", "cpu", "--resamples", 50)
    return output_of("evaluate", *arguments, *words).stdout


def test_it_gives_the_numbers_of_the_library(folder):
    printed = json.loads(
        evaluated(folder / "whole", folder / "half", "--task", "pos", "--lang", "en,de", "--json")
    )
    assert (printed["task"], printed["split"], printed["metric"]) == ("pos", "dev", "micro_f1")
    tokenizer = AutoTokenizer.from_pretrained(ENCODER)
    sets = {
        lang: encode(load_data("pos", lang, "dev", root="world"), tokenizer, max_length=256)
        for lang in ("en", "de")
    }
    whole = AutoModelForTokenClassification.from_pretrained(folder / "whole")
    assert printed["scores"][str(folder / "whole")] == evaluate(whole, sets)
    assert printed["scores"][str(folder / "whole")] != printed["scores"][str(folder / "half")]


def test_mistakes(folder):
    with pytest.raises(DataError, match="are not the labels of slots"):
        evaluated(folder / "whole", "--task", "slots", "--lang", "en")
    for wrong in (["--lang", "en"], ["--task", "pos", "--lang", ","]):
        assert CliRunner().invoke(app, ["evaluate", "nowhere", *wrong]).exit_code == 2


def test_a_pruned_model_learns_what_it_learns_in_python(reviews, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(ENCODER)
    missing = [f"encoder.{layer}.{head}" for layer in (0, 2) for head in range(8)]
    start = save(prune(load(ENCODER), missing), tmp_path / "start", tokenizer)
    table = learn(reviews, tmp_path / "out", model=start).stdout
    torch.manual_seed(3)
    names = {"id2label": {0: "good", 1: "bad"}, "label2id": {"good": 0, "bad": 1}}
    model = load(start, auto=AutoModelForSequenceClassification, dtype=torch.float32, **names)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    history = finetune(
        model,
        encode(load_data(str(reviews), "en", "train"), tokenizer),
        Settings(epochs=3, rate=1e-3, batch=4, seed=3),
    )
    built = load(tmp_path / "out")
    assert [str(head) for head in discover(built).removed] == missing
    assert built.config.id2label == names["id2label"]
    assert all(
        torch.equal(weight, built.state_dict()[name]) for name, weight in model.state_dict().items()
    )
    assert any(
        not torch.equal(weight, before[name]) for name, weight in model.state_dict().items()
    )  # it did learn
    losses = ", ".join(f"{epoch.loss:.3f}" for epoch in history.epochs)
    assert f"12 examples, 3 epochs, mean loss {losses}; " in table
    words = ("--task", reviews, "--lang", "en", "--json", "--device", "cpu")
    again = json.loads(output_of("evaluate", tmp_path / "out", *words).stdout)
    assert set(again["scores"][str(tmp_path / "out")]["en"]) == {"accuracy", "macro_f1"}


def test_a_model_that_knows_the_labels_keeps_its_order(reviews, tmp_path):
    names = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}
    known = save(
        load(ENCODER, auto=AutoModelForSequenceClassification, **names),
        tmp_path / "known",
        AutoTokenizer.from_pretrained(ENCODER),
    )
    # so little that the classifier stays as it was
    learn(reviews, tmp_path / "out", "--epochs", 1, "--learning-rate", 1e-12, model=known)
    before, after = load(known), load(tmp_path / "out")
    assert after.config.id2label == names["id2label"]
    assert torch.allclose(after.classifier.weight, before.classifier.weight.float(), atol=1e-6)


def test_what_finetune_refuses(folder, reviews, tmp_path):
    with pytest.raises(DeadheadError, match="is MODEL itself"):
        learn(reviews, folder / "whole", model=folder / "whole")
    with pytest.raises(DeadheadError, match="is not empty"):
        learn(reviews, folder / "half", model=folder / "whole")
    with pytest.raises(UnknownName, match="Did you mean 'precision'"):
        learn(reviews, tmp_path / "x", "--option", "precison=bf16")
    with pytest.raises(DeadheadError, match="the training failed"):
        learn(reviews, tmp_path / "x", "--learning-rate", 1e30, "--epochs", 2)
    three = reviews.with_name("three.yaml")
    three.write_text(
        reviews.read_text().replace("labels: [good, bad]", "labels: [good, bad, ugly]")
    )
    two = save(
        load(ENCODER, auto=AutoModelForSequenceClassification),
        tmp_path / "two",
        AutoTokenizer.from_pretrained(ENCODER),
    )
    with pytest.raises(FolderError, match="before it learnt another task"):
        learn(three, tmp_path / "x", model=two)
    assert not (tmp_path / "x").exists()


def test_the_seed_of_a_paper_is_kept_and_no_setting_is_given_twice(reviews, tmp_path):
    more = ("--epochs", 1, "--json", "--force")
    words = ("--task", reviews, "--lang", "en", "--out", tmp_path / "out", "--device", "cpu", *more)
    for preset, seed in (
        ((), 0),
        (("--preset", "contributions"), 42),
        (("--preset", "contributions", "--seed", 5), 5),
    ):
        facts = json.loads(output_of("finetune", ENCODER, *words, *preset).stdout)
        assert facts["settings"]["seed"] == seed
    result = CliRunner().invoke(
        app, ["finetune", *map(str, (ENCODER, *words, "--option", "epochs=2"))]
    )
    assert (result.exit_code, "given twice" in result.output) == (2, True)


def test_a_classifier_that_learnt_other_labels_is_not_renamed(reviews, tmp_path):
    names = {"id2label": {0: "cat", 1: "dog"}, "label2id": {"cat": 0, "dog": 1}}
    other = load(ENCODER, auto=AutoModelForSequenceClassification, **names)
    known = save(other, tmp_path / "known", AutoTokenizer.from_pretrained(ENCODER))
    with pytest.raises(
        DataError, match=r"(?s)trained with other labels \(cat, dog\).*before it was fine-tuned"
    ):
        learn(reviews, tmp_path / "out", model=known)


def test_a_decoder_that_has_no_padding_learns_and_is_scored(reviews, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(ENCODER)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=len(tokenizer), n_layer=1, n_head=2, n_embd=8, n_positions=64)
    )
    assert model.config.pad_token_id is None
    start = save(model, tmp_path / "start", tokenizer)
    learn(reviews, tmp_path / "out", model=start)
    assert load(tmp_path / "out").config.pad_token_id == tokenizer.pad_token_id
    output_of("evaluate", tmp_path / "out", "--task", reviews, "--lang", "en", "--device", "cpu")
