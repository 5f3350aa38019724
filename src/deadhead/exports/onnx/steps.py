"""Run the graphs of generation step by step, and compare them with whole passes of the model."""

import inspect
from collections.abc import Iterator
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import torch

from .cached import CACHE, NEW
from .rounding import Difference, difference

# real tokens of each row of a batch; shorter rows are padded on the left
ROWS = ((9,), (12, 5, 8))
SOURCE_ROWS = ((7,), (4, 11, 6))  # the same for an encoder, padded on the right
STEPS = (1, 1, 2)  # tokens of the last steps; the first takes all before them


class Steps:
    """The cache between two steps, and the graph that reads and writes it."""

    def __init__(self, session: Any, fixed: dict[str, Any], batch: int):
        self.session, self.fixed = session, fixed
        self.inputs = [value.name for value in session.get_inputs()]
        self.outputs = [value.name for value in session.get_outputs()]
        kinds = {"tensor(float16)": torch.float16, "tensor(double)": torch.float64}
        self.past = {
            value.name: torch.zeros(
                batch, value.shape[1], 0, value.shape[3], dtype=kinds.get(value.type)
            ).numpy()
            for value in session.get_inputs()
            if value.name.startswith(CACHE) and value.name not in fixed
        }

    def step(self, **tokens: torch.Tensor) -> torch.Tensor:
        """The logits of these tokens, which become part of the past."""
        feed = {**self.past, **self.fixed, **{k: v.numpy() for k, v in tokens.items()}}
        answer = self.session.run(None, {name: feed[name] for name in self.inputs})
        for name, value in zip(self.outputs, answer, strict=True):
            if name.startswith(NEW):
                self.past[name.replace(NEW, CACHE)] = value
        return torch.from_numpy(answer[self.outputs.index("logits")])


def decoder_differences(model: Any, session: Any) -> Iterator[Difference]:
    """The largest difference of a logit on each batch, as a share of the largest logit."""
    parameters = inspect.signature(model.forward).parameters
    for lengths in ROWS:
        ids = _random_ids(model, len(lengths), max(lengths))
        mask = _padded(lengths).flip(1)
        tokens = {
            "input_ids": ids,
            "attention_mask": mask,
            "position_ids": (mask.cumsum(1) - 1).clamp(min=0),
        }
        tokens = {name: tensor for name, tensor in tokens.items() if name in parameters}
        steps = Steps(session, {}, len(lengths))
        logits = []
        for start, end in pairwise(_ends(ids.shape[1])):
            part = {name: tensor[:, start:end] for name, tensor in tokens.items()}
            logits.append(steps.step(**{**part, "attention_mask": mask[:, :end]}))
        real = mask.bool()  # what a model answers to padding is of no use
        run = partial(_logits, tokens=tokens, real=real)
        yield difference([torch.cat(logits, 1)[real]], model, run)


def cross_decoder_differences(model: Any, encoder: Any, decoder: Any) -> Iterator[Difference]:
    """The same for the two graphs of an encoder-decoder."""
    for lengths in SOURCE_ROWS:
        texts = {
            "input_ids": _random_ids(model, len(lengths), max(lengths)),
            "attention_mask": _padded(lengths),
        }
        ids = _random_ids(model, len(lengths), sum(STEPS) + 1)
        names = [value.name for value in encoder.get_outputs()]
        values = encoder.run(None, {name: tensor.numpy() for name, tensor in texts.items()})
        cross = {
            name.replace(NEW, CACHE): value
            for name, value in zip(names, values, strict=True)
            if name.startswith(NEW)
        }
        mask = {"encoder_attention_mask": texts["attention_mask"].numpy()}
        steps = Steps(decoder, {**cross, **mask}, len(lengths))
        logits = [
            steps.step(input_ids=ids[:, start:end]) for start, end in pairwise(_ends(ids.shape[1]))
        ]
        run = partial(_logits, tokens={**texts, "decoder_input_ids": ids})
        yield difference([torch.cat(logits, 1)], model, run)


def _logits(
    model: Any, tokens: dict[str, torch.Tensor], real: torch.Tensor | None = None
) -> list[torch.Tensor]:
    """The logits of one whole pass; real: the tokens that are no padding."""
    logits = model(**tokens, use_cache=False).logits
    return [logits if real is None else logits[real]]


def _ends(length: int) -> list[int]:
    """Where the steps begin and end."""
    return [0, *accumulate((length - sum(STEPS), *STEPS))]


def _padded(lengths: tuple[int, ...]) -> torch.Tensor:
    """The mask of rows with these numbers of tokens, padded on the right."""
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()


def _random_ids(model: Any, batch: int, length: int) -> torch.Tensor:
    words = int(model.get_input_embeddings().weight.shape[0])
    generator = torch.Generator().manual_seed(batch * length)
    return torch.randint(min(3, words - 1), words, (batch, length), generator=generator)
