"""Every published number has a trial of ours: each row of a file agrees with one kind of cell."""

import csv
from typing import Any

import pytest
from paper_recipes import OF_PAPERS, label_of

from deadhead.papers.catalogue import published_files
from deadhead.report.tables.build import tables
from deadhead.results.cells import setting
from deadhead.studies import load
from deadhead.studies.store.folder import prepare
from deadhead.studies.study import _describe

WITH_NUMBERS = {
    name: {
        table["published"] for table in load(name).data.get("tables") or () if "published" in table
    }
    for name in OF_PAPERS
}
NUMBERS = [(name, file) for name, files in WITH_NUMBERS.items() for file in sorted(files)]
COLUMNS = ("model", "task", "source", "target", "setting", "remove", "arm")


def in_words(recipe):
    """Every cell of a recipe in every language scored, by the columns of published files."""
    fixed: dict[str, Any] = recipe.data.get("fixed") or {}
    cells_in_words = set()
    for cell in recipe.cells:
        fields = {**fixed, **cell.labels}
        train = str(label_of(fields.get("train", fields["source"])))
        for target in cell.trial.get("targets", []):
            labels = {
                name: str(label_of(fields.get(name)))
                for name in ("model", "task", "source", "remove", "arm")
            }
            labels |= {"target": target, "setting": setting(train, target)}
            if "rank_each" in recipe.data.get(
                "steps", ()
            ):  # the ways to use several rankings are arms of the paper's table
                labels |= {"source": train, "arm": way(labels, fields)}
            cells_in_words.add(tuple(sorted(labels.items())))
    return cells_in_words


def way(labels, fields):
    if labels["arm"] == "full":
        return "FL"
    return str(fields["rank.merge"]).upper() if "rank.merge" in fields else "EC"


def rows(name, file):
    text = published_files()[f"{name.partition('/')[0]}/{file}"].read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def test_every_table_of_the_papers_has_its_numbers():
    tables = {name for name in OF_PAPERS if name.rpartition("/")[2].startswith("table")}
    assert {name for name, files in WITH_NUMBERS.items() if files} == {
        *tables,
        "weak-link/figure1",
    }  # which is tables 1 and 4


@pytest.mark.parametrize(("name", "file"), NUMBERS)
def test_no_number_is_orphaned(name, file):
    cells, published = in_words(load(name)), rows(name, file)
    columns = [column for column in COLUMNS if column in published[0]]
    known = {tuple((key, value) for key, value in cell if key in columns) for cell in cells}
    orphans = [
        row
        for row in published
        if tuple(sorted((column, row[column]) for column in columns)) not in known
    ]
    assert not orphans, f"{len(orphans)} of {len(published)}: {orphans[:3]}"
    assert len({tuple(row[column] for column in columns) for row in published}) == len(
        published
    )  # no two rows for one cell


def test_a_number_without_a_cell_is_noticed():
    cells = in_words(load("weak-link/table4", ["axes.remove={random: 50}"]))
    assert any(("remove", "random 50") in cell for cell in cells)
    assert not any(("remove", "random 10") in cell for cell in cells)


@pytest.mark.parametrize(("name", "file"), NUMBERS)
def test_every_number_is_in_the_table(name, file, tmp_path):
    """In a study that has only begun, so before there is any number of ours."""
    recipe = load(name)
    _describe(recipe, prepare(tmp_path / "study"))
    files = [table.get("published") for table in recipe.data["tables"]]
    (table_of_file,) = [
        table
        for table, published in zip(tables(tmp_path / "study"), files, strict=True)
        if published == file
    ]
    last = [column[-1] for column in table_of_file["columns"]]
    values = [
        cell["published"]
        for row in table_of_file["cells"]
        for cell, heading in zip(row, last, strict=True)
        if heading != "gain"
    ]
    assert sorted(value for value in values if value is not None) == sorted(
        float(row["value"]) for row in rows(name, file)
    )
