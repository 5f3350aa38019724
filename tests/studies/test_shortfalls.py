"""Fewer training rows than a recipe asks for: reported by `plan` and in the record, refused where
the number matters."""

import pytest

from deadhead.errors import DataError
from deadhead.studies import load, plan, run, run_trial

SMALL = ["remove=[none]", "targets=[en]", "finetune.epochs=1"]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("DEADHEAD_DATA", str(tmp_path))
    (tmp_path / "pos").mkdir()
    for name in ("en-train", "en-dev", "en-test"):
        (tmp_path / "pos" / f"{name}.conllu").write_text(
            "1\ta\ta\tNOUN\t_\t_\t0\troot\t_\t_\n\n" * 20
        )
    return tmp_path


def test_the_record_names_it(files):
    record = run_trial(load("smoke", [*SMALL, "data={examples: 50}"]).trials[0])
    assert record.state == "done", record.error
    assert record.details["shortfalls"] == {"en/train": {"expected": 50, "got": 20}}
    enough = run_trial(load("smoke", [*SMALL, "data={examples: 20}"]).trials[0])
    assert "shortfalls" not in enough.details


def test_the_ranking_names_it(files):
    changes = [
        "remove={lowest: 2}",
        "rank={split: dev, examples: 30}",
        "data={examples: 10}",
        "targets=[en]",
        "finetune.epochs=1",
    ]
    record = run_trial(load("smoke", changes).trials[0])
    assert record.state == "done", record.error
    assert record.details["shortfalls"] == {"en/dev (rank)": {"expected": 30, "got": 20}}


def test_a_plan_names_it(files):
    expected = (
        "pos in en: 20 training rows where data.examples expects 50; these trials train on what "
        "there is (1 trial)"
    )
    recipe = load("smoke", [*SMALL, "data={examples: 50}"])
    assert plan(recipe).shortfalls == (expected,)
    assert plan(load("smoke", [*SMALL, "data={examples: 20}"])).shortfalls == ()


@pytest.mark.parametrize("table", ["table1", "table2", "table3", "figure1"])
def test_a_part_of_the_pairs_is_never_taken_for_all_of_them(table, tmp_path, monkeypatch):
    monkeypatch.delenv("DEADHEAD_DATA", raising=False)
    recipe = load(f"weak-link/{table}", ["remove=[none]", "draw=[0]"])
    assert any("`run` refuses that (data.exact)" in line for line in plan(recipe).shortfalls)
    with pytest.raises(DataError, match="wmt14 in en-ru: 1,486,965 training rows"):
        run(recipe, tmp_path / "s", watch=False)


def test_it_is_refused_where_the_number_matters(files, tmp_path):
    recipe = load("smoke", [*SMALL, "data={examples: 50, exact: true}"])
    with pytest.raises(
        DataError,
        match=r"too little data, so nothing was started:\n  pos in en: 20 training rows .* "
        r"expects 50",
    ):
        run(recipe, tmp_path / "s")
    assert not (tmp_path / "s").exists()
    record = run_trial(recipe.trials[0])
    assert "pos in en has 20 training rows; the recipe expects 50, no fewer (data.exact)" in str(
        record.error
    )
    assert "`run` refuses that (data.exact)" in plan(recipe).shortfalls[0]
    assert (
        run_trial(load("smoke", [*SMALL, "data={examples: 20, exact: true}"]).trials[0]).state
        == "done"
    )
