"""Pre-train the two tiny models of the small world.

    python tools/world/build.py [--out DIR] [--only encoder]
    python tools/world/build.py --evaluate DIR      only evaluate the models in a folder

Writes `encoder/` and `seq2seq/` (config, half-precision safetensors, tokenizer) and `log.json`, at
most 6 MB in all, and ends with an evaluation: four tasks learnt in English alone and scored in
every language (`transfer.py`), and translations.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import exercises
import numpy as np
import pretrain
import torch
import transformers
from corpus import corpus
from transfer import TASKS, measured
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from deadhead.errors import DataError
from deadhead.world import LANGUAGES, MODELS, rows

LARGEST = 6_000_000  # bytes, both models with their tokenizers
STEPS = {"encoder": 4500, "seq2seq": 4500}
RATE = 1e-3


def build(out: Path, models: Sequence[str], steps: dict[str, int], device: str) -> dict[str, Any]:
    """Train models into a folder; return its log, with the entries of models trained before."""
    torch.set_float32_matmul_precision("high")
    log = _log(out)
    tokenizer = _tokenizer()
    for name in models:
        print(f"{name}: making sentences", flush=True)
        batch, batches = _batches(name, tokenizer)
        torch.manual_seed(0)
        model = pretrain.new_encoder() if name == "encoder" else pretrain.new_seq2seq()
        print(
            f"{name}: {sum(p.numel() for p in model.parameters()):,} parameters on {device}",
            flush=True,
        )
        report = lambda line, name=name: print(f"{name}  {line}", flush=True)  # noqa: E731
        losses = pretrain.train(
            model, batches, steps=steps[name], rate=RATE, device=device, report=report
        )
        log[name] = {
            "device": device,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }
        log[name] |= {"python": platform.python_version(), "batch": batch, "steps": losses}
        _save(model, pretrain.wrapped(tokenizer, name), out / name)
    log |= evaluate(out, models, device)
    log["bytes"] = sum(
        file.stat().st_size
        for name in STEPS
        if (out / name).is_dir()
        for file in (out / name).iterdir()
    )
    (out / "log.json").write_text(json.dumps(log, indent=1) + "\n")
    if log["bytes"] > LARGEST:
        raise DataError(
            f"the models take {log['bytes']:,} bytes, more than {LARGEST:,}.",
            "make pretrain.VOCABULARY or the layers smaller",
        )
    return log


def _log(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "log.json").read_text()) if (folder / "log.json").is_file() else {}


def _tokenizer() -> Any:
    """Return the package's own, if there is one: both models share it, and training varies."""
    from tokenizers import Tokenizer

    kept = MODELS / "seq2seq" / "tokenizer.json"
    return (
        Tokenizer.from_file(str(kept))
        if kept.is_file()
        else pretrain.train_tokenizer(corpus(pretrain.SENTENCES))
    )


def _batches(name: str, tokenizer: Any) -> tuple[int, pretrain.Batches]:
    """The size of the batches that a model learns from, and the batches."""
    rng = np.random.default_rng(0)
    if name == "encoder":
        return exercises.BATCH, exercises.encoder_batches(*exercises.training_data(tokenizer), rng)
    return pretrain.BATCH, pretrain.seq2seq_batches(
        pretrain.encoded(tokenizer, corpus(pretrain.SENTENCES)), rng
    )


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Save in half precision; the config says float32, so that it is loaded as such."""
    model.to("cpu").half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "model.safetensors").chmod(
        0o644
    )  # safetensors writes for its owner alone; a package is read by all
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float32"}, indent=1) + "\n")


def evaluate(folder: Path, models: Sequence[str], device: str) -> dict[str, Any]:
    """Score tasks learnt in English in all languages, and translations out of English."""
    log: dict[str, Any] = {}
    if "encoder" in models:
        log["transfer"] = {task: measured(task, folder / "encoder", device) for task in TASKS}
    if "seq2seq" in models:
        log["translation"] = translate(folder, device)
    return log


@torch.no_grad()
def translate(models: Path, device: str, n: int = 100) -> dict[str, float]:
    """Return the share of test sentences that are translated exactly as the world does."""
    tokenizer = AutoTokenizer.from_pretrained(models / "seq2seq")
    model = AutoModelForSeq2SeqLM.from_pretrained(models / "seq2seq").to(device).eval()
    exact = {}
    for lang in LANGUAGES[1:]:
        pairs = rows("translation", f"en-{lang}", "test")[:n]
        batch = tokenizer(
            [f">>{lang}<< {source}" for source, _ in pairs], padding=True, return_tensors="pt"
        ).to(device)
        texts = tokenizer.batch_decode(
            model.generate(**batch, max_new_tokens=40, num_beams=1), skip_special_tokens=True
        )
        targets = tokenizer.batch_decode(
            tokenizer([target for _, target in pairs])["input_ids"], skip_special_tokens=True
        )
        exact[lang] = sum(a == b for a, b in zip(texts, targets, strict=True)) / len(pairs)
    return exact


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python tools/world/build.py",
        description="Pre-train the tiny models of the small world.",
    )
    parser.add_argument(
        "--out", type=Path, default=MODELS, help="folder to write to (default: the package's own)"
    )
    parser.add_argument(
        "--only", choices=list(STEPS), help="just this one; the other stays as it is"
    )
    parser.add_argument("--encoder-steps", type=int, default=STEPS["encoder"])
    parser.add_argument("--seq2seq-steps", type=int, default=STEPS["seq2seq"])
    parser.add_argument(
        "--evaluate",
        type=Path,
        metavar="DIR",
        help="train nothing; report how well the models in this folder do",
    )
    options = parser.parse_args()
    device, models = (
        "cuda" if torch.cuda.is_available() else "cpu",
        [options.only] if options.only else list(STEPS),
    )
    if options.evaluate:
        log = evaluate(options.evaluate, models, device)
    else:
        log = build(
            options.out,
            models,
            {"encoder": options.encoder_steps, "seq2seq": options.seq2seq_steps},
            device,
        )
    print(as_table(log))


def as_table(log: dict[str, Any]) -> str:
    """What was measured, in percent, as a Markdown table."""
    lines = [
        f"| from English, % | {' | '.join(LANGUAGES)} | mean of the others | most frequent label |",
        "|---" * (len(LANGUAGES) + 3) + "|",
    ]
    for task, by_lang in log.get("transfer", {}).items():
        scores = [100 * by_lang[lang]["mean"] for lang in LANGUAGES]
        most = sorted(100 * by_lang[lang]["majority"] for lang in LANGUAGES[1:])
        often = f"{most[0]:.0f}" if most[-1] - most[0] < 1 else f"{most[0]:.0f}-{most[-1]:.0f}"
        lines.append(
            f"| {task} | {' | '.join(f'{score:.0f}' for score in scores)} "
            f"| {sum(scores[1:]) / len(scores[1:]):.0f} | {often} |"
        )
    if exact := log.get("translation"):
        mean = 100 * sum(exact.values()) / len(exact)
        lines.append(
            f"| translated exactly | | "
            f"{' | '.join(f'{100 * exact[lang]:.0f}' for lang in LANGUAGES[1:])} | {mean:.0f} | |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
