"""The command line: parse, call, print. No logic lives here, and no torch is loaded to show help.

Exit codes: 0 done, 1 it could not be done (one clear line on standard error), 2 wrong usage.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from deadhead.errors import DeadheadError, Notice
from deadhead.version import __version__

from . import (
    claims,
    data,
    demo,
    evaluate,
    export,
    models,
    rank,
    report,
    serve,
    status,
    studies,
    training,
)
from .command import Command

app = typer.Typer(
    name="deadhead",
    help="Find, remove and study the attention heads a transformer does not need.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
ON_MODELS: tuple[Callable[..., None], ...] = (
    models.heads,
    training.finetune,
    rank.rank,
    rank.compare,
    models.prune,
    evaluate.evaluate,
    models.bench,
    export.export,
)
ON_STUDIES: tuple[Callable[..., None], ...] = (
    demo.demo,
    studies.run,
    studies.plan,
    studies.recipes,
    status.status,
    studies.stop,
    studies.clean,
    claims.claims,
    report.report,
    serve.serve,
)
for command in ON_MODELS:
    app.command(cls=Command)(command)
for command in ON_STUDIES:
    app.command(cls=Command, rich_help_panel="Studies")(command)
app.add_typer(data.app)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"deadhead {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@contextmanager
def _notices() -> Iterator[None]:
    """Print what a user should know as one line; other warnings as Python does."""
    before = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **further: Any) -> None:
        if issubclass(category, Notice):
            typer.secho(f"note: {message}", fg="yellow", err=True)
        else:
            before(message, category, *place, **further)

    with warnings.catch_warnings():
        warnings.simplefilter("always", Notice)
        warnings.showwarning = show
        yield


def main() -> None:
    """Run the command line; a user's mistake becomes one message and exit code 1."""
    try:
        with _notices():
            app()
    except DeadheadError as problem:
        typer.secho(f"{type(problem).__name__}: {problem}", fg="red", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        typer.secho("stopped.", err=True)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
