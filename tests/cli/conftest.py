"""Run commands as a user types them, on tiny saved models."""

import sys
from contextlib import nullcontext

import pytest
import transformers
from command_line import Done
from reviews import write_task
from tokenizers import Tokenizer
from tokenizers import models as token_models

from architectures.tiny import tiny
from deadhead import cli
from deadhead.heads import save
from deadhead.shrinking import latency


@pytest.fixture
def run_command(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "150")
    # as in a terminal: most tests are not about the lines of a log
    monkeypatch.setattr("deadhead.cli._command.logged", lambda say: nullcontext())
    monkeypatch.setattr(latency, "ROUNDS", (3, 3))  # no test reads the times that shrink prints

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["deadhead", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            cli.main()
        return Done(int(left.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    words = Tokenizer(token_models.WordLevel({"[UNK]": 0, "hello": 1}, unk_token="[UNK]"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    return save(tiny("bert"), tmp_path_factory.mktemp("models") / "bert", tokenizer)


@pytest.fixture(scope="session")
def llama(tmp_path_factory):
    return save(tiny("llama"), tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture
def reviews(tmp_path):
    return write_task(tmp_path)
