"""Equal numbers get equal verdicts: the papers' tables, as studies and as they are printed."""

import pytest
from whole_studies import as_printed

from deadhead.papers.claims import HOLDS, OPEN, UNTESTED, all_claims, judge, published
from deadhead.papers.claims.from_study import measured

CLAIMS = all_claims()

TABLES = [
    *(f"weak-link/table{n}" for n in range(1, 7)),
    "mbert-prunability/table1",
    *(f"contributions/table{n}" for n in range(2, 7)),
]
# Where the two may differ: one of them has no data. Where both have data, they agree.
ONLY_PRINTED = dict.fromkeys(
    ("C-p-POS", "C-p-NER", "C-p-SF"),
    "the paper prints rhos, but not the rankings that a study would compute them from",
)
ONLY_STUDIED = {
    **dict.fromkeys(
        ("W17", "W18"),
        "a study has three draws of a condition (here of no spread), a table only their mean",
    ),
    **dict.fromkeys(
        ("C-heads-POS", "C-heads-NER", "C-heads-SF"),
        "a search records how many heads its best has lost, a table does not",
    ),
}
# What the papers drew and did not print: a study has no test of it, a paper no data.
NOT_IN_TABLES = [*(f"M{n}" for n in (*range(9, 17), 20, 21, 22))]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    home = tmp_path_factory.mktemp("printed")
    evidence = measured(as_printed(name, home / name.replace("/", "-")) for name in TABLES)
    return {one.id: (one, other) for one, other in zip(judge(evidence), published(), strict=True)}


def test_every_claim_gets_one_verdict_from_both(both):
    different = {
        name: (ours, theirs)
        for name, (ours, theirs) in both.items()
        if ours.verdict != theirs.verdict
    }
    for name in NOT_IN_TABLES:
        ours, theirs = different.pop(name)
        assert (ours.verdict, theirs.verdict) == (UNTESTED, OPEN)
    assert set(different) == {*ONLY_PRINTED, *ONLY_STUDIED}, different
    assert {different[name][0].verdict for name in ONLY_PRINTED} == {OPEN}
    assert {different[name][1].verdict for name in ONLY_STUDIED} == {OPEN}


def test_margins_are_the_same_too(both):
    for name, (ours, theirs) in both.items():
        if (
            ours.judged and theirs.judged and ours.paper != "luck"
        ):  # whose intervals are drawn by lot
            assert ours.margin == pytest.approx(theirs.margin, abs=2e-4), name
    assert sum(ours.judged and theirs.judged for ours, theirs in both.values()) == 73


def test_counted_over_the_pairs_the_paper_counts(both):
    """48 pairs a model: not the source itself, languages in training or several sources."""
    for name, n in (("C-heads-POS", 48), ("C-heads-NER", 48), ("C-heads-SF", 17)):
        ours, _ = both[name]
        assert ours.numbers.count("7.00 of 12") == 2
        assert ours.numbers.count(f"all {n} cases it speaks of") == 2, ours
        assert ours.strength == f"searches: {2 * n}"


def test_draws_that_agree_with_the_paper_to_the_digit(tmp_path):
    """Three draws that all lose what is stated have an interval of no width."""
    verdict = {v.id: v for v in judge(measured([as_printed("weak-link/table1", tmp_path / "s")]))}[
        "W3"
    ]
    assert (verdict.verdict, verdict.margin) == (HOLDS, 0.5)
    assert (
        verdict.strength == "the one case it speaks of, 95 % interval +-0.00 by repeats; "
        "up to 3 repeats a cell, sd 0.00 % of the mean"
    )
