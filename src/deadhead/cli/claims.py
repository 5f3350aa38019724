"""`deadhead claims`: check the claims of the papers against studies or the papers' own tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from deadhead.errors import DeadheadError
from deadhead.papers.catalogue import names

from ._options import AsJson
from ._progress import print_json

if TYPE_CHECKING:
    from rich.table import Table

    from deadhead.papers.claims import Verdict

COLOURS = ("green", "yellow", "red", "bright_blue", "bright_black")  # in the order of VERDICTS
ON_PAPER = (  # how a claim fails on the papers' own tables: NO, IN_PART, LUCKY
    "Do not follow from the papers' own tables",
    "Follow in part",
    "No more than luck would give",
)
COLUMNS = {"claim": 3, "verdict, margin": 3, "statement": 6, "numbers, certainty": 8}  # widths


def claims(
    studies: Annotated[
        list[Path] | None,
        Argument(metavar="STUDY", help="Study folders; their records are pooled."),
    ] = None,
    published: Annotated[
        bool, Option("--published", help="Check the papers' own tables instead of a study.")
    ] = False,
    paper: Annotated[
        str | None,
        Option(
            metavar="NAME", help=f"Only the claims of this paper: {', '.join(names())}; or luck."
        ),
    ] = None,
    every: Annotated[
        bool, Option("--all", help="Also list the claims that are not tested or lack data.")
    ] = False,
    as_markdown: Annotated[
        bool, Option("--markdown", help="Print a Markdown table of all claims.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check every claim of the papers: it holds, is compatible but not shown, or does not hold.

    Claims about other models or tasks are not tested. --all lists them, and claims that lack data.

    Examples:

        deadhead claims table4 table5 table6

        deadhead claims --published --paper contributions
    """
    # Longer than most functions: half of it is the list of options and the help.
    from deadhead.papers.claims import check
    from deadhead.papers.claims import published as of_papers
    from deadhead.papers.claims.verdict import markdown
    from deadhead.results import Study
    from deadhead.studies.store.records import damage

    if bool(studies) == published:
        hint = "deadhead claims STUDY"
        raise DeadheadError("name a study folder or give --published, not both.", hint)
    folders = [Study.open(study) for study in studies or ()]
    for study in folders:
        if study.damaged:
            typer.secho(f"{study.home}: {damage(study.damaged)}", fg="yellow", err=True)
    verdicts = of_papers(paper) if published else check(*folders, paper=paper)
    if as_json:
        rows = [verdict.to_dict() for verdict in verdicts]
        print_json(rows)
    elif as_markdown:
        typer.echo(markdown(verdicts), nl=False)
    else:
        _print_verdicts(verdicts, every)


def _print_verdicts(verdicts: list[Verdict], every: bool) -> None:
    """Tables of the verdicts, those that fail on the papers' own tables first; then counts."""
    from rich.console import Console

    from deadhead.papers.claims import FAILS, IN_PART, LUCKY, NO, VERDICTS

    listed = [verdict for verdict in verdicts if every or verdict.judged]
    failed = {
        title: [verdict for verdict in listed if verdict.follows == how]
        for how, title in zip((NO, IN_PART, LUCKY), ON_PAPER, strict=True)
    }
    for title, group in failed.items():
        if group:
            Console().print(_table(group, f"{title}: {len(group)}"))
    others = [verdict for verdict in listed if not verdict.follows]
    if others:
        Console().print(_table(others, "The others" if any(failed.values()) else None))
    counts = [f"{name} {sum(v.verdict == name for v in verdicts)}" for name in VERDICTS]
    more = "" if len(listed) == len(verdicts) else " --all lists the rest, with what is missing."
    typer.echo(f"Claims: {len(verdicts)}; {', '.join(counts)}.{more}")
    for title, group in failed.items():
        refuted = [verdict.id for verdict in group if verdict.verdict == FAILS]
        some = ""
        if 0 < len(refuted) < len(group):
            verb = "does" if len(refuted) == 1 else "do"
            some = f"; of these {len(refuted)} {verb} not hold: {', '.join(refuted)}"
        if group:
            names = ", ".join(verdict.id for verdict in group)
            typer.echo(f"{title} ({len(group)}): {names}{some}")


def _table(verdicts: list[Verdict], title: str | None) -> Table:
    from rich.table import Table
    from rich.text import Text

    from deadhead.papers.claims import VERDICTS

    colours = dict(zip(VERDICTS, COLOURS, strict=True))
    table = Table(show_lines=True, title=title, title_justify="left")
    for name, width in COLUMNS.items():
        table.add_column(name, ratio=width, overflow="fold")
    for row in verdicts:
        margin = "" if row.margin is None else f"\n{row.margin:+.3g} {row.unit}"
        follows = f", {row.follows}" if row.follows else ""
        verdict = Text.assemble((row.verdict, colours[row.verdict]), follows, margin)
        strength = ("\n" if row.strength else "", (row.strength, "dim"))
        table.add_row(row.id, verdict, Text(row.statement), Text.assemble(row.numbers, *strength))
    return table
