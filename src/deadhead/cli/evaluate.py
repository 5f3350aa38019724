"""`deadhead evaluate`: what fine-tuned models score on a task, in one language or many. Parse, call, print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .data import chosen_task
from .rank import _model, model_labels, watched

if TYPE_CHECKING:
    from ..tasks import Dataset, Measured


def evaluate(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="Folders with fine-tuned models, or their names on the hub.", show_default=False)
    ],
    lang: Annotated[str, typer.Option(help="The language of the data, such as en; several by commas.", show_default=False)],
    task: Annotated[str | None, typer.Option(metavar="NAME", help="The task, such as pos.")] = None,
    task_file: Annotated[Path | None, typer.Option(metavar="FILE", help="A task of your own, in YAML, instead of --task.")] = None,
    split: Annotated[str, typer.Option(help="train, dev or test.")] = "dev",
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="The folder of data; by default DEADHEAD_DATA, or the hub.")] = None,
    max_length: Annotated[int, typer.Option(help="Sub-words in a window.")] = 256,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; by default a GPU if there is one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document, with every metric, instead of a table.")] = False,
) -> None:
    """Score models on a task, side by side: the task's first metric for each language, and how far each is from the first model.

    Examples:

        deadhead evaluate smaller --task pos --lang en,de

        deadhead evaluate tagger smaller --task pos --lang en,de --split test
    """
    known = chosen_task(task, task_file)
    if known is None:
        raise typer.BadParameter("give --task NAME or --task-file FILE", param_hint="--task")
    from ..heads.kernels import device_named
    from ..tasks import load_data

    place = str(device_named(device))
    languages = [*dict.fromkeys(part.strip() for part in lang.split(",") if part.strip())]
    if not languages:
        raise typer.BadParameter("name at least one language", param_hint="--lang")
    sets = {name: load_data(known, name, split, root=data) for name in languages}
    about = sets[languages[0]].task
    found = {model: _scores(model, sets, max_length, place) for model in dict.fromkeys(models)}
    if as_json:
        typer.echo(json.dumps({"task": about.name, "split": split, "metric": about.metric, "scores": found}, indent=1))
    else:
        _show(found, about.metric, split)


def _scores(name: str, sets: dict[str, Dataset], max_length: int, place: str) -> dict[str, Measured]:
    from ..evaluate import evaluate as score
    from ..tasks import encode

    model, tokenizer = _model(name, place)
    found: dict[str, Measured] = {}
    with watched(name) as progress:
        for number, (lang, data) in enumerate(sets.items()):
            progress(number, len(sets), lang)
            encoded = encode(data, tokenizer, max_length=max_length, labels=model_labels(model, data))
            found |= score(model, {lang: encoded}, tokenizer=tokenizer)
    return found


def _show(found: dict[str, dict[str, Measured]], metric: str, split: str) -> None:
    """In points, as tables of the field are: a row for each language, and their mean if there are several."""
    from rich.console import Console
    from rich.table import Table

    first, *others = found
    points = {
        model: {lang: scores[metric] * (1 if metric == "bleu" else 100) for lang, scores in several.items()}
        for model, several in found.items()
    }
    for several in points.values():
        if len(several) > 1:
            several["mean"] = sum(several.values()) / len(several)
    table = Table(f"{metric}, {split}", *found)
    for lang in points[first]:
        own = points[first][lang]
        table.add_row(lang, f"{own:.2f}", *(f"{points[model][lang]:.2f} ({points[model][lang] - own:+.2f})" for model in others))
    Console().print(table)
    for signature in sorted({scores.signature for several in found.values() for scores in several.values() if scores.signature}):
        typer.echo(signature)
