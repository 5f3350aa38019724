"""A toy language pair, and a Transformer small enough to learn some of it in a second."""

import random

from deadhead.tasks import Task
from deadhead.training import Settings
from deadhead.translation import Size

TASK = Task(name="toy", kind="translate", metrics=("bleu",), languages=("en-xx",))
WORDS = {
    "the": "das",
    "cat": "Kätzchen",
    "dog": "Hund",
    "sees": "sieht",
    "eats": "frißt",
    "a": "ein",
    "big": "großes",
    "fish": "Fisch",
    "now": "gerade jetzt",
}
TINY = Size(layers=2, heads=4, width=32, inner=48, dropout=0.0)
TRAINING = Settings(
    tokens=120,
    rate=6e-3,
    warmup=30,
    schedule="inverse_sqrt",
    epochs=14,
    clip=None,
    decay=0.0,
    smoothing=0.1,
    betas=(0.9, 0.997),
)


def pairs(n, seed):
    """Sentences of three to nine words, and the same word by word in the other language."""
    draw = random.Random(seed)
    result = []
    for _ in range(n):
        words = [draw.choice([*WORDS]) for _ in range(draw.randint(3, 9))]
        result.append((" ".join(words), " ".join(WORDS[word] for word in words)))
    return result
