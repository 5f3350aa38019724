"""`deadhead evaluate`: the scores of models on a task, with their uncertainty and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

from . import _options as opt
from ._progress import print_json, print_table

if TYPE_CHECKING:
    from deadhead.tasks import Dataset, MetricValues, Task
    from deadhead.tasks.bootstrap import Interval
    from deadhead.tasks.predictions import Predictions
    from deadhead.training.evaluation import Intervals

# what a bootstrap sample has, by what has a label
UNITS = {
    "token": "windows",
    "option": "rows",
    "span": "questions",
    "pair": "pairs",
    "query": "queries",
}


def evaluate(
    models: opt.Models,
    lang: opt.Languages = None,
    task: opt.TaskName = None,
    split: opt.Split = "dev",
    data: opt.Data = None,
    source: opt.Corpus = None,
    max_examples: opt.MaxExamples = None,
    max_length: opt.Length = None,
    resamples: Annotated[
        int,
        Option(
            metavar="N",
            min=1,
            help="Draw this many bootstrap samples for the confidence intervals.",
        ),
    ] = 1000,
    seed: opt.Seed = 0,
    auto: opt.Auto = None,
    dtype: opt.Dtype = None,
    device: opt.Device = None,
    as_json: opt.AsJson = False,
) -> None:
    """Score models on a task and compare them: the main metric per language, with intervals.

    Each further model is compared with the first one by a paired bootstrap. With --json the output
    has every metric.

    Examples:

        deadhead evaluate smaller --task pos --lang en,de

        deadhead evaluate tagger smaller --task pos --lang en,de --split test

        deadhead evaluate ./SmolLM2-135M smaller --task lm --data wikitext-2 --split test

        deadhead evaluate ./SmolLM2-135M smaller --task choice --data rows.jsonl
    """
    # Longer than most functions: half of it is the list of options and the help.
    known = opt.required_task(task)
    from deadhead.numerics import device_named
    from deadhead.tasks.bootstrap import FEW
    from deadhead.training.evaluation import intervals
    from deadhead.training.models import check_data, outline

    loading = {"device": device_named(device), "auto": auto, "dtype": dtype}
    opt.languages_from(lang, known)  # a mistake in an option comes before any file is read
    outlines = [outline(name, auto=auto, dtype=dtype) for name in models]
    sets = opt.data_sets(known, lang, split, most=max_examples, seed=seed, root=data, source=source)
    check_data(outlines, sets.values(), max_length)
    predictions = {
        name: _predict(name, sets, max_length, loading) for name in dict.fromkeys(models)
    }
    scores = {
        name: {language: p.score(sets[language]) for language, p in by_set.items()}
        for name, by_set in predictions.items()
    }
    main, differences = intervals(predictions, sets, resamples=resamples, seed=seed)
    about = next(iter(sets.values())).task
    examples = {language: p.examples for language, p in next(iter(predictions.values())).items()}
    if as_json:
        facts: dict[str, Any] = {"task": about.name, "split": split, "metric": about.metric}
        facts |= {"scores": scores, "examples": examples, "resamples": resamples, "seed": seed}
        facts |= {"intervals": _to_dict(main), "differences": _to_dict(differences)}
        print_json(facts)
        return
    _print_scores(about.metric, split, examples, main, differences)
    if about.traits.label_unit in UNITS:
        _print_other_metrics(about, scores, predictions)
    for signature in sorted({s.signature for own in scores.values() for s in own.values()} - {""}):
        typer.echo(signature)
    typer.echo(
        f"In brackets: 95 % confidence intervals from {resamples:,} bootstrap samples "
        f"of {UNITS.get(about.traits.label_unit, 'sentences')} (seed {seed})."
    )
    printed = [i for table in (main, differences) for row in table.values() for i in row.values()]
    if not all(interval.is_certain for interval in printed):
        typer.echo(f"[-]: no interval from fewer than {FEW} of them, or where all score the same.")
    if differences:
        typer.echo(
            "p: the probability of such a difference between equally good models "
            "(paired bootstrap, two-sided)."
        )


def _predict(
    name: str, sets: dict[str, Dataset], max_length: int | None, loading: dict[str, Any]
) -> dict[str, Predictions]:
    from deadhead.display.progress import counting, stage
    from deadhead.training.evaluation import check_sets, predict
    from deadhead.training.models import encode_for, load_with_tokenizer

    model, tokenizer = load_with_tokenizer(name, **loading)
    predictions: dict[str, Predictions] = {}
    with counting(name) as progress:
        for language, data in sets.items():
            progress(len(predictions), len(sets), language)
            stage(f"scoring {name}: {language}")
            encoded = encode_for(model, tokenizer, data, max_length)
            for note, count in {**data.notes, **encoded.notes}.items():
                typer.echo(f"{name}: {note}: {count:,}", err=True)
            check_sets(model, {language: encoded})
            predictions[language] = predict(model, encoded, tokenizer=tokenizer, progress=progress)
    return predictions


def _to_dict(table: Intervals) -> dict[str, Any]:
    return {
        model: {language: interval.to_dict() for language, interval in row.items()}
        for model, row in table.items()
    }


def _print_other_metrics(
    task: Task,
    scores: dict[str, dict[str, MetricValues]],
    predictions: dict[str, dict[str, Predictions]],
) -> None:
    """All metrics but the main one, where a table has no room for them."""
    from deadhead.tasks import METRICS, points_text

    for name, by_set in scores.items():
        for language, values in by_set.items():
            of_set = f" ({language})" if len(by_set) > 1 else ""
            others = [metric for metric in task.metrics if metric != task.metric]
            texts = (f"{METRICS[m].label} {points_text(m, values[m])}" for m in others)
            typer.echo(f"{name}{of_set}: {', '.join(texts)}")
    if task.traits.label_unit != "token":
        return
    typer.echo("Lower is better, except for the accuracy (in percent).")
    tokens = {p.values[:, 1].sum() for by_set in predictions.values() for p in by_set.values()}
    if len(tokens) > 1:
        typer.echo(
            "The models cut the text into different tokens: compare the perplexities per word or "
            "per byte."
        )


def _print_scores(
    metric: str, split: str, examples: dict[str, int], scores: Intervals, differences: Intervals
) -> None:
    """Tables in points: a row for each language, and one for their mean."""
    from rich.markup import escape

    from deadhead.tasks import METRICS, points_text

    def cell(interval: Interval, plus: str = "") -> str:
        numbers = (interval.value, interval.low, interval.high)
        value, low, high = (points_text(metric, number, plus) for number in numbers)
        if not interval.is_certain:
            return f"{value} [-]"
        p = "" if interval.p is None else f", p {interval.p:.3f}"
        return f"{value} [{low}, {high}]{p}"

    first, own = next(iter(scores.items()))
    rows = [
        (
            language,
            f"{examples[language]:,}" if language in examples else "",
            *(cell(row[language]) for row in scores.values()),
        )
        for language in own
    ]
    columns = (f"{METRICS[metric].label}, {split}", "examples", *map(escape, scores))
    print_table(columns, rows)
    if differences:
        rows = [
            (language, *(cell(row[language], "+") for row in differences.values()))
            for language in own
        ]
        print_table((f"minus {escape(first)}", *map(escape, differences)), rows)
