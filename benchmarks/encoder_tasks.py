"""The tasks that an encoder is measured on: their data, and a model that is fine-tuned on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from together import train_together

from deadhead import encode, evaluate, finetune, load_data
from deadhead.tasks import batches, concatenate, draw_examples
from deadhead.training import Settings
from deadhead.training.models import load_for_task, tokenizer_for

RATE = 2e-4
SETTINGS: dict[str, dict[str, Any]] = {
    "pos": {"batch": 64, "epochs": 3, "rate": RATE},
    "ner": {"batch": 128, "epochs": 3, "rate": RATE},
    "slots": {"batch": 128, "epochs": 3, "rate": RATE},
    "sst2": {"batch": 256, "epochs": 3, "rate": RATE},
    "xnli": {"batch": 64, "epochs": 8, "rate": 5e-5},
}
# For inference there is no MNLI: the test sets of XNLI in three languages are learnt, 15,030 pairs.
TRAINED = {"xnli": (("en", "test"), ("fr", "test"), ("ru", "test"))}
SCORED = {"sst2": "dev", "xnli": "dev"}  # the others: test
LENGTH = 128


@dataclass(kw_only=True)
class Task:
    """The data of a task, and models for it.

    model, data: the pretrained model, and the folder of the data.
    train, scored: how many examples are learnt and scored, for a slow machine; None: all.
    others: languages that are only scored.
    whole_texts: calibrate on texts that are no part of another one. SST-2 is scored on sentences
        and learns from these and their phrases, which are nine tenths of its examples.
    """

    name: str
    model: str
    data: str
    device: str = "cpu"
    train: int | None = None
    scored: int | None = None
    others: Sequence[str] = ()
    whole_texts: bool = False

    def __post_init__(self) -> None:
        self.tokenizer = tokenizer_for(self.model)
        parts = [self.read(*place) for place in TRAINED.get(self.name, (("en", "train"),))]
        self.examples = parts[0] if len(parts) == 1 else concatenate(parts)
        self.calibrated = without_phrases(self.examples) if self.whole_texts else self.examples
        self.learnt = self.encoded(draw_examples(self.examples, self.train))
        split = SCORED.get(self.name, "test")
        self.sets = {
            lang: self.encoded(draw_examples(self.read(lang, split), self.scored))
            for lang in ("en", *self.others)
        }

    def read(self, language: str, split: str) -> Any:
        return load_data(self.name, language, split, root=self.data)

    def encoded(self, data: Any) -> Any:
        return encode(data, self.tokenizer, max_length=LENGTH, labels=tuple(self.examples.labels))

    def new_model(self, seed: int) -> Any:
        labels = tuple(self.examples.labels)
        return load_for_task(self.model, self.examples.task, labels, seed=seed).to(self.device)

    def train_model(self, model: Any, seed: int, **changes: Any) -> Any:
        finetune(model, self.learnt, self.settings(seed, **changes), progress=False)
        return model.eval()

    def settings(self, seed: int, **changes: Any) -> Settings:
        precision = "bf16" if self.device == "cuda" else "float32"
        return Settings(precision=precision, seed=seed, **{**SETTINGS[self.name], **changes})

    def train_one_epoch(self, models: Sequence[Any], seed: int, whole: Any = None) -> None:
        """One epoch at the default rate, which is lower: what is left has learnt the task.

        whole: the model before anything was removed, for several models that are trained at once.
        """
        changes = {"epochs": 1, "rate": Settings().rate}
        if len(models) == 1:
            self.train_model(models[0], seed, **changes)
        else:
            train_together(models, whole, self.learnt, self.settings(seed, **changes))

    def calibration(self, seed: int, examples: int, tokens: int) -> list[Mapping[str, Any]]:
        """Batches of training examples; tokens: of a batch, on a GPU."""
        rows = self.encoded(draw_examples(self.calibrated, examples, seed))
        if self.device == "cuda":
            return list(batches(rows, tokens=tokens))
        return list(batches(rows, size=64, sort=True))

    def points(self, model: Any) -> dict[str, float]:
        """The score of each language, in points."""
        scores = evaluate(model, self.sets, progress=False)
        return {lang: 100 * next(iter(values.values())) for lang, values in scores.items()}


def without_phrases(data: Any) -> Any:
    """The examples whose words are no part of another one's, each text once."""
    rows = {tuple(row.texts[0].split()): row for row in data.rows}
    parts = {
        words[first:last]
        for words in rows
        for first in range(len(words))
        for last in range(first + 1, len(words) + 1)
        if last - first < len(words)
    }
    return replace(data, rows=[row for words, row in rows.items() if words not in parts])
