"""`deadhead demo`: make a tagger smaller and show what it kept."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from ._options import AsJson
from ._outputs import check_folder
from ._progress import print_json
from .report import report
from .run import run

if TYPE_CHECKING:
    from deadhead.saved.demo import Demo

PIPED = 140  # characters of a line outside of a terminal


def demo(
    out: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="The folder to write; by default deadhead-demo, with --study deadhead-demo-study.",
        ),
    ] = None,
    study: Annotated[
        bool,
        Option("--study", help="Run a study of 57 trainings instead: minutes; it can be resumed."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove half of a small tagger without training, offline, in a minute or two; write a page.

    It fine-tunes the bundled encoder on English, ranks its heads, removes half of its heads and
    neurons, and a random half as a control. It compares their scores in nine languages and their
    speed.

    Examples:

        deadhead demo --out my-demo

        deadhead demo --study
    """
    if study:
        folder = out or Path("deadhead-demo-study")
        run("demo", folder, as_json=as_json)
        if not as_json:
            report([folder])
        return
    from deadhead import files
    from deadhead.report.page.demo import demo_page, finding
    from deadhead.saved.demo import run_demo

    out = out or Path("deadhead-demo")
    check_folder(out, "--out", model="world/encoder", force=True)  # a second demo replaces one
    numbers = run_demo(out, say=lambda text: typer.echo(f"{text} ...", err=True))
    page, command = out / "page.html", next_command(out)
    files.write(page, demo_page(numbers, command))
    if as_json:
        print_json({**numbers.to_dict(), "page": str(page), "next": command})
        return
    _print(numbers)
    typer.echo(f"{finding(numbers)}\nThe page: {page}\nTry next: {command}")


def next_command(out: Path) -> str:
    """Return the command that the demo suggests: remove more of the tagger that it saved."""
    return (
        f"deadhead shrink {shlex.quote(str(out / 'tagger'))} --task pos --data world "
        f"--lang en,de,tr --remove-heads 75% --remove-neurons 75% --out quarter"
    )


def _print(numbers: Demo) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    from deadhead.report.page.demo import columns, note, rows

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PIPED)
    console.print(numbers.ranking)
    table = Table("", *columns(numbers), box=SIMPLE, padding=(0, 1, 0, 0), caption=note(numbers))
    table.caption_justify = "left"
    for label, cells in rows(numbers):
        table.add_row(label, *cells)
    console.print(table)
