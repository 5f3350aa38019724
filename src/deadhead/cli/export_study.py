"""`deadhead export-study`: write the records of a study as one table."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from ._options import AsJson, Force, Study
from ._outputs import check_file
from ._progress import print_json


def export_study(
    study: Study,
    csv: Annotated[Path, Option(metavar="FILE", help="Write the table as CSV.")],
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the records of a study as one table, a row for each score.

    Example:

        deadhead export-study my-study --csv my-study.csv
    """
    check_file(csv, "--csv", "study.csv", force=force)
    from deadhead.results.frame import write_csv
    from deadhead.studies.store.records import damage, scan

    facts = {"from": str(study), "csv": str(csv), "rows": write_csv(study, csv)}
    if text := damage(scan(study).damaged):
        typer.secho(text, fg="yellow", err=True)
    if as_json:
        print_json(facts)
    else:
        typer.echo(f"{facts['rows']} rows written to {csv}")
