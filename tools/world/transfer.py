"""Test the tiny encoder: learn a task in English alone, score it in all nine languages.

    transfer("nli", MODELS / "encoder", "cpu")["ur"]  -> 0.94
    majority("nli", "ur")                             -> 0.33

Scores are accuracies on the test sets, for `slots` the F1 of whole slots; `majority` is the score
of the most frequent label alone (for `slots`, no slot is right).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from deadhead.world import LANGUAGES, rows

TASKS = ("pos", "slots", "nli", "sentiment")
TAGGING = ("pos", "slots")
BATCH = 32
EPOCHS = {
    "pos": 1,
    "slots": 2,
    "nli": 3,
    "sentiment": 4,
}  # enough for English, which has 2,400, 1,000, 1,800 and 700 rows
RATE = 5e-4
SEEDS = (0, 1, 2)

Labels = list[str]  # for a sentence: one for each word, or just one
Make = Callable[[Sequence[Any]], dict[str, Any]]  # rows -> batch


def transfer(
    task: str, encoder: Path, device: str, seed: int = 0, examples: int | None = None
) -> dict[str, float]:
    """Fine-tune on English train (or its first N examples), and score every language."""
    torch.manual_seed(seed)
    names = sorted(
        {label for lang in LANGUAGES for row in rows(task, lang, "train") for label in _labels(row)}
    )
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    kind = (
        AutoModelForTokenClassification if task in TAGGING else AutoModelForSequenceClassification
    )
    model = kind.from_pretrained(encoder, num_labels=len(names)).to(device)

    def make(part: Sequence[Any]) -> dict[str, Any]:
        return _batch(tokenizer, part, names, device)

    _learn(
        model, make, rows(task, "en", "train")[:examples], EPOCHS[task], np.random.default_rng(seed)
    )
    return {
        lang: _score(task, _predict(model, make, rows(task, lang, "test"), names), lang)
        for lang in LANGUAGES
    }


def majority(task: str, lang: str) -> float:
    """What the most frequent label of the test set would score."""
    gold = [_labels(row) for row in rows(task, lang, "test")]
    most = Counter(chain.from_iterable(gold)).most_common(1)[0][0]
    return _score(task, [[most] * len(row) for row in gold], lang)


def measured(
    task: str, encoder: Path, device: str, seeds: Sequence[int] = SEEDS
) -> dict[str, dict[str, float]]:
    """Return for each language the mean and the lowest over seeds, and the majority's score."""
    runs = [transfer(task, encoder, device, seed) for seed in seeds]
    mean = {lang: sum(run[lang] for run in runs) / len(runs) for lang in LANGUAGES}
    low = {lang: min(run[lang] for run in runs) for lang in LANGUAGES}
    return {
        lang: {"mean": round(mean[lang], 4), "lowest": low[lang], "majority": majority(task, lang)}
        for lang in LANGUAGES
    }


def _labels(row: Sequence[Any]) -> Labels:
    return row[-1] if isinstance(row[-1], list) else [row[-1]]


def _learn(
    model: Any, make: Make, train: Sequence[Any], epochs: int, rng: np.random.Generator
) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    steps = epochs * len(range(0, len(train), BATCH))
    warm = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, (steps - step) / (steps - warm))
    )
    model.train()
    for _ in range(epochs):
        order = rng.permutation(len(train))
        for i in range(0, len(train), BATCH):
            model(**make([train[j] for j in order[i : i + BATCH]])).loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.eval()


def _batch(
    tokenizer: Any, part: Sequence[Any], names: list[str], device: str
) -> dict[str, torch.Tensor]:
    """A batch in which the first piece of each word carries its tag, or each row its label."""
    if not isinstance(part[0][-1], list):
        batch = tokenizer(
            *(list(column) for column in list(zip(*part, strict=True))[:-1]),
            padding=True,
            return_tensors="pt",
        )
        labels = torch.tensor([names.index(row[-1]) for row in part])
        return {name: tensor.to(device) for name, tensor in {**batch, "labels": labels}.items()}
    batch = tokenizer(
        [words for words, _ in part], is_split_into_words=True, padding=True, return_tensors="pt"
    )
    labels = torch.full(batch["input_ids"].shape, -100)
    for i, (_, tags) in enumerate(part):
        before = None
        for j, word in enumerate(batch.word_ids(i)):
            if word is not None and word != before:
                labels[i, j] = names.index(tags[word])
            before = word
    return {name: tensor.to(device) for name, tensor in {**batch, "labels": labels}.items()}


@torch.no_grad()
def _predict(model: Any, make: Make, test: Sequence[Any], names: list[str]) -> list[Labels]:
    predicted: dict[int, Labels] = {}
    # rows of about one length, which need little padding
    order = sorted(range(len(test)), key=lambda place: _length(test[place]))
    for i in range(0, len(test), BATCH):
        places = order[i : i + BATCH]
        batch = make([test[place] for place in places])
        labelled = batch.pop("labels") >= 0
        numbers = iter(model(**batch).logits.argmax(-1)[labelled].tolist())
        for place in places:
            predicted[place] = [names[next(numbers)] for _ in _labels(test[place])]
    return [predicted[place] for place in range(len(test))]


def _length(row: Sequence[Any]) -> int:
    """The words or the characters of a row."""
    return sum(map(len, row[:-1]))


def _score(task: str, predicted: list[Labels], lang: str) -> float:
    gold = [_labels(row) for row in rows(task, lang, "test")]
    return round((_slot_f1 if task == "slots" else _accuracy)(predicted, gold), 4)


def _accuracy(predicted: list[Labels], gold: list[Labels]) -> float:
    pairs = list(zip(chain.from_iterable(predicted), chain.from_iterable(gold), strict=True))
    return sum(a == b for a, b in pairs) / len(pairs)


def _slot_f1(predicted: list[Labels], gold: list[Labels]) -> float:
    ours, right = [
        {(i, *slot) for i, row in enumerate(side) for slot in slots(row)}
        for side in (predicted, gold)
    ]
    return 2 * len(ours & right) / (len(ours) + len(right))


def slots(tags: Labels) -> set[tuple[str, int, int]]:
    """Return name, first word and the word after the last of each slot; I- may begin one too."""
    spans, start = set(), 0
    for i, (before, tag) in enumerate(zip(["O", *tags], [*tags, "O"], strict=True)):
        if tag.startswith("I-") and tag[2:] == before[2:]:
            continue
        if before != "O":
            spans.add((before[2:], start, i))
        start = i
    return spans
