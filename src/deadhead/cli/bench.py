"""`deadhead bench`: the cost of a pruned model beside that of another, in one runtime or more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, BadParameter, Option

from deadhead.hub import located

from ._options import AsJson, Auto, Device, Dtype, numbers_from
from ._progress import plural

BATCHES = "1,8"


def bench(
    model: Annotated[str, Argument(metavar="DIR", help="The pruned model.")],
    against: Annotated[
        str | None,
        Option(help="The model to compare with; not needed with --runtimes.", callback=located),
    ] = None,
    runtimes: Annotated[
        str | None,
        Option(
            metavar="NAMES",
            help="Runtimes to compare, comma-separated: transformers, onnx, onnx:int8, "
            "llama.cpp (f16), llama.cpp:f32, llama.cpp:q8_0.",
        ),
    ] = None,
    prompts: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="With --runtimes: a prompt on each line; by default random tokens of --length.",
        ),
    ] = None,
    new_tokens: Annotated[
        int | None,
        Option(
            metavar="N",
            help="With --runtimes: tokens that a decoder adds to each prompt; by default 32.",
        ),
    ] = None,
    batch: Annotated[
        str | None,
        Option(
            help="Batch sizes, comma-separated; by default 1,8. With --runtimes it is always 1."
        ),
    ] = None,
    length: Annotated[str, Option(help="Lengths in tokens, comma-separated.")] = "32,128",
    repeats: Annotated[int, Option(help="Timed rounds.")] = 10,
    auto: Auto = None,
    dtype: Dtype = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Compare two models, one of them pruned: parameters, FLOPs, disk, latency, peak memory.

    With --runtimes, compare runtimes on the CPU: tokens per second of prompts and of new text, peak
    memory, file size, and whether all generate the same tokens. Encoders run in transformers and
    onnx, decoders in all.

    Examples:

        deadhead bench half --against bert-base-cased --batch 1,32 --length 128

        deadhead bench half --against ./SmolLM2-135M --runtimes transformers,onnx,llama.cpp
    """
    options: dict[str, Any] = {"repeats": repeats, "auto": auto, "dtype": dtype or "auto"}
    lengths = numbers_from(length, "--length")
    if runtimes is not None:
        if batch is not None or (device or "cpu") != "cpu":
            name = "--batch" if batch is not None else "--device"
            raise BadParameter("--runtimes reads prompt by prompt on the CPU", param_hint=name)
        options |= {"lengths": lengths, "new_tokens": 32 if new_tokens is None else new_tokens}
        result = _compare(model, against, runtimes, prompts=prompts, options=options)
    else:
        _check_without_runtimes(against, prompts, new_tokens)
        from deadhead.heads.verify.bench import bench as measure

        batches = numbers_from(batch or BATCHES, "--batch")
        options |= {"batches": batches, "lengths": lengths, "device": device}
        result = measure(model, str(against), **options)
    if as_json:
        typer.echo(json.dumps(result, indent=1))
    elif runtimes is not None:
        _print_runtimes(result)
    else:
        _print_costs(result)


def _check_without_runtimes(
    against: str | None, prompts: Path | None, new_tokens: int | None
) -> None:
    if against is None:
        raise BadParameter(
            "name the model to compare with, or give --runtimes", param_hint="--against"
        )
    for name, value in (("--prompts", prompts), ("--new-tokens", new_tokens)):
        if value is not None:
            raise BadParameter("goes with --runtimes", param_hint=name)


def _compare(
    model: str, against: str | None, runtimes: str, *, prompts: Path | None, options: dict[str, Any]
) -> dict[str, Any]:
    from deadhead.errors import DataError
    from deadhead.heads.verify.runtimes import compare_runtimes

    texts = None
    if prompts is not None:
        try:
            lines = prompts.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as problem:
            raise DataError(
                f"{prompts} cannot be read: {problem}.",
                "name a text file with a prompt on each line",
            ) from problem
        texts = [line for line in lines if line.strip()]
    models = [model] if against is None else [model, against]
    return compare_runtimes(models, runtimes.split(","), prompts=texts, **options)


def _print_runtimes(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    prompts = plural(len(result["prompt_tokens"]), "prompt")
    title = f"{result['machine']}, {plural(result['threads'], 'thread')}, {prompts}"
    if result["new_tokens"]:
        title += f", {plural(result['new_tokens'], 'new token')} after each"
    names = ["runtime", "model", "file", "peak memory", "prompt tokens/s"]
    if result["new_tokens"]:
        names += ["new tokens/s", "same tokens"]
    note = (
        "Medians of the rounds, in brackets the ratio to the last model in the same runtime. "
        "Peak memory: of a separate process for each row. Same tokens: prompts after which the "
        "runtime generates what transformers does."
    )
    table = Table(title=title, title_justify="left", caption=note, caption_justify="left")
    for name in names:
        table.add_column(name, no_wrap=name == "runtime", overflow="fold")
    last = {model: Path(model).name for model in result["models"]}
    short = last if len(set(last.values())) == len(last) else {}
    console = Console(highlight=False)
    for row in result["rows"]:
        if row["problem"] is None:
            cells = _runtime_cells(row, len(result["prompt_tokens"]))
            name = short.get(row["model"], row["model"])
            table.add_row(row["runtime"], name, *cells[: len(names) - 2])
    console.print(table)
    for row in result["rows"]:
        if row["problem"] is not None:
            line = f"{row['runtime']}, {row['model']}: {row['problem']}"
            console.print(line, markup=False, soft_wrap=True)


def _runtime_cells(row: dict[str, Any], prompts: int) -> list[str]:
    sizes = [row["file_bytes"], row["peak_memory_bytes"]]
    cells = ["-" if size is None else f"{size / 2**20:.1f} MiB" for size in sizes]
    for part in ("prompt", "new"):
        speed, ratio = row[f"{part}_tokens_per_second"], row["ratios"][part]
        text = "-" if speed is None else f"{speed:.1f}"
        cells.append(text if ratio is None else f"{text} ({ratio:.2f} x)")
    same = row["same_tokens"]
    return [*cells, "-" if same is None else f"{same} of {prompts}"]


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
