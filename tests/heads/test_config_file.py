"""A config.json may come from anybody: what it asks for is checked before anything is built."""

import os
import shutil

import pytest
from folders import edit_config

from deadhead import load
from deadhead.errors import DataError, FolderError, Notice
from deadhead.heads.config_file import BYTES, MOST_LABELS, check_config_file
from deadhead.heads.load import skeleton
from deadhead.training.models import tokenizer_for
from deadhead.world import MODELS


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(MODELS / "encoder", tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    "fields",
    [
        {"num_labels": 100_000_000},
        {"num_hidden_layers": 1_000_000},
        {"vision_config": {"depths": [2, 1_000_000]}},
        {"text_config": {"num_experts": 1_000_000}},
        {"vocab_size": 10**30},
    ],
)
def test_a_config_that_asks_for_too_much(folder, fields):
    edit_config(folder, **fields)
    with pytest.raises(FolderError, match=r"in config\.json is larger"):
        check_config_file(folder, {})  # first: without it, the next call takes all memory
    for read in (load, skeleton):
        with pytest.raises(FolderError, match=r"config\.json"):
            read(folder)
    with pytest.raises(DataError, match=r"config\.json"):
        tokenizer_for(str(folder))


def test_a_config_of_a_large_model_is_read(folder):
    """The twin, with the sizes of Kimi K2, 163,840 tokens and a million positions."""
    edit_config(
        folder,
        text_config={"num_hidden_layers": 61, "n_routed_experts": 384, "vocab_size": 163_840},
        id2label={str(n): str(n) for n in range(30_000)},
        num_labels=MOST_LABELS,
        max_position_embeddings=1_048_576,
        expert_size=100_000,
    )
    check_config_file(folder, {})


def test_a_config_of_many_bytes_is_not_parsed(folder):
    edit_config(folder, note="a" * BYTES)
    with pytest.raises(FolderError, match="bytes; expected at most"):
        load(folder)


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.json", "model.safetensors.index.json"]
)
def test_a_pipe_is_refused_and_not_waited_for(folder, name):
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    for read in (load, skeleton):
        with pytest.raises(FolderError, match=f"{name} is no ordinary file"):
            read(folder)


def test_a_device_is_refused(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/dev/zero")
    with pytest.raises(FolderError, match=r"model\.safetensors is no ordinary file"):
        load(folder)


@pytest.mark.parametrize(
    "fields",
    [
        {"attn_implementation": "somebody/kernels"},
        {"_attn_implementation": "somebody/kernels"},
        {"_attn_implementation": {"": "somebody/kernels"}},
        {"attn_implementation": "flash_attention_2"},  # may be downloaded where it is missing
    ],
)
def test_no_config_reaches_a_loader_of_kernels(folder, fields):
    whole = load(folder)
    edit_config(folder, **fields)
    with pytest.warns(Notice, match=r"config\.json .* asks for the attention '"):
        model = load(folder)
    assert model.config._attn_implementation == whole.config._attn_implementation == "sdpa"
    edit_config(folder, **dict.fromkeys(fields, "eager"))  # the twin: transformers' own is taken
    assert load(folder).config._attn_implementation == "eager"


def test_the_caller_may_ask_for_an_attention(folder):
    edit_config(folder, attn_implementation="somebody/kernels")
    with pytest.warns(Notice):
        model = load(folder, attn_implementation="eager")
    assert model.config._attn_implementation == "eager"


HEADERS = ["[" * 100_000, '{"a":' * 100_000, '{"a": 3}', '{"a": {"dtype": "F32", "shape": ["x"]}}']


@pytest.mark.parametrize("header", HEADERS)
def test_a_nested_or_senseless_header_of_weights(folder, header):
    data = header.encode()
    (folder / "model.safetensors").write_bytes(len(data).to_bytes(8, "little") + data)
    with pytest.raises(FolderError):
        load(folder)
