"""`deadhead export`: a model as ONNX, or the records of a study as a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .model_options import Auto, Dtype
from .outputs import Force, check_file


def export(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="A model, or the folder of a study.", show_default=False
        ),
    ],
    onnx: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the model as ONNX.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the records of a study as CSV.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the records of a study as Parquet.")
    ] = None,
    auto: Auto = None,
    dtype: Dtype = None,
    force: Force = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document instead of a line.")
    ] = False,
) -> None:
    """Write a model as ONNX, checked against the model itself under onnxruntime; or a study as one table.

    Examples:

        deadhead export half --onnx half.onnx

        deadhead export my-study --csv my-study.csv
    """
    facts: dict[str, Any] = {"from": str(folder)}
    lines: list[str] = []
    if onnx is None and csv is None and parquet is None:
        raise typer.BadParameter(
            "say --onnx FILE for a model, --csv FILE or --parquet FILE for a study"
        )
    if onnx is not None and (csv is not None or parquet is not None):
        raise typer.BadParameter(
            "--onnx is for a model, --csv and --parquet are for a study: give the one or the others"
        )
    if onnx is None and (auto is not None or dtype is not None):
        raise typer.BadParameter("--auto and --dtype are for a model: use them with --onnx")
    for option, file, example in (
        ("--onnx", onnx, "model.onnx"),
        ("--csv", csv, "study.csv"),
        ("--parquet", parquet, "study.parquet"),
    ):
        check_file(file, option, example, force=force)
    if onnx is not None:
        from deadhead.heads.onnx import exported

        made = exported(folder, onnx=onnx, auto=auto, dtype=dtype or "float32")
        size = made.file.stat().st_size
        facts |= {
            "onnx": str(onnx),
            "bytes": size,
            "inputs": made.inputs,
            "outputs": made.outputs,
            "largest_difference": made.gap,
        }
        lines += [
            f"{onnx}: {size / 2**20:.1f} MiB, takes {', '.join(made.inputs)}, gives {', '.join(made.outputs)}",
            f"equal to the model in {folder} on {made.batches} batches of different sizes and lengths, padded ones among them "
            f"(largest difference {made.gap:.0e} of the largest output)",
        ]
    if csv is not None or parquet is not None:
        from deadhead.results.frame import write_csv, write_parquet
        from deadhead.studies.store.records import damage, scan

        for name, file, put in (("csv", csv, write_csv), ("parquet", parquet, write_parquet)):
            if file is not None:
                rows = put(folder, file)
                facts |= {name: str(file), "rows": rows}
                lines.append(f"{rows} rows written to {file}")
        if text := damage(scan(folder).damaged):
            typer.secho(text, fg="yellow", err=True)
    typer.echo(json.dumps(facts, indent=1) if as_json else "\n".join(lines))
