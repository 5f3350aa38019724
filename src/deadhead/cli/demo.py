"""`deadhead demo`: run the built-in study `demo` and print its tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from . import _progress
from ._options import AsJson, Overrides, StudyOut, Workers
from .run import print_result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

RECIPE = "demo"
COLOURS = {"better": "green", "worse": "red"}
SPREAD = 10  # characters of a column with spreads
PIPED = 140  # characters of a line outside of a terminal


def demo(
    out: StudyOut = Path("deadhead-demo"),
    workers: Workers = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Run a small study offline, in two to four minutes on two cores.

    It removes heads by rank, at random and by layer, trains on English and scores nine languages;
    then it prints the tables and writes a page. Ctrl-C stops it; repeat the command to resume.

    Example:

        deadhead demo --out my-demo --set seed=[0]
    """
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
