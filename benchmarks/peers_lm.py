"""A language model made smaller by other tools, and by ours: perplexity of what each saves.

    python benchmarks/peers_lm.py --model FOLDER [--gguf NAME] --calibration train.txt
                                  --text test.txt --peers torch-pruning=PYTHON optipfair=PYTHON
                                  [--shares 0.25,0.5] [--windows 64] [--scored 64] [--no-ours]
                                  [--device cuda] [--json FILE]
    python benchmarks/peers_lm.py --from FILE --page PAGE

Each peer removes a share of the feed-forward neurons with its own functions, as its documentation
shows, in a process of the PYTHON of its own environment. It reads the whole model as a folder and
the calibration windows, and saves an ordinary folder, whose perplexity we measure. Beside them: the
default of `shrink`, random neurons under our repair, and whole layers by similarity, without any
repair, until the model is as small. All get the same windows; peers that read no text get none.
Rows of FILE are not measured again, but for those that failed.

OSSCAR is that of amd-quark 0.13, which keeps multiples of 128 neurons and needs the packages onnxslim
and onnxscript, too. slimformers 1.13 reads at most ten batches, and needs transformers 4.49: it imports
`modeling_utils.Conv1D`, which 4.57 and 5 do not have.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

Batches = Sequence[dict[str, torch.Tensor]]
OURS = "deadhead"
CLOSE = 1e-3  # share of the full model's loss by which a peer's environment may differ


def torch_pruning(model: Any, batches: Batches, share: float, importance: str) -> Any:
    """By the groups that its dependency graph finds, each layer alike."""
    import torch_pruning as tp

    if importance == "GroupTaylorImportance":
        for batch in batches:
            model(**batch, labels=batch["input_ids"]).loss.backward()
    neurons = [p for layer in model.model.layers for p in (layer.mlp.gate_proj, layer.mlp.up_proj)]
    linear = (module for module in model.modules() if isinstance(module, torch.nn.Linear))
    pruner = tp.pruner.BasePruner(
        model,
        {"input_ids": batches[0]["input_ids"][:1], "use_cache": False},
        importance=getattr(tp.importance, importance)(),
        pruning_ratio=share,
        ignored_layers=[module for module in linear if all(module is not n for n in neurons)],
        output_transform=lambda output: output.logits,
    )
    pruner.step()
    model.zero_grad()
    return model


def optipfair(model: Any, batches: Batches, share: float) -> Any:
    from optipfair import prune_model

    return prune_model(
        model, pruning_percentage=100 * share, dataloader=batches, show_progress=False
    )


def osscar(model: Any, batches: Batches, share: float) -> Any:
    from quark.torch import ModelPruner
    from quark.torch.pruning.config import OSSCARConfig, PConfig

    config = OSSCARConfig(
        inside_layer_modules=["mlp.down_proj"],
        mlp_pruning_modules=["mlp.down_proj"],
        mlp_scaling_layers={"mlp.down_proj": ["mlp.up_proj", "mlp.gate_proj"]},
        mlp_pruning_ratio=share,
        mlp_intermediate_size_name="intermediate_size",
        model_decoder_layers="model.layers",
    )
    with torch.no_grad():
        pruner = ModelPruner(PConfig(algo_config=config))
        return pruner.pruning_model(model, [batch["input_ids"] for batch in batches])


def slimformers(model: Any, batches: Batches, share: float) -> Any:
    from slimformers import Pruner

    Pruner(model).prune_all_mlp_layers(batches, sparsity=share)
    return model


# name of a row -> its package, the windows in a batch of its documentation, what removes the neurons
PEERS: dict[str, tuple[str, int, Callable[..., Any], dict[str, Any]]] = {
    "torch-pruning, magnitude": (
        "torch-pruning", 1, torch_pruning, {"importance": "GroupMagnitudeImportance"},
    ),
    "torch-pruning, Taylor": (
        "torch-pruning", 1, torch_pruning, {"importance": "GroupTaylorImportance"},
    ),
    "optipfair": ("optipfair", 8, optipfair, {}),
    "OSSCAR": ("amd-quark", 1, osscar, {}),
    "slimformers": ("slimformers", 8, slimformers, {}),
}  # fmt: skip


def clock(device: str) -> float:
    """Seconds; on a CPU those of the processors, since others may be at work."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def work(name: str, folder: Path, share: float, device: str) -> None:
    """Run a peer, in its environment: read the model in a folder, and save a smaller one in it."""
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    package, size, remove, options = PEERS[name]
    ids = load_file(folder / "calibration.safetensors")["ids"].to(device)
    batches = [{"input_ids": window} for window in ids.split(size)]
    model = AutoModelForCausalLM.from_pretrained(folder / "whole").to(device).eval()
    with torch.no_grad():
        loss = float(model(input_ids=ids[:1], labels=ids[:1]).loss)
    expected = json.loads((folder / "loss.json").read_text())
    if not math.isclose(loss, expected, rel_tol=CLOSE):
        raise SystemExit(f"the whole model has a loss of {loss} here, expected {expected}")
    start = clock(device)
    model = remove(model, batches, share, **options)
    seconds = clock(device) - start
    sizes = {layer.mlp.down_proj.in_features for layer in model.model.layers}
    if len(sizes) > 1:
        raise SystemExit(f"expected the same number of neurons in each layer, got {sizes}")
    (model.config.intermediate_size,) = sizes
    model.save_pretrained(folder / "small")
    names = (package, "torch", "transformers")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in names)
    (folder / "row.json").write_text(json.dumps({"seconds": seconds, "versions": versions}))


def by_peer(
    name: str, python: str, folder: Path, share: float, device: str
) -> tuple[Any, dict[str, Any]]:
    """The model that a peer saves, and the numbers of its row; None and why it failed."""
    from transformers import AutoModelForCausalLM

    command = [python, __file__, "--work", name, str(folder), str(share), device]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return None, {"failed": (done.stderr or done.stdout).strip().split("\n")[-1]}
    model = AutoModelForCausalLM.from_pretrained(folder / "small").to(device).eval()
    return model, json.loads((folder / "row.json").read_text())


def depth_of(model: Any, share: float) -> int:
    """The number of layers with at least the parameters of this share of all neurons."""
    layers = model.model.layers
    neurons = sum(p.numel() for layer in layers for p in layer.mlp.parameters())
    return math.ceil(share * neurons / sum(p.numel() for p in layers[0].parameters()))


def ours_of(model: Any, share: float) -> dict[str, dict[str, Any]]:
    """Name of a row -> arguments of `shrink`."""
    return {
        OURS: {"neurons": share},
        "random neurons, our repair": {"neurons": share, "method": "random"},
        "layers by similarity, no repair": {
            "layers": depth_of(model, share), "method": "similarity", "repair": "none",
        },
    }  # fmt: skip


def rows_of(
    arguments: argparse.Namespace, folder: Path, is_known: Callable[[str, float | None], bool]
) -> Iterator[dict[str, Any]]:
    """The whole model, and each tool at each share, but for those that are known."""
    import copy
    import random

    from prune_and_quantise import losses
    from safetensors.torch import save_file
    from shrink_lm import WINDOW, load_model, windows

    from deadhead.shrinking import shrink

    device = arguments.device
    whole, tokenizer = load_model(arguments.model, arguments.gguf, device)
    text = windows(arguments.text, tokenizer)[: arguments.scored].to(device)
    train = windows(arguments.calibration, tokenizer)
    chosen = random.Random(arguments.seed).sample(range(len(train)), arguments.windows)
    ids = train[chosen]
    batches = [{"input_ids": some, "labels": some} for some in ids.split(8)]

    @torch.no_grad()
    def row(tool: str, model: Any, **more: Any) -> dict[str, Any]:
        sizes = [layer.mlp.down_proj.in_features for layer in model.model.layers]
        return {
            "tool": tool,
            **more,
            "parameters": sum(p.numel() for p in model.parameters()),
            "layers": len(sizes),
            "neurons": sum(sizes),
            "parts": losses(model, text),
            "sizes": WINDOW - 1,
        }

    whole.save_pretrained(folder / "whole")
    config = json.loads((folder / "whole" / "config.json").read_text())
    config |= config.get("rope_parameters") or {}  # transformers 4 reads it here
    (folder / "whole" / "config.json").write_text(json.dumps(config))
    save_file({"ids": ids.contiguous()}, folder / "calibration.safetensors")
    with torch.no_grad():
        first = ids[:1].to(device)
        (folder / "loss.json").write_text(str(float(whole(first, labels=first).loss)))
    if not is_known("whole", None):
        yield row("whole", whole)
    pythons = dict(peer.split("=", 1) for peer in arguments.peers)
    for share in map(float, arguments.shares.split(",")):
        for name, (package, *_) in PEERS.items():
            if package in pythons and not is_known(name, share):
                small, numbers = by_peer(name, pythons[package], folder, share, device)
                numbers["share"] = share
                yield {"tool": name, **numbers} if small is None else row(name, small, **numbers)
        for name, options in ours_of(whole, share).items() if arguments.ours else ():
            if is_known(name, share):
                continue
            model, start = copy.deepcopy(whole), clock(device)
            shrink(model, batches, **options, seed=arguments.seed, progress=False)
            yield row(name, model, share=share, seconds=clock(device) - start)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Perplexity by tool and share, with the change from our own on the same windows."""
    from page import markdown
    from prune_and_quantise_page import change, quality

    shares = list(dict.fromkeys(row["share"] for row in rows if "share" in row))
    by = {(row["tool"], row.get("share")): row for row in rows}
    titles, lines = ["tool"], {tool: [tool] for tool, share in by if share}
    for share in shares:
        ours = by.get((OURS, share))
        titles += [f"without {100 * share:.0f} %", *([f"against {OURS}"] if ours else [])]
        for tool, line in lines.items():
            row = by.get((tool, share), {})
            line.append(f"{quality(row):,.1f}" if "parts" in row else row.get("failed", ""))
            if ours:
                has_both = "parts" in row and tool != OURS
                mean, half = change(ours, row) if has_both else (0, 0)
                line.append(f"{mean:+,.0f} ± {half:,.0f} %" if has_both else "")
    return markdown(titles, list(lines.values()))


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        name, folder, share, device = sys.argv[2:]
        work(name, Path(folder), float(share), device)
        return
    from page import measure_or_write  # a peer's environment has no deadhead

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--gguf", help="the name of a GGUF file in the folder")
    parser.add_argument("--calibration", help="a text file")
    parser.add_argument("--text", help="another one, to measure on")
    packages = ", ".join(dict.fromkeys(package for package, *_ in PEERS.values()))
    parser.add_argument("--peers", nargs="*", default=[], help=f"PACKAGE=PYTHON, of {packages}")
    parser.add_argument("--shares", default="0.25,0.5", help="of the neurons, to remove")
    parser.add_argument("--windows", type=int, default=64, help="of 512 tokens, to calibrate with")
    parser.add_argument("--scored", type=int, default=64, help="of 512 tokens, to measure on")
    parser.add_argument("--seed", type=int, default=0, help="of the windows and random neurons")
    parser.add_argument("--no-ours", dest="ours", action="store_false", help="the peers alone")
    parser.add_argument("--device", default="cpu")
    measure_or_write(parser, Path(__file__).name, measure, lambda files: table(rows_in(*files)))


def rows_in(*files: Path) -> list[dict[str, Any]]:
    from machine import read_rows

    return [row for file in files if file.exists() for row in read_rows(file)]


def measure(arguments: argparse.Namespace) -> None:
    from machine import write_rows

    names = ("windows", "scored", "seed")
    protocol = {name: getattr(arguments, name) for name in names}
    files = [arguments.json] if arguments.json else []
    rows = [row for row in rows_in(*files) if "failed" not in row]
    if any(not protocol.items() <= row.items() for row in rows):
        raise SystemExit(f"{arguments.json} has rows of other windows; name another file")
    known = {(row["tool"], row.get("share")) for row in rows}
    with tempfile.TemporaryDirectory() as folder:
        for row in rows_of(arguments, Path(folder), lambda *key: key in known):
            rows.append({**row, **protocol})
            print(json.dumps(rows[-1]), flush=True)
            write_rows(arguments.json, arguments.device, rows)
    print(table(rows))


if __name__ == "__main__":
    main()
