"""`deadhead export-study`: write the records of a study as one table."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import BadParameter, Option

from ._options import AsJson, Force, Study
from ._outputs import check_file


def export_study(
    study: Study,
    csv: Annotated[Path | None, Option(metavar="FILE", help="Write the table as CSV.")] = None,
    parquet: Annotated[
        Path | None, Option(metavar="FILE", help="Write the table as Parquet.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the records of a study as one table, a row for each score.

    Example:

        deadhead export-study my-study --csv my-study.csv
    """
    if csv is None and parquet is None:
        raise BadParameter("give --csv FILE or --parquet FILE")
    check_file(csv, "--csv", "study.csv", force=force)
    check_file(parquet, "--parquet", "study.parquet", force=force)
    from deadhead.results.frame import write_csv, write_parquet
    from deadhead.studies.store.records import damage, scan

    facts: dict[str, Any] = {"from": str(study)}
    lines = []
    for name, file, write in (("csv", csv, write_csv), ("parquet", parquet, write_parquet)):
        if file is not None:
            rows = write(study, file)
            facts |= {name: str(file), "rows": rows}
            lines.append(f"{rows} rows written to {file}")
    if text := damage(scan(study).damaged):
        typer.secho(text, fg="yellow", err=True)
    typer.echo(json.dumps(facts, indent=1) if as_json else "\n".join(lines))
