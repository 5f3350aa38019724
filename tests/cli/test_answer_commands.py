"""Question answering on the command line: finetune, evaluate, rank, shrink and data check."""

import json

import pytest
import torch
from command_line import clean
from transformers import BertConfig, BertForMaskedLM

from deadhead import discover, load, save
from deadhead.ranking import Ranking
from word_tokenizer import word_tokenizer

CONTEXT = "In April the rivers rise, and a parcel was sent. The parcel got lost in April."
ANSWERS = {"the rivers": "What rises?", "a parcel": "What was sent?", "got lost": "The parcel?"}


def squad(name, split):
    questions = [
        {"id": f"{split}{i}", "question": question,
         "answers": [{"text": answer, "answer_start": CONTEXT.index(answer)}]}
        for i, (answer, question) in enumerate(ANSWERS.items())
    ]  # fmt: skip
    paragraphs = [{"context": f"{CONTEXT} {name}", "qas": questions}]
    return json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "squad"
    folder.mkdir()
    for split in ("train", "dev"):
        (folder / f"{split}-v1.1.json").write_text(squad(split, split), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=16,
        vocab_size=20, num_labels=3, initializer_range=0.3,
    )  # fmt: skip
    out = tmp_path_factory.mktemp("models") / "encoder"
    return save(BertForMaskedLM(config).eval(), out, word_tokenizer())


TASK = ("--task", "qa", "--lang", "en", "--device", "cpu")


def test_from_finetune_to_shrink(run_command, encoder, folder, tmp_path):
    reader, small = tmp_path / "reader", tmp_path / "small"
    data = (*TASK, "--data", folder, "--max-length", 16)
    how = ("--epochs", 2, "--learning-rate", 1e-2, "--batch-size", 4, "--json")
    done = run_command("finetune", encoder, *data, *how, "--out", reader)
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    assert printed["metric"] == "f1"
    assert printed["dev"] == {"en": 3}
    assert "train: contexts split: 3" in done.err
    assert type(load(reader)).__name__ == "BertForQuestionAnswering"
    for loss in ((), ("--loss", "self")):
        out = tmp_path / "ranking.json"
        done = run_command("rank", reader, *data, *loss, "--out", out, "--force")
        assert done.code == 0, done.err
        assert len({*Ranking.load(out).scores.values()}) > 1
    done = run_command("shrink", reader, *data, "--remove-heads", 4, "--json", "--out", small)
    assert done.code == 0, done.err
    assert json.loads(done.out)["splits"] == {"en": "dev"}
    assert len(discover(load(small))) == 4
    done = run_command("evaluate", reader, small, *data)
    assert done.code == 0, done.err
    assert "answer F1, dev" in done.out
    assert "bootstrap samples of questions" in done.out
    done = run_command("evaluate", reader, small, *data, "--json")
    scores = json.loads(done.out)["scores"]
    assert [[*values["en"]] for values in scores.values()] == [["f1", "exact_match"]] * 2


def test_lora_trains_the_new_layer(run_command, encoder, folder, tmp_path):
    weights = []
    for rate in (1e-9, 1e-2):
        out = tmp_path / str(rate)
        how = ("--epochs", 1, "--learning-rate", rate, "--lora", 2, "--out", out)
        done = run_command("finetune", encoder, *TASK, "--data", folder, *how)
        assert done.code == 0, done.err
        weights.append(load(out).qa_outputs.weight)
    assert (weights[0] - weights[1]).abs().max() > 1e-3


def test_a_plain_encoder_is_ranked_without_labels(run_command, encoder, folder, tmp_path):
    data = (*TASK, "--data", folder / "dev-v1.1.json", "--out", tmp_path / "ranking.json")
    done = run_command("rank", encoder, *data, "--loss", "self")
    assert done.code == 0, done.err
    assert "3 examples in 3 windows" in done.out


def test_mistakes(run_command, encoder, folder, tmp_path):
    def problem(*words):
        done = run_command(*words)
        assert done.code != 0
        assert clean(done)
        return " ".join((done.err + done.out).split())

    evaluate = ("evaluate", encoder, *TASK, "--data")
    text = problem(*evaluate, folder)
    assert "BertForMaskedLM does not fit qa, which needs a model loaded as AutoModelForQ" in text
    assert "deadhead finetune MODEL --task qa --lang en --out DIR" in text
    assert "--lang" in problem("evaluate", encoder, "--task", "qa", "--data", folder)
    broken = tmp_path / "dev.json"
    broken.write_text(squad("dev", "dev").replace('"answer_start": 9', '"answer_start": 8'))
    text = problem(*evaluate, broken)
    assert "the answer 'the rivers' of question dev0 is not at character 8 of its context" in text
    done = run_command("data", "check", folder.parent, "--task", "qa")
    assert done.code == 0, done.err
    assert "3" in done.out
    broken.rename(folder.parent / "broken.json")
    done = run_command("data", "check", folder.parent, "--task", "qa")
    assert done.code == 1
    assert "is not at character 8" in " ".join((done.err + done.out).split())
