"""How llama.cpp answers with a GGUF file, compared with the model it was written from."""

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch

from deadhead.errors import DeadheadError

from . import worker
from .decoder import Decoder, logits

# the largest difference of two log-probabilities, as a share of the largest log-probability.
# Beside q8_0 and q4_0, llama.cpp rounds the inputs of matrices too: random models, which exaggerate
# it, reach 0.38 with their own file, and 0.59 or more with that of another model
LIMITS = {"f32": 1e-3, "f16": 2e-2, "q8_0": 3e-1, "q4_0": 5e-1}


class Comparison(NamedTuple):
    """How llama.cpp compares with the model on a few prompts."""

    prompts: int
    same: int  # prompts with the same greedy tokens
    gap: float  # the largest difference of two log-probabilities
    share: float  # the same, as a share of the largest log-probability there
    positions: int  # where they were compared


def is_installed() -> bool:
    return find_spec("xllamacpp") is not None


def ask(
    file: Path, prompts: Sequence[Sequence[int]] = (), texts: Sequence[str] = ()
) -> dict[str, Any]:
    """The greedy continuations of prompts, and the tokens of texts, by llama.cpp."""
    request = {"file": str(file.resolve()), "prompts": prompts, "texts": texts}
    done = subprocess.run(
        [sys.executable, worker.__file__],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "rror" in line or "ASSERT" in line]
        reason = lines[0] if lines else (done.stderr.splitlines() or ["it gave no reason"])[-1]
        raise DeadheadError(f"llama.cpp cannot run {file.name}: {reason.strip()[:300]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare(
    decoder: Decoder, prompts: Sequence[Sequence[int]], answers: Sequence[Any]
) -> Comparison:
    """Compare the `answers` of llama.cpp to prompts with those of the model.

    The model reads what llama.cpp generated: where its likeliest tokens are the same, its own
    greedy tokens are the same too.
    """
    same, gap, share, positions = 0, 0.0, 0.0, 0
    for prompt, steps in zip(prompts, answers, strict=True):
        tokens = [step["token"] for step in steps]
        scores = logits(decoder, torch.tensor([*prompt, *tokens]))[len(prompt) - 1 :].log_softmax(
            -1
        )
        same += scores[: len(tokens)].argmax(-1).tolist() == tokens
        for expected, step in zip(scores, steps, strict=False):
            if step["likeliest"]:
                numbers, values = zip(*step["likeliest"], strict=True)
                there = expected[list(numbers)]
                gap = max(gap, largest := float((there - torch.tensor(values)).abs().max()))
                share = max(share, largest / float(there.abs().max()))
                positions += 1
    return Comparison(len(prompts), same, gap, share, positions)
