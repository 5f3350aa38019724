"""`deadhead report`. Parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    studies: Annotated[
        list[Path],
        typer.Argument(
            metavar="STUDY...",
            help="The folder of a study; of several, to compare them.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="PAGE.html",
            help="The page; by default report.html in the study's folder, comparison.html in the first of several.",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures",
            metavar="DIR",
            help="Also every figure as SVG, PNG and PDF, every table as CSV, Markdown and LaTeX.",
        ),
    ] = None,
) -> None:
    """Make one page of a study: tables beside published numbers, figures, claims, every trial. It may still be running.

    Examples:

        deadhead report my-study

        deadhead report my-study --out page.html --figures paper/figures
    """
    from deadhead.report.export import export
    from deadhead.report.page.html import write

    page = out or studies[0] / ("report.html" if len(studies) == 1 else "comparison.html")
    write(
        studies if len(studies) > 1 else studies[0],
        page,
        lambda text: typer.secho(text, fg="yellow", err=True),
    )
    typer.echo(f"{page}: {page.stat().st_size / 1e6:.1f} MB")
    if figures is not None:
        names = [study.resolve().name for study in studies]
        for i, study in enumerate(studies):
            name = names[i] if names.count(names[i]) == 1 else f"{names[i]}-{i + 1}"
            home = figures if len(studies) == 1 else figures / name
            typer.echo(f"{home}: {len(export(study, home))} files")
