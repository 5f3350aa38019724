"""Options that commands share, each declared once, and how their text is read. No torch."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from deadhead.files.hub import located

if TYPE_CHECKING:
    from deadhead.tasks import Dataset, Task

AsJson = Annotated[bool, Option("--json", help="Print one JSON document instead of text.")]
Force = Annotated[bool, Option("--force", help="Overwrite the output if it exists.")]
Seed = Annotated[int, Option(help="The random seed.")]

# Models
MODEL = (
    "model folder, a name on the hub (NAME@REVISION for one commit), or world/encoder, which is "
    "bundled."
)
Model = Annotated[str, Argument(metavar="MODEL", help=f"A {MODEL}", callback=located)]
Models = Annotated[
    list[str],
    Argument(
        metavar="MODEL",
        help=f"One or more models, each a {MODEL}",
        callback=lambda names: [located(name) for name in names],
    ),
]
ModelOut = Annotated[Path, Option(metavar="DIR", help="The folder to write the model to.")]
Auto = Annotated[
    str | None,
    Option(
        "--auto-class",
        metavar="CLASS",
        help="Load the model with this class of transformers, such as "
        "AutoModelForTokenClassification; by default the class it was saved with.",
    ),
]
FORM = (
    "compact: small weights; the model card in the folder says what loads them besides deadhead. "
    "padded: full shapes with zeros, which plain transformers loads."
)
Form = Annotated[str, Option(help=FORM)]
DTYPE = "Precision of the weights: float32, bfloat16, float16 or auto; by default as saved."
Dtype = Annotated[str | None, Option(metavar="TYPE", help=DTYPE)]
Checkpointing = Annotated[
    bool,
    Option(
        "--gradient-checkpointing",
        help="Save memory: compute activations again in the backward pass instead of keeping them.",
    ),
]
Device = Annotated[str | None, Option(help="cpu or cuda; by default cuda if there is a GPU.")]

# Data
TaskName = Annotated[
    str | None,
    Option(
        metavar="NAME|FILE", help="The task, such as pos, or a YAML file that describes your own."
    ),
]
Languages = Annotated[
    str | None,
    Option(
        help="The languages of the data, comma-separated: en,de. The tasks lm and choice, and a "
        "task file without {lang} in its paths, need none."
    ),
]
Split = Annotated[str, Option(help="The split of the data to use: train, dev or test.")]
Data = Annotated[
    Path | None,
    Option(
        metavar="DIR",
        help="The data folder, or world for the bundled data; for lm, choice, qa and similarity "
        "also a file. By default the folder that DEADHEAD_DATA names, else the Hugging Face hub.",
    ),
]
LINES = "blank lines are skipped, and texts are cut at --max-length sub-words, by default 256, or "
LINES += "the maximum length of a sentence encoder."
Texts = Annotated[
    list[Path] | None,
    Option(
        metavar="FILE|DIR",
        help="Plain text instead of a task: one text per line, or two separated by a tab; a folder "
        f"gives its .txt and .txt.gz files; can be repeated; {LINES}",
    ),
]
Loss = Annotated[
    str | None,
    Option(
        metavar="self|embedding",
        help="Use no labels: the loss is the distance to the outputs of the full model, or to the "
        "embeddings of a sentence encoder (which is its default with --text).",
    ),
]
CORPUS = "Use another corpus than the default one of the task, such as wikiann or ud-2.17."
Corpus = Annotated[str | None, Option(metavar="CORPUS", help=CORPUS)]
Length = Annotated[
    int | None,
    Option(
        min=4,
        help="Cut texts at this number of sub-words; by default 256. For lm it is 512, for "
        "choice 2048 and for qa 384, or what the model has positions for if that is fewer; for a "
        "sentence encoder its own maximum length.",
    ),
]
EXAMPLES = "Use N random examples of each data set; by default all of them."
BATCH = "Examples per batch; by default 32, for lm and choice fewer, on a GPU as many as fit."
BatchSize = Annotated[int | None, Option("--batch-size", metavar="N", min=1, help=BATCH)]
MaxExamples = Annotated[int | None, Option(metavar="N", min=1, help=EXAMPLES)]

# Studies
RecipeName = Annotated[
    str, Argument(metavar="RECIPE", help="A built-in recipe, or your own .yaml file.")
]
Study = Annotated[Path, Argument(metavar="STUDY", help="The study folder.")]
StudyOut = Annotated[
    Path, Option(metavar="STUDY", help="The study folder. An existing study resumes.")
]
Overrides = Annotated[
    list[str] | None,
    Option("--set", metavar="A.B=C", help="Override a field of the recipe; can be repeated."),
]
Scale = Annotated[str | None, Option(help="Apply a scale of the recipe, such as mini.")]
Workers = Annotated[
    int | None,
    Option(
        min=1,
        help="Trials that run at the same time.",
        show_default="one per GPU, or as many as cores and memory allow",
    ),
]


def task_from(name: str | None) -> str | Task | None:
    """The task that --task names, or the one that its YAML file describes."""
    from deadhead.tasks import TASKS, read_task_file

    if name is None or name in TASKS:
        return name
    is_file = name.endswith((".yaml", ".yml")) or Path(name).exists()
    return read_task_file(Path(name)) if is_file else name


def required_task(name: str | None) -> str | Task:
    task = task_from(name)
    if task is None:
        message = "give --task NAME or --task FILE.yaml, or --text FILE where labels are not needed"
        raise BadParameter(message, param_hint="--task")
    return task


def task_or_text(
    task: str | None, lang: str | None, text: list[Path] | None
) -> tuple[str | Task | None, list[str]]:
    """The task and the languages of its data; nothing for plain text."""
    if not text:
        chosen = required_task(task)
        return chosen, languages_from(lang, chosen)
    if task is not None or lang is not None:
        raise BadParameter("give --text FILE alone, or --task and --lang", param_hint="--text")
    return None, []


def languages_from(text: str | None, task: str | Task) -> list[str]:
    """Comma-separated languages, without duplicates; a name for the data of a task without them."""
    from deadhead.tasks import task_of

    known = task_of(task)
    if text is None and known.default_language is not None:
        return [known.default_language]
    parts = (part.strip() for part in (text or "").split(","))
    languages = list(dict.fromkeys(part for part in parts if part))
    if not languages:
        why = f": {known.why_language}" if known.why_language else ""
        message = f"name at least one language, such as --lang {known.example_language}{why}"
        raise BadParameter(message, param_hint="--lang")
    return languages


def data_sets(
    task: str | Task, lang: str | None, split: str, *, most: int | None, seed: int, **where: Any
) -> dict[str, Dataset]:
    """The data of each language, or at most `most` random rows of it.

    where: `root` and `source` of load_data
    """
    from deadhead.saved.rank_data import sample_rows

    return {
        language: sample_rows(task, [language], split, most=most, seed=seed, **where)
        for language in languages_from(lang, task)
    }


def options_from(texts: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE pairs. A value is read as JSON (2, true, [1, 2]) if possible, else as text."""
    options: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals:
            raise BadParameter(f"expects NAME=VALUE, got {text!r}", param_hint="--option")
        try:
            options[name.strip()] = json.loads(value)
        except json.JSONDecodeError:
            options[name.strip()] = value
    return options


def shape_from(text: str) -> tuple[int, int]:
    """Examples and tokens of each, as of --on 32x128."""
    numbers = re.fullmatch(r"0*([1-9]\d*)\s*[x,]\s*0*([1-9]\d*)", text.strip())
    if numbers is None:
        message = f"expects examples x tokens such as 32x128, got {text!r}"
        raise BadParameter(message, param_hint="--on")
    return int(numbers[1]), int(numbers[2])
