"""Marked cells differ from what they are compared with, at the error rate that the table states."""

import numpy as np
import pytest
from by_hand import DRAWN, SEARCH, TEST, done, drawn, searched, study

from deadhead.report.tables.build import tables
from deadhead.report.tables.cells import RATE, compared, mark_cells
from deadhead.report.tables.text import to_csv, to_latex

TABLES, LANGUAGES, REMOVALS = 300, 9, 5
SEEDED = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/model, task: pos, source: en, targets: [en, zh], splits: test}
axes: {remove: [none, {random: 50}, {random: 90}], seed: [0, 1, 2]}
tables:
  - {title: Scores, rows: remove, columns: language, mean_over: seed}
  - {title: Drops, kind: drop, rows: remove, columns: language, mean_over: seed}
"""


def seeded(trial, labels):
    """Chinese loses 20 points without 90 % of the heads; nothing else is more than noise."""
    loss = 0.2 if trial.get("remove") and trial.get("remove")["random"] == 90 else 0.0
    noise = 0.003 * ((trial.get("seed") * 7 + (trial.get("remove") or {"random": 3})["random"]) % 5)
    return done(
        trial, {"en/test/micro_f1": 0.95 + noise, "zh/test/micro_f1": 0.7 - loss + noise}, cost={}
    )


def simulated(rng, repeats, effect=0.0, apart=0):
    """How many cells are marked: of those without an effect, and of the first `apart` with one."""
    base = rng.normal(size=(LANGUAGES, repeats))
    values = rng.normal(size=(REMOVALS, LANGUAGES, repeats))
    values.reshape(-1, repeats)[:apart] -= effect
    cells = [
        [{"mark": None, **compared(list(values[r, c]), list(base[c]))} for c in range(LANGUAGES)]
        for r in range(REMOVALS)
    ]
    mark_cells(cells)
    flat = [cell["mark"] is not None for row in cells for cell in row]
    return sum(flat[apart:]), sum(flat[:apart])


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_where_nothing_differs_few_tables_have_a_marked_cell(repeats):
    rng = np.random.default_rng(repeats)
    wrong = [simulated(rng, repeats)[0] > 0 for _ in range(TABLES)]
    assert np.mean(wrong) <= RATE


def test_where_some_cells_differ_they_are_marked_and_few_others():
    rng = np.random.default_rng(7)
    counts = [simulated(rng, 3, effect=12.0, apart=15) for _ in range(TABLES // 2)]
    assert np.mean([chance / max(1, chance + right) for chance, right in counts]) <= RATE
    assert np.mean([right for _, right in counts]) > 0.7 * 15


def test_a_table_marks_what_differs_and_says_by_which_test(tmp_path):
    scores, drops = tables(study(tmp_path, SEEDED, seeded))
    for table in (scores, drops):
        assert [[cell["mark"] for cell in row] for row in table["cells"]] == [
            [None, None],
            [None, None],
            [None, "worse"],
        ]
        assert "Welch's and Student's" in table["test"]
        assert "Benjamini-Hochberg" in table["test"]
        assert "at most 5 %" in table["test"]
        assert table["test"].endswith("Tested: all 4 cells; 1 differs.")
        assert "Benjamini-Hochberg" in to_latex(table)
    assert scores["cells"][2][1]["p"] == drops["cells"][2][1]["p"] < 0.01
    assert to_csv(scores).splitlines()[-1].endswith("worse")


def test_without_repetitions_nothing_is_marked(tmp_path):
    """Three draws of the pruned model, one of the unpruned: what another seed gives is unknown."""
    scores, drops = tables(study(tmp_path, DRAWN, drawn))
    for table in (scores, drops):
        assert {(cell["mark"], cell["p"]) for row in table["cells"] for cell in row} == {
            (None, None)
        }
        assert table["test"].startswith(
            "No cell is coloured: none of the 2 could be tested against the unpruned model"
        )


def test_the_best_of_k_is_tested_against_the_best_of_k_seeds(tmp_path):
    """A gain over the one unpruned model is no sign: the best of several gains by luck alone."""

    def again(trial, labels):
        record = searched(trial, labels)
        noise = 0.002 * ((labels["seed"] * 5 + labels["k"]) % 3) + (
            0.0 if labels["arm"] != "random" else -0.2
        )
        return done(trial, {name: value + noise for name, value in record.metrics.items()}, cost={})

    recipe = (
        SEARCH.replace("seed: [0]", "seed: [0, 1, 2, 3]")
        + "tables: [{title: Search, kind: search, rows: target}]\n"
    )
    (table,) = tables(study(tmp_path, recipe, again))
    assert (
        TEST["lowest", 2] > TEST["full", 0]
    )  # the best of the prunings gains, and so does the best of the seeds
    row = dict(zip([column[-1] for column in table["columns"]], table["cells"][0], strict=True))
    assert row["gain"]["ours"] > 3
    assert row["gain"]["mark"] != "better"
    assert (row["gain of random"]["mark"], row["gain of seeds"]["mark"], row["k"]["mark"]) == (
        "worse",
        None,
        None,
    )
    assert "the best of the same number of unpruned seeds" in table["test"]
