"""The main job, offline, in minutes: rank the heads on English, remove the lowest, score nine languages.

Uses the small world that comes with deadhead: a tiny multilingual encoder and real sentences
in nine languages. It is fine-tuned on English parts of speech only; every other language is zero-shot.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoModelForTokenClassification, AutoTokenizer

from deadhead import discover, gated, prune, rank, strategies
from deadhead.evaluate import evaluate
from deadhead.finetune import Settings, finetune
from deadhead.heads.folder import quiet
from deadhead.tasks import batches, encode, load_data
from deadhead.world import LANGUAGES, MODELS

console = Console(width=100)
torch.set_num_threads(2)
tokenizer = AutoTokenizer.from_pretrained(MODELS / "encoder")
data = {split: load_data("pos", "en", split, root="world") for split in ("train", "dev")}
english = {split: encode(part, tokenizer) for split, part in data.items()}
tests = {lang: encode(load_data("pos", lang, "test", root="world"), tokenizer, labels=english["train"].labels) for lang in LANGUAGES}


def tagger() -> Any:
    """The pre-trained encoder with a new task layer."""
    torch.manual_seed(0)
    with quiet():
        return AutoModelForTokenClassification.from_pretrained(MODELS / "encoder", num_labels=len(english["train"].labels))


def trained(model: Any, name: str) -> Any:
    finetune(model, english["train"], Settings(epochs=1, rate=1e-3), name=name)
    return model


whole = trained(tagger(), "whole")
ranking = rank(whole, batches(english["dev"], size=32))
console.print(ranking)

layout = discover(whole)
half = len(layout) // 2
cuts = {"whole": frozenset(), "lowest half": frozenset(ranking.lowest(half)), "random half": strategies.random(layout, 50, seed=0)}
cuts["highest half"] = frozenset(ranking.highest(half))

batch = batches(english["dev"], size=8)[0]
with torch.no_grad(), gated(whole, closed=cuts["lowest half"]):
    masked = whole(**batch).logits
with torch.no_grad():
    pruned = prune(copy.deepcopy(whole), cuts["lowest half"])(**batch).logits
console.print(f"{half} heads closed or cut out: the logits differ by {(masked - pruned).abs().max():.1e}\n")

table = Table("heads removed", *LANGUAGES, "zero-shot", title="fine-tuned on English after the cut: accuracy in % on the test sets")
for name, heads in cuts.items():
    model = whole if not heads else trained(prune(tagger(), heads), name)
    scores = {lang: 100 * found["micro_f1"] for lang, found in evaluate(model, tests).items()}
    table.add_row(
        f"{name} ({len(heads)})", *[f"{scores[lang]:.1f}" for lang in LANGUAGES], f"{sum(scores[x] for x in LANGUAGES[1:]) / 8:.1f}"
    )
console.print(table)
