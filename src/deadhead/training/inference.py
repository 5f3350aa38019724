"""Predictions of a model, in large batches by length, without asking the device anything before the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deadhead.device import computing
from deadhead.errors import DataError
from deadhead.forward import forward
from deadhead.tasks import batches
from deadhead.tasks.encoding.encode import Encoded

from .decoding import FURTHER, PENALTY, Marks, decode
from .feed import Feed
from .loss import loss_sum, ready

# Positions of a batch, padding included. Beyond these a batch gains nothing: the device is full, or the cache is.
TOKENS = {"cpu": 4096, "cuda": 65536}


def label_numbers(
    model: Any, encoded: Encoded, sizes: np.ndarray, tokens: int | None
) -> np.ndarray:
    """The number of the label of each word (or row), one after the other in the order of the rows."""
    word = encoded.data.task.traits.label_unit == "word"
    places = _places(encoded, sizes) if word else np.asarray(encoded.arrays["rows"], np.int64)
    found = np.full(int(sizes.sum()), _unsaid(encoded), np.int64)
    with _evaluating(model):
        pairs = _run(model, encoded, tokens, _classes)
    for numbers, output in pairs:
        classes = output.cpu().numpy()
        if not word:
            found[places[numbers]] = classes
            continue
        for row, n in enumerate(numbers):  # only the first piece of a word has a place
            mine = places[encoded.starts[n] : encoded.starts[n + 1]]
            there = mine >= 0
            found[mine[there]] = classes[row, : len(mine)][there]
    return found


def _unsaid(encoded: Encoded) -> int:
    """The label of words that were cut off: outside, or the first."""
    return encoded.labels.index("O") if "O" in encoded.labels else 0


def _places(encoded: Encoded, sizes: np.ndarray) -> np.ndarray:
    """For each position of each window, where its word stands among all words; -1 if it begins none."""
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    words = np.asarray(encoded.arrays["words"], np.int64)
    rows = np.repeat(
        np.asarray(encoded.arrays["rows"], np.int64), np.asarray(encoded.arrays["lengths"])
    )
    return np.where(words >= 0, begins[rows] + words, -1)


def _classes(model: Any, batch: dict[str, Tensor]) -> Tensor:
    labels = batch.pop("labels")
    logits = forward(model, {**ready(model, batch), "labels": labels}).logits
    return logits.argmax(-1).to(torch.int32)


def likelihoods(model: Any, encoded: Encoded, tokens: int | None = None) -> np.ndarray:
    """The summed log-likelihood of the labels of each batch."""
    with _evaluating(model):
        return np.array(
            [
                float(output)
                for _, output in _run(
                    model, encoded, tokens, lambda model, batch: -loss_sum(model, batch)
                )
            ]
        )


def translations(
    model: Any, encoded: Encoded, tokenizer: Any, tokens: int | None, beams: int
) -> tuple[str, ...]:
    """The translation of each row, greedily or by beam search, with a cache."""
    marks = Marks.of(model)

    def generate(model: Any, batch: dict[str, Tensor]) -> Tensor:
        if marks is not None:
            return decode(
                model, batch["input_ids"], batch["attention_mask"], marks, beams, _room(model)
            )
        return _generated(model, batch, beams)

    budget = (tokens or default_tokens(model)) // beams
    found = [""] * len(encoded.data)
    with _evaluating(model):
        for numbers, output in _run(model, encoded, max(1, budget), generate):
            for n, text in zip(
                numbers, tokenizer.batch_decode(output.cpu(), skip_special_tokens=True), strict=True
            ):
                found[int(encoded.arrays["rows"][n])] = text
    return tuple(found)


def _generated(model: Any, batch: dict[str, Tensor], beams: int) -> Tensor:
    """For models whose generation config asks for more than `decode` does: transformers' own way, with its own norm of length."""
    longest, room = batch["input_ids"].shape[1] + FURTHER, _room(model)
    extra = {"length_penalty": PENALTY, "early_stopping": False} if beams > 1 else {}
    made: Tensor = model.generate(
        input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], num_beams=beams, do_sample=False, use_cache=True,
        max_new_tokens=longest if room is None else min(longest, room), logits_processor=[_Limits(model, batch["attention_mask"].sum(1) + FURTHER)],
        **extra,
    )  # fmt: skip
    return made


class _Limits:
    """Ends each sentence at its own limit, so that a translation does not depend on its batch-mates."""

    def __init__(self, model: Any, limits: Tensor):
        end = model.generation_config.eos_token_id
        end = model.config.eos_token_id if end is None else end
        self.end = end[0] if isinstance(end, list) else end
        self.limits = limits

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if self.end is None:
            return scores
        over = input_ids.shape[1] >= self.limits.repeat_interleave(len(scores) // len(self.limits))
        ended = torch.full_like(scores, -torch.inf)
        ended[:, self.end] = 0.0
        return torch.where(over[:, None], ended, scores)


def _room(model: Any) -> int | None:
    """Tokens of a translation that the model has positions for."""
    room = getattr(model.config, "max_position_embeddings", None)
    return room - 1 if isinstance(room, int) else None


def default_tokens(model: Any) -> int:
    return TOKENS.get(next(model.parameters()).device.type, TOKENS["cpu"])


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    before = model.training
    model.eval()
    try:
        with torch.no_grad(), computing(model):
            yield
    finally:
        model.train(before)


def _run(
    model: Any,
    encoded: Encoded,
    tokens: int | None,
    work: Callable[[Any, dict[str, Tensor]], Tensor],
) -> list[tuple[np.ndarray, Tensor]]:
    """The work done on each batch; a batch that does not fit into memory is run in halves, and so are those after it."""
    device = next(model.parameters()).device
    feed = Feed(encoded, device)
    budget = tokens or default_tokens(model)
    pending = list(reversed(batches(encoded, tokens=budget).numbers))
    done: list[tuple[np.ndarray, Tensor]] = []
    fits = len(encoded)
    while pending:
        numbers = pending.pop()
        if len(numbers) > fits:
            half = len(numbers) // 2
            pending += [numbers[half:], numbers[:half]]
            continue
        try:
            batch = feed(
                torch.from_numpy(numbers).to(device), feed.shape(numbers, few=device.type == "cuda")
            )
            done.append((numbers, work(model, batch)))
        except RuntimeError as problem:
            if not isinstance(
                problem, torch.OutOfMemoryError
            ) and "can't allocate memory" not in str(problem):
                raise
            if len(numbers) == 1:
                raise DataError(
                    "out of memory with a single window.", "encode with a smaller max_length"
                ) from problem
            fits = max(1, len(numbers) // 2)
            pending.append(numbers)
    return done
