"""`deadhead serve`. Parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY_OR_FOLDER", help="A study, or a folder of several.", show_default=False
        ),
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8321,
    host: Annotated[
        str | None,
        typer.Option(
            help="Listen on this address instead of this machine alone; whoever reaches it can read the studies."
        ),
    ] = None,
) -> None:
    """Show the page of a study live in a browser while it runs; of a folder of studies, choose or compare them. Nothing is written.

    Example:

        deadhead serve my-study
    """
    from deadhead.report.page.serve import served

    with served(folder, host=host, port=port) as server:
        typer.echo(f"{folder} is at {server.url} (Ctrl-C ends)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("ended.")
