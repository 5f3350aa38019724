"""`deadhead claims`: what the papers say, held against a study or against their own tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deadhead.errors import DeadheadError

if TYPE_CHECKING:
    from rich.table import Table

    from deadhead.claims import Verdict

COLOURS = {
    "holds": "green",
    "compatible, not shown": "yellow",
    "does not hold": "red",
    "not tested here": "bright_blue",
    "not enough data": "bright_black",
}
ON_PAPER = {  # how a claim fails on the papers' own tables
    "does not follow": "Do not follow from the papers' own tables",
    "follows in part": "Follow in part",
    "no more than luck": "No more than luck would give",
}


def claims(
    studies: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[STUDY]...",
            help="Folders of studies; their records are pooled.",
            show_default=False,
        ),
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Judge the papers' own tables instead of a study.")
    ] = False,
    paper: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Only weak-link, mbert-prunability, contributions or luck."
        ),
    ] = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Also list the claims that were not tested or have not enough data, one by one.",
        ),
    ] = False,
    as_markdown: Annotated[
        bool,
        typer.Option(
            "--markdown",
            help="A Markdown table, with those not tested and those without enough data.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document instead of a table.")
    ] = False,
) -> None:
    """Check every claim of the papers: does it hold, is it compatible with the numbers but not shown, does it not hold?

    A claim about other models or tasks is not tested here; one with too little to judge by has not enough data.

    Examples:

        deadhead claims table4 table5 table6

        deadhead claims --published --paper contributions
    """
    from deadhead.claims import check
    from deadhead.claims import published as of_papers
    from deadhead.claims.markdown import markdown
    from deadhead.results import Study
    from deadhead.studies.store.records import damage

    if bool(studies) == published:
        raise DeadheadError(
            "name the folder of a study, or give --published; one of the two.",
            "deadhead claims STUDY",
        )
    read = [Study.open(study) for study in studies or ()]
    for one in read:
        if one.damaged:
            typer.secho(f"{one.home}: {damage(one.damaged)}", fg="yellow", err=True)
    found = of_papers(paper) if published else check(*read, paper=paper)
    if as_json:
        typer.echo(
            json.dumps([verdict.to_dict() for verdict in found], indent=1, ensure_ascii=False)
        )
        return
    if as_markdown:
        typer.echo(markdown(found), nl=False)
        return
    _show(found, every)


def _show(found: list[Verdict], every: bool) -> None:
    """The claims, those that fail on the papers' own tables by how they do; then counts, and the names of those that fail there."""
    from rich.console import Console

    from deadhead.claims import FAILS, IN_PART, LUCKY, NO

    shown = [one for one in found if every or one.judged]
    failed = {how: [one for one in shown if one.follows == how] for how in (NO, IN_PART, LUCKY)}
    for how, several in {**failed, "": [one for one in shown if not one.follows]}.items():
        if several:
            title = (
                f"{ON_PAPER[how]}: {len(several)}"
                if how
                else "The others"
                if any(failed.values())
                else None
            )
            Console().print(_table(several, title))
    counts = [f"{name} {sum(one.verdict == name for one in found)}" for name in COLOURS]
    typer.echo(
        f"Claims: {len(found)}; {', '.join(counts)}."
        + ("" if len(shown) == len(found) else " --all lists the rest, with what is missing.")
    )
    for how, several in failed.items():
        if several:
            refuted = [one.id for one in several if one.verdict == FAILS]
            which = (
                ""
                if len(refuted) in (0, len(several))
                else f"; of these {len(refuted)} {'does' if len(refuted) == 1 else 'do'} not hold: {', '.join(refuted)}"
            )
            typer.echo(
                f"{ON_PAPER[how]} ({len(several)}): {', '.join(one.id for one in several)}{which}"
            )


def _table(shown: list[Verdict], title: str | None) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=True, title=title, title_justify="left")
    for name, share in (
        ("claim", 3),
        ("verdict, margin", 3),
        ("statement", 6),
        ("numbers, how sure", 8),
    ):
        table.add_column(name, ratio=share, overflow="fold")
    for one in shown:
        margin = "" if one.margin is None else f"\n{one.margin:+.3g} {one.unit}"
        verdict = Text.assemble(
            (one.verdict, COLOURS[one.verdict]), f", {one.follows}" if one.follows else "", margin
        )
        table.add_row(
            one.id,
            verdict,
            Text(one.statement),
            Text.assemble(one.numbers, "\n" if one.strength else "", (one.strength, "dim")),
        )
    return table
