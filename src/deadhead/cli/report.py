"""`deadhead report`: write the page of a study."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from ._outputs import check_file
from ._progress import size_text


def report(
    studies: Annotated[
        list[Path], Argument(metavar="STUDY", help="A study folder, or several to compare them.")
    ],
    out: Annotated[
        Path | None,
        Option(
            metavar="PAGE.html",
            help="The page to write; by default report.html in the study folder, "
            "or comparison.html in the first of several.",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        Option(
            metavar="DIR", help="Also write figures as SVG, PNG and PDF, tables as CSV and LaTeX."
        ),
    ] = None,
) -> None:
    """Write a page about a study: tables beside published numbers, figures, claims, all trials.

    The study may still be running.

    Examples:

        deadhead report my-study

        deadhead report my-study --out page.html --figures paper/figures
    """
    # a page is written again and again while its study grows, so an old one is no mistake
    check_file(out, "--out", "report.html", force=True)
    from deadhead.report.export import export
    from deadhead.report.page.html import write

    alone = len(studies) == 1
    page = out or studies[0] / ("report.html" if alone else "comparison.html")
    warn = partial(typer.secho, fg="yellow", err=True)
    write(studies[0] if alone else studies, page, warn)
    typer.echo(f"{page}: {size_text(page.stat().st_size)}")
    if figures is None:
        return
    names = [study.resolve().name for study in studies]
    for i, study in enumerate(studies):
        name = names[i] if names.count(names[i]) == 1 else f"{names[i]}-{i + 1}"
        folder = figures if alone else figures / name
        typer.echo(f"{folder}: {len(export(study, folder))} files")
