"""`deadhead bench`: the cost of a pruned model beside that of another, on random inputs."""

import json
from typing import Annotated, Any

import typer
from typer import Option

from deadhead.files.hub import located

from . import _options as opt
from ._progress import plural, size_text


def bench(
    model: opt.Model,
    against: Annotated[
        str, Option(metavar="MODEL", help="The model to compare with.", callback=located)
    ],
    batch_sizes: opt.BatchSizes = "1,8",
    lengths: opt.Lengths = "32,128",
    repeats: opt.Repeats = 10,
    auto: opt.Auto = None,
    dtype: opt.Dtype = None,
    device: opt.Device = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compare two models, one of them pruned: parameters, FLOPs, disk, latency, peak memory.

    It times random inputs. To measure on the data of a task: deadhead bench-task. To compare
    runtimes: deadhead bench-runtimes.

    Example:

        deadhead bench half --against bert-base-cased --batch-sizes 1,32 --lengths 128
    """
    batches = opt.numbers_from(batch_sizes, "--batch-sizes")
    sizes = opt.numbers_from(lengths, "--lengths")
    from deadhead.saved.bench import bench as measure

    result = measure(
        model,
        against,
        batches=batches,
        lengths=sizes,
        repeats=repeats,
        auto=auto,
        dtype=dtype or "auto",
        device=device,
    )
    print_costs(result, as_json)


def print_costs(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(result, indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    title = f"{result['device']}, {plural(result['threads'], 'thread')}"
    note = "Times: median ± interquartile range of the rounds"
    if result["against"] is not None:
        note += "; their ratio: the median over the rounds"
    note += ". Peak memory: of a separate process for each model."
    if "task" in result:
        title += f", {result['precision']}, {result['task']} {result['split']}"
        note += _of_examples(result["rows"])
    names = [name for name in (result["model"], result["against"]) if name is not None]
    columns = ("", *names, *(["ratio"] if len(names) > 1 else []))
    table = Table(*columns, title=title, title_justify="left", caption=note, caption_justify="left")
    for row in result["rows"]:
        spreads = row.get("spread", (None, None))
        values = [row["model"], row["against"]][: len(names)]
        cells = [_cell(row, value, spread) for value, spread in zip(values, spreads, strict=False)]
        if len(names) > 1:
            cells.append("-" if row["ratio"] is None else f"{row['ratio']:.3f}")
        name = row["what"].replace("seconds", "time").replace(" bytes", "")  # cells have units
        table.add_row(name, *cells)
    Console().print(table)


def _of_examples(rows: list[dict[str, Any]]) -> str:
    examples = ", ".join(f"{row['examples']:,}" for row in rows if "metric" in row)
    tokens = next(row["tokens"][0] for row in rows if "tokens" in row)
    return f" Scores are of {examples} examples, times of {tokens:,} tokens of random ones."


def _cell(row: dict[str, Any], value: Any, spread: float | None) -> str:
    what = row["what"]
    if value is None:
        return "-"
    if "metric" in row:
        from deadhead.tasks import points_text

        return points_text(row["metric"], value)
    if what.startswith("seconds"):
        return f"{value * 1e3:.1f} ms ± {(spread or 0) * 1e3:.1f}"
    if what.startswith("tokens"):
        return f"{value:,.1f}"
    return size_text(value) if "bytes" in what else f"{value:,}"
