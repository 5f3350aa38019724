"""`deadhead demo`: make a tagger smaller and show what it kept; or run the study `demo`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import BadParameter, Option

from . import _progress
from ._options import AsJson, Overrides, Workers
from ._outputs import check_folder
from .run import print_result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from deadhead.saved.demo import Demo

RECIPE = "demo"
COLOURS = {"better": "green", "worse": "red"}
SPREAD = 10  # characters of a column with spreads
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
    workers: Workers = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Remove half of a small tagger without training, offline, in a minute or two; write a page.

    It fine-tunes the bundled encoder on English, ranks its heads, removes half of its heads and
    neurons, and a random half as a control. It compares their scores in nine languages and their
    speed.

    Examples:

        deadhead demo

        deadhead demo --study --out my-study --set seed=[0]
    """
    if study:
        _study(out or Path("deadhead-demo-study"), workers, overrides, as_json)
        return
    for name, value in (("--workers", workers), ("--set", overrides)):
        if value:
            raise BadParameter("goes with --study: add it", param_hint=name)
    from deadhead import files
    from deadhead.report.page.demo import demo_page, finding
    from deadhead.saved.demo import run_demo

    out = out or Path("deadhead-demo")
    check_folder(out, "--out", model="world/encoder", force=True)  # a second demo replaces one
    numbers = run_demo(out, say=lambda text: typer.echo(f"{text} ...", err=True))
    page, command = out / "page.html", next_command(out)
    files.write(page, demo_page(numbers, command))
    if as_json:
        typer.echo(json.dumps({**numbers.to_dict(), "page": str(page), "next": command}, indent=1))
        return
    _print(numbers)
    typer.echo(f"{finding(numbers)}\nThe page: {page}\nTry next: {command}")


def next_command(out: Path) -> str:
    """Return the command that the demo suggests: remove more of the tagger that it saved."""
    return (
        f"deadhead shrink {shlex.quote(str(out / 'tagger'))} --task pos --data world --lang en,de,tr "
        f"--remove-heads 75% --remove-neurons 75% --out quarter"
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


def _study(out: Path, workers: int | None, overrides: list[str] | None, as_json: bool) -> None:
    """Run the study of the recipe `demo`; print its tables and write its page."""
    from rich.console import Console

    from deadhead.report.check import load_recipe
    from deadhead.report.page.html import check_installed, write
    from deadhead.report.tables.build import tables
    from deadhead.studies import run as run_study
    from deadhead.studies.plan import usual_workers

    check_installed()
    recipe = load_recipe(RECIPE, overrides or ())
    workers = workers or usual_workers(recipe)
    if not as_json:
        size = f"{len(recipe.trials)} trials, {workers} at a time, in {out}"
        typer.echo(f"{recipe.about} ({size}).", err=True)
    with _progress.study(recipe, quiet=as_json) as watch:
        result = run_study(recipe, out, workers=workers, watch=watch)
    results, page = tables(out), str(write(out, out / "page.html"))
    if as_json:
        typer.echo(json.dumps({**vars(result), "tables": results, "page": page}))
    else:
        console = Console()
        if not console.is_terminal:
            console = Console(width=PIPED)
        for table in results:
            console.print(as_rich(table, console), "")
        print_result(result, out)
        typer.echo(f"The page with all results: {page}")
    if result.failed or result.left:
        raise typer.Exit(1)


def as_rich(table: Mapping[str, Any], console: Console) -> Table:
    """A table of the report for a terminal; without spreads where they would not fit."""
    from rich.box import SIMPLE
    from rich.table import Table

    labels = [" ".join(str(label) for label in row) for row in table["rows"]]
    width = max(map(len, labels), default=0)
    spread = console.width >= width + 4 + SPREAD * len(table["columns"])
    grid = Table(
        title=table["title"],
        caption=" ".join(filter(None, [table["note"], table.get("test")])),
        box=SIMPLE,
        padding=(0, 1, 0, 0),
        title_justify="left",
        caption_justify="left",
    )
    grid.add_column(" / ".join(table["row_names"]), min_width=width, no_wrap=True)
    for column in table["columns"]:
        grid.add_column(" ".join(str(label) for label in column), justify="right", no_wrap=True)
    for label, cells in zip(labels, table["cells"], strict=True):
        grid.add_row(label, *(_cell(cell, spread) for cell in cells))
    return grid


def _cell(cell: Mapping[str, Any], spread: bool) -> str:
    if cell["ours"] is None:
        return cell["state"] if cell["state"] in ("failed", "missing") else ""
    text = f"{cell['ours']:.1f}"
    if spread and cell["spread"] is not None:
        text += f" ±{cell['spread']:.1f}"
    colour = COLOURS.get(cell["mark"])
    return f"[{colour}]{text}[/]" if colour else text
