"""A task of a few rows, whose labels are in no order of the alphabet, and models that learn it."""

from command_line import output_of

from deadhead.world import MODELS

ENCODER = MODELS / "encoder"
ROWS = [
    ("Maria bought a red car .", "good"),
    ("The dog sleeps .", "bad"),
    ("A fine red house .", "good"),
    ("The car .", "bad"),
]
TASK = """
kind: classify
texts: [text]
labels: [good, bad]
languages: [en, de]
files: {train: '{lang}-train.tsv', dev: '{lang}-dev.tsv'}
"""


def write_task(folder):
    """A task with train data in two languages, and dev data in one of them."""
    (folder / "reviews.yaml").write_text(TASK)
    for name, times in (("en-train", 3), ("en-dev", 2), ("de-train", 2)):
        rows = [("text", "label"), *ROWS * times]
        (folder / f"{name}.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    return folder / "reviews.yaml"


def learn(task, out, *more, lang="en", model=ENCODER):
    """Train for three epochs by `deadhead finetune`; the last of two equal options counts."""
    words = ("--task", task, "--lang", lang, "--out", out, "--device", "cpu", "--epochs", 3)
    how = ("--learning-rate", 1e-3, "--batch-size", 4, "--seed", 3)
    return output_of("finetune", model, *words, *how, *more)
