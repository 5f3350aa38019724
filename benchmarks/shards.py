"""The memory that cutting a sharded folder takes, by loading it and file by file.

    python benchmarks/shards.py [--layers 8] [--width 1024] [--shard 50MB] [--json FILE]

A Llama of random weights is saved in several files. Each way of cutting runs in a process of its
own, whose largest memory is compared with that of a process that only imports deadhead and builds
the same model without weights. Goal: file by file, at most 1.2 times the largest file plus a layer. Needs Linux.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from machine import torch_machine
from transformers import LlamaConfig, LlamaForCausalLM

CODE = """
import re, sys
from pathlib import Path
from deadhead.saved.prune import prune_saved
from deadhead.saved.prune_shards import prune_by_shards
from deadhead.heads.skeleton import skeleton
way, folder, out = sys.argv[1:]
heads = lambda layout: [head for head in layout if head.index == 0]
if way == "nothing":
    skeleton(folder)
else:
    {"loaded": prune_saved, "by shards": prune_by_shards}[way](folder, Path(out), heads)
# not getrusage, which a process inherits from the larger one that started it
status = Path("/proc/self/status").read_text()
print(1024 * int(re.search("VmHWM:\\s*(\\d+)", status)[1]))
"""


def build(options: argparse.Namespace, folder: Path) -> dict[str, int]:
    config = LlamaConfig(
        num_hidden_layers=options.layers, num_attention_heads=16, num_key_value_heads=16,
        hidden_size=options.width, intermediate_size=4 * options.width, vocab_size=8192,
    )  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM._from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder, max_shard_size=options.shard)
    sizes = [path.stat().st_size for path in folder.glob("*.safetensors")]
    layer = sum(p.nbytes for p in model.model.layers[0].parameters())
    return {"files": len(sizes), "bytes": sum(sizes), "largest file": max(sizes), "layer": layer}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--shard", default="50MB")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        facts = build(options, Path(home) / "whole")
        peaks = {}
        for way in ("nothing", "loaded", "by shards"):
            arguments = [way, f"{home}/whole", f"{home}/{way}"]
            done = subprocess.run(
                [sys.executable, "-c", CODE, *arguments],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            peaks[way] = int(done.stdout.splitlines()[-1])
    limit = 1.2 * facts["largest file"] + facts["layer"]
    more = {way: peaks[way] - peaks["nothing"] for way in ("loaded", "by shards")}
    result = {
        "machine": torch_machine("cpu"),
        **facts,
        "peaks": peaks,
        "more than nothing": more,
        "goal": int(limit),
        "within the goal": more["by shards"] <= limit,
    }
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
