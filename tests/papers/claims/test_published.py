"""The papers' claims on the papers' own tables: what follows, what does not, and what is open."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from deadhead.cli import app
from deadhead.papers.claims import (
    FAILS,
    HOLDS,
    IN_PART,
    LUCKY,
    NO,
    OPEN,
    UNSHOWN,
    all_claims,
    published,
)
from deadhead.papers.claims.from_papers import printed, stated

CLAIMS = all_claims()

# Statements that do not follow from the paper's own table, each with what the table says instead.
WRONG = {
    "W5": "best at 48 %: decoder fewest, 60 %: cross fewest, 75 %: decoder fewest, "
    "82 %: decoder fewest",
    "C-count-POS": "90 of 96 pairs gain (stated: 88 of 96)",
    "C-mean-NER-mbert-cross-lingual": "mean gain 1.141 over 24 pairs (stated: 0.81)",
    "C-mean-NER-mbert-multi-lingual": "mean gain 0.545 over 24 pairs (stated: 0.31)",
    "C-mean-NER-xlm-r-cross-lingual": "mean gain 1.610 over 24 pairs (stated: 1.08)",
    "C-ranker-cross-lingual": "mean gain 1.141 over 24 pairs (stated: 0.81)",
    "C-ranker-multi-lingual": "mean gain 0.545 over 24 pairs (stated: 0.31)",
    "C-EC-POS": "EC is best in 5 of 5 (stated: 3 of 5)",
    "C-single-POS": "unpruned en +26.34, de -0.04, ar +18.09, he -2.29, zh +1.43",
    "C-p-POS": "1 of 8: ",
    "C-p-NER": "0 of 8: ",
    "C-p-SF": "4 of 8: ",
}
# Statements, some of them only implied, that follow in part.
PARTLY = {
    "W3b": "en-de: 1.15 lost at 81 %, 1.03 at 87 %",
    "W10": "qnli 1.95, sst2 2.09; both together 2.02",
    "W12": "odd is best on 2 of 4: mnli odd, qqp even, qnli odd, sst2 ends",
    "W13": "better than both on 2 of 4 tasks",
    "M2": "21 of 24 comparisons; qqp: top beats odd by 0.29, qqp: top beats even by 0.36, "
    "sst2: top beats odd by 0.69",
    "M4": "stated 2 %; found bert-base-uncased 0.97 %",
    "C-max-vs-rand": "hurt more in 15 of 32 cases, less in 15",
    "C-rand-vs-low": "ahead in 31 of 32; not: ner multi-lingual en-nl -0.09",
    "C-multi-all": "28 of 30 gain; not: pos de SD -0.08, pos zh SD -0.02",
    "C-single-NER": "ar -2.91",
    "C-rest-NER": "18 of 19 that do not gain, the lowest -1.27 (cross-lingual ar-zh)",
    "C-xlmr-NER-multi-lingual": "XLM-R ahead in 12 of 24 pairs",
}
FOLLOW = {  # some of those that do follow, with the numbers they rest on
    "W1": "0.15 BLEU",
    "W2": "en-ru 75 %: +0.87, en-de 75 %: +0.46",
    "W3": "en-ru 87 %: +1.62, en-de 87 %: +1.03",
    "W4": "25 %: +0.19, 40 %: -0.40, 50 %: -0.34, 60 %: +0.21, 75 %: +0.13",
    "W6": "mean loss 0.87 points",
    "W8": "1: -0.44, 3: -0.70, 6: +0.26, 8: +0.16",
    "W9": "14 of 16 cases",
    "W11": "4 of 4 tasks",
    "M1": "top 86.44, bottom 85.88, middle 84.64, odd 86.63, even 87.28",
    "M3": "odd 86.63, even 87.28; BERT: odd 88.73, even 87.26",
    "M5": "bert-base-uncased 7.85 %",
    "C-count-NER": "77 of 96",
    "C-count-SF": "31 of 34",
    "C-mean-POS-xlm-r-cross-lingual": "1.780",
    "C-mean-NER-xlm-r-multi-lingual": "0.673",
    "C-mean-SF-mbert-cross-lingual": "3.279",
    "C-overall-mbert": "0.528",
    "C-overall-xlm-r": "0.973",
    "C-fam-IE-xlm-r": "0.195",
    "C-fam-Semitic-mbert": "0.905",
    "C-max-NER": "14 of 16",
    "C-max-POS": "15 of 16",
    "C-rand-NER": "12 of 16",
    "C-rand-POS": "15 of 16",
    "C-max-vs-low": "3 of 3: pos en-zh 0.11 against 0.03, ner en-zh 0.47 against 0.08, "
    "ner en-de 1.84 against 0.88",
    "C-EC-NER": "3 of 5",
    "C-xlmr-POS-cross-lingual": "11 of 12 pairs without zh and ja, in 1 of 12 with",
    "C-xlmr-POS-multi-lingual": "XLM-R ahead in 21 of 24 pairs",
    "C-rest-POS": "within 1 point in 6 of 6 that do not gain, the lowest -0.84",
    "C-rest-SF": "within 1 point in 3 of 3 that do not gain, the lowest -0.27",
    "C-source-POS": "en 29 of 32 (+0.58 points), zh 30 of 32 (+0.53 points), ar 31 of 32",
    "C-source-NER": "en 25 of 32 (+1.05 points), zh 29 of 32 (+1.25 points), ar 23 of 32",
    "C-models-NER": "mBERT +1.14, XLM-R +1.61; multi-lingual mBERT +0.55, XLM-R +0.67",
    "L-highest": "in 32 of 32 pairs",
    "L-random": "in 31 of 32 pairs",
    "C-md-sd": "within 1 point in 10 of 10",
    "C-drop-NER": "15 of 19 pairs that do not gain are of different families",
}
# Our own question: is it more than the best of twelve equally good trials would give?
UNCLEAR = {"L-count-POS": "90 of 96 pairs gain (94 would be more than luck)"}
FEWER = {"L-count-NER": "77 of 96 pairs gain (94 would be more than luck)"}
LUCK = {**UNCLEAR, **FEWER}
NO_TABLE = {
    *("W15", "W16", "W17", "W18"),
    *(f"M{n}" for n in range(6, 23)),
    "C-peak",
    "C-ranker-alike",
    "C-rho",
    "C-rank",
    "C-low",
    "C-low-ja",
    "L-seeds",
    "L-count-SF",
    "C-heads-POS",
    "C-heads-NER",
    "C-heads-SF",
}


def test_the_verdicts() -> None:
    verdicts = {v.id: v for v in published()}
    by_verdict = {
        name: {v.id for v in verdicts.values() if v.verdict == name}
        for name in (HOLDS, UNSHOWN, FAILS, OPEN)
    }
    assert by_verdict[FAILS] == {*WRONG, *PARTLY, *FEWER}
    assert by_verdict[UNSHOWN] == set(UNCLEAR)
    assert len(WRONG) == 12
    assert by_verdict[OPEN] == NO_TABLE
    assert by_verdict[HOLDS] == set(CLAIMS) - {*WRONG, *PARTLY, *LUCK} - NO_TABLE >= set(FOLLOW)
    for name, numbers in {**WRONG, **PARTLY, **FOLLOW, **LUCK}.items():
        assert numbers in verdicts[name].numbers, verdicts[name]
    assert not any(v.trials for v in verdicts.values())
    by_reading = {
        how: {v.id for v in verdicts.values() if v.follows == how} for how in (NO, IN_PART, LUCKY)
    }
    assert by_reading == {NO: set(WRONG), IN_PART: set(PARTLY), LUCKY: set(LUCK)}
    assert all(bool(v.follows) == (v.verdict in (FAILS, UNSHOWN)) for v in verdicts.values())
    assert not any(
        v.numbers.startswith("on ") for v in verdicts.values()
    )  # all on the papers' own models and tasks


def test_the_command_shows_how_claims_fail() -> None:
    output = CliRunner().invoke(app, ["claims", "--published"], env={"COLUMNS": "200"}).output
    for title, names in (
        ("Do not follow from the papers' own tables", WRONG),
        ("Follow in part", PARTLY),
        ("No more than luck would give", LUCK),
    ):
        assert f"{title}: {len(names)}" in output
        (line,) = [line for line in output.splitlines() if line.startswith(f"{title} (")]
        assert line.startswith(f"{title} ({len(names)}): ")
        assert set(line.partition(": ")[2].partition("; ")[0].split(", ")) == set(names)
    assert output.rstrip().endswith(
        "; of these 1 does not hold: L-count-NER"
    )  # 12 + 12 + 1 are all that do not hold
    parts = re.split(
        r"^(?=Do not follow|Follow in part|No more than luck|The others)",
        output,
        flags=re.MULTILINE,
    )
    assert [part.count("│ does not hold") for part in parts[1:5]] == [12, 12, 1, 0]
    stored = json.loads(CliRunner().invoke(app, ["claims", "--published", "--json"]).output)
    assert {claim["id"] for claim in stored if claim["follows"] == "follows in part"} == set(PARTLY)
    table = CliRunner().invoke(app, ["claims", "--published", "--markdown"]).output
    assert [table.count(f"**does not hold**: {how} |") for how in (NO, IN_PART, LUCKY)] == [
        12,
        12,
        1,
    ]


def test_those_of_one_paper() -> None:
    assert {v.paper for v in published("mbert-prunability")} == {"mbert-prunability"}
    assert len(published("luck")) == 6


def test_p_values_of_printed_rhos() -> None:
    by_rho = {(r.task, r.rho): r.p for r in printed().rhos}
    for (task, rho), p in {
        ("pos", -0.52): 0.009,
        ("pos", -0.4): 0.053,
        ("ner", -0.27): 0.202,
        ("slots", 0.69): 0.058,
        ("slots", -0.73): 0.04,
    }.items():
        assert by_rho[task, rho] == pytest.approx(p, abs=6e-4)


def test_stated_numbers_are_found_or_refused() -> None:
    assert stated("weak-link", "bleu_drop_at_percent", target="en-de") == 1.03
    with pytest.raises(LookupError, match="2 times"):
        stated("weak-link", "bleu_drop_at_percent")


def test_every_statement_has_the_numbers_of_the_paper() -> None:
    """The numbers written out in statements are those of the text files, where they have them."""
    for name, quantity, where in (
        ("W1", "max_bleu_drop_up_to_percent", {}),
        ("W3", "bleu_drop_at_percent", {"target": "en-ru"}),
        ("W3", "bleu_drop_at_percent", {"target": "en-de"}),
        ("C-count-POS", "pairs_improved", {"task": "pos"}),
        ("C-count-SF", "pairs_improved", {"task": "slots"}),
        ("C-EC-NER", "cases_EC_best", {}),
        ("W9", "cases_middle_worse", {}),
    ):
        paper = CLAIMS[name].paper
        assert f"{stated(paper, quantity, **where):g}" in re.findall(
            r"[\d.]*\d", CLAIMS[name].statement
        )
