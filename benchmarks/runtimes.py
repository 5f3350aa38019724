"""Pruned language models in other runtimes: do they load, do they answer the same, how fast are they.

    python benchmarks/runtimes.py [--real FOLDER] [--tokenizer-from FILE] [--only NAME ...]
                                  [--tokens 48] [--json results.json]

Every model is written and run whole (the control) and pruned in four ways. Per runtime: the prompts
after which it generates the same greedy tokens as the model, the largest difference of two
log-probabilities, megabytes, and tokens per second of one thread. Compare speeds within a run only.
A runtime is an entry in `RUNTIMES`: a function of a saved model that returns a `Row`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from machine import loaded_cores, versions
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from deadhead import discover, head_means, load, prune, save
from deadhead.errors import DeadheadError
from deadhead.heads.exports.gguf import runtime
from deadhead.heads.exports.gguf.export import TEXTS, exported
from deadhead.heads.model_files import tokenizer_of

SIZES = {
    "vocab_size": 512,
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "initializer_range": 0.1,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("Llama", {"tie_word_embeddings": False}),
    "Mistral": ("Mistral", {"sliding_window": None}),
    "Qwen2": ("Qwen2", {}),
    "Qwen3 tied": ("Qwen3", {"tie_word_embeddings": True}),
    "Qwen3 untied": ("Qwen3", {"tie_word_embeddings": False}),
}
CHANGES = ("whole", "uneven heads", "emptied layer", "mean fill", "fewer neurons")


class Row(NamedTuple):
    """How a runtime does with a model."""

    loads: bool
    same: str = ""  # prompts with the same greedy tokens, of all prompts
    gap: float | None = None  # the largest difference of two log-probabilities
    megabytes: float | None = None
    tokens_per_second: float | None = None
    problem: str = ""


def bytes_tokenizer() -> Any:
    """A tokenizer with a token for each byte, and one merge."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = ["<unk>", "<s>", "</s>", *alphabet, "th"]
    vocabulary = {word: number for number, word in enumerate(words)}
    inner = Tokenizer(models.BPE(vocabulary, [("t", "h")]))  # llama.cpp needs a merge
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )


def built(name: str) -> tuple[Any, Any]:
    """A random model of this structure, and its tokenizer."""
    kind, settings = MODELS[name]
    model_class = getattr(transformers, f"{kind}ForCausalLM")
    torch.manual_seed(0)
    model = model_class(model_class.config_class(**{**SIZES, **settings})).eval()
    return model, bytes_tokenizer()


def changed(model: Any, change: str) -> Any:
    """Remove a key/value group from every second layer, and what the change says besides."""
    if change == "whole":
        return model
    layout = discover(model, neurons=True)
    layers = list(layout.attentions)
    heads = [
        f"decoder.{layer.layer}.{head}"
        for layer in layers[::2]
        for head in range(layer.group * (layer.layer % 3), layer.group * (layer.layer % 3 + 1))
    ]
    middle = layers[len(layers) // 2]
    if change in ("emptied layer", "mean fill"):
        empty = [f"decoder.{middle.layer}.{head}" for head in range(middle.size)]
        heads = [*dict.fromkeys([*heads, *empty])]
    neurons = {
        ("decoder", part.layer): range(part.size // 4 + 5 * part.layer)
        for part in layout.feed_forwards
    }
    fill = None
    if change == "mean fill":
        ids = torch.arange(4, 260).view(4, 64)
        fill = head_means(model, [{"input_ids": ids}], neurons=True)
    with_neurons = change in ("fewer neurons", "mean fill")
    return prune(model, heads, neurons=neurons if with_neurons else None, fill=fill)


def run_transformers(folder: Path, tokens: int, **_: Any) -> Row:
    model, tokenizer = load(folder).eval(), tokenizer_of(folder)
    batch = tokenizer(TEXTS[0], return_tensors="pt")
    options = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False}
    model.generate(**batch, **{**options, "max_new_tokens": 2, "min_new_tokens": 2})
    start = time.perf_counter()
    model.generate(**batch, **options, pad_token_id=0)
    speed = tokens / (time.perf_counter() - start)
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return Row(True, "reference", 0.0, size / 1e6, speed)


def run_llama_cpp(folder: Path, tokens: int, *, type: str, tokenizer_from: Any) -> Row:
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "model.gguf"
        try:
            result = exported(folder, gguf=file, type=type, tokenizer_from=tokenizer_from)
        except DeadheadError as problem:
            return Row(False, problem=problem.message)
        compared = result.comparison
        if compared is None:
            return Row(False, problem="xllamacpp is not installed")
        prompt = tokenizer_of(folder)(TEXTS[0])["input_ids"]
        reply = runtime.ask(file, [prompt], tokens=1, likeliest=1, timed=tokens)
        same, size = f"{compared.same} of {compared.prompts}", file.stat().st_size / 1e6
        return Row(True, same, compared.gap, size, reply["tokens_per_second"])


RUNTIMES: dict[str, Callable[..., Row]] = {
    "transformers": run_transformers,
    **{f"llama.cpp {type}": partial(run_llama_cpp, type=type) for type in ("f32", "f16", "q8_0")},
}


def rows(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    names = [*MODELS, *([Path(arguments.real).name] if arguments.real else [])]
    for name in arguments.only or names:
        for change in CHANGES:
            if name in MODELS:
                model, tokenizer = built(name)
            else:
                model, tokenizer = load(arguments.real).eval(), tokenizer_of(arguments.real)
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place) / "model"
                save(changed(model, change), folder, tokenizer)
                source = None if name in MODELS else arguments.tokenizer_from
                for label, run in RUNTIMES.items():
                    options = {} if label == "transformers" else {"tokenizer_from": source}
                    row = run(folder, arguments.tokens, **options)
                    yield {"model": name, "change": change, "runtime": label, **row._asdict()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--real", help="a folder with a language model of real weights")
    parser.add_argument("--tokenizer-from", help="a GGUF file with the tokenizer of --real")
    parser.add_argument("--only", nargs="*", help="names of models")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    facts = {
        "machine": loaded_cores(),
        "versions": versions("torch", "transformers", "gguf", "xllamacpp"),
        "tokens": arguments.tokens,
        "rows": [],
    }
    table = Table("model", "change", "runtime", "same tokens", "largest gap", "MB", "tokens/s")
    for row in rows(arguments):
        facts["rows"].append(row)
        numbers = (row["gap"], row["megabytes"], row["tokens_per_second"])
        cells = ["" if n is None else f"{n:.3g}" for n in numbers]
        same = row["same"] if row["loads"] else row["problem"]
        table.add_row(row["model"], row["change"], row["runtime"], same, *cells)
        if arguments.json:
            arguments.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    Console().print(table)


if __name__ == "__main__":
    main()
