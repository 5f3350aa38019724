"""From a study to its verdicts: which claims are judged, and what the command prints of them."""

import json
from dataclasses import replace
from functools import partial

import pytest
from typer.testing import CliRunner
from whole_studies import as_printed

from deadhead.cli import app
from deadhead.errors import DeadheadError
from deadhead.papers.claims import Evidence, all_claims, check, judge, named
from deadhead.papers.claims.verdict import MOST_TRIALS
from hand_made import study

CLAIMS = all_claims()


def test_a_recipe_of_nobodys_paper_is_judged_by_all_claims(tmp_path):
    folder = study(tmp_path / "s", {"model": "a/b", "source": "en", "task": "mnli"}, [])
    assert [v.id for v in check(folder)] == list(CLAIMS)
    assert [v.id for v in check(folder, paper="luck")] == [
        name for name in CLAIMS if name.startswith("L-")
    ]


def test_a_claim_nobody_makes(tmp_path):
    folder = study(
        tmp_path / "s", {"model": "a/b", "source": "en", "task": "mnli"}, [], claims=["W99"]
    )
    with pytest.raises(DeadheadError, match="no claim 'W99'"):
        check(folder)


def test_names_of_claims():
    assert [c.id for c in named("W3")] == ["W3", "W3a", "W3b"]
    assert [c.id for c in named("W1")] == ["W1"]
    assert len(named("C-mean")) == 12
    assert [c.id for c in named("C-low")] == [
        "C-low"
    ]  # what is itself a claim means no other with a further word
    assert [c.id for c in named("C-single")] == ["C-single-NER", "C-single-POS"]


def test_as_plain_data_a_verdict_names_the_first_of_very_many_trials():
    trials = tuple(map(str, range(2 * MOST_TRIALS)))
    (verdict,) = judge(Evidence(), [CLAIMS["L-seeds"]])
    few, many = (replace(verdict, trials=ids).to_dict() for ids in (trials[:3], trials))
    assert (few["trials"], few["records"]) == (["0", "1", "2"], 3)
    assert (many["trials"], many["records"]) == (list(trials[:MOST_TRIALS]), 2 * MOST_TRIALS)


def test_command(tmp_path):
    folder = str(as_printed("weak-link/table6", tmp_path / "s"))
    run = partial(CliRunner().invoke, app, env={"COLUMNS": "200"})
    result = run(["claims", folder])
    assert result.exit_code == 0
    counts = "holds 1, compatible, not shown 2, does not hold 2"
    assert f"Claims: 5; {counts}, not tested here 0, not enough data 0." in result.output
    claims = json.loads(run(["claims", folder, "--json"]).output)
    assert [claim["id"] for claim in claims] == ["W9", "W10", "W11", "W12", "W13"]
    assert claims[2]["verdict"] == "holds"
    assert len(claims[2]["trials"]) == claims[2]["records"] == 12
    every = run(["claims", folder, "--paper", "luck", "--all"])
    assert "missing: lowest-k searches" in every.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a study folder or give --published"),
        (["somewhere", "--published"], "not both"),
        (["--published", "--paper", "weaklink"], "Did you mean 'weak-link'"),
    ],
)
def test_a_mistake_gets_one_clear_error(arguments, message):
    result = CliRunner().invoke(app, ["claims", *arguments])
    assert isinstance(result.exception, DeadheadError)
    assert message in str(result.exception)
