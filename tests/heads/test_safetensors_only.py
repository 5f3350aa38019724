"""Weights are read as safetensors only, whatever an index, a config or an adapter names."""

import json
from typing import Any

import pytest
import torch
from folders import edit_config
from safetensors.torch import load_file

from deadhead.errors import FolderError, UnsupportedModel
from deadhead.heads import load
from tiny_models import build

NAME, COMMIT = "someone/pickled", "3" * 40
OWN = r"expects safetensors of its own folder, got 'w\.bin'"


@pytest.fixture(autouse=True)
def unpickled(monkeypatch):
    """No test may read a pickle."""
    calls: list[Any] = []
    real = torch.load
    monkeypatch.setattr(torch, "load", lambda *a, **k: (calls.append(a), real(*a, **k))[1])
    yield
    assert not calls


def pickled(folder, index="model.safetensors.index.json", **config):
    """A model whose index names a file that torch unpickles."""
    build("bert").save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    (folder / index).parent.mkdir(exist_ok=True)
    torch.save(weights, (folder / index).with_name("w.bin"))
    (folder / index).write_text(
        json.dumps({"metadata": {}, "weight_map": dict.fromkeys(weights, "w.bin")})
    )
    # without a precision, transformers reads the first file to find it out
    edit_config(folder, dtype=None, **config)
    return folder


@pytest.fixture
def snapshot(tmp_path, monkeypatch):
    """A folder for a hub model in the cache of the hub."""
    home = tmp_path / "hub" / f"models--{NAME.replace('/', '--')}"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text(COMMIT)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    return home / "snapshots" / COMMIT


def test_an_index_that_names_a_pickle(tmp_path):
    folder = pickled(tmp_path / "model")
    with pytest.raises(FolderError, match=OWN):
        load(folder)
    variant = pickled(tmp_path / "variant", "model.safetensors.index.fp16.json")
    with pytest.raises(FolderError, match=OWN):
        load(variant, variant="fp16")
    named = "sub/other.safetensors.index.json"
    hidden = pickled(tmp_path / "hidden", named, transformers_weights=named)
    with pytest.raises(FolderError, match=r"expects safetensors in .*, got 'sub/other"):
        load(hidden)


def test_an_index_of_a_hub_model(snapshot):
    pickled(snapshot)
    with pytest.raises(FolderError, match=OWN):
        load(NAME)


def test_an_adapter_of_a_hub_model(snapshot):
    pytest.importorskip("peft")
    build("bert").save_pretrained(snapshot)
    adapter = {"peft_type": "LORA", "r": 2, "target_modules": ["query"]}
    base = {"base_model_name_or_path": NAME}
    (snapshot / "adapter_config.json").write_text(json.dumps({**adapter, **base}))
    torch.save({}, snapshot / "adapter_model.bin")
    with pytest.raises(FolderError, match="has an adapter"):
        load(NAME)


def test_the_caller_cannot_ask_for_a_pickle(tmp_path):
    build("bert").save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    with pytest.raises(FolderError, match="only safetensors are read"):
        load(tmp_path, use_safetensors=False)


def test_a_class_that_reads_a_pickle_beside_its_weights(tmp_path):
    build("bert").save_pretrained(tmp_path)
    name = "Qwen2_5OmniForConditionalGeneration"
    edit_config(tmp_path, model_type="qwen2_5_omni", architectures=[name])
    with pytest.raises(UnsupportedModel, match="reads its voices from a pickle"):
        load(tmp_path)
