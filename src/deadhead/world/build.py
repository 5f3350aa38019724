"""Pre-train the two tiny models of the small world: `python -m deadhead.world.build [--out DIR]`.

Writes `encoder/` and `seq2seq/` (config, half-precision safetensors, tokenizer) and `log.json`, at most
6 MB in all, and ends with the proof that the encoder is of use: fine-tuned on English parts of speech
alone, it must tag the other languages far better than their most frequent tag would. To ask a
folder that is already there: `python -m deadhead.world.build --evaluate DIR`.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import AutoModelForSeq2SeqLM, AutoModelForTokenClassification, AutoTokenizer

from ..errors import DataError
from . import LANGUAGES, MODELS, pretrain, rows

LARGEST = 6_000_000  # bytes, both models with their tokenizers
STEPS = {"encoder": 5000, "seq2seq": 3000}  # under half an hour on two cores; a GPU does four times as many in minutes
RATES = {"encoder": 1e-3, "seq2seq": 1e-3}


def build(out: Path, steps: dict[str, int], device: str) -> dict[str, Any]:
    """Train both models into a folder; returns what is written to its log."""
    torch.manual_seed(0)
    spoken = pretrain.spoken()
    tokenizer = pretrain.train_tokenizer(spoken)
    sentences = pretrain.encoded(tokenizer, spoken)
    log: dict[str, Any] = {"device": device, "torch": torch.__version__, "transformers": transformers.__version__}
    log |= {"python": platform.python_version(), "sentences": len(sentences) * len(LANGUAGES), "vocabulary": tokenizer.get_vocab_size()}
    makers = {"encoder": (pretrain.new_encoder, pretrain.encoder_batches), "seq2seq": (pretrain.new_seq2seq, pretrain.seq2seq_batches)}
    for name, (new, batches) in makers.items():
        model, rng = new(), np.random.default_rng(0)
        print(f"{name}: {sum(p.numel() for p in model.parameters()):,} parameters on {device}", flush=True)
        tell = lambda line, name=name: print(f"{name}  {line}", flush=True)  # noqa: E731
        log[name] = pretrain.train(model, batches(sentences, rng), steps[name], RATES[name], device, tell)
        _save(model, pretrain.wrapped(tokenizer, name), out / name)
    log["pos from English"] = transfer(out, device)
    log["translation"] = translate(out, device)
    log["bytes"] = sum(file.stat().st_size for name in makers for file in (out / name).iterdir())
    (out / "log.json").write_text(json.dumps(log, indent=1) + "\n")
    if log["bytes"] > LARGEST:
        raise DataError(f"the models take {log['bytes']:,} bytes, more than {LARGEST:,}.", "make pretrain.VOCABULARY or the layers smaller")
    return log


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Half precision on disk; the config still says float32, so that it is loaded and fine-tuned as such."""
    model.to("cpu").half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)  # safetensors writes for its owner alone; a package is read by all
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float32"}, indent=1) + "\n")


def transfer(models: Path, device: str, epochs: int = 2, rate: float = 1e-3, seed: int = 0) -> dict[str, dict[str, float]]:
    """Fine-tune the encoder on English parts of speech and tag every language: accuracy on test beside the most frequent tag's."""
    torch.manual_seed(seed)
    train = rows("pos", "en", "train")
    tags = sorted({tag for lang in LANGUAGES for _, found in rows("pos", lang, "train") for tag in found})
    tokenizer = AutoTokenizer.from_pretrained(models / "encoder")
    model = AutoModelForTokenClassification.from_pretrained(models / "encoder", num_labels=len(tags)).to(device)
    optimizer, rng = torch.optim.AdamW(model.parameters(), lr=rate), np.random.default_rng(seed)
    total = epochs * len(range(0, len(train), 32))
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total)
    model.train()
    for _ in range(epochs):
        order = rng.permutation(len(train))
        for i in range(0, len(train), 32):
            model(**_tagged(tokenizer, [train[j] for j in order[i : i + 32]], tags, device)).loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    return {lang: _accuracy(model.eval(), tokenizer, lang, tags, device) for lang in LANGUAGES}


def _tagged(tokenizer: Any, examples: list[tuple[list[str], list[str]]], tags: list[str], device: str) -> dict[str, torch.Tensor]:
    """A batch in which the first piece of each word carries its tag."""
    batch = tokenizer([words for words, _ in examples], is_split_into_words=True, padding=True, return_tensors="pt")
    labels = torch.full(batch["input_ids"].shape, -100)
    for i, (_, found) in enumerate(examples):
        before = None
        for j, word in enumerate(batch.word_ids(i)):
            if word is not None and word != before:
                labels[i, j] = tags.index(found[word])
            before = word
    return {name: tensor.to(device) for name, tensor in {**batch, "labels": labels}.items()}


@torch.no_grad()
def _accuracy(model: Any, tokenizer: Any, lang: str, tags: list[str], device: str) -> dict[str, float]:
    test = list(rows("pos", lang, "test"))
    batch = _tagged(tokenizer, test, tags, device)
    labels = batch.pop("labels")
    right = model(**batch).logits.argmax(-1)[labels >= 0] == labels[labels >= 0]
    most = Counter(tag for _, found in test for tag in found).most_common(1)[0][1]
    return {"accuracy": round(right.float().mean().item(), 4), "majority": round(most / right.numel(), 4)}


@torch.no_grad()
def translate(models: Path, device: str, n: int = 100) -> dict[str, float]:
    """The share of test sentences that the encoder-decoder translates from English word for word as the world does."""
    tokenizer = AutoTokenizer.from_pretrained(models / "seq2seq")
    model = AutoModelForSeq2SeqLM.from_pretrained(models / "seq2seq").to(device).eval()
    exact = {}
    for lang in LANGUAGES[1:]:
        pairs = rows("translation", f"en-{lang}", "test")[:n]
        batch = tokenizer([f">>{lang}<< {source}" for source, _ in pairs], padding=True, return_tensors="pt").to(device)
        made = tokenizer.batch_decode(model.generate(**batch, max_new_tokens=40, num_beams=1), skip_special_tokens=True)
        wanted = tokenizer.batch_decode(tokenizer([target for _, target in pairs])["input_ids"], skip_special_tokens=True)
        exact[lang] = sum(a == b for a, b in zip(made, wanted, strict=True)) / len(pairs)
    return exact


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m deadhead.world.build", description="Pre-train the tiny models of the small world.")
    parser.add_argument("--out", type=Path, default=MODELS, help="folder to write to (default: the package's own)")
    parser.add_argument("--encoder-steps", type=int, default=STEPS["encoder"])
    parser.add_argument("--seq2seq-steps", type=int, default=STEPS["seq2seq"])
    parser.add_argument("--evaluate", type=Path, metavar="DIR", help="train nothing; tell how well the models in this folder transfer")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.evaluate:
        log: dict[str, Any] = {"pos from English": transfer(options.evaluate, device), "translation": translate(options.evaluate, device)}
    else:
        log = build(options.out, {"encoder": options.encoder_steps, "seq2seq": options.seq2seq_steps}, device)
    for lang, found in log["pos from English"].items():
        print(f"{lang}: part of speech {found['accuracy']:.1%} (most frequent tag {found['majority']:.1%})", end="")
        print(f", translated exactly {log['translation'][lang]:.0%}" if lang in log["translation"] else " (learnt)")


if __name__ == "__main__":
    main()
