"""Whether `gated` computes what hooks on `hook_z` of TransformerLens compute, to 1e-5; and edges.

    python -m venv --system-site-packages lens && lens/bin/pip install transformer-lens==4.3.0
    lens/bin/python benchmarks/against_transformer_lens.py [--model FOLDER] [--json results.json]

Both libraries get copies of the same weights and use eager attention, as TransformerLens always
does. For each change the table has the largest difference between their logits at real tokens,
beside how far the change moved the logits, so that a hook which does nothing cannot pass. The small
random models have float64 weights: in float32, rounding alone moves the logits of GPT-2 by 1e-5,
since TransformerLens splits its joint projection into three. `--model` adds a decoder in a folder,
or in a `.gguf` file, which needs `pip install gguf`.

It is not a test of the suite, since TransformerLens brings 23 further packages, 100 MB together,
most of it wandb.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers
from rich.console import Console
from rich.table import Table
from transformer_lens.model_bridge.sources import build_bridge_from_module
from transformer_lens.tools.analysis.attribution_patching import (
    EdgeAttributionConfig,
    attribution_patch,
)
from transformers import AutoModelForCausalLM

from deadhead import Head, captured, discover, edge_effects, gated, head_means
from deadhead.effects import logit_difference

LIMIT = 1e-5
PACKAGES = ("torch", "transformers", "transformer-lens")
VOCABULARY, LENGTH, PADDING = 97, 12, 4
SHARED = {"vocab_size": VOCABULARY, "initializer_range": 0.3, "attn_implementation": "eager"}
WIDE = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "intermediate_size": 96,
}
CONFIGS: dict[str, Callable[[], Any]] = {
    "GPT-2": lambda: transformers.GPT2Config(n_embd=64, n_layer=3, n_head=8, **SHARED),
    "Llama": lambda: transformers.LlamaConfig(num_key_value_heads=8, **WIDE, **SHARED),
    "Llama, grouped": lambda: transformers.LlamaConfig(num_key_value_heads=2, **WIDE, **SHARED),
    "Qwen2": lambda: transformers.Qwen2Config(num_key_value_heads=2, **WIDE, **SHARED),
}
Batch = dict[str, torch.Tensor]
Hook = Callable[..., torch.Tensor]


def small(name: str) -> Any:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(CONFIGS[name]()).eval().double()
    with torch.no_grad():  # biases of zeros would hide an output bias that is added twice
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def stored(path: Path) -> Any:
    options: dict[str, Any] = {"dtype": torch.float32, "attn_implementation": "eager"}
    if path.suffix != ".gguf":
        return AutoModelForCausalLM.from_pretrained(path, **options).eval()
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, **options).eval()
    # transformers marks weights from a GGUF file as quantised, although they are plain floats
    model.is_quantized, model.hf_quantizer = False, None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    return model


def batches(model: Any) -> tuple[Batch, Batch]:
    """A clean and a corrupt batch; the last example of each is padded on the right."""
    torch.manual_seed(1)
    mask = torch.ones(4, LENGTH, dtype=torch.long)
    mask[-1, -PADDING:] = 0
    size = model.config.vocab_size
    clean, corrupt = ({"input_ids": torch.randint(3, size, (4, LENGTH))} for _ in range(2))
    return {**clean, "attention_mask": mask}, {**corrupt, "attention_mask": mask}


def some_heads(model: Any) -> list[Head]:
    """In every layer its second head, and half of the first layer."""
    layout = discover(model)
    first = min(head.layer for head in layout)
    half = layout.size(layout.blocks[0]) // 2
    return [h for h in layout if h.index == 1 or (h.layer == first and h.index < half)]


class Lens:
    """The same changes, written as a user of TransformerLens writes them."""

    def __init__(self, model: Any):
        own = copy.deepcopy(model)  # since TransformerLens replaces parts of it
        name = type(model).__name__
        self.bridge = build_bridge_from_module(own, name, hf_config=own.config)

    def logits(self, batch: Batch, hooks: dict[str, Hook] | None = None) -> torch.Tensor:
        with torch.no_grad():
            return self.bridge.run_with_hooks(
                batch["input_ids"],
                attention_mask=batch["attention_mask"],
                fwd_hooks=list((hooks or {}).items()),
            )

    def outputs(self, batch: Batch, layers: Iterable[int]) -> dict[int, torch.Tensor]:
        """For each of these layers the outputs of its heads: batch x positions x heads x width."""
        kept: dict[int, torch.Tensor] = {}

        def keeping(layer: int) -> Hook:
            def keep(z: torch.Tensor, hook: Any) -> None:
                kept[layer] = z.detach().clone()

            return keep

        self.logits(batch, {name_of(layer): keeping(layer) for layer in layers})
        return kept

    @staticmethod
    def replaced(
        heads: list[Head], values: Mapping[int, torch.Tensor], positions: Any = slice(None)
    ) -> dict[str, Hook]:
        """Hooks that replace the output of these heads by the values of their layer.

        values: by layer, something that broadcasts to batch x positions x heads x width.
        """

        def replacing(layer: int) -> Hook:
            def replace(z: torch.Tensor, hook: Any) -> torch.Tensor:
                new = values[layer].to(z.dtype).expand_as(z)
                z = z.clone()
                for head in heads:
                    if head.layer == layer:
                        z[:, positions, head.index] = new[:, positions, head.index]
                return z

            return replace

        return {name_of(layer): replacing(layer) for layer in {head.layer for head in heads}}


def name_of(layer: int) -> str:
    return f"blocks.{layer}.attn.hook_z"


def cases(
    model: Any, lens: Lens, clean: Batch, heads: list[Head]
) -> Iterator[tuple[str, dict[str, Any], dict[str, Hook]]]:
    """The name of a change, what `gated` gets, and the hooks of TransformerLens."""
    patch = lens.outputs(clean, {head.layer for head in heads})
    real = clean["attention_mask"].bool()
    zero = {layer: torch.zeros(1, 1, 1, 1) for layer in patch}
    mean = {layer: z[real].double().mean(dim=0) for layer, z in patch.items()}
    with torch.no_grad(), captured(model) as run:
        model(**clean)
    means = head_means(model, [clean])
    place = [LENGTH - PADDING - 1]
    yield "zero", {}, lens.replaced(heads, zero)
    yield "zero at one position", {"positions": place}, lens.replaced(heads, zero, place)
    yield "mean", {"fill": means}, lens.replaced(heads, mean)
    yield "patch from clean", {"fill": run}, lens.replaced(heads, patch)
    at_place = {"fill": run, "positions": place}
    yield "patch at one position", at_place, lens.replaced(heads, patch, place)


def compared(name: str, model: Any) -> list[dict[str, Any]]:
    clean, corrupt = batches(model)
    heads, lens, real = some_heads(model), Lens(model), corrupt["attention_mask"].bool()

    def apart(one: torch.Tensor, two: torch.Tensor) -> float:
        return float((one - two)[real].abs().max())

    with torch.no_grad():
        logits = model(**corrupt).logits
    rows = [
        {"model": name, "change": "none", "difference": apart(logits, lens.logits(corrupt))}
        | {"moved": 0.0, "largest logit": float(logits[real].abs().max())}
    ]
    for change, options, hooks in cases(model, lens, clean, heads):
        with torch.no_grad(), gated(model, closed=heads, **options):
            ours = model(**corrupt).logits
        theirs = lens.logits(corrupt, hooks)
        rows.append(
            {"model": name, "change": change, "difference": apart(ours, theirs)}
            | {"moved": apart(ours, logits), "largest logit": float(ours[real].abs().max())}
        )
    return rows


def node_of(node: Any) -> str:
    """How deadhead names a node of TransformerLens."""
    whole = {"embed": "decoder.input", "logits": "output"}
    if node.kind in whole:
        return whole[node.kind]
    if node.head is None:
        return f"decoder.{node.layer}.neurons"
    read = "" if node.kind == "attn_head_out" else f".{node.kind[0]}"
    return f"decoder.{node.layer}.{node.head}{read}"


def compared_edges(name: str, model: Any) -> dict[str, Any]:
    """All edges by both; TransformerLens scores each position, and takes the gradient at corrupt.

    It refuses grouped queries.
    """
    lens = Lens(model)
    clean, corrupt = ({"input_ids": batch["input_ids"]} for batch in batches(model))
    metric = logit_difference(5, 6)
    start = time.process_time()
    ours = edge_effects(model, clean, corrupt, metric, progress=False)
    seconds = [time.process_time() - start]
    start = time.process_time()
    theirs = attribution_patch(
        lens.bridge,
        corrupt["input_ids"],
        clean["input_ids"],
        lambda logits: logits[0, -1, 5] - logits[0, -1, 6],
        EdgeAttributionConfig(granularity="edge"),
    )
    seconds.append(time.process_time() - start)
    effects: dict[tuple[str, str], float] = {}
    for (source, target), effect in (theirs.edge_scores or {}).items():
        edge = (node_of(source), node_of(target))
        effects[edge] = effects.get(edge, 0.0) + effect
    if len(effects) != len(ours):
        sys.exit(f"{name}: {len(ours)} edges, TransformerLens has {len(effects)}")
    apart = max(abs(ours[edge] - effect) for edge, effect in effects.items())
    return {
        "model": name,
        "change": f"{len(ours)} edges",
        "difference": apart,
        "moved": max(map(abs, effects.values())),
        "largest logit": 0.0,
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a folder with a decoder, or a .gguf file")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    models: dict[str, Callable[[], Any]] = {name: lambda n=name: small(n) for name in CONFIGS}
    if options.model:
        models[options.model.stem] = lambda: stored(options.model)
    rows = [row for name, build in models.items() for row in compared(name, build())]
    rows += [compared_edges(name, small(name)) for name in ("GPT-2", "Llama")]
    table = Table("model", "change", "largest difference", "logits moved by", "largest logit")
    for row in rows:
        numbers = (row[key] for key in ("difference", "moved", "largest logit"))
        table.add_row(row["model"], row["change"], *(f"{number:.2g}" for number in numbers))
    Console(width=110).print(table)
    if options.json:
        facts = {"versions": {name: version(name) for name in PACKAGES}, "results": rows}
        options.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    unequal = [r for r in rows if r["difference"] > LIMIT]
    still = [r for r in rows if r["change"] != "none" and r["moved"] < 100 * LIMIT]
    if unequal or still:
        sys.exit(f"{len(unequal)} cases differ by more than {LIMIT}, {len(still)} changed nothing")


if __name__ == "__main__":
    main()
