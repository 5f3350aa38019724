"""The papers' claims on the papers' own tables: what follows, what does not, and what is open.

`tests/test_pinned_numbers.py` has every verdict with its numbers.
"""

import json

import pytest
from typer.testing import CliRunner

from deadhead.cli import app
from deadhead.papers.claims import FAILS, IN_PART, LUCKY, NO, UNSHOWN, published
from deadhead.papers.claims.from_papers import stated

TITLES = {
    NO: "Do not follow from the papers' own tables",
    IN_PART: "Follow in part",
    LUCKY: "No more than luck would give",
}
COUNTS = {NO: 12, IN_PART: 12, LUCKY: 2}  # 1 of the last does not hold


def test_what_does_not_hold_says_how_it_fails():
    verdicts = published()
    assert all(bool(v.follows) == (v.verdict in (FAILS, UNSHOWN)) for v in verdicts)
    assert {how: sum(v.follows == how for v in verdicts) for how in COUNTS} == COUNTS
    assert not any(v.trials for v in verdicts)
    # All are on the papers' own models and tasks.
    assert not any(v.numbers.startswith("on ") for v in verdicts)


def test_the_command_shows_how_claims_fail():
    run = CliRunner().invoke
    output = run(app, ["claims", "--published"], env={"COLUMNS": "200"}).output
    for how, title in TITLES.items():
        (line,) = [line for line in output.splitlines() if line.startswith(f"{title} (")]
        assert line.startswith(f"{title} ({COUNTS[how]}): ")
        ids = {v.id for v in published() if v.follows == how}
        assert set(line.partition(": ")[2].partition("; ")[0].split(", ")) == ids
    assert output.rstrip().endswith("; of these 1 does not hold: L-count-NER")
    stored = json.loads(run(app, ["claims", "--published", "--json"]).output)
    assert sum(claim["follows"] == IN_PART for claim in stored) == COUNTS[IN_PART]
    table = run(app, ["claims", "--published", "--markdown"]).output
    assert [table.count(f"**does not hold**: {how} |") for how in TITLES] == [12, 12, 1]


def test_those_of_one_paper():
    assert {v.paper for v in published("mbert-prunability")} == {"mbert-prunability"}
    assert len(published("luck")) == 6


def test_stated_numbers_are_found_or_refused():
    assert stated("weak-link", "bleu_drop_at_percent", target="en-de") == 1.03
    with pytest.raises(LookupError, match="2 times"):
        stated("weak-link", "bleu_drop_at_percent")
