"""The findings, the tables and the claims of a page count the same pairs of languages."""

import re
from statistics import fmean
from typing import Any

import pytest
from whole_studies import as_printed

from deadhead.papers.claims import all_claims
from deadhead.papers.claims.from_study import measured
from deadhead.papers.claims.searches import TASKS, single
from deadhead.report.findings import findings
from deadhead.report.tables.build import tables
from deadhead.results import Study
from pinned_numbers import unpack

CLAIMS = all_claims()
PRINTED = {"table2": (90, 96), "table4": (30, 32), "table5": (27, 32)}


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    home = tmp_path_factory.mktemp("printed")
    return lambda table: Study.open(as_printed(f"contributions/{table}", home / table))


def in_table(study):
    """The gains in the first table of searches, without those of a source in itself."""
    table = next(t for t in tables(study) if "statistic" in t["column_names"])
    gains: dict[Any, list[float]] = {}
    for row, cells in zip(table["rows"], table["cells"], strict=True):
        labels = [x for a, x in zip(table["row_names"], row, strict=True) if a != "seed"]
        for column, cell in zip(table["columns"], cells, strict=True):
            if column[-1] == "gain" and "mono-lingual" not in column and cell["ours"] is not None:
                gains.setdefault((*labels, *column), []).append(cell["ours"])
    return [fmean(values) for values in gains.values()]


def in_finding(study):
    """The number of pairs and their mean gain."""
    text = " ".join(findings(study))
    patterns = (
        r"gains (?P<mean>[+-][\d.]+) points on average over (?P<n>\d+) pairs of languages",
        r"of (?P<n>\d+) pairs of languages, by (?P<mean>[+-][\d.]+) points",
    )
    (match,) = [m for pattern in patterns if (m := re.search(pattern, text))][:1]
    return int(match["n"]), float(match["mean"])


def in_claim(study):
    return [search.gain() for search in single(measured([study]))]


def check(study):
    claimed, tabled, (n, mean) = in_claim(study), in_table(study), in_finding(study)
    assert len(claimed) == len(tabled) == n
    assert fmean(claimed) == pytest.approx(fmean(tabled), abs=1e-4)  # as tables round
    assert mean == pytest.approx(fmean(claimed), abs=0.0051)
    assert all(f" {n} pairs of languages" in text for text in findings(study) if "pairs" in text)


@pytest.mark.parametrize("table", PRINTED)
def test_of_a_printed_table(table, printed):
    study, (better, n) = printed(table), PRINTED[table]
    check(study)
    claimed = in_claim(study)
    assert (sum(gain > 0 for gain in claimed), len(claimed)) == (better, n)
    if table != "table5":  # a part of tables 2 and 3 with other arms
        assert f"{better} of {n} pairs of languages" in findings(study)[0]
        (name,) = {name for name, task in TASKS.items() if task == study.searches[0].task}
        counted = CLAIMS[f"C-count-{name}"].on(measured([study])).numbers
        assert re.search(rf"\b{better} of {n}\b", counted)


def test_a_search_in_one_language_is_no_pair_but_still_counts(tmp_path):
    """A study without any pair reports the searches that it has."""
    study = Study.open(unpack("ner-search", tmp_path))
    alone = tuple(cell for cell in study.searches if cell.target == "en")
    object.__setattr__(study, "searches", alone)
    assert "in 1 of 1 cases" in findings(study)[0]
