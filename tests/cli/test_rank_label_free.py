"""`deadhead rank` without labels: plain text, or the texts of a task."""

import json

import pytest
from command_line import output_of
from transformers import (
    AutoTokenizer,
    BartConfig,
    BartForQuestionAnswering,
    BartModel,
    XLNetConfig,
    XLNetForQuestionAnswering,
)
from typer.testing import CliRunner

from deadhead import discover, load, save
from deadhead.cli import app
from deadhead.errors import DataError, DeadheadError
from deadhead.ranking import Ranking
from deadhead.tasks import load_data
from deadhead.tasks.encoding.plain_text import read_texts, text_batches, text_files, texts_of
from deadhead.world import MODELS


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    return save(
        load(MODELS / "encoder", auto="AutoModel"),
        tmp_path_factory.mktemp("models") / "embedder",
        AutoTokenizer.from_pretrained(MODELS / "encoder"),
    )


def ranked(model, out, *words):
    options = ("--device", "cpu", "--json", "--out", out)
    return json.loads(output_of("rank", model, *options, *words).stdout)


def test_plain_text(embedder, tmp_path):
    text = tmp_path / "texts.txt"
    text.write_text("Maria bought a red car .\n\nThe dog sleeps .\nThe car .\tA house .\n")
    printed = ranked(embedder, tmp_path / "r.json", "--text", text, "--loss", "self")
    assert (printed["method"], printed["options"]["loss"]) == ("taylor", "self")
    assert (printed["data"]["text"], printed["data"]["examples"]) == ("texts.txt", 3)
    assert len(Ranking.load(tmp_path / "r.json")) == 40
    few = ("--method", "entropy", "--max-examples", 2)
    sharp = ranked(embedder, tmp_path / "e.json", "--text", text, *few)
    assert (sharp["data"]["examples"], "loss" in sharp["options"]) == (2, False)
    with pytest.raises(DataError, match=r"(?s)plain text has no labels.*--loss self"):
        ranked(embedder, tmp_path / "x.json", "--text", text)


def test_texts_longer_than_the_model_can_read(embedder, tmp_path):
    (tmp_path / "long.txt").write_text("The dog sleeps . " * 60)
    words = ("--text", tmp_path / "long.txt", "--loss", "self")
    with pytest.raises(DataError, match=r"(?s)and the model has 128\..*--max-length 128"):
        ranked(embedder, tmp_path / "r.json", *words)
    printed = ranked(embedder, tmp_path / "r.json", *words, "--max-length", 128)
    assert printed["data"]["notes"] == {"texts cut off": 1}


def test_the_texts_of_a_task(embedder, tmp_path):
    arguments = ("--task", "pos", "--lang", "de", "--data", "world", "--max-examples", 6)
    how = ("--loss", "self", "--method", "ablation")
    data = ranked(embedder, tmp_path / "r.json", *arguments, *how)["data"]
    assert (data["task"], data["lang"], data["examples"]) == ("pos", "de", 6)
    assert data["notes"]["rows left out at random"] > 0
    printed = ranked(embedder, tmp_path / "e.json", *arguments, "--method", "confidence")
    assert printed["data"]["examples"] == 6
    with pytest.raises(DataError, match=r"(?s)does not fit pos.*--loss self"):
        ranked(embedder, tmp_path / "x.json", *arguments)


def test_mistakes_cost_no_time(tmp_path):
    how = ("--text", "t.txt", "--loss", "self", "--method", "lrp")
    with pytest.raises(DeadheadError, match="lrp explains the logit"):
        ranked("nowhere", tmp_path / "x.json", *how)
    for wrong in (["--text", "t.txt", "--lang", "en"], ["--task", "pos"], ["--lang", "en"]):
        words = ["rank", "nowhere", "--out", str(tmp_path / "x.json"), *wrong]
        assert CliRunner().invoke(app, words).exit_code == 2
    for content, message in (("", "has no text"), ("a\tb\tc\n", "3 parts between tabs")):
        (tmp_path / "bad.txt").write_text(content)
        with pytest.raises(DataError, match=message):
            read_texts(tmp_path / "bad.txt")
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="cannot be read as text"):
        read_texts(tmp_path / "bad.txt")
    (tmp_path / "mark.txt").write_bytes("a\nb\n".encode("utf-8-sig"))
    assert read_texts(tmp_path / "mark.txt") == [("a",), ("b",)]  # without the byte-order mark
    with pytest.raises(DataError, match=r"there is no file .*nowhere\.txt"):
        read_texts(tmp_path / "nowhere.txt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"has no file \.txt or \.txt\.gz"):
        text_files([tmp_path / "empty"])


def test_batches_of_texts_are_those_of_the_tokenizer():
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "encoder")
    texts = [
        *texts_of(load_data("pos", "en", "dev", root="world"))[:7],
        ("The dog .", "A very red car sleeps ."),
    ]
    built = text_batches(texts, tokenizer, size=3, max_length=8)
    assert built.examples == 8 == sum(len(batch["input_ids"]) for batch in built.batches)
    want = sorted(tokenizer(*parts, truncation=True, max_length=8)["input_ids"] for parts in texts)
    got = sorted(
        row[mask.bool()].tolist()
        for batch in built.batches
        for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    )
    assert got == want
    assert (
        built.notes["texts cut off"]
        == sum(len(tokenizer(*parts)["input_ids"]) > 8 for parts in texts)
        > 0
    )


def test_question_answering_with_a_decoder_that_reads_the_same_text(tmp_path, run_command):
    model, text, ranking = tmp_path / "qa", tmp_path / "pairs.txt", tmp_path / "ranking.json"
    text.write_text("Who bought a car ?\tMaria bought a red car .\n" * 12)
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "encoder")
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "init_std": 0.3}
    sizes |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    sizes |= {"encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "pad_token_id": 0}
    save(BartForQuestionAnswering(BartConfig(vocab_size=len(tokenizer), **sizes)), model, tokenizer)
    texts = (("--text", text), ("--task", "pos", "--lang", "en", "--data", "world"))
    for words in texts:
        options = ("--loss", "self", "--device", "cpu", "--force", "--out", ranking)
        done = run_command("rank", model, *words, *options)
        assert done.code == 0, done.err
        assert len(Ranking.load(ranking).scores) == 12
    out = tmp_path / "small"
    options = ("--text", text, "--loss", "self", "--device", "cpu", "--out", out)
    done = run_command("shrink", model, "--remove-heads", "50%", *options)
    assert done.code == 0, done.err
    assert len(discover(load(out))) == 6
    save(BartModel(BartConfig(vocab_size=len(tokenizer), **sizes)), tmp_path / "two", tokenizer)
    done = run_command("rank", tmp_path / "two", *texts[0], "--loss", "self", "--out", "two.json")
    assert done.code == 1
    assert "BartModel reads two texts" in done.err


def test_a_model_without_logits_gets_commands_to_type(tmp_path, run_command):
    """XLNet searches for an answer: it returns the best few starts and ends, not their logits."""
    model, text, ranking = tmp_path / "qa", tmp_path / "texts.txt", tmp_path / "ranking.json"
    text.write_text("Maria bought a red car .\n" * 3)
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "encoder")
    sizes = {"d_model": 16, "n_layer": 2, "n_head": 4, "d_inner": 16}
    whole = XLNetForQuestionAnswering(XLNetConfig(vocab_size=len(tokenizer), **sizes))
    save(whole, model, tokenizer)
    options = ("--text", text, "--loss", "self", "--device", "cpu")
    for words in (
        ("rank", model, "--out", ranking),
        ("shrink", model, "--remove-heads", 2, "--out", "s"),
    ):
        done = run_command(*words, *options)
        assert done.code == 1
        assert "XLNetForQuestionAnswering returns start_top_log_probs" in done.err
        _, _, hint = done.err.partition("Hint: ")
        assert (
            "deadhead rank MODEL --auto-class AutoModel --loss self --text FILE --out FILE" in hint
        )
    out = tmp_path / "smaller"
    done = run_command("rank", model, "--auto-class", "AutoModel", *options, "--out", ranking)
    assert done.code == 0, done.err
    done = run_command("prune", model, "--remove-lowest", 3, "--ranking", ranking, "--out", out)
    assert done.code == 0, done.err
    smaller = load(out)
    assert type(smaller) is type(whole)  # with its output
    assert len(discover(smaller)) == 5
