"""`deadhead evaluate`: what models score on a task, how sure that is, and how they differ. Parse, call, print."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .data import Corpus, Length, MaxExamples, Root, TaskFile, TaskName, languages_of, needed_task
from .loading import model_and_tokenizer, watched
from .model_options import Auto, Device, Dtype

if TYPE_CHECKING:
    from deadhead.tasks import Dataset
    from deadhead.tasks.bootstrap import Interval
    from deadhead.tasks.predictions import Predictions

MEAN = "mean"


def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Folders with fine-tuned models, or their names on the hub.",
            show_default=False,
        ),
    ],
    lang: Annotated[
        str,
        typer.Option(
            help="The language of the data, such as en; several by commas.", show_default=False
        ),
    ],
    task: TaskName = None,
    task_file: TaskFile = None,
    split: Annotated[str, typer.Option(help="train, dev or test.")] = "dev",
    data: Root = None,
    source: Corpus = None,
    max_examples: MaxExamples = None,
    max_length: Length = 256,
    resamples: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Draws of sentences behind the confidence intervals."
        ),
    ] = 1000,
    seed: Annotated[int, typer.Option(help="For what is drawn at random.")] = 0,
    auto: Auto = None,
    dtype: Dtype = None,
    device: Device = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="One JSON document, with every metric, instead of tables."),
    ] = False,
) -> None:
    """Score models on a task, side by side: the task's first metric for each language with its confidence interval, and how
    far each model is from the first, with a paired bootstrap.

    Examples:

        deadhead evaluate smaller --task pos --lang en,de

        deadhead evaluate tagger smaller --task pos --lang en,de --split test
    """
    known = needed_task(task, task_file)
    from deadhead.device import device_named
    from deadhead.tasks import draw_examples, load_data

    place = str(device_named(device))
    languages = languages_of(lang)
    sets = {
        name: draw_examples(
            load_data(known, name, split, root=data, source=source), max_examples, seed
        )
        for name in languages
    }
    about = sets[languages[0]].task
    predictions = {
        model: _predictions(model, auto, dtype, sets, max_length, place)
        for model in dict.fromkeys(models)
    }
    scores = {
        model: {name: one.score(sets[name]) for name, one in several.items()}
        for model, several in predictions.items()
    }
    intervals, differences = _uncertainty(predictions, sets, resamples, seed)
    if as_json:
        facts: dict[str, Any] = {
            "task": about.name,
            "split": split,
            "metric": about.metric,
            "scores": scores,
        }
        facts |= {
            "examples": {name: len(one) for name, one in sets.items()},
            "resamples": resamples,
            "seed": seed,
        }
        typer.echo(
            json.dumps(
                {**facts, "intervals": _plain(intervals), "differences": _plain(differences)},
                indent=1,
            )
        )
        return
    _show(about.metric, split, sets, intervals, differences)
    for signature in sorted(
        {one.signature for several in scores.values() for one in several.values() if one.signature}
    ):
        typer.echo(signature)
    typer.echo(
        f"In brackets: 95 % confidence intervals, from {resamples:,} draws of sentences (seed {seed})."
    )
    if differences:
        typer.echo(
            "p: how often models that are equally good would differ as much, by a paired bootstrap, two-sided."
        )


def _predictions(
    name: str,
    auto: str | None,
    dtype: str | None,
    sets: dict[str, Dataset],
    max_length: int,
    place: str,
) -> dict[str, Predictions]:
    from deadhead.tasks import encode
    from deadhead.training.evaluation import predict_sets
    from deadhead.training.labels import model_labels

    model, tokenizer = model_and_tokenizer(name, auto, dtype, place)
    found: dict[str, Predictions] = {}
    with watched(name) as progress:
        for number, (lang, data) in enumerate(sets.items()):
            progress(number, len(sets), lang)
            encoded = encode(
                data, tokenizer, max_length=max_length, labels=model_labels(model, data)
            )
            found |= predict_sets(model, {lang: encoded}, tokenizer=tokenizer)
    return found


Table = dict[str, dict[str, "Interval"]]  # model -> language, or mean


def _uncertainty(
    predictions: dict[str, dict[str, Predictions]],
    sets: dict[str, Dataset],
    resamples: int,
    seed: int,
) -> tuple[Table, Table]:
    """The score of each model on each set with its interval, and those of the others minus the first."""
    from deadhead.tasks.bootstrap import mean, side_by_side

    intervals = {
        model: {
            lang: one.bootstrap(sets[lang], resamples=resamples, seed=seed)
            for lang, one in several.items()
        }
        for model, several in predictions.items()
    }
    for several in intervals.values():
        if len(several) > 1:
            several[MEAN] = mean(list(several.values()))
    return intervals, side_by_side(intervals)


def _plain(table: Table) -> dict[str, Any]:
    return {
        model: {lang: one.to_dict() for lang, one in several.items()}
        for model, several in table.items()
    }


def _show(
    metric: str, split: str, sets: dict[str, Dataset], intervals: Table, differences: Table
) -> None:
    """In points, as tables of the field are: a row for each language, and their mean if there are several."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as Grid

    from deadhead.tasks import points

    def spread(one: Interval, sign: str = "") -> str:
        value, low, high = (points(metric, number) for number in (one.value, one.low, one.high))
        return f"{value:{sign}.2f} [{low:{sign}.2f}, {high:{sign}.2f}]"

    console = Console()
    first = next(iter(intervals))
    table = Grid(f"{metric}, {split}", "examples", *map(escape, intervals))
    for lang in intervals[first]:
        rows = f"{len(sets[lang]):,}" if lang in sets else ""
        table.add_row(lang, rows, *(spread(several[lang]) for several in intervals.values()))
    console.print(table)
    if differences:
        table = Grid(f"minus {escape(first)}", *map(escape, differences))
        for lang in intervals[first]:
            table.add_row(
                lang,
                *(
                    f"{spread(several[lang], '+')}, p {several[lang].p:.3f}"
                    for several in differences.values()
                ),
            )
        console.print(table)
