"""The numbers behind a cell: those the cell is the mean of, with their seeds, and no others."""

import tarfile
from pathlib import Path
from statistics import fmean

import pytest
from by_hand import SEARCH, done, searched, study

from deadhead.report.tables.build import tables

RESULTS = Path(__file__).parents[2] / "docs" / "results"
LANGUAGES = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, targets: [en, zh], splits: test}
axes: {remove: [none, {random: 50}], seed: [0, 1, 2]}
tables:
  - {title: Scores, rows: remove, columns: language, mean_over: seed}
  - {title: Means, rows: remove, columns: setting, mean_over: seed}
  - {title: Drops, kind: drop, rows: remove, columns: language, mean_over: seed}
"""
ENGLISH, CHINESE = (0.99, 0.98, 0.97), (0.7084, 0.7145, 0.7388)


def in_languages(trial, labels):
    less = 0.1 if trial.get("remove") else 0.0
    seed = trial.get("seed")
    metrics = {
        "en/test/micro_f1": ENGLISH[seed] - less,
        "zh/test/micro_f1": CHINESE[seed] - less,
        "zh/dev/micro_f1": 0.5,
    }
    return done(trial, metrics, cost={})


def whole(table):
    return [
        (row, column, cell)
        for row, cells in zip(table["rows"], table["cells"], strict=True)
        for column, cell in zip(table["columns"], cells, strict=True)
    ]


def test_a_cell_lists_its_own_language_with_seeds(tmp_path):
    scores, means, drops = tables(study(tmp_path, LANGUAGES, in_languages))
    listed = scores["cells"][0][scores["columns"].index(["zh"])]["numbers"]
    assert [(value, text) for value, text, _ in listed] == [
        (70.84, "seed 0"),
        (71.45, "seed 1"),
        (73.88, "seed 2"),
    ]
    assert [[part[1:] for part in parts] for *_, parts in listed] == [
        [["", 70.84]],
        [["", 71.45]],
        [["", 73.88]],
    ]
    numbers = drops["cells"][1][drops["columns"].index(["zh"])]["numbers"]
    base = fmean(CHINESE)
    assert [value for value, *_ in numbers] == pytest.approx(
        [100 * (base - score + 0.1) / base for score in CHINESE], abs=1e-3
    )
    for table in (scores, means, drops):
        for *_, cell in whole(table):
            assert fmean(value for value, *_ in cell["numbers"]) == pytest.approx(
                cell["ours"], abs=1e-3
            )


def test_a_mean_over_languages_lists_each_of_them(tmp_path):
    wide = LANGUAGES.replace("columns: setting", "columns: task")
    table = tables(study(tmp_path, wide, in_languages))[1]
    (value, text, parts), *_ = table["cells"][0][0]["numbers"]
    assert (value, text) == (pytest.approx(100 * (0.99 + 0.7084) / 2), "seed 0")
    assert [part[1:] for part in parts] == [["en", 99.0], ["zh", 70.84]]


SEEDS_AND_DRAWS = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, targets: [en, zh], splits: test}
axes:
  - {remove: [none, {random: 50}], draw: [0, 1, 2]}
  - {remove: [none], seed: [1, 2]}
tables: [{title: Scores, rows: remove, columns: language, mean_over: draw}]
"""


def test_an_unpruned_trial_has_no_draw(tmp_path):
    (table,) = tables(study(tmp_path, SEEDS_AND_DRAWS, in_languages))
    unpruned, drawn = ([text for _, text, _ in row[0]["numbers"]] for row in table["cells"])
    assert unpruned == ["seed 0", "seed 1", "seed 2"]
    assert drawn == ["seed 0, draw 0", "seed 0, draw 1", "seed 0, draw 2"]


def test_searches_list_gains_and_the_trials_they_were_chosen_from(tmp_path):
    (table,) = tables(study(tmp_path, SEARCH, searched))
    names = [column[-1] for column in table["columns"]]
    german = table["cells"][[row[-1] for row in table["rows"]].index("de")]
    ((value, text, parts),) = german[names.index("gain")]["numbers"]
    assert (value, text) == (pytest.approx(4), "seed 0")
    assert [part[2] for part in parts] == pytest.approx(
        [60, 61, 64, 59]
    )  # unpruned, then 1, 2 and 3 heads fewer
    ((value, _, parts),) = german[names.index("gain of seeds")]["numbers"]
    assert (value, [part[2] for part in parts]) == (
        pytest.approx(5),
        pytest.approx([60, 60, 62, 65]),
    )


@pytest.mark.parametrize("archive", ["pos-sources", "rankers-cut"])
def test_every_cell_is_the_mean_of_what_it_lists(archive, tmp_path):
    with tarfile.open(RESULTS / f"{archive}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    for home in tmp_path.iterdir():
        for table in tables(home):
            for row, column, cell in whole(table):
                where = f"{home.name}, {table['title']}, {row}, {column}"
                assert (cell["ours"] is None) == (not cell["numbers"]), where
                if cell["numbers"]:
                    assert len(cell["numbers"]) == cell["n"], where
                    assert fmean(value for value, *_ in cell["numbers"]) == pytest.approx(
                        cell["ours"], abs=2e-4
                    ), where
                    for *_, parts in cell["numbers"]:
                        assert {trial for trial, *_ in parts} <= {*cell["trials"]}, where
