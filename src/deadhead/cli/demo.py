"""`deadhead demo`: the built-in study `demo` on the embedded world, run to its end and shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .studies import AsJson, Set, Workers, tell, watched

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

RECIPE = "demo"
COLOURS = {"better": "green", "worse": "red", None: ""}
SPREAD = 10  # characters of a column that shows the spread too
PIPED = 140  # characters of a line where no terminal says how many it has


def demo(
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="STUDY", help="The folder of the study; the same again to go on."
        ),
    ] = Path("deadhead-demo"),
    workers: Workers = None,
    overrides: Set = None,
    as_json: AsJson = False,
) -> None:
    """See it work, offline, in two to four minutes on two cores: cut heads by rank, at random and by layer, train on English, score nine languages.

    An ordinary study of the recipe `demo`: Ctrl-C stops it, the same command goes on. It ends with its tables and a page.

    Example:

        deadhead demo --out my-demo --set seed=[0]
    """
    from deadhead.report.page.html import check_installed, write
    from deadhead.report.tables.build import tables
    from deadhead.studies import load
    from deadhead.studies import run as run_study
    from deadhead.studies.plan import usual_workers

    check_installed()
    recipe = load(RECIPE, overrides or ())
    workers = workers or usual_workers(recipe)
    if not as_json:
        typer.echo(
            f"{recipe.about} ({len(recipe.trials)} trials, {workers} at a time, in {out}).",
            err=True,
        )
    with watched(recipe, quiet=as_json) as watch:
        result = run_study(recipe, out, workers=workers, watch=watch)
    made, page = tables(out), str(write(out, out / "page.html"))
    if as_json:
        typer.echo(json.dumps({**vars(result), "tables": made, "page": page}))
    else:
        for table in made:
            _print(table)
        tell(result, out)
        typer.echo(f"The page, with all of it to look into: {page}")
    if result.failed or result.left:
        raise typer.Exit(1)


def _print(table: Mapping[str, Any]) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED)
    console.print(as_rich(table, console), "")


def as_rich(table: Mapping[str, Any], console: Console) -> Table:
    """A table of the report for a terminal; without spreads where they would not fit."""
    from rich.box import SIMPLE
    from rich.table import Table

    labels = [" ".join(str(label) for label in row) for row in table["rows"]]
    width = max(map(len, labels), default=0)
    spread = console.width >= width + 4 + SPREAD * len(table["columns"])
    look: dict[str, Any] = {
        "box": SIMPLE,
        "padding": (0, 1, 0, 0),
        "title_justify": "left",
        "caption_justify": "left",
    }
    made = Table(
        title=table["title"],
        caption=" ".join(filter(None, [table["note"], table.get("test")])),
        **look,
    )
    made.add_column(" / ".join(table["row_names"]), min_width=width, no_wrap=True)
    for column in table["columns"]:
        made.add_column(" ".join(str(label) for label in column), justify="right", no_wrap=True)
    for label, cells in zip(labels, table["cells"], strict=True):
        made.add_row(label, *(_cell(cell, spread) for cell in cells))
    return made


def _cell(cell: Mapping[str, Any], spread: bool) -> str:
    if cell["ours"] is None:
        return cell["state"] if cell["state"] in ("failed", "missing") else ""
    told = f"{cell['ours']:.1f}" + (
        f" ±{cell['spread']:.1f}" if spread and cell["spread"] is not None else ""
    )
    colour = COLOURS.get(cell["mark"], "")
    return f"[{colour}]{told}[/]" if colour else told
