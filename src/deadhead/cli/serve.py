"""`deadhead serve`: show the page of a study while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option


def serve(
    folder: Annotated[
        Path, Argument(metavar="STUDY_OR_FOLDER", help="A study folder, or a folder of studies.")
    ],
    port: Annotated[int, Option(min=0, max=65535, help="The port; 0 picks a free one.")] = 8321,
    host: Annotated[
        str | None,
        Option(
            help="Listen on this address instead of localhost. "
            "Everyone who can reach it can read the studies."
        ),
    ] = None,
) -> None:
    """Show the live page of a study in a browser, or choose and compare studies of a folder.

    It only reads the studies. Ctrl-C ends it.

    Example:

        deadhead serve my-study
    """
    from deadhead.report.page.serve import served

    with served(folder, host=host, port=port) as server:
        typer.echo(f"{folder} is at {server.url} (Ctrl-C to stop)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("stopped.")
