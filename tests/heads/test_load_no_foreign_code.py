"""A folder that brings code of its own: none of it is run, and nobody is asked whether it should
be.
"""

import json

import pytest
from transformers import AutoTokenizer

from deadhead import load, save
from deadhead.errors import DataError
from deadhead.heads.save import FolderError
from deadhead.training.models import tokenizer_for
from deadhead.world import MODELS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model with a module beside it, and a user who says yes to everything."""
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    built = save(
        load(MODELS / "encoder"),
        tmp_path / "model",
        AutoTokenizer.from_pretrained(MODELS / "encoder"),
    )
    (built / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    return built


def changed(file, **fields):
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def test_of_a_config(folder, tmp_path):
    changed(
        folder / "config.json",
        model_type="own",
        auto_map={"AutoConfig": "own.Config", "AutoModel": "own.Model"},
    )
    with pytest.raises(FolderError, match="custom code"):
        load(folder)
    assert not (tmp_path / "ran").exists()


def test_of_a_tokenizer(folder, tmp_path):
    changed(folder / "config.json", model_type="own")
    changed(
        folder / "tokenizer_config.json",
        auto_map={"AutoTokenizer": ["own.Tokenizer", None]},
        tokenizer_class="Own",
    )
    with pytest.raises(DataError, match="custom code"):
        tokenizer_for(str(folder))
    assert not (tmp_path / "ran").exists()


def test_a_damaged_tokenizer_is_reported(folder):
    for name, text in (
        ("tokenizer_config.json", '{"tokenizer_class": 5}'),
        ("tokenizer.json", '{"a": 1}'),
    ):
        (folder / name).write_text(text)
        with pytest.raises(DataError, match="has no readable tokenizer"):
            tokenizer_for(str(folder))
        (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
