"""Cutting the files tensor by tensor: the same folder as by loading, in the memory of one tensor."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import LlamaConfig, LlamaForCausalLM

from deadhead.errors import FolderError, UnsupportedModel
from deadhead.heads import discover, load, save
from deadhead.heads.prune_saved import prune_saved
from deadhead.heads.prune_shards import prune_by_shards
from deadhead.heads.verify.tiny import randomise, tiny

REMOVED = {
    "llama": ["decoder.0.0", "decoder.0.1"],
    "bert": ["encoder.1.2"],
    "gpt2": ["decoder.0.1"],
}


def saved(kind: str, folder: Path, **options) -> Path:
    model = tiny(kind)
    randomise(model, 0)
    model.save_pretrained(folder, **options)
    return folder


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    result = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            result |= {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    return result


@pytest.mark.parametrize("size", ["20KB", "1GB"])
@pytest.mark.parametrize("kind", ["llama", "bert", "gpt2"])
def test_it_writes_what_loading_and_saving_writes(tmp_path, kind, size):
    source = saved(kind, tmp_path / "whole", max_shard_size=size)
    shards = sorted(path.name for path in source.glob("*.safetensors"))
    assert len(shards) > 1 or size == "1GB"
    (source / "LICENSE").write_text("free")
    expected = prune_saved(str(source), tmp_path / "loaded", lambda _: REMOVED[kind])
    result = prune_by_shards(str(source), tmp_path / "cut", lambda _: REMOVED[kind])
    assert result.parameters == expected.parameters
    assert (result.removed, result.dtype) == (expected.removed, expected.dtype)
    cut, loaded = tensors(tmp_path / "cut"), tensors(tmp_path / "loaded")
    assert cut.keys() == loaded.keys()
    assert all(torch.equal(cut[key], loaded[key]) for key in cut)
    assert any(cut[key].shape != value.shape for key, value in tensors(source).items())
    assert sorted(path.name for path in (tmp_path / "cut").glob("*.safetensors")) == shards
    configs = [json.loads((tmp_path / n / "config.json").read_text()) for n in ("cut", "loaded")]
    assert configs[0]["deadhead"] == configs[1]["deadhead"]
    assert (tmp_path / "cut/LICENSE").read_text() == "free"
    assert discover(load(tmp_path / "cut")) == discover(load(tmp_path / "loaded"))


def test_twice_and_by_single_heads(tmp_path):
    source = saved("llama", tmp_path / "whole", max_shard_size="20KB")
    first = prune_by_shards(str(source), tmp_path / "once", lambda _: REMOVED["llama"])
    again = {"choose": lambda _: ["decoder.1.0"], "groups": "expand"}
    second = prune_by_shards(str(tmp_path / "once"), tmp_path / "twice", **again)
    prune_saved(str(tmp_path / "once"), tmp_path / "loaded", **again)
    assert second.left == first.left - 1
    cut, loaded = tensors(tmp_path / "twice"), tensors(tmp_path / "loaded")
    assert all(torch.equal(cut[key], loaded[key]) for key in loaded)
    assert len(discover(load(tmp_path / "twice"))) == second.left


def test_memory_is_that_of_one_tensor(tmp_path):
    config = LlamaConfig(
        num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=4, hidden_size=128,
        intermediate_size=256, vocab_size=256, max_position_embeddings=64,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path / "whole", max_shard_size="1MB")
    sizes = [path.stat().st_size for path in (tmp_path / "whole").glob("*.safetensors")]
    layer = 4 * (4 * 128 * 128 + 3 * 128 * 256)
    tracemalloc.start()
    try:
        prune_by_shards(str(tmp_path / "whole"), tmp_path / "cut", lambda _: ["decoder.0.0"])
        before = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        every = [bytes(path.read_bytes()) for path in (tmp_path / "whole").glob("*.safetensors")]
        assert tracemalloc.get_traced_memory()[1] >= sum(map(len, every))  # it counts such bytes
    finally:
        tracemalloc.stop()
    assert sum(sizes) > 2 * (1.2 * max(sizes) + layer)
    assert before < 1.2 * max(sizes) + layer


def test_what_it_refuses(tmp_path):
    source = saved("llama", tmp_path / "whole")
    save(load(source), tmp_path / "padded", form="padded")
    with pytest.raises(UnsupportedModel, match="compact"):
        prune_by_shards(str(tmp_path / "padded"), tmp_path / "out", lambda _: REMOVED["llama"])
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "intermediate_size": 4}))
    with pytest.raises(UnsupportedModel, match="shape"):
        prune_by_shards(str(source), tmp_path / "out", lambda _: REMOVED["llama"])
    (source / "model.safetensors").unlink()
    with pytest.raises(FolderError, match="no safetensors"):
        prune_by_shards(str(source), tmp_path / "out", lambda _: REMOVED["llama"])
    assert not (tmp_path / "out").exists()
