"""Published numbers stand beside a study only if it has the paper's setting."""

import pytest
from whole_studies import as_printed, complete

from deadhead.report.tables.build import tables
from deadhead.results import Study

NOT_SHOWN = "The published numbers are not shown"


def published(table):
    cells = [cell for row in table["cells"] for cell in row]
    figures = {
        cell[name] for cell in cells for name in ("published", "published_change") if name in cell
    }
    return figures - {None}


@pytest.mark.parametrize(
    "name", ["weak-link/table6", "contributions/table2", "contributions/table6"]
)
def test_a_small_run_has_no_numbers_of_the_paper(name, tmp_path):
    """Its model is another, its searches are shorter, or its sources are fewer."""
    table = tables(complete(name, tmp_path / "s", "mini"))[0]
    assert not published(table)
    assert NOT_SHOWN in table["note"]


@pytest.mark.parametrize(
    "name", ["weak-link/table6", "contributions/table4", "contributions/table6"]
)
def test_a_whole_run_has_them(name, tmp_path):
    study = Study.open(as_printed(name, tmp_path / "s"))
    table = tables(study)[0]
    (rows,) = study.published.values()
    assert published(table) >= {float(row["value"]) for row in rows}
    assert NOT_SHOWN not in table["note"]


def test_the_title_has_the_size_of_the_search(tmp_path):
    assert (
        tables(complete("contributions/search", tmp_path / "s", "mini"))[0]["title"] == "Best of 4"
    )
    (table,) = tables(as_printed("contributions/table4", tmp_path / "t"))
    assert table["title"] == "Table 4: span F1, unpruned and best of 12"
