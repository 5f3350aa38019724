"""`deadhead bench`: the cost of a pruned model beside that of another."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from typer import Argument, Option

from deadhead.hub import located

from ._options import AsJson, Auto, Device, Dtype, numbers_from
from ._progress import plural


def bench(
    model: Annotated[str, Argument(metavar="DIR", help="The pruned model.")],
    against: Annotated[str, Option(help="The model to compare with.", callback=located)],
    batch: Annotated[str, Option(help="Batch sizes, comma-separated.")] = "1,8",
    length: Annotated[str, Option(help="Lengths in tokens, comma-separated.")] = "32,128",
    repeats: Annotated[int, Option(help="Timed rounds.")] = 10,
    auto: Auto = None,
    dtype: Dtype = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Compare two models, one of them pruned: parameters, FLOPs, disk, latency, peak memory.

    Example:

        deadhead bench half --against bert-base-cased --batch 1,32 --length 128
    """
    from deadhead.heads.verify.bench import bench as measure

    result = measure(
        model,
        against,
        batches=numbers_from(batch, "--batch"),
        lengths=numbers_from(length, "--length"),
        repeats=repeats,
        auto=auto,
        dtype=dtype or "auto",
        device=device,
    )
    if as_json:
        typer.echo(json.dumps(result, indent=1))
    else:
        _print_costs(result)


def _print_costs(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"{result['device']}, {plural(result['threads'], 'thread')}"
    note = (
        "Times: median ± interquartile range of the rounds; their ratio: the median over the "
        "rounds. Peak memory: of a separate process for each model."
    )
    columns = ("", result["model"], result["against"], "ratio")
    table = Table(*columns, title=title, title_justify="left", caption=note, caption_justify="left")
    for row in result["rows"]:
        spreads = row.get("spread", (None, None))
        values = zip((row["model"], row["against"]), spreads, strict=True)
        cells = [_cell(row["what"], value, spread) for value, spread in values]
        name = row["what"].replace("seconds", "time").replace(" bytes", "")  # cells have units
        table.add_row(name, *cells, "-" if row["ratio"] is None else f"{row['ratio']:.3f}")
    Console().print(table)


def _cell(what: str, value: Any, spread: float | None) -> str:
    if value is None:
        return "-"
    if what.startswith("seconds"):
        return f"{value * 1e3:.1f} ms ± {(spread or 0) * 1e3:.1f}"
    return f"{value / 2**20:.1f} MiB" if "bytes" in what else f"{value:,}"
