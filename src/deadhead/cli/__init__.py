"""The command line: each command parses its options, calls the library and prints the result.

A command is a function in a file of the same name, and its name in COMMANDS. Most of its lines are
its options. No torch is loaded to show help. Exit codes: 0 success, 1 failure (one message on
standard error), 2 wrong usage, 130 Ctrl-C, 143 SIGTERM.
"""

import errno
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer import Option

from deadhead.errors import DeadheadError, Notice
from deadhead.version import __version__

from ._command import Command, Commands

MODELS, STUDIES = "Commands", "Studies"  # panels of the help
COMMANDS = {  # name -> panel, in the order of the help
    **dict.fromkeys(("heads", "finetune", "rank", "compare", "prune", "shrink"), MODELS),
    **dict.fromkeys(("evaluate", "bench", "export"), MODELS),
    **dict.fromkeys(("demo", "run", "plan", "recipes", "status", "stop", "clean"), STUDIES),
    **dict.fromkeys(("claims", "report", "export-study"), STUDIES),
}
GROUPS = ("data",)  # files with more than one command

app = typer.Typer(
    name="deadhead",
    cls=Commands,
    help="Find, remove and study the attention heads a transformer does not need.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def add_command(name: str, panel: str = MODELS) -> None:
    """Add the function `name` of the file `name` to the command line, with `_` for `-`."""
    module = name.replace("-", "_")
    function = getattr(import_module(f".{module}", __name__), module)
    app.command(name, cls=Command, rich_help_panel=panel)(function)


for name, panel in COMMANDS.items():
    add_command(name, panel)
for name in GROUPS:
    app.add_typer(import_module(f".{name}", __name__).app)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"deadhead {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@contextmanager
def _notices() -> Iterator[None]:
    """Print each notice to the user once, as one line; other warnings as Python does."""
    before, printed = warnings.showwarning, set[str]()

    def show(message: Warning | str, category: type[Warning], *place: Any, **further: Any) -> None:
        if issubclass(category, Notice):
            if str(message) in printed:
                return
            printed.add(str(message))
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
    except BrokenPipeError:  # the reader of our output is closed, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as problem:
        if problem.errno != errno.ENAMETOOLONG:
            raise
        text = f"{str(problem.filename)[:40]}...: this name is longer than a file can have."
        typer.secho(f"FolderError: {text}\n  Hint: give a shorter name", fg="red", err=True)
        sys.exit(1)
