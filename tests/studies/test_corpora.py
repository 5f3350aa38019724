"""A corpus for each task, and what comes from where."""

import pytest
from typer.testing import CliRunner

from deadhead.cli import app
from deadhead.errors import DataError, DeadheadError
from deadhead.report.tables.notes import about_data
from deadhead.results import Study
from deadhead.studies import load, plan, read, run, summaries
from ud_archive import archive

FIGURE = "contributions/figure1"  # POS, NER and slots


@pytest.fixture(autouse=True)
def _no_folder(monkeypatch):
    monkeypatch.setenv("DEADHEAD_DATA", "")


def put(root, name, text):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_a_corpus_for_each_task():
    recipe = load(FIGURE, ["fixed.data.source={pos: ud-2.7, ner: wikiann, slots: files}"])
    sources = {(trial.task, trial.data.source) for trial in recipe.trials}
    assert sources == {("pos", "ud-2.7"), ("ner", "wikiann"), ("slots", "files")}
    one_by_one = load(FIGURE, ["fixed.data.source.pos=ud-2.7", "fixed.data.source.ner=wikiann"])
    sources = {(trial.task, trial.data.source) for trial in one_by_one.trials}
    assert sources == {("pos", "ud-2.7"), ("ner", "wikiann"), ("slots", None)}


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("{poss: ud-2.7}", "no task 'poss'"),
        ("{pos: 7}", "`source` of data expects the name of a corpus, or one for each task"),
        ("{}", "`source` of data expects"),
    ],
)
def test_it_is_checked(source, problem):
    with pytest.raises(DeadheadError, match=problem):
        load(FIGURE, [f"fixed.data.source={source}"])


# --- the data of the paper, or other data ------------------------------------------------------

PERSIAN = {"fa_seraji-ud-train": 4798, "fa_seraji-ud-dev": 599, "fa_seraji-ud-test": 600}
SMALL = [
    "axes=[{model: [world/encoder], source: [fa], targets: [[fa]]}]",
    "search.lowest=1..1",
    "finetune={epochs: 1, scored: none}",
]


@pytest.mark.parametrize(
    ("folder", "train", "expected"),
    [
        ("ud-treebanks-v2.7", 4798, []),
        ("ud-treebanks-v2.7", 4797, ["other numbers of rows: fa/train 4,797 (paper: 4,798)"]),
        ("ud-treebanks-v2.8", 4798, ["release 2.8, by its folder where the paper has 2.7 (fa)"]),
        ("mine", 4798, []),
    ],
)
def test_a_plan_says_what_is_not_the_data_of_the_paper(
    folder, train, expected, tmp_path, monkeypatch
):
    archive(tmp_path, {**PERSIAN, "fa_seraji-ud-train": train}).rename(tmp_path / folder)
    monkeypatch.setenv("DEADHEAD_DATA", str(tmp_path / folder))
    lines = [f"pos is not the data of the paper: {text}" for text in expected]
    assert [*plan(load("contributions/table2", SMALL)).other_data] == lines
    printed = CliRunner().invoke(app, ["plan", "contributions/table2", *sets(SMALL)]).stdout
    assert all(f"  {line}.\n" in printed for line in lines)
    assert ("not the data of the paper" in printed) == bool(lines)


def sets(changes):
    return [part for change in changes for part in ("--set", change)]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("{pos: ud-2.7}", None),
        ("{pos: ud-2.17}", "pos is not the data of the paper: release 2.17 where the paper has "
                           "2.7 (fa)"),
        ("{ner: wikiann}", "ner is not the data of the paper: wikiann, which is another corpus "
                           "than the paper's (fa)"),
    ],
)  # fmt: skip
def test_the_hub_may_have_other_data(source, line):
    task = source[1:4]
    recipe = load(
        "contributions/search",
        ["source=[fa]", "targets=[fa]", f"task=[{task}]", f"fixed.data.source={source}"],
    )
    assert plan(recipe).other_data == ((line,) if line else ())


def test_a_run_reports_it_and_records_keep_the_corpora(tmp_path, monkeypatch):
    monkeypatch.setenv("DEADHEAD_DATA", str(archive(tmp_path)))
    result = run(
        load("contributions/table2", SMALL), tmp_path / "s", executor="serial", watch=False
    )
    assert (result.done, result.failed) == (2, 0)
    [line] = result.reports
    assert line.startswith(
        "pos is not the data of the paper: other numbers of rows: fa/dev 2 (paper: 599)"
    )
    corpus = {"corpus": "UD_Persian-Seraji", "release": "2.7, by its folder", "rows": 2}
    for name in summaries(tmp_path / "s"):
        corpora = read(tmp_path / "s", name).details["corpora"]
        assert corpora == dict.fromkeys(("fa/dev", "fa/test", "fa/train"), corpus)
    study = Study.open(tmp_path / "s")
    [note] = about_data(study, study.cells)
    assert note.startswith("Other data than the paper's: pos fa/")
    assert "pos fa/train: 2 rows (paper: 4,798)" in note


def test_exact_refuses_other_data(tmp_path, monkeypatch):
    monkeypatch.setenv("DEADHEAD_DATA", str(archive(tmp_path)))
    recipe = load("smoke", ["targets=[en]", "fixed.data={exact: true}"])
    with pytest.raises(
        DataError, match=r"nothing was started:\n  pos is not the data .* en/train 2 "
    ) as seen:
        run(recipe, tmp_path / "s", watch=False)
    assert "--set fixed.data.exact=false" in (seen.value.hint or "")
    assert not (tmp_path / "s").exists()
    put(tmp_path, "ner/fr-train.txt", "a\tO\n\n" * 10)
    recipe = load("smoke", ["task=ner", "source=fr", "targets=[fr]", "fixed.data={exact: true}"])
    monkeypatch.setenv("DEADHEAD_DATA", str(tmp_path))
    with pytest.raises(DataError, match="no paper has a size of ner in fr"):
        run(recipe, tmp_path / "s", watch=False)
