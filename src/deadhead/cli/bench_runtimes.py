"""`deadhead bench-runtimes`: the speed and memory of one or two models in several runtimes."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from . import _options as opt
from ._progress import plural, size_text


def bench_runtimes(
    model: opt.Model,
    runtimes: Annotated[
        str,
        Option(
            metavar="NAMES",
            help="Runtimes to compare, comma-separated: transformers, onnx, onnx:int8, "
            "onnx-genai, onnx-genai:int8, llama.cpp (f16), llama.cpp:f32, llama.cpp:q8_0.",
        ),
    ],
    against: opt.Against = None,
    prompts: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Read a prompt from each line; by default random tokens of --lengths.",
        ),
    ] = None,
    lengths: opt.Lengths = "32,128",
    new_tokens: Annotated[
        int, Option(metavar="N", min=1, help="Let a decoder add this many tokens to each prompt.")
    ] = 32,
    tokenizer_from: Annotated[
        Path | None, Option(metavar="FILE", help="Give llama.cpp the tokenizer of this GGUF file.")
    ] = None,
    repeats: opt.Repeats = 10,
    auto: opt.Auto = None,
    dtype: opt.Dtype = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compare runtimes on the CPU, prompt by prompt: tokens per second, peak memory, file size.

    It also checks whether all runtimes generate the same tokens. Encoders run in transformers and
    onnx, decoders in all. onnx-genai is onnxruntime-genai.

    Example:

        deadhead bench-runtimes half --against ./SmolLM2-135M --runtimes transformers,llama.cpp
    """
    sizes = opt.numbers_from(lengths, "--lengths")
    from deadhead.saved.runtimes import compare_runtimes

    result = compare_runtimes(
        [model] if against is None else [model, against],
        runtimes.split(","),
        prompts=None if prompts is None else _lines(prompts),
        lengths=sizes,
        new_tokens=new_tokens,
        tokenizer_from=tokenizer_from,
        repeats=repeats,
        auto=auto,
        dtype=dtype or "auto",
    )
    if as_json:
        typer.echo(json.dumps(result, indent=1))
    else:
        _print_runtimes(result)


def _lines(prompts: Path) -> list[str]:
    """The prompts of a file, one on each line that is not blank."""
    from deadhead.errors import DataError

    try:
        lines = prompts.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        hint = "name a text file with a prompt on each line"
        raise DataError(f"{prompts} cannot be read: {problem}.", hint) from problem
    return [line for line in lines if line.strip()]


def _print_runtimes(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    last = {model: Path(model).name for model in result["models"]}
    short = last if len(set(last.values())) == len(last) else {}
    title, names, note = _runtime_texts(result)
    if is_pair := len(result["models"]) > 1:
        names[0] += ",\nmodel"
    else:
        title = f"{short[result['models'][0]]}: {title}"
    # Text: no markup. The lines are short, so that 80 columns break no name and no number.
    table = Table(title=Text(title), title_justify="left", caption=note, caption_justify="left")
    for name in names:
        table.add_column(name, overflow="fold")
    previous = None
    for row in result["rows"]:
        if row["problem"] is None:
            if previous not in (None, row["runtime"]):
                table.add_section()
            previous = row["runtime"]
            model = short.get(row["model"], row["model"])
            cells = _runtime_cells(row, len(result["prompt_tokens"]))[: len(names) - 1]
            table.add_row(Text(f"{previous}\n{model}" if is_pair else previous), *cells)
    console = Console(highlight=False)
    console.print(table)
    for row in result["rows"]:
        if text := row["problem"] or row["note"]:
            line = f"{row['runtime']}, {row['model']}: {text}"
            console.print(line, markup=False, soft_wrap=True)


def _runtime_texts(result: dict[str, Any]) -> tuple[str, list[str], str]:
    """The title of the table of runtimes, the names of its columns, and the note below it."""
    prompts = plural(len(result["prompt_tokens"]), "prompt")
    title = f"{result['machine']}, {plural(result['threads'], 'thread')}, {prompts}"
    names = ["runtime", "file", "peak\nmemory", "prompt\ntokens/s"]
    note = "Medians of the rounds"
    if len(result["models"]) > 1:
        note += ", in brackets the ratio to the last model in the same runtime"
    note += ". Peak memory: of a separate process for each row."
    if result["new_tokens"]:
        title += f", {plural(result['new_tokens'], 'new token')} after each"
        names += ["new\ntokens/s", "same\ntokens"]
        note += " Same tokens: prompts after which the runtime generates what transformers does."
    return title, names, note


def _runtime_cells(row: dict[str, Any], prompts: int) -> list[str]:
    sizes = [row["file_bytes"], row["peak_memory_bytes"]]
    cells = ["-" if size is None else size_text(size) for size in sizes]
    for part in ("prompt", "new"):
        speed, ratio = row[f"{part}_tokens_per_second"], row["ratios"][part]
        text = "-" if speed is None else f"{speed:.1f}"
        cells.append(text if ratio is None else f"{text}\n({ratio:.2f} x)")
    same = row["same_tokens"]
    return [*cells, "-" if same is None else f"{same} of {prompts}"]
