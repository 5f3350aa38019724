"""Folders that are damaged, edited or of the future are refused with the reason, and a failed save
loses nothing.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from folders import config_of, edit_config, edit_record, edit_weights

from deadhead.errors import FolderError, UnsupportedModel
from deadhead.heads import discover, load, prune, save
from deadhead.heads.load import skeleton
from tiny_models import build


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    model = prune(build("bert"), ["encoder.0.1", "encoder.1.0", "encoder.1.2"])
    return save(model, tmp_path_factory.mktemp("saved") / "model")


@pytest.fixture
def folder(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "model"))


def shorten(path, share):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def changed(**fields):
    return lambda folder: edit_config(folder, **fields)


def removed(**blocks):
    def change(folder):
        edit_record(folder, removed={**config_of(folder)["deadhead"]["removed"], **blocks})

    return change


def written(name, data):
    return lambda folder: (folder / name).write_bytes(data)


QUERY = "bert.encoder.layer.0.attention.self.query.weight"
UNREADABLE = "expected a model that can be loaded"
DAMAGE: list[tuple[Callable[[Path], Any], str]] = [
    (lambda f: shorten(f / "model.safetensors", 0.5), "cannot be loaded"),
    (lambda f: (f / "model.safetensors").unlink(), "cannot be loaded"),
    (lambda f: edit_weights(f, lambda t: t.pop(QUERY)), f"{QUERY} is missing"),
    (
        lambda f: edit_weights(f, lambda t: t.update({QUERY: torch.zeros(8, 32)})),
        f"{QUERY} has another shape",
    ),
    (
        lambda f: edit_weights(f, lambda t: t.update({"another": torch.zeros(2)})),
        "another has no place",
    ),
    (lambda f: (f / "config.json").unlink(), "has no config.json"),
    (lambda f: shorten(f / "config.json", 0.5), "/config.json is not JSON: "),
    (written("config.json", b"{}"), UNREADABLE),
    (changed(model_type=["bert"]), UNREADABLE),
    (changed(num_attention_heads=0), "cannot be loaded"),
    (changed(architectures={"a": 1}), "`architectures` in config.json expects a list"),
    (changed(architectures=["NoSuchModel"]), "the installed transformers knows, got NoSuchModel"),
    (lambda f: edit_record(f, removed=None), "removed heads in config.json is"),
    (removed(encoder={"0": ["x"]}), "is damaged"),
    (removed(encoder={"1": [0, 2]}), "has another shape"),
    (removed(encoder={"0": [7]}), "do not fit the model"),
    (removed(cross={"0": [0]}), "do not fit the model"),
    (changed(deadhead=None), "has another shape"),
    (changed(deadhead=None, pruned_heads={"a": 1}), "damaged"),
]


@pytest.mark.parametrize(("damage", "text"), DAMAGE)
def test_a_damaged_folder_is_refused(damage, text, folder):
    damage(folder)
    with pytest.raises(FolderError) as error:
        load(folder)
    assert text in error.value.message, error.value.message
    assert error.value.hint


def test_a_model_that_cannot_be_built_is_refused_before_its_weights_are_read(folder):
    edit_config(folder, pad_token_id=10**6)
    for read in (load, skeleton):
        with pytest.raises(FolderError, match="cannot be loaded: Padding_idx must be within"):
            read(folder)


@pytest.mark.parametrize(
    ("number", "hint"),
    [(3, "pip install --upgrade deadhead"), (None, "config.json was changed"), ("2", "restore")],
)
def test_only_a_newer_format_needs_a_newer_deadhead(number, hint, folder):
    assert load(folder)  # as it was saved
    edit_record(folder, format=number)
    with pytest.raises(FolderError, match="expected a format up to 2, got") as error:
        load(folder)
    assert hint in str(error.value.hint)
    assert ("upgrade" in str(error.value.hint)) == (number == 3)


def test_a_padded_folder_whose_heads_grew_back(tmp_path):
    save(prune(build("bert"), ["encoder.1.2"]), tmp_path, form="padded")
    name = "bert.encoder.layer.1.attention.output.dense.weight"
    edit_weights(tmp_path, lambda t: t[name][:, 16:24].add_(0.1))
    with pytest.raises(
        FolderError, match=r"head encoder\.1\.2 was removed by zeroing, and is no longer zero"
    ):
        load(tmp_path)
    edit_config(tmp_path, deadhead=None)  # the hint it names
    assert len(discover(load(tmp_path))) == 8


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FolderError, match="expected a folder, got the file"):
        save(build("bert"), tmp_path / "file")
    with pytest.raises(FolderError, match="cannot be written"):
        save(build("bert"), tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "mine"


def test_what_is_no_transformers_model(tmp_path):
    with pytest.raises(UnsupportedModel, match="expected a transformers model"):
        save(torch.nn.Linear(2, 2), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_interrupted_training_is_named_as_such(tmp_path):
    (tmp_path / ".training").mkdir()
    with pytest.raises(FolderError, match="was interrupted: repeat the `deadhead finetune`"):
        load(tmp_path)


def test_a_quantised_model_is_refused(folder):
    edit_config(folder, quantization_config={"quant_method": "gptq"})
    with pytest.raises(UnsupportedModel, match=r"expected plain .*, got a quantised model \(gptq"):
        load(folder)
