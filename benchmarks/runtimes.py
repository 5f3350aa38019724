"""Pruned language models in other runtimes: do they load, answer the same, how fast are they.

    python benchmarks/runtimes.py [--real FOLDER --name NAME [--tokenizer-from FILE.gguf]]
                                  [--only NAME ...] [--runtimes NAMES] [--tokens 48] [--repeats 5]
                                  [--json RESULTS.json] [--page FILE.md] [--appendix FOLDER]
    python benchmarks/runtimes.py --from RESULTS.json [--page FILE.md] [--appendix FOLDER]

Every model is written and run whole (the control) and pruned in four ways. Per runtime: the prompts
after which it generates the same greedy tokens as transformers, the largest difference from the
model (as a share of the largest value), megabytes, and how many times as fast as the whole model
the pruned one is in the same runtime, with one thread, in turns. Compare speeds within a run only.
The second command prints what was measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from in_runtimes import compare_runtimes
from machine import loaded_cores, versions
from page import fill, markdown, write_csv
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from deadhead import discover, head_means, load, prune, save
from deadhead.exports.gguf.export import TEXTS
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
RUNTIMES = "transformers,onnx,onnx-genai,llama.cpp:f32,llama.cpp:f16,llama.cpp:q8_0"
PACKAGES = ("torch", "transformers", "onnxruntime", "onnxruntime-genai", "xllamacpp", "gguf")
CHANGES = ("whole", "uneven heads", "emptied layer", "mean fill", "fewer neurons")


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


def removed_neurons(size: int, layer: int, is_trained: bool) -> range:
    """Of random weights a quarter and more; of trained ones an eighth and more, the last ones.

    SmolLM2 cannot do without some of its first neurons. It predicts nothing without them, and
    rounding to f16 alone changes its answers, so that export refuses the file.
    """
    if is_trained:
        return range(size - size // 8 - 5 * layer, size)
    return range(size // 4 + 5 * layer)


def changed(model: Any, change: str, tokenizer: Any = None) -> Any:
    """Remove a key/value group from every second layer, and what the change says besides.

    tokenizer: of a trained model, whose means are those on the prompts.
    """
    is_trained = tokenizer is not None
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
        ("decoder", part.layer): removed_neurons(part.size, part.layer, is_trained)
        for part in layout.feed_forwards
    }
    fill = None
    if change == "mean fill":
        rows = [torch.arange(4, 260).view(4, 64)]
        if is_trained:
            rows = [tokenizer(text, return_tensors="pt")["input_ids"] for text in TEXTS]
        fill = head_means(model, [{"input_ids": ids} for ids in rows], neurons=True)
    with_neurons = change in ("fewer neurons", "mean fill")
    return prune(model, heads, neurons=neurons if with_neurons else None, fill=fill)


def comparisons(arguments: argparse.Namespace, place: Path) -> Iterator[tuple[str, list[Any]]]:
    """Each model by name, and the folders to compare: the changed ones, and the whole one last.

    A real model is compared change by change, since all folders of a comparison are in memory.
    """
    real = arguments.name if arguments.real else None
    for name in arguments.only or [*MODELS, *([real] if real else [])]:
        folders = []
        for change in (*CHANGES[1:], CHANGES[0]):
            if name == real:
                model, tokenizer = load(arguments.real).eval(), tokenizer_of(arguments.real)
            else:
                model, tokenizer = built(name)
            small = changed(model, change, tokenizer if name == real else None)
            folders.append(save(small, place / name / change, tokenizer))
        if name == real:
            yield from ((name, [folder, folders[-1]]) for folder in folders[:-1])
        else:
            yield name, folders


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    torch.set_num_threads(1)
    facts: dict[str, Any] = {
        "machine": loaded_cores(),
        "versions": versions(*PACKAGES),
        "prompts": len(TEXTS),
        "tokens": arguments.tokens,
        "rounds": arguments.repeats,
        "rows": [],
    }
    options = {"new_tokens": arguments.tokens, "repeats": arguments.repeats, "prompts": TEXTS}
    runtimes = arguments.runtimes.split(",")
    with tempfile.TemporaryDirectory() as place:
        for name, folders in comparisons(arguments, Path(place)):
            tokenizer = arguments.tokenizer_from if name == arguments.name else None
            result = compare_runtimes(folders, runtimes, tokenizer_from=tokenizer, **options)
            for row in result["rows"]:
                row = {**row, "model": name, "change": Path(row["model"]).name}
                if row["problem"]:
                    row["problem"] = row["problem"].replace(f"{place}/", "")
                facts["rows"].append(row)
            print(f"{name}: {', '.join(folder.name for folder in folders)}", file=sys.stderr)
            if arguments.json:  # after every model: an interrupted run keeps what it has
                arguments.json.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return facts


def same_text(row: dict[str, Any], prompts: int) -> str:
    """Whether a runtime generates the tokens of the model, and the largest difference from it."""
    if row["problem"]:
        return "no"
    return f"{row['same_tokens']} of {prompts}, {row['largest_difference']:.0e}"


def cost_text(row: dict[str, Any]) -> str:
    """Megabytes and new tokens per second; of a pruned model, the speed beside the whole one."""
    if row["problem"]:
        return "no"
    speed = f"{row['new_tokens_per_second']:.0f}/s"
    if (ratio := row["ratios"]["new"]) is not None:
        speed = f"{ratio:.2f} x"
    return f"{row['file_bytes'] / 1e6:.1f}, {speed}"


def tables(facts: dict[str, Any]) -> dict[str, str]:
    """Return the tables as Markdown: of all models together, then each of them by its own."""
    by_model: dict[tuple[str, str], dict[str, Any]] = {}
    for row in facts["rows"]:  # of a real model, the whole one is in every comparison
        by_model.setdefault((row["model"], row["runtime"]), {}).setdefault(row["change"], row)
    same, costs = [], []
    together: dict[str, list[list[dict[str, Any]]]] = {}
    for (model, runtime), rows in by_model.items():
        parts = [rows[change] for change in CHANGES]
        if runtime != "transformers":
            same.append([model, runtime, *(same_text(row, facts["prompts"]) for row in parts)])
            together.setdefault(runtime, []).append(parts)
        costs.append([model, runtime, *(cost_text(row) for row in parts)])
    summary = [
        [runtime, *(summary_text(rows, facts["prompts"]) for rows in zip(*models, strict=True))]
        for runtime, models in together.items()
    ]
    titles = ["model", "runtime", *CHANGES]
    return {
        "summary": markdown(titles[1:], summary),
        "same-tokens": markdown(titles, same),
        "costs": markdown(titles, costs),
    }


def summary_text(rows: Sequence[dict[str, Any]], prompts: int) -> str:
    """Of how many prompts a runtime generates the tokens of the models that it runs."""
    run = [row for row in rows if not row["problem"]]
    return f"{sum(row['same_tokens'] for row in run)} of {prompts * len(run)}"


def machine_text(facts: dict[str, Any]) -> str:
    return (
        f"{facts['machine']}. {facts['versions']}. One thread, {facts['prompts']} prompts, "
        f"{facts['tokens']} new tokens after each, {facts['rounds']} rounds."
    )


def reasons(facts: dict[str, Any]) -> list[str]:
    """Say why a runtime did not run a model."""
    return [
        f"- Not run: {row['model']}, {row['change']}, {row['runtime']}: {row['problem']}"
        for row in facts["rows"]
        if row["problem"]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--real", help="the folder of a language model")
    parser.add_argument("--name", default="real", help="how the tables name it")
    parser.add_argument("--tokenizer-from", help="a GGUF file with its tokenizer, see export")
    parser.add_argument("--only", nargs="*", help="names of models")
    parser.add_argument("--runtimes", default=RUNTIMES)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the measurements to this file")
    parser.add_argument("--page", type=Path, help="write the summary into this page")
    parser.add_argument("--appendix", type=Path, help="write the other tables as CSV files here")
    results = "print what --json wrote, instead of measuring"
    parser.add_argument("--from", dest="results", type=Path, help=results)
    arguments = parser.parse_args()
    if arguments.results:
        facts = json.loads(arguments.results.read_text(encoding="utf-8"))
    else:
        facts = measure(arguments)
    by_name = tables(facts)
    print("\n\n".join([machine_text(facts), *by_name.values(), *reasons(facts)]))
    if arguments.page:
        parts = [machine_text(facts), by_name["summary"], *reasons(facts)]
        fill(arguments.page, "runtimes.py", parts)
    if arguments.appendix:
        for name in ("same-tokens", "costs"):
            write_csv(arguments.appendix / f"runtimes-{name}.csv", [({}, by_name[name])])


if __name__ == "__main__":
    main()
