"""The page about claims: its table has what the command prints, and its counts are right."""

import csv
import json
import re
from pathlib import Path

from typer.testing import CliRunner

from deadhead.cli import app
from deadhead.papers.claims import FAILS, all_claims, published

CLAIMS = all_claims()

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "claims.md").read_text(encoding="utf-8")


def test_the_table_has_the_verdicts_that_the_command_prints():
    with (DOCS / "claims.csv").open(encoding="utf-8") as file:
        rows = [[row["claim"], row["verdict"]] for row in csv.DictReader(file)]
    printed = json.loads(CliRunner().invoke(app, ["claims", "--published", "--json"]).output)
    assert rows == [[verdict["id"], verdict["verdict"]] for verdict in printed]
    assert [name for name, _ in rows] == [*CLAIMS]


def test_the_counts_in_the_text_are_those_of_the_table():
    paragraph = PAGE.split("## The papers on their own tables")[1].split("\n\n")[1]
    wrong = {
        verdict.id
        for verdict in published()
        if verdict.verdict == FAILS and verdict.paper != "luck"
    }
    named = {
        name
        for name in re.findall(r"[WMC][\w-]*\w", paragraph)
        if name in CLAIMS or any(claim.startswith(f"{name}-") for claim in CLAIMS)
    }
    assert all(
        any(claim == name or claim.startswith(f"{name}-") for name in named) for claim in wrong
    )
    assert len(wrong) == 12 + 12
    assert f"{sum(claim.paper != 'luck' for claim in CLAIMS.values())} of them" in PAGE
