"""Tables as the papers print them: brackets, columns for components, notes where they mislead."""

from dataclasses import replace

import pytest
from by_hand import done, study

from deadhead.report.check import load_recipe as load
from deadhead.report.tables.build import tables
from deadhead.report.tables.text import to_csv, to_latex
from deadhead.studies.recipe.yaml import RecipeError
from deadhead.studies.store.folder import prepare
from deadhead.studies.store.records import Record, write
from deadhead.studies.study import _describe
from deadhead.studies.trial import label

BLEU = {
    "none": 29.09,
    "per_layer 888444/444888/888444": 29.62,
    "per_layer 444888/888444/444888": 29.43,
}
BLEU |= {"per_block 14/31/30": 28.96, "random 25 per=block": 29.59, "random 87 per=layer": 27.47}


def run(name, folder, scale=None):
    """The first table of a built-in recipe, with the paper's BLEU for ours; others are 28."""
    recipe = load(name, scale=scale)
    home = prepare(folder)
    _describe(recipe, home)
    for cell in recipe.cells:
        (pair,) = cell.trial.get("targets")
        write(
            Record(
                trial=cell.trial,
                state="done",
                removed=(),
                metrics={f"{pair}/test/bleu": BLEU.get(str(label(cell.labels["remove"])), 28.0)},
            ),
            home,
        )
    return tables(folder)[0]


def test_table1_of_the_weak_link_paper(tmp_path):
    table = run("weak-link/table1", tmp_path / "s")
    assert (table["row_names"], table["column_names"]) == (["% pruned"], ["source"])
    assert table["rows"] == [[p] for p in ("0", "25", "35", "50", "55", "60", "75", "81", "87")]
    assert table["columns"] == [["en-ru"], ["en-de"]]
    base, quarter, last = (table["cells"][at][0] for at in (0, 1, -1))
    assert (base["change"], base["published_change"]) == (None, None)
    assert (quarter["ours"], quarter["change"], quarter["published_change"]) == (
        29.59,
        pytest.approx(0.5),
        0.5,
    )
    assert (last["change"], last["published_change"]) == (pytest.approx(-1.62), -1.62)
    assert "29.59 (+0.50)" in to_latex(table)
    assert to_csv(table).splitlines()[0].endswith(",mark,change,published_change")


def test_table2_of_the_weak_link_paper(tmp_path):
    table = run("weak-link/table2", tmp_path / "s")
    assert table["row_names"] == ["% pruned", "ES", "ED", "DS"]
    assert table["rows"][:4] == [
        ["0", "888888", "888888", "888888"],
        ["25", "888444", "444888", "888444"],
        ["25", "444888", "888444", "444888"],
        ["40", "777322", "233777", "777332"],
    ]
    (more,), (fewer,) = table["cells"][1:3]
    assert (more["change"], fewer["change"]) == (pytest.approx(0.53), pytest.approx(0.34))
    assert all(
        cell["published_change"] == pytest.approx(cell["published"] - 29.09)
        for (cell,) in table["cells"][1:]
    )
    assert "encoder-decoder (ED)" in table["note"]


def test_a_percentage_that_no_file_has_is_counted(tmp_path):
    """777322/233777/777332 removes 20 + 19 + 19 = 58 of 144 heads."""
    table = run_of(tmp_path, "per_layer: [777322/233777/777332]")
    assert table["rows"] == [
        ["0", "888888", "888888", "888888"],
        ["40", "777322", "233777", "777332"],
    ]


def test_prunings_that_have_no_components_keep_their_names(tmp_path):
    table = run_of(tmp_path, "random: [25]")
    assert (table["row_names"], table["rows"]) == (["remove"], [["none"], ["random 25 %"]])


def run_of(folder, removals):
    recipe = f"""\
steps: [pretrain, prune, finetune, evaluate]
fixed: {{model: transformer-mini, task: parallel, source: en-de, splits: test}}
axes: {{remove: [none, {{{removals}}}], draw: [0]}}
tables: [{{title: T, rows: remove, columns: source, change: true, remove_as: components}}]
"""

    def outcome(trial, labels):
        removed = [f"encoder.0.{index}" for index in range(58)] if trial.get("remove") else ()
        cost = {"heads before": 144}
        return replace(done(trial, {"en-de/test/bleu": 20.0}, cost=cost), removed=tuple(removed))

    return tables(study(folder, recipe, outcome))[0]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("change: 3", "tables[0].change: expected true or false, got 3."),
        ("remove_as: words", "tables[0].remove_as: no value 'words'. Known: components, percent."),
        ("kind: drop, change: true", "no field of a table of kind drop 'change'."),
    ],
)
def test_mistakes_are_named(tmp_path, field, message):
    text = (
        f"steps: [finetune, evaluate]\nfixed: {{model: m, task: pos, source: en}}\n"
        f"tables: [{{title: T, rows: seed, {field}}}]\n"
    )
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(RecipeError) as error:
        load(tmp_path / "r.yaml")
    assert message in str(error.value)


LAYERED = """\
steps: [prune, finetune, evaluate]
fixed: {model: a/model, source: en, splits: dev, finetune: {weights: best, scored: train_task}}
axes:
  - {task: [mnli], remove: [none, {layers: top 1}]}
  - {task: [xnli], targets: [[en, de]], remove: [none, {layers: top 1}]}
tables:
  - {title: MNLI, rows: remove, columns: task, where: {task: mnli}, published: numbers.csv}
  - {title: XNLI, rows: remove, columns: language, where: {task: xnli}}
"""
CHOSEN = "The epoch is the best of a training by the same dev set, so scores are slightly too high."


def layered(trial, labels):
    removed = tuple(f"encoder.4.{head}" for head in range(8)) if trial.get("remove") else ()
    scores = {f"{lang}/dev/accuracy": 0.5 for lang in trial.get("targets")}
    return Record(
        trial=trial,
        state="done",
        removed=removed,
        metrics=scores,
        cost={"heads before": 40} if removed else {},
    )


def test_a_table_says_that_its_data_chose_the_epoch(tmp_path):
    mnli, xnli = tables(
        study(tmp_path, LAYERED, layered, {"numbers.csv": "model,task,remove,value\n"})
    )
    assert CHOSEN in mnli["note"]
    assert CHOSEN not in xnli["note"]  # the dev set of MNLI chose
    (tmp_path / "own").mkdir()
    own = LAYERED.replace(", scored: train_task", "")
    assert [
        CHOSEN in table["note"]
        for table in tables(study(tmp_path / "own", own, layered, {"numbers.csv": "model\n"}))
    ] == [True, True]
    (tmp_path / "last").mkdir()
    last = LAYERED.replace("weights: best, ", "")
    assert not any(
        CHOSEN in table["note"]
        for table in tables(study(tmp_path / "last", last, layered, {"numbers.csv": "model\n"}))
    )
