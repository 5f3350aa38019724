"""Folders that are damaged, edited or of the future are refused with the reason, and a failed save loses nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from deadhead.errors import FolderError, UnsupportedModel
from deadhead.heads import discover, load, prune, save, sites
from tiny_models import answers, apart, build, build_class


@pytest.fixture
def folder(tmp_path):
    return save(
        prune(build("bert"), ["encoder.0.1", "encoder.1.0", "encoder.1.2"]), tmp_path / "model"
    )


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))


def weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def shorten(path: Path, share: float):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


QUERY = "bert.encoder.layer.0.attention.self.query.weight"
DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "weights cut short": (lambda f: shorten(f / "model.safetensors", 0.5), "cannot be loaded"),
    "weights empty": (lambda f: (f / "model.safetensors").write_bytes(b""), "cannot be loaded"),
    "weights gone": (lambda f: (f / "model.safetensors").unlink(), "cannot be loaded"),
    "weights are noise": (
        lambda f: (f / "model.safetensors").write_bytes(os.urandom(4096)),
        "cannot be loaded",
    ),
    "a key missing": (lambda f: weights(f, lambda t: t.pop(QUERY)), f"{QUERY} is missing"),
    "a shape changed": (
        lambda f: weights(f, lambda t: t.update({QUERY: torch.zeros(8, 32)})),
        f"{QUERY} has another shape",
    ),
    "a key too many": (
        lambda f: weights(f, lambda t: t.update({"another": torch.zeros(2)})),
        "another has no place",
    ),
    "config gone": (lambda f: (f / "config.json").unlink(), "has no config.json"),
    "config cut short": (lambda f: shorten(f / "config.json", 0.5), "/config.json is not JSON: "),
    "config of another kind": (
        lambda f: (f / "config.json").write_text("[1, 2]"),
        "expected a model that can be loaded",
    ),
    "config without a type": (
        lambda f: (f / "config.json").write_text("{}"),
        "expected a model that can be loaded",
    ),
    "an unknown class": (
        lambda f: edit(f, lambda c: c.update(architectures=["NoSuchModel"])),
        "that the installed transformers knows, got NoSuchModel",
    ),
    "a newer format": (
        lambda f: edit(f, lambda c: c["deadhead"].update(format=3)),
        "expected a format up to 2, got 3",
    ),
    "no format": (
        lambda f: edit(f, lambda c: c["deadhead"].pop("format")),
        "expected a format up to 2, got None",
    ),
    "no list": (
        lambda f: edit(f, lambda c: c["deadhead"].pop("removed")),
        "list of removed heads in config.json is damaged",
    ),
    "a list of words": (
        lambda f: edit(f, lambda c: c["deadhead"].update(removed={"encoder": {"0": ["x"]}})),
        "is damaged",
    ),
    "the record is a word": (lambda f: edit(f, lambda c: c.update(deadhead="yes")), "is damaged"),
    "too few removed": (
        lambda f: edit(f, lambda c: c["deadhead"]["removed"]["encoder"].pop("0")),
        "has another shape",
    ),
    "too many removed": (
        lambda f: edit(f, lambda c: c["deadhead"]["removed"]["encoder"].update({"0": [1, 2]})),
        "has another shape",
    ),
    "a head that never was": (
        lambda f: edit(f, lambda c: c["deadhead"]["removed"]["encoder"].update({"0": [7]})),
        "do not fit the model",
    ),
    "a layer that never was": (
        lambda f: edit(f, lambda c: c["deadhead"]["removed"]["encoder"].update({"9": [0]})),
        "do not fit the model",
    ),
    "a block that never was": (
        lambda f: edit(f, lambda c: c["deadhead"]["removed"].update({"cross": {"0": [0]}})),
        "do not fit the model",
    ),
    "a layer fewer": (lambda f: edit(f, lambda c: c.update(num_hidden_layers=1)), "do not fit"),
    "a layer more": (lambda f: edit(f, lambda c: c.update(num_hidden_layers=3)), "is missing"),
    "other sizes": (
        lambda f: edit(f, lambda c: c.update(intermediate_size=40)),
        "has another shape",
    ),
    "the record lost": (lambda f: edit(f, lambda c: c.pop("deadhead")), "has another shape"),
    "damaged by transformers 4": (
        lambda f: edit(f, lambda c: (c.pop("deadhead"), c.update(pruned_heads={"a": 1}))),
        "is damaged",
    ),
}


@pytest.mark.parametrize(
    ("number", "hint"),
    [(3, "pip install --upgrade deadhead"), (None, "config.json was changed"), ("2", "restore")],
)
def test_only_a_newer_format_needs_a_newer_deadhead(number, hint, folder):
    edit(folder, lambda c: c["deadhead"].update(format=number))
    with pytest.raises(FolderError) as error:
        load(folder)
    assert error.value.hint is not None
    assert hint in error.value.hint
    assert ("upgrade" in error.value.hint) == (number == 3)


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_folder_is_refused(name, folder):
    damage, text = DAMAGE[name]
    load(folder)  # as saved it loads
    damage(folder)
    with pytest.raises(FolderError) as error:
        load(folder)
    assert text in error.value.message, error.value.message
    assert error.value.hint


def test_no_such_folder(tmp_path):
    with pytest.raises(FolderError, match="there is no folder"):
        load(tmp_path / "nowhere")


def test_a_padded_folder_whose_heads_grew_back(tmp_path):
    save(prune(build("bert"), ["encoder.1.2"]), tmp_path, form="padded")
    name = "bert.encoder.layer.1.attention.output.dense.weight"
    weights(tmp_path, lambda t: t[name][:, 16:24].add_(0.1))
    with pytest.raises(
        FolderError, match=r"head encoder\.1\.2 was removed by zeroing, and is no longer zero"
    ):
        load(tmp_path)
    edit(tmp_path, lambda c: c.pop("deadhead"))  # the hint it names
    assert len(discover(load(tmp_path))) == 8


def test_a_padded_list_that_splits_a_group(tmp_path):
    save(prune(build("llama"), ["decoder.0.2", "decoder.0.3"]), tmp_path, form="padded")
    load(tmp_path)
    edit(tmp_path, lambda c: c["deadhead"]["removed"]["decoder"].update({"0": [2]}))
    with pytest.raises(FolderError, match="read one key/value head"):
        load(tmp_path)


@pytest.mark.parametrize("step", ["weights", "full disk", "tokenizer", "moving", "moving the last"])
def test_a_failed_save_loses_nothing(step, folder, monkeypatch):
    before = {f.name: f.read_bytes() for f in folder.iterdir()}
    model = prune(build("bert", seed=3), ["encoder.0.0"])
    config, expected = model.config.to_dict(), answers(model)
    full = OSError(28, "No space left on device")
    tokenizer = None
    if step in ("weights", "full disk"):
        problem = (
            full
            if step == "weights"
            else SafetensorError("Error while serializing: No space left on device")
        )
        monkeypatch.setattr(type(model), "save_pretrained", _failing(problem))
    elif step == "tokenizer":
        tokenizer = type("Tokenizer", (), {"save_pretrained": _failing(full)})()
    else:
        moved, real = [0], os.replace

        def replace(source, target):
            moved[0] += 1
            if moved[0] == (2 if step == "moving" else 2 * len(before)):
                raise full
            real(source, target)

        monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(FolderError, match="No space left on device"):
        save(
            model, folder, tokenizer, max_shard_size="20KB" if step == "moving the last" else "50GB"
        )
    monkeypatch.undo()
    assert {f.name: f.read_bytes() for f in folder.iterdir()} == before
    assert model.config.to_dict() == config
    assert apart(expected, answers(model)) == 0
    save(model, folder)  # and once there is space, it works
    assert apart(expected, answers(load(folder).eval())) == 0


def _failing(problem: Exception):
    def fail(*_, **__):
        raise problem

    return fail


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


def test_a_folder_of_onnx_files_is_named_as_such(folder):
    (folder / "model.onnx").write_bytes(b"graph")
    assert load(folder) is not None  # there are weights beside it
    (folder / "model.safetensors").unlink()
    with pytest.raises(FolderError, match="as ONNX; name the folder that it was written from"):
        load(folder)


def test_a_quantised_model_is_refused(folder):
    edit(folder, lambda config: config.update(quantization_config={"quant_method": "gptq"}))
    with pytest.raises(UnsupportedModel, match=r"expected plain .*, got a quantised model \(gptq"):
        load(folder)


@pytest.mark.parametrize("case", ["compact", "padded", "dropped bias", "no biases", "task"])
def test_a_load_searches_for_the_layers_once(case, tmp_path, monkeypatch):
    options = {"projection_bias": False, "pad_token_id": 0} if case == "no biases" else {}
    model = build_class(
        transformers.MarianMTModel if options else transformers.BertModel, **options
    )
    heads = [f"encoder.0.{number}" for number in range(4)]
    prune(model, heads, drop_output_bias=case == "dropped bias")
    form = "padded" if case in ("padded", "dropped bias") else "compact"
    save(model, tmp_path, form=form)
    searches: list[Any] = []
    collect = sites.collect
    monkeypatch.setattr(sites, "collect", lambda *of: (searches.append(of), collect(*of))[1])
    load(tmp_path, auto="AutoModelForTokenClassification" if case == "task" else None)
    assert len(searches) == 1
    discover(model)
    assert len(searches) == 2  # the twin: each search is counted
