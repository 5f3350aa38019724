"""rank, evaluate, finetune and shrink of a decoder on plain text: `--task lm --data text.txt`."""

import json
import re

import pytest
from command_line import clean

import tiny_decoders
from deadhead import Ranking, discover, load
from deadhead.saved import rank_data
from deadhead.training.models import load_with_tokenizer
from deadhead.world import MODELS

LM = ("--task", "lm", "--device", "cpu")


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    return tiny_decoders.saved(tmp_path_factory.mktemp("models") / "decoder")


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text(tiny_decoders.TEXT * 12)
    return tmp_path / "text.txt"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "corpus").mkdir()
    for name in ("train", "valid", "test"):
        (tmp_path / "corpus" / f"{name}.txt").write_text(tiny_decoders.TEXT * 12)
    return tmp_path / "corpus"


def test_evaluate_a_file(decoder, text, run_command):
    done = run_command("evaluate", decoder, *LM, "--data", text, "--json")
    facts = json.loads(done.out)
    assert (facts["metric"], facts["task"]) == ("perplexity", "lm")
    (scores,) = facts["scores"].values()
    assert set(scores["text"]) == {
        "perplexity",
        "word_perplexity",
        "byte_perplexity",
        "next_token_accuracy",
    }
    # windows of what the model has positions for: too few for an interval
    assert facts["examples"]["text"] == -(-_tokens(text) // 64) < 20
    (interval,) = facts["intervals"].values()
    assert (interval["text"]["low"], interval["text"]["high"]) == (None, None)
    done = run_command("evaluate", decoder, *LM, "--data", text, "--json", "--max-length", 16)
    (own,) = json.loads(done.out)["intervals"].values()
    assert own["text"]["low"] < own["text"]["value"] < own["text"]["high"]
    few = run_command("evaluate", decoder, *LM, "--data", text, "--max-examples", 5)
    assert "perplexity per word" in few.out
    assert "bootstrap samples of windows" in few.out
    assert "Lower is better" in few.out


def _tokens(text):
    return len(tiny_decoders.tokenizer()(text.read_text())["input_ids"])


def test_rank_on_windows(decoder, text, run_command):
    out = text.parent / "ranking.json"
    options = ("--data", text, "--max-examples", 6, "--max-length", 16, "--out", out)
    done = run_command("rank", decoder, *LM, *options)
    assert done.code == 0, done.err
    assert "windows left out at random" in done.out
    ranking = Ranking.load(out)
    assert (ranking.data["examples"], ranking.data["windows"]) == (6, 6)
    assert len(ranking) == 8
    own = run_command("rank", decoder, *LM, *options, "--force", "--loss", "self")
    assert own.code == 0, own.err
    assert Ranking.load(out).data["windows"] == 6


def test_finetune(decoder, folder, text, run_command):
    out = text.parent / "tuned"
    options = ("--learning-rate", "0.01", "--epochs", 2, "--batch-size", 4, "--json")
    done = run_command("finetune", decoder, *LM, "--data", folder, "--out", out, *options)
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    values = [epoch["perplexity"] for epoch in facts["scores"]]
    assert facts["metric"] == "perplexity"
    assert values[1] < values[0]
    assert facts["best"] == 2
    assert facts["examples"] == -(-_tokens(folder / "train.txt") // 64)
    text_out = text.parent / "printed"
    printed = run_command("finetune", decoder, *LM, "--data", folder, "--out", text_out)
    assert "dev (1 text): perplexity " in printed.out  # its examples are windows
    alone = run_command(
        "finetune", decoder, *LM, "--data", text, "--out", text.parent / "alone", *options
    )
    assert json.loads(alone.out)["scores"] == [{}, {}]
    assert "is one file, and serves as train data only" in alone.err


def test_shrink(decoder, folder, tmp_path, run_command):
    out = tmp_path / "small"
    options = ("--remove-heads", "50%", "--examples", 20, "--max-length", 16, "--on", "2x16")
    done = run_command("shrink", decoder, *LM, "--data", folder, *options, "--out", out, "--json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert (facts["metric"], facts["splits"]) == ("perplexity", {"text": "dev"})
    assert [*facts["scores"]] == ["whole", "cut", "refitted"]
    assert len(discover(load(out))) == 4
    again = run_command("evaluate", out, *LM, "--data", folder, "--json", "--max-length", 16)
    (scores,) = json.loads(again.out)["scores"].values()
    last = facts["scores"]["refitted"]["text"]
    assert scores["text"]["perplexity"] == pytest.approx(last, rel=1e-4)
    assert facts["scored"] == json.loads(again.out)["examples"]  # all, whatever --examples says


def test_shrink_scores_the_requested_number_of_windows(decoder, folder, tmp_path, run_command):
    few = ("--max-examples", 3, "--max-length", 16)
    options = ("--remove-heads", 2, "--examples", 12, "--on", "2x16", "--out", tmp_path / "small")
    done = run_command("shrink", decoder, *LM, "--data", folder, *options, *few)
    assert done.code == 0, done.err
    assert "; 3 of text dev scored; " in done.out
    alone = run_command("evaluate", decoder, *LM, "--data", folder, *few, "--json")
    (scores,) = json.loads(alone.out)["scores"].values()
    assert f"{scores['text']['perplexity']:.2f}" in done.out  # the same three windows


def test_shrink_with_one_file(decoder, text, run_command):
    out = text.parent / "small"
    few = ("--remove-heads", 2, "--examples", 12, "--max-length", 16, "--on", "2x16")
    options = (*few, "--out", out)
    done = run_command("shrink", decoder, *LM, "--data", text, *options)
    assert done.code == 0, done.err
    assert "held-out loss" in done.out
    assert "perplexity" not in done.out  # no text is left to score


def test_mistakes_have_one_clear_error(decoder, text, tmp_path, run_command):
    empty, binary, short = (tmp_path / f"{name}.txt" for name in ("empty", "binary", "short"))
    empty.write_text("\n")
    binary.write_bytes(b"\x89PNG\x00\x01")
    short.write_text("a")
    small = tiny_decoders.saved(tmp_path / "small", tiny_decoders.gpt2(vocabulary=60))
    commands = {
        "has no language; got 'en'": (decoder, "--data", text, "--lang", "en"),
        "no text in the file. Hint: fetch the file again": (decoder, "--data", empty),
        "a NUL byte": (decoder, "--data", binary),
        "fewer than two tokens": (decoder, "--data", short),
        "windows of 100 positions": (decoder, "--data", text, "--max-length", 100),
        "the model knows 60": (small, "--data", text),
        "does not fit lm": (MODELS / "encoder", "--data", text),
        "no such folder": (decoder, "--data", tmp_path / "nowhere.txt"),
    }
    for message, (model, *options) in commands.items():
        done = run_command("evaluate", model, *LM, *options)
        assert done.code != 0
        assert clean(done)
        assert message in " ".join(done.err.split()), (message, done.err)


OPTIONS = {
    "rank": ("--out", "scores.json"),
    "evaluate": (),
    "finetune": ("--out", "trained"),
    "shrink": ("--remove-heads", 2, "--out", "smaller"),
}


@pytest.mark.parametrize("command", OPTIONS)
def test_a_hint_about_long_windows_works_with_few_positions(
    command, tmp_path, run_command, monkeypatch
):
    model = tiny_decoders.saved(tmp_path / "model", tiny_decoders.gpt2(positions=16))
    text = tmp_path / "text.txt"
    text.write_text(tiny_decoders.TEXT)
    assert 16 < _tokens(text) < 100
    monkeypatch.chdir(tmp_path)  # where it writes
    words = (command, model, *LM, "--data", text, *OPTIONS[command])
    done = run_command(*words, "--max-length", 100)
    assert done.code != 0
    assert clean(done)
    (length,) = re.findall(r"--max-length (\d+)", done.err)
    assert "longer text" not in done.err  # whose windows would be too long for the model
    done = run_command(*words, "--max-length", length)
    assert done.code == 0, done.err
    done = run_command(*words, "--max-length", 17, *["--force"] * ("--out" in words))
    assert done.code != 0
    assert clean(done)
    assert "windows of 17 positions and the model has 16" in " ".join(done.err.split())


@pytest.mark.parametrize("command", OPTIONS)
def test_a_name_of_the_hub_belongs_to_source(
    command, decoder, tmp_path, run_command,
    monkeypatch,
):  # fmt: skip
    monkeypatch.chdir(tmp_path)
    done = run_command(command, decoder, *LM, "--data", "wikitext", *OPTIONS[command])
    assert done.code != 0
    assert clean(done)
    message = " ".join(done.err.split())
    assert "wikitext: there is no such folder or file" in message
    assert "leave both out and write --source wikitext-2 or --source wikitext-103" in message


@pytest.mark.parametrize("command", OPTIONS)
def test_a_tokenizer_of_another_model_is_refused(command, tmp_path, run_command, monkeypatch):
    """Also if every token of the text has an embedding."""
    monkeypatch.chdir(tmp_path)
    letters, known = tmp_path / "letters.txt", tiny_decoders.tokenizer()
    letters.write_text('! " # $ % ' * 500)  # the first tokens of the alphabet
    assert max(known(letters.read_text())["input_ids"]) < 290 < known.vocab_size
    small = tiny_decoders.saved(tmp_path / "small", tiny_decoders.gpt2(vocabulary=290))
    done = run_command(command, small, *LM, "--data", letters, *OPTIONS[command])
    assert done.code != 0
    assert clean(done)
    sizes = f"has {known.vocab_size} sub-words and the model knows 290"
    assert sizes in " ".join(done.err.split()), done.err


def test_the_logits_of_a_batch_are_limited(decoder, text, monkeypatch):
    """A vocabulary is large: 32 windows at once would take many gigabytes."""
    model, tokenizer = load_with_tokenizer(str(decoder), "cpu", auto=None, dtype=None)
    rows = rank_data.sample_rows("lm", ["text"], "dev", most=None, seed=0, root=text)

    def sizes(size):
        batches, _ = rank_data.rank_batches(
            model, tokenizer, rows,
            needs_labels=True, loss=None, size=size, max_length=16, in_file_order=False,
        )  # fmt: skip
        return {len(numbers) for numbers in batches.numbers[:-1]}

    assert sizes(None) == {32}
    monkeypatch.setattr(rank_data, "LOGITS", 3 * 16 * model.config.vocab_size)
    assert sizes(None) == {3}
    assert sizes(5) == {5}
