"""Models of about the same bytes: quantised, made smaller, or both.

    python benchmarks/prune_and_quantise.py lm --model FOLDER [--gguf NAME] --train train.txt
                                               --text test.txt --folder WORK --json FILE
    python benchmarks/prune_and_quantise.py tagger --model FOLDER --data DIR --folder WORK
                                                   --json FILE
    python benchmarks/prune_and_quantise.py --from FILE FILE --page PAGE --figure FILE.svg

Nothing is trained. Each model is made smaller by `shrink` in full precision, then written in each
format. WORK keeps the smaller models, and FILE its rows, so a second call continues.

`lm`: GGUF files of a language model. Perplexity is that of the model in float32 with the numbers
that the file stores; `export` has compared the file with llama.cpp before. `tagger`: an encoder
with a layer for parts of speech. f16 is the safetensors file, whose weights compute in float32;
int8 is the ONNX file in ONNX Runtime, which also rounds the inputs of int8 products.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from machine import loaded_cores, read_rows, versions, write_rows
from page import run
from prune_and_quantise_page import write_page
from shrink_lm import WINDOW, load_model, windows

from deadhead import load, save, shrink
from deadhead.exports import export
from deadhead.exports.gguf.decoder import read
from deadhead.exports.gguf.export import exported
from deadhead.exports.gguf.file import Rounded, as_stored
from deadhead.heads.model_files import tokenizer_of
from deadhead.training.evaluation import predict
from deadhead.training.models import encode_for

WHOLE = "whole"
WIDTH = {"layers": 0, "method": "fisher"}  # one method, since a second one takes twice as long
SMALLER_LM: dict[str, dict[str, Any]] = {
    WHOLE: {},
    "53 % of the parameters": {"parameters": 0.53, **WIDTH},
    "80 % of the parameters": {"parameters": 0.8, **WIDTH},
}
SMALLER_TAGGER: dict[str, dict[str, Any]] = {
    WHOLE: {},
    "half of the MACs": {"macs": 0.5},
    "English tokens": {"vocabulary": True},
}
GGUF_TYPES = ("f16", "q8_0", "q4_0")
TAGGER_TYPES = ("f16", "int8")
CALIBRATION, SCORED, BATCH = 8, 8, 2  # windows
EXAMPLES = 200  # sentences to calibrate on
EVERY = 4  # sentence of the test set is scored
SENTENCES = 20  # of a block


def todo(
    options: argparse.Namespace, smaller: dict[str, dict[str, Any]], types: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """The models and formats that have no row yet."""
    known = {(row["model"], row["format"]) for row in rows_of(options.json)}
    missing = [pair for pair in product(smaller, types) if pair not in known]
    yield from missing[: options.most]


def rows_of(file: Path) -> list[dict[str, Any]]:
    return read_rows(file) if file.exists() else []


def add(options: argparse.Namespace, row: dict[str, Any]) -> None:
    print({name: row[name] for name in row if name not in ("parts", "sizes")}, flush=True)
    write_rows(options.json, "cpu", [*rows_of(options.json), row])


def measure_lm(options: argparse.Namespace) -> None:
    whole, tokenizer = load_model(options.model, options.gguf, "cpu")
    text = windows(options.text, tokenizer)
    text = text[torch.linspace(0, len(text) - 1, SCORED).long()]
    train = windows(options.train, tokenizer)
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))
    train = train[order[:CALIBRATION]]
    batches = [{"input_ids": rows, "labels": rows} for rows in train.split(BATCH)]
    for name, kind in todo(options, SMALLER_LM, GGUF_TYPES):
        folder = options.folder / f"lm {name}"
        if not (folder / "config.json").exists():
            model, begin = copy.deepcopy(whole), time.perf_counter()
            if settings := SMALLER_LM[name]:
                shrink(model, batches, **settings, on=(1, WINDOW), progress=False)
            save(model, folder, tokenizer)
            (folder / "seconds").write_text(f"{time.perf_counter() - begin:.0f}")
        file = options.folder / "model.gguf"
        result = exported(folder, gguf=file, type=kind)
        model = load(folder, dtype=torch.float32).eval()
        use_stored(model, kind)
        row = facts(name, kind, folder, model, file)
        row |= {"same": result.comparison.same if result.comparison else None}
        file.unlink()
        add(options, {**row, "parts": losses(model, text), "sizes": WINDOW - 1})


@torch.no_grad()
def use_stored(model: Any, kind: str) -> None:
    """Give a model the numbers that a GGUF file of it stores."""
    if kind == "f16":
        matrices = [p for p in model.parameters() if p.dim() > 1]
        for matrix in matrices:
            matrix.copy_(matrix.half())
        return
    decoder = read(model)
    stored = as_stored(decoder, kind)
    for layer in stored.layers:
        for part in vars(layer).values():
            if isinstance(part, Rounded):
                part.weight.copy_(part.values)
    decoder.embeddings.copy_(stored.embeddings)
    if decoder.output is not None and stored.output is not None:
        decoder.output.copy_(stored.output)


@torch.no_grad()
def losses(model: Any, text: torch.Tensor) -> list[float]:
    """The loss of each window, summed over its tokens."""
    sums: list[float] = []
    for ids in text.to(model.device).split(BATCH):
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
        loss = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
        sums += [round(value, 3) for value in loss.sum(1).tolist()]
    return sums


def measure_tagger(options: argparse.Namespace) -> None:
    for name, kind in todo(options, SMALLER_TAGGER, TAGGER_TYPES):
        folder = options.folder / f"tagger {name}"
        if not (folder / "config.json").exists():
            shrink_tagger(options, folder, SMALLER_TAGGER[name])
        model = load(folder, dtype=torch.float32).eval()
        if kind == "int8":
            file = export(folder, onnx=options.folder / "model.onnx", int8=True)
            use_session(model, file)
        else:
            half = save(load(folder, dtype=torch.float16), options.folder / "half")
            file = half / "model.safetensors"
            use_stored(model, kind)
        row = facts(name, kind, folder, model, file)
        parts, sizes = correct_words(options, model, tokenizer_of(folder))
        add(options, {**row, "parts": parts, "sizes": sizes})


def shrink_tagger(options: argparse.Namespace, folder: Path, settings: dict[str, Any]) -> None:
    from deadhead.saved.shrink import ShrinkData, shrink_saved
    from deadhead.saved.vocabulary import trim_saved

    begin, settings = time.perf_counter(), dict(settings)
    texts = options.folder / "english.txt"
    english = data_of(options, "train")
    texts.write_text("\n".join(" ".join(row.texts) for row in english.rows) + "\n")
    vocabulary = [texts] if settings.pop("vocabulary", False) else []
    if settings:
        data = ShrinkData(
            task="pos", languages=["en"], examples=EXAMPLES, scored=100, guard=False,
            where={"root": options.data, "source": None},
        )  # fmt: skip
        shrink_saved(str(options.model), folder, data, settings, vocabulary=vocabulary)
    elif vocabulary:
        trim_saved(str(options.model), folder, vocabulary)
    else:
        save(load(options.model), folder, tokenizer_of(options.model))
    (folder / "seconds").write_text(f"{time.perf_counter() - begin:.0f}")


def data_of(options: argparse.Namespace, split: str) -> Any:
    from deadhead import load_data

    return load_data("pos", "en", split, root=options.data)


def use_session(model: Any, file: Path) -> None:
    """Have a model answer what ONNX Runtime answers."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]

    def forward(**batch: torch.Tensor) -> Any:
        zeros = torch.zeros_like(batch["input_ids"])  # types of tokens
        (logits,) = session.run(["logits"], {n: batch.get(n, zeros).numpy() for n in names})
        return SimpleNamespace(logits=torch.from_numpy(logits))

    model.forward = forward


def correct_words(options: argparse.Namespace, model: Any, tokenizer: Any) -> tuple[list[int], ...]:
    """For each block of test sentences, the words that a model tags correctly, and all words.

    Sentences of one document are near each other and not independent, so a block has many.
    """
    data = data_of(options, "test")
    data = replace(data, rows=data.rows[::EVERY])
    predictions = predict(model, encode_for(model, tokenizer, data)).named()
    pairs = list(zip(predictions, data.rows, strict=True))
    correct = [sum(a == b for a, b in zip(p, row.labels, strict=True)) for p, row in pairs]
    starts = range(0, len(pairs), SENTENCES)
    sizes = [len(row.labels) for _, row in pairs]
    return tuple([sum(n[i : i + SENTENCES]) for i in starts] for n in (correct, sizes))


def facts(name: str, kind: str, folder: Path, model: Any, file: Path) -> dict[str, Any]:
    return {
        "model": name,
        "format": kind,
        "bytes": file.stat().st_size,
        "parameters": model.num_parameters(),
        "seconds": int((folder / "seconds").read_text()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", nargs="?", choices=("lm", "tagger"))
    parser.add_argument("--model")
    parser.add_argument("--gguf", help="the name of a GGUF file in the folder")
    parser.add_argument("--train", help="a text file to calibrate on")
    parser.add_argument("--text", help="another one, to score on")
    parser.add_argument("--data", help="the folder of the data of tasks")
    parser.add_argument("--folder", type=Path, help="keeps the smaller models")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--most", type=int, help="rows of this call")
    parser.add_argument("--from", dest="results", type=Path, nargs=2, help="measured before")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    if options.what and options.model:
        print(loaded_cores(), versions("torch", "transformers", "gguf", "onnxruntime"))
        options.folder.mkdir(parents=True, exist_ok=True)
        {"lm": measure_lm, "tagger": measure_tagger}[options.what](options)
    elif options.results and options.page:
        write_page(options.page, options.figure, options.results)
    else:
        parser.error("name lm or tagger with --model to measure, or --from and --page")


if __name__ == "__main__":
    run(main)
