"""`deadhead bench`: the cost of a pruned model beside that of another, on random inputs."""

from typing import Annotated, Any

import typer
from typer import Option

from deadhead.files.hub import located

from . import _options as opt
from ._progress import plural, print_json, print_table, size_text


def bench(
    model: opt.Model,
    against: Annotated[
        str, Option(metavar="MODEL", help="The model to compare with.", callback=located)
    ],
    batch_sizes: Annotated[
        str, Option(metavar="NUMBERS", help="Batch sizes, comma-separated.")
    ] = "1,8",
    lengths: Annotated[
        str, Option(metavar="NUMBERS", help="Lengths of random inputs in tokens, comma-separated.")
    ] = "32,128",
    repeats: Annotated[int, Option(metavar="N", help="Time this many rounds.")] = 10,
    auto: opt.Auto = None,
    dtype: opt.Dtype = None,
    device: opt.Device = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compare two models, one of them pruned: parameters, FLOPs, disk, latency, peak memory.

    It times random inputs. How well a model does on the data of a task: deadhead evaluate.

    Example:

        deadhead bench half --against bert-base-cased --batch-sizes 1,32 --lengths 128
    """
    batches = _numbers(batch_sizes, "--batch-sizes")
    sizes = _numbers(lengths, "--lengths")
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
    if as_json:
        print_json(result)
    else:
        _print(result)


def _numbers(text: str, option: str) -> list[int]:
    """Comma-separated whole numbers."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        message = f"expects whole numbers such as 1,8, got {text!r}"
        raise typer.BadParameter(message, param_hint=option) from None


def _print(result: dict[str, Any]) -> None:
    title = f"{result['device']}, {plural(result['threads'], 'thread')}"
    note = (
        "Times: median ± interquartile range of the rounds; their ratio: the median over the "
        "rounds. Peak memory: of a separate process for each model."
    )
    columns = ("", result["model"], result["against"], "ratio")
    at_left = {"title_justify": "left", "caption_justify": "left"}
    print_table(columns, map(_row, result["rows"]), title=title, caption=note, **at_left)


def _row(row: dict[str, Any]) -> list[str]:
    values, spreads = (row["model"], row["against"]), row.get("spread", (0, 0))
    cells = [
        _cell(row["what"], value, spread) for value, spread in zip(values, spreads, strict=True)
    ]
    ratio = "-" if row["ratio"] is None else f"{row['ratio']:.3f}"
    name = row["what"].replace("seconds", "time").replace(" bytes", "")  # cells have units
    return [name, *cells, ratio]


def _cell(what: str, value: Any, spread: float) -> str:
    if value is None:
        return "-"
    if what.startswith("seconds"):
        return f"{value * 1e3:.1f} ms ± {spread * 1e3:.1f}"
    return size_text(value) if "bytes" in what else f"{value:,}"
