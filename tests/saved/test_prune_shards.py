"""Cutting the files tensor by tensor: the same folder as by loading, in the memory of one tensor."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import LlamaConfig, LlamaForCausalLM

from architectures.tiny import randomise, tiny
from deadhead.errors import FolderError, UnsupportedModel
from deadhead.heads import discover, load, save
from deadhead.saved.prune import prune_saved
from deadhead.saved.prune_shards import prune_by_shards

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


# The numbers are those of this process alone: getrusage would count the one that started it.
PEAKS = """
import re, sys
from pathlib import Path
from deadhead.saved.prune import prune_saved
from deadhead.saved.prune_shards import prune_by_shards

def memory(field):
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(field + r":\\s*(\\d+)", status)[1])

def cut(way, name):
    way(str(home / name), home / way.__name__ / name, lambda _: ["decoder.0.0", "decoder.0.1"])

home = Path(sys.argv[1])
cut(prune_by_shards, "small")  # loads every module and library
before = memory("VmRSS")
for way in (prune_by_shards, prune_saved):  # the peak of a process never falls: the larger last
    cut(way, "whole")
    print(memory("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="reads the memory of a process in /proc"
)
def test_memory_stays_below_one_file_and_a_layer(tmp_path):
    config = LlamaConfig(
        num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=4, hidden_size=1024,
        intermediate_size=4096, vocab_size=256, max_position_embeddings=64,
    )  # fmt: skip
    with torch.device("meta"):  # random numbers would take seconds
        model = LlamaForCausalLM._from_config(config, dtype=torch.bfloat16)
    model = model.to_empty(device="cpu")
    for parameter in model.parameters():
        parameter.data.zero_()
    model.save_pretrained(tmp_path / "whole", max_shard_size="70MB")
    saved("llama", tmp_path / "small")
    sizes = [path.stat().st_size for path in (tmp_path / "whole").glob("*.safetensors")]
    limit = 1.2 * max(sizes) + sum(p.nbytes for p in model.model.layers[0].parameters())
    assert sum(sizes) > 2 * limit
    done = subprocess.run(
        [sys.executable, "-c", PEAKS, str(tmp_path)], stdout=subprocess.PIPE, text=True, check=True
    )
    by_shards, loaded = map(int, done.stdout.split()[-2:])
    assert by_shards < limit
    assert loaded > limit  # the control: a whole model in memory is seen


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


def test_a_full_disk_is_one_error(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("deadhead.saved.prune_shards._cut_file", full)
    source = saved("bert", tmp_path / "whole")
    with pytest.raises(FolderError, match="cut cannot be written: No space left on device"):
        prune_by_shards(str(source), tmp_path / "cut", lambda _: REMOVED["bert"])
    assert not (tmp_path / "cut").exists()
