"""Similarity and retrieval on the command line: evaluate, rank, shrink, finetune, data check."""

import json
import shutil

import pytest
import transformers
from command_line import clean

from deadhead.heads import load, save
from deadhead.ranking import Ranking
from deadhead.world import MODELS
from tiny_models import build_class
from tiny_sentence_encoders import TEXTS, bare_encoder, sentence_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return sentence_encoder(tmp_path_factory.mktemp("models") / "encoder", "mean")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODELS / "encoder")
    sizes = {"vocab_size": len(tokenizer), "pad_token_id": 0, "num_labels": 3}
    model = build_class(transformers.BertForSequenceClassification, **sizes).float()
    return save(model, tmp_path_factory.mktemp("models") / "classifier", tokenizer)


@pytest.fixture
def pairs(tmp_path):
    rows = [(a, b, 5 * (a == b)) for a in TEXTS[:5] for b in TEXTS[:5]]
    text = "sentence1\tsentence2\tscore\n" + "".join(f"{a}\t{b}\t{s}\n" for a, b, s in rows)
    (tmp_path / "pairs").mkdir()
    for split in ("train", "dev"):
        (tmp_path / "pairs" / f"{split}.tsv").write_text(text)
    return tmp_path / "pairs"


@pytest.fixture
def search(tmp_path):
    folder = tmp_path / "search"
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": f"d{n}", "title": "", "text": text} for n, text in enumerate(TEXTS)]
    queries = [{"_id": f"q{n}", "text": text} for n, text in enumerate(TEXTS)]
    for name, rows in (("corpus", documents), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for split in ("train", "test"):
        rows = "".join(f"q{n}\td{n}\t1\n" for n in range(len(TEXTS)))
        (folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    return folder


def test_evaluate_pairs(run_command, encoder, pairs):
    words = ("evaluate", encoder, "--task", "similarity", "--data", pairs)
    done = run_command(*words, "--device", "cpu")
    assert done.code == 0, done.err
    for text in ("Spearman, dev", "Pearson", "bootstrap samples of pairs"):
        assert text in done.out
    printed = json.loads(run_command(*words, "--json").out)
    assert [*printed["scores"][str(encoder)]["en"]] == ["spearman", "pearson"]
    assert printed["intervals"][str(encoder)]["en"]["low"] is not None
    assert printed["examples"] == {"en": 25}


def test_evaluate_search(run_command, encoder, search):
    words = ("evaluate", encoder, "--task", "retrieval", "--data", search, "--split", "test")
    done = run_command(*words)
    assert done.code == 0, done.err
    assert "100.00" in done.out  # each query is the text of its document
    assert "recall@100 100.00, MRR@10 100.00" in done.out
    assert "samples of queries" in done.out
    few = json.loads(run_command(*words, "--max-examples", 2, "--json").out)
    assert few["examples"] == {"text": 2}


def test_shrink_on_a_search_set_without_training_queries(run_command, encoder, search, tmp_path):
    (search / "qrels" / "train.tsv").unlink()
    words = ("shrink", encoder, "--task", "retrieval", "--data", search, "--remove-heads", "50%")
    done = run_command(*words, "--out", tmp_path / "small", "--no-guard", "--json")
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    assert printed["splits"] == {"text": "test"}
    assert printed["facts"]["examples"] == len(TEXTS)  # documents, whose texts queries repeat


@pytest.mark.parametrize("task", ["similarity", "retrieval"])
def test_rank_and_shrink_without_labels(run_command, encoder, pairs, search, task, tmp_path):
    data = ("--task", task, "--data", pairs if task == "similarity" else search)
    done = run_command("rank", encoder, *data, "--split", "train", "--out", tmp_path / "r.json")
    assert done.code == 0, done.err
    ranking = Ranking.load(tmp_path / "r.json")
    assert ranking.options["loss"] == "embedding"
    assert ranking.data["examples"] == len(TEXTS[:5] if task == "similarity" else TEXTS)
    words = ("shrink", encoder, *data, "--remove-heads", "25%", "--out", tmp_path / "small")
    done = run_command(*words, "--json")
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    assert printed["loss"] == "embedding"
    language, split = ("en", "dev") if task == "similarity" else ("text", "test")
    assert printed["splits"] == {language: split}
    metric = "spearman" if task == "similarity" else "ndcg_at_10"
    assert printed["metric"] == metric
    scores = {stage: values[language] for stage, values in printed["scores"].items()}
    scored = run_command("evaluate", encoder, *data, "--split", split, "--json")
    own = json.loads(scored.out)["scores"][str(encoder)][language][metric]
    assert scores["whole"] == pytest.approx(own)
    assert len(scores) == 3


def test_finetune_a_regression_and_use_it(run_command, pairs, tmp_path):
    bare = bare_encoder(tmp_path / "bare")
    words = ("finetune", bare, "--task", "similarity", "--data", pairs, "--epochs", 1)
    done = run_command(*words, "--out", tmp_path / "tuned", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["metric"] == "spearman"
    config = load(tmp_path / "tuned").config
    assert (config.num_labels, config.problem_type) == (1, "regression")
    data = ("--task", "similarity", "--data", pairs)
    done = run_command("evaluate", tmp_path / "tuned", *data, "--json")
    assert done.code == 0, done.err
    for method in ("gradient", "ablation"):
        out = tmp_path / f"{method}.json"
        done = run_command("rank", tmp_path / "tuned", *data, "--method", method, "--out", out)
        assert done.code == 0, done.err
        assert len(set(Ranking.load(out).scores.values())) > 1
    words = ("shrink", tmp_path / "tuned", *data, "--remove-heads", "25%")
    done = run_command(*words, "--out", tmp_path / "small", "--json")
    assert done.code == 0, done.err
    assert {*json.loads(done.out)["scores"]} == {"whole", "cut", "refitted"}


@pytest.mark.parametrize(
    ("command", "model", "task", "message"),
    [
        ("evaluate", "classifier", "retrieval", "does not fit retrieval, which needs a sentence"),
        ("rank", "classifier", "retrieval", "does not fit retrieval, which needs a sentence"),
        ("shrink", "classifier", "retrieval", "does not fit retrieval, which needs a sentence"),
        ("evaluate", "classifier", "similarity", "or a regression model"),
        ("finetune", "classifier", "similarity", "was trained as a classifier of 3 labels"),
        ("finetune", "encoder", "similarity", "is a sentence encoder, which this command does not"),
        ("finetune", "encoder", "retrieval", "is a sentence encoder, which this command does not"),
    ],
)
def test_models_that_do_not_fit(
    run_command, encoder, classifier, pairs, search, command, model, task, message, tmp_path
):
    folder = classifier if model == "classifier" else encoder
    split = "train" if task == "similarity" else "test"
    words = [command, folder, "--task", task, "--data", pairs if task == "similarity" else search]
    words += ["--split", split] * (command != "finetune")
    words += ["--out", tmp_path / "out.json"] * (command == "rank")
    words += ["--out", tmp_path / "out"] * (command in ("shrink", "finetune"))
    words += ["--remove-heads", "25%"] * (command == "shrink")
    done = run_command(*words)
    assert done.code != 0
    assert clean(done)
    assert message in " ".join(done.err.split())
    assert "Hint" in done.err


def test_an_unknown_pooling_is_named(run_command, encoder, pairs, tmp_path):
    folder = shutil.copytree(encoder, tmp_path / "unknown")
    file = folder / "1_Pooling" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "pooling_mode": "spiral"}))
    done = run_command("evaluate", folder, "--task", "similarity", "--data", pairs)
    assert clean(done)
    assert "the pooling 'spiral'" in done.err


def test_data_check_knows_both(run_command, pairs, search, tmp_path):
    for words in (("data", "check", search), ("data", "check", pairs, "--task", "similarity")):
        done = run_command(*words)
        assert done.code == 0, done.err
        assert ("retrieval" if search in words else "similarity") in done.out
    (search / "qrels" / "test.tsv").write_text("q0\td0\tmaybe\n")
    done = run_command("data", "check", search)
    assert done.code == 1
    assert "is not a whole number" in done.out + done.err
