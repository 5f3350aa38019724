"""`deadhead export`: write a model as ONNX, or the records of a study as a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, BadParameter, Option

from ._options import AsJson, Auto, Dtype, Force
from ._outputs import check_file


def export(
    folder: Annotated[Path, Argument(metavar="DIR", help="A model, or a study folder.")],
    onnx: Annotated[Path | None, Option(metavar="FILE", help="Write the model as ONNX.")] = None,
    csv: Annotated[
        Path | None, Option(metavar="FILE", help="Write the records of a study as CSV.")
    ] = None,
    parquet: Annotated[
        Path | None, Option(metavar="FILE", help="Write the records of a study as Parquet.")
    ] = None,
    auto: Auto = None,
    dtype: Dtype = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a model as ONNX, or the records of a study as one table.

    The ONNX file is run with onnxruntime and compared with the model before you get it.

    Examples:

        deadhead export half --onnx half.onnx

        deadhead export my-study --csv my-study.csv
    """
    if onnx is None and csv is None and parquet is None:
        raise BadParameter("give --onnx FILE for a model, --csv FILE or --parquet FILE for a study")
    if onnx is not None and (csv is not None or parquet is not None):
        raise BadParameter("--onnx is for a model, --csv and --parquet are for a study: choose one")
    if onnx is None and (auto is not None or dtype is not None):
        raise BadParameter("--auto and --dtype are for a model: use them with --onnx")
    check_file(onnx, "--onnx", "model.onnx", force=force)
    check_file(csv, "--csv", "study.csv", force=force)
    check_file(parquet, "--parquet", "study.parquet", force=force)
    if onnx is not None:
        facts, lines = _export_model(folder, onnx, auto, dtype)
    else:
        facts, lines = _export_study(folder, csv, parquet)
    facts = {"from": str(folder), **facts}
    typer.echo(json.dumps(facts, indent=1) if as_json else "\n".join(lines))


def _export_model(
    folder: Path, file: Path, auto: str | None, dtype: str | None
) -> tuple[dict[str, Any], list[str]]:
    from deadhead.heads.onnx import exported

    result = exported(folder, onnx=file, auto=auto, dtype=dtype or "float32")
    size = result.file.stat().st_size
    facts = {"onnx": str(file), "bytes": size, "inputs": result.inputs, "outputs": result.outputs}
    return facts | {"largest_difference": result.gap}, [
        f"{file}: {size / 2**20:.1f} MiB, takes {', '.join(result.inputs)}, "
        f"gives {', '.join(result.outputs)}",
        f"equal to the model in {folder} on {result.batches} batches of different sizes and "
        f"lengths, with padding (largest difference {result.gap:.0e} of the largest output)",
    ]


def _export_study(
    folder: Path, csv: Path | None, parquet: Path | None
) -> tuple[dict[str, Any], list[str]]:
    from deadhead.results.frame import write_csv, write_parquet
    from deadhead.studies.store.records import damage, scan

    facts: dict[str, Any] = {}
    lines = []
    for name, file, write in (("csv", csv, write_csv), ("parquet", parquet, write_parquet)):
        if file is not None:
            rows = write(folder, file)
            facts |= {name: str(file), "rows": rows}
            lines.append(f"{rows} rows written to {file}")
    if text := damage(scan(folder).damaged):
        typer.secho(text, fg="yellow", err=True)
    return facts, lines
