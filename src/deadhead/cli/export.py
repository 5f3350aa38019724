"""`deadhead export`: write a model for another runtime."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, BadParameter, Option

from ._options import AsJson, Auto, Dtype, Force
from ._outputs import check_file, check_folder
from ._progress import print_json, size_text


def export(
    folder: Annotated[Path, Argument(metavar="DIR", help="The folder of a model.")],
    onnx: Annotated[
        Path | None,
        Option(
            metavar="PATH",
            help="Write the model as ONNX: one forward pass as NAME.onnx, or a folder, which "
            "also generates text.",
        ),
    ] = None,
    int8: Annotated[bool, Option("--int8", help="With --onnx: store the weights in int8.")] = False,
    gguf: Annotated[
        Path | None, Option(metavar="FILE", help="Write the model as GGUF, for llama.cpp.")
    ] = None,
    type: Annotated[
        str | None,
        Option(
            metavar="TYPE",
            help="With --gguf: the type of the weights, f32, f16 (the default), q8_0 or q4_0.",
        ),
    ] = None,
    tokenizer_from: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="With --gguf: take the tokenizer from this GGUF file of the original model.",
        ),
    ] = None,
    auto: Auto = None,
    dtype: Dtype = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a model as ONNX or GGUF.

    The file is run with onnxruntime or llama.cpp and compared with the model before you get it.

    Examples:

        deadhead export half --onnx half.onnx

        deadhead export half --onnx half-onnx --int8

        deadhead export half --gguf half.gguf --type q8_0
    """
    if (onnx is None) == (gguf is None):
        raise BadParameter("give either --onnx PATH or --gguf FILE")
    if type is not None and gguf is None:
        raise BadParameter("--type is for a GGUF file: use it with --gguf")
    if tokenizer_from is not None and gguf is None:
        raise BadParameter("--tokenizer-from is for a GGUF file: use it with --gguf")
    if int8 and onnx is None:
        raise BadParameter("--int8 is for ONNX: use it with --onnx")
    _check_onnx(folder, onnx, force=force)
    check_file(gguf, "--gguf", "model.gguf", force=force)
    options: dict[str, Any] = {"auto": auto, "dtype": dtype}
    if onnx is not None:
        facts, lines = _export_onnx(folder, onnx, {**options, "int8": int8})
    else:
        assert gguf is not None
        options |= {"type": type or "f16", "tokenizer_from": tokenizer_from}
        facts, lines = _export_gguf(folder, gguf, options)
    facts = {"from": str(folder), **facts}
    if as_json:
        print_json(facts)
    else:
        typer.echo("\n".join(lines))


def _check_onnx(folder: Path, target: Path | None, *, force: bool) -> None:
    from deadhead.exports.onnx import is_one_file

    if target is None or is_one_file(target):
        check_file(target, "--onnx", "model.onnx", force=force)
    else:
        check_folder(target, "--onnx", model=str(folder), force=force)


def _export_onnx(
    folder: Path, target: Path, options: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    from deadhead.exports.onnx.export import exported

    result = exported(folder, onnx=target, **{**options, "dtype": options["dtype"] or "float32"})
    size, gap = result.size, result.gap
    facts: dict[str, Any] = {"onnx": str(target), "bytes": size}
    if result.place.is_file():
        facts |= {"inputs": [*result.graphs[0].inputs], "outputs": result.graphs[0].outputs}
    else:
        facts["graphs"] = {
            graph.name: {"inputs": [*graph.inputs], "outputs": graph.outputs}
            for graph in result.graphs
        }
    facts["largest_difference"] = gap
    lines = [f"{target}: {size_text(size)}"]
    for graph in result.graphs:
        lines.append(
            f"{graph.name} takes {_shortened(graph.inputs)}, gives {_shortened(graph.outputs)}"
        )
    lines.append(
        f"equal to the model in {folder} on {result.batches} batches of different sizes and "
        f"lengths, with padding (largest difference {gap:.0e} of the largest output)"
    )
    if result.int8_gap is not None:
        facts["largest_difference_int8"] = result.int8_gap
        lines.append(
            f"weights in int8: largest difference {result.int8_gap:.0e} of the largest output"
        )
    return facts, lines


def _shortened(names: Iterable[str]) -> str:
    """The names, with those of the caches of all layers as one."""
    return ", ".join(dict.fromkeys(re.sub(r"\.\d+\.", ".N.", name) for name in names))


def _export_gguf(
    folder: Path, file: Path, options: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    from deadhead.exports.gguf.export import exported
    from deadhead.version import install_command

    result = exported(folder, gguf=file, **options)
    size, compared = result.file.stat().st_size, result.comparison
    facts = {"gguf": str(result.file), "bytes": size, "architecture": result.architecture}
    lines = [
        f"{result.file}: {size_text(size)}, {options['type']}, architecture {result.architecture}"
    ]
    if compared is None:
        return facts | {"checked": False}, [
            *lines,
            "not checked: llama.cpp is not installed. "
            f"To check it: {install_command('gguf')}, then export again with --force",
        ]
    facts |= {
        "checked": True,
        "prompts": compared.prompts,
        "same_greedy_tokens": compared.same,
        "largest_difference": compared.gap,
    }
    return facts, [
        *lines,
        f"llama.cpp and the model in {folder}: the same greedy tokens after {compared.same} of "
        f"{compared.prompts} prompts, log-probabilities differ by at most {compared.gap:.0e} at "
        f"{compared.positions} positions",
    ]
