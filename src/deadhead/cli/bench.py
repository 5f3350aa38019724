"""`deadhead bench`: the cost of a pruned model beside that of another, in one runtime or more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import BadParameter, Option

from deadhead.files.hub import located

from . import _options as opt
from ._progress import plural, size_text

BATCHES, LENGTHS, NEW_TOKENS = "1,8", "32,128", 32


def bench(
    model: opt.Model,
    against: Annotated[
        str | None,
        Option(
            help="The model to compare with; needed unless there is a task or --runtimes.",
            callback=located,
        ),
    ] = None,
    runtimes: Annotated[
        str | None,
        Option(
            metavar="NAMES",
            help="Runtimes to compare, comma-separated: transformers, onnx, onnx:int8, "
            "onnx-genai, onnx-genai:int8, llama.cpp (f16), llama.cpp:f32, llama.cpp:q8_0.",
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
            min=1,
            help="With --runtimes: tokens that a decoder adds to each prompt; by default 32.",
        ),
    ] = None,
    tokenizer_from: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="With --runtimes: the GGUF file whose tokenizer llama.cpp gets, as in export.",
        ),
    ] = None,
    batch: Annotated[
        str | None,
        Option(
            help="Batch sizes, comma-separated; by default 1,8. With --runtimes it is always 1."
        ),
    ] = None,
    length: Annotated[
        str | None,
        Option(
            help="Lengths of random inputs in tokens, comma-separated; by default 32,128. "
            "The data of a task have their own."
        ),
    ] = None,
    repeats: Annotated[int, Option(help="Timed rounds.")] = 10,
    lang: opt.Languages = None,
    task: opt.TaskName = None,
    task_file: opt.TaskFile = None,
    split: opt.Split = "dev",
    data: opt.Data = None,
    source: opt.Corpus = None,
    max_examples: opt.MaxExamples = None,
    max_length: opt.Length = None,
    seed: opt.Seed = 0,
    auto: opt.Auto = None,
    dtype: opt.Dtype = None,
    device: opt.Device = None,
    as_json: opt.AsJson = False,
) -> None:
    """Compare two models, one of them pruned: parameters, FLOPs, disk, latency, peak memory.

    With a task, measure on its data instead of random inputs, one model or two: also the score of
    all examples and tokens per second, of some random examples.

    With --runtimes, compare runtimes on the CPU: tokens per second of prompts and of new text, peak
    memory, file size, and whether all generate the same tokens. Encoders run in transformers and
    onnx, decoders in all. onnx-genai is onnxruntime-genai.

    Examples:

        deadhead bench half --against bert-base-cased --batch 1,32 --length 128

        deadhead bench half --against ./SmolLM2-135M --task lm --data text.txt

        deadhead bench half --against ./SmolLM2-135M --runtimes transformers,onnx,llama.cpp
    """
    # Longer than most functions: half of it is the list of options and the help.
    known = opt.task_from(task, task_file)
    options: dict[str, Any] = {"repeats": repeats, "auto": auto, "dtype": dtype or "auto"}
    _check_kind(known is not None, runtimes, length, {"--prompts": prompts,
        "--new-tokens": new_tokens, "--tokenizer-from": tokenizer_from})  # fmt: skip
    _check_data(known is not None, {"--lang": lang, "--data": data, "--source": source}
        | {"--max-examples": max_examples, "--max-length": max_length})  # fmt: skip
    lengths = opt.numbers_from(length or LENGTHS, "--length")
    if runtimes is not None:
        if batch is not None or (device or "cpu") != "cpu":
            name = "--batch" if batch is not None else "--device"
            raise BadParameter("--runtimes reads prompt by prompt on the CPU", param_hint=name)
        options |= {"lengths": lengths, "tokenizer_from": tokenizer_from}
        options |= {"new_tokens": NEW_TOKENS if new_tokens is None else new_tokens}
        result = _compare(model, against, runtimes, prompts=prompts, options=options)
    elif known is not None:
        options |= {"batches": opt.numbers_from(batch or BATCHES, "--batch"), "dtype": dtype}
        options |= {"max_length": max_length, "seed": seed, "device": device}
        names = [model] if against is None else [model, against]
        sets = opt.data_sets(
            known, lang, split, most=max_examples, seed=seed, root=data, source=source
        )
        from deadhead.saved.bench_task import bench_task

        result = bench_task(names, sets, **options)
    elif against is None:
        message = "name the model to compare with, or give --runtimes or --task"
        raise BadParameter(message, param_hint="--against")
    else:
        from deadhead.saved.bench import bench as measure

        batches = opt.numbers_from(batch or BATCHES, "--batch")
        options |= {"batches": batches, "lengths": lengths, "device": device}
        result = measure(model, against, **options)
    if as_json:
        typer.echo(json.dumps(result, indent=1))
    elif runtimes is not None:
        _print_runtimes(result)
    else:
        _print_costs(result)


def _check_kind(
    has_task: bool, runtimes: str | None, length: str | None, for_runtimes: dict[str, Any]
) -> None:
    """Refuse options of one kind of comparison in another."""
    if has_task and runtimes is not None:
        message = "give a task or --runtimes, which reads --prompts FILE"
        raise BadParameter(message, param_hint="--runtimes")
    if has_task and length is not None:
        message = "the data of a task have their own lengths; limit them with --max-length"
        raise BadParameter(message, param_hint="--length")
    for name, value in for_runtimes.items():
        if value is not None and runtimes is None:
            raise BadParameter("goes with --runtimes", param_hint=name)


def _check_data(has_task: bool, options: dict[str, Any]) -> None:
    for name, value in options.items():
        if value is not None and not has_task:
            raise BadParameter("goes with --task or --task-file", param_hint=name)


def _compare(
    model: str, against: str | None, runtimes: str, *, prompts: Path | None, options: dict[str, Any]
) -> dict[str, Any]:
    from deadhead.errors import DataError
    from deadhead.saved.runtimes import compare_runtimes

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


def _print_costs(result: dict[str, Any]) -> None:
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
