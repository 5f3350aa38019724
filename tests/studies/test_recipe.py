"""A recipe is checked whole, says where it is wrong, and expands to the trials it means."""

import pytest
from recipe_text import TABLE4, refusal

from deadhead.report.check import load_recipe as load
from deadhead.studies.recipe.yaml import RecipeError


@pytest.fixture
def table4(tmp_path):
    file = tmp_path / "table4.yaml"
    file.write_text(TABLE4)
    return file


def test_equal_trials_collapse(table4):
    recipe = load(table4)
    assert len(recipe.cells) == 4 * 10 * 3
    assert len(recipe.trials) == 4 * (
        1 + 9 * 3
    )  # nothing is drawn at 0 %, so its three draws are one trial
    assert {t.steps for t in recipe.trials} == {
        ("finetune", "evaluate"),
        ("prune", "finetune", "evaluate"),
    }
    whole = load(table4, ["draw=[5]"]).trials
    assert {t.id for t in whole} & {t.id for t in recipe.trials} == {
        t.id for t in recipe.trials if "remove" not in t.content
    }


def test_presets_are_written_out(table4):
    rates = {t.get("task"): t.get("finetune")["rate"] for t in load(table4).trials}
    assert rates == {"mnli": 3e-5, "qqp": 5e-5, "qnli": 5e-5, "sst2": 2e-5}
    assert all(
        "preset" not in t.get("finetune") and t.get("finetune")["epochs"] == 10
        for t in load(table4).trials
    )


def test_overrides_and_scales(table4):
    mini = load(table4, scale="mini")
    assert {t.get("task") for t in mini.trials} == {"sst2"}
    assert {t.get("finetune")["epochs"] for t in mini.trials} == {1}
    assert {t.get("finetune")["epochs"] for t in load(table4, ["finetune.epochs=2"]).trials} == {2}
    assert len(load(table4, ["axes.remove={random: 50}", "task=[qqp]"]).trials) == 3
    assert {t.get("finetune")["clip"] for t in load(table4, ["finetune.clip=null"]).trials} == {
        None
    }
    seeded = load(
        table4, ["axes.draw=null", "axes.seed=[0, 1]"]
    ).trials  # now training and draw have one seed
    assert {(t.get("seed"), t.get("draw")) for t in seeded} == {
        (0, None),
        (1, None),
        (0, 0),
        (1, 1),
    }
    with pytest.raises(
        RecipeError, match=r"has no scale 'maxi'; it has: mini\.\n  Hint: leave --scale out"
    ):
        load(table4, scale="maxi")
    with pytest.raises(RecipeError, match=r"no field 'finetun'\. Did you mean 'finetune'"):
        load(table4, ["finetun.epochs=1"])


GRIDS = TABLE4.replace(
    "axes:\n  task: [mnli, qqp, qnli, sst2]\n  remove:",
    "axes:\n- task: [mnli, sst2]\n  finetune.rate: [1e-4, 1e-3]\n  remove:",
).replace("tables:", "- task: [qqp]\n  remove: [none]\ntables:")


@pytest.mark.parametrize(
    ("change", "field", "expected"),
    [
        ("draw=[7]", "draw", {7, None}),  # only one grid draws
        ("task=qnli", "task", {"qnli"}),  # both grids have the axis
        ("seed=5", "seed", {5}),  # none has it
        (
            "finetune.rate=1e-2",
            "finetune.rate",
            {1e-2},
        ),  # one has it as an axis: set there, and for the other under fixed
        (
            "finetune.rate=[1e-2, 2e-2]",
            "finetune.rate",
            {1e-2, 2e-2, 5e-5},
        ),  # two values can only be an axis
        ("finetune.epochs=3", "finetune.epochs", {3}),
    ],
)
def test_an_override_reaches_every_grid(tmp_path, change, field, expected):
    """What is set is what trials have, wherever the recipe has the field; it was once lost behind
    an axis of its name."""
    file = tmp_path / "r.yaml"
    file.write_text(GRIDS)
    first, _, rest = field.partition(".")
    results = {
        trial.get(first)[rest] if rest else trial.get(first)
        for trial in load(file, [change]).trials
    }
    assert results == expected
    assert {trial.id for trial in load(file, [change]).trials} != {
        trial.id for trial in load(file).trials
    }


def test_several_values_of_one_field_are_an_axis(table4):
    assert {t.get("seed") for t in load(table4, ["seed=[3, 4]"]).trials} == {3, 4}
    assert {t.get("seed") for t in load(table4, ["seed=3..5"]).trials} == {3, 4, 5}
    with pytest.raises(RecipeError, match=r"--set fixed.draw=3: fixed.draw: this changes nothing"):
        load(table4, ["fixed.draw=3"])


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("evaluate]", "evalute]", 2, "steps[2]: no step 'evalute'. Did you mean 'evaluate'?"),
        ("model:", "modle:", 4, "fixed.modle: no field of a trial 'modle'. Did you mean 'model'?"),
        ("bert-base-uncased", "./nowhere", 4, "fixed.model: there is no model in ./nowhere"),
        ("sst2]", "sst3]", 8, "axes.task[3]: no task 'sst3'. Did you mean 'sst2'?"),
        ("{random:", "{randum:", 9, "axes.remove: no strategy 'randum'. Did you"),
        ("epochs: 10", "epoch: 10", 6, "fixed.finetune.epoch: no setting of training 'epoch'."),
        ("epochs: 10", "patience: 2, scored: none", 6, "fixed.finetune.patience: patience waits"),
        ("epochs: 10", "epochs: 0", 6, "fixed.finetune.epochs: `epochs` expects a whole number"),
        ("weak-link-bert", "weak-lnk-bert", 6, "fixed.finetune.preset: no preset 'weak-lnk-bert'."),
        ("[0, 1, 2]", "[0, 1.5]", 10, "axes.draw[1]: expected a whole number from 0, got 1.5."),
        ("rows: remove", "rows: remov", 12, "tables[0].rows: no axis 'remov'. Did you mean"),
        ("draw}", "draw, published: x.csv}", 12, "tables[0].published: there is no file x.csv"),
        ("draw}", "draw, published: ../x.csv}", 12, "tables[0].published: there is no file ../x"),
        (
            "draw}",
            "draw, published: weak-link/tabel1.csv}",
            12,
            "tables[0].published: there is no file weak-link/tabel1.csv beside the recipe, and no "
            "table of a built-in recipe 'weak-link/tabel1.csv'. Did you mean "
            "'weak-link/table1.csv'?",
        ),
        ("draw}", "draw, where: {strategy: ranodm}}", 12, "tables[0].where.strategy: no strategy"),
        ("draw}", "draw, metric: acuracy}", 12, "tables[0].metric: no metric 'acuracy'. Did you"),
        ("title: Table 4", "title: [4]", 12, "tables[0].title: expected a text, got [4]."),
        ("steps: [prune, ", "steps: [", 7, "axes: `remove` is given, but no step uses it; add"),
        ("{random: [", "{lowest: [", 2, "steps: lowest needs a ranking, and no step before prune"),
        ("{random: [", "{per: blok, random: [", 9, "axes.remove.per: `per` of random expects"),
        ("{random: [0", "{layers: [tpo 1", 9, "axes.remove.layers: no layer set 'tpo'. Did you"),
        ("{random: [0", "{per_layer: [88x", 9, "axes.remove.per_layer: a part of '88x' expects"),
        ("source: en", "source: en\n  rank: {unit: per_btch}", 6, "fixed.rank.unit: `unit` of"),
        ("source: en", "source: en\n  draw: 3", 6, "fixed.draw: this changes nothing, since"),
        ("scales:", "scale:", 13, "scale: no field 'scale'. Did you mean 'scales'?"),
        ("about:", "include: [smok]\nabout:", 1, "include[0]: no recipe 'smok'. Did you mean"),
        ("claims", "claims", 0, ""),
    ],
)
def test_mistakes_are_placed(tmp_path, old, new, line, message):
    file = tmp_path / "r.yaml"
    if not message:  # the twin: without a mistake nothing is refused
        file.write_text(TABLE4)
        load(file)
        return
    assert f"{file}:{line}: {message}" in refusal(file, TABLE4.replace(old, new))


def test_all_mistakes_are_reported_at_once(tmp_path):
    text = refusal(
        tmp_path / "r.yaml",
        TABLE4.replace("sst2]", "sst3]").replace("[prune", "[prun").replace("title:", "titel:"),
    )
    assert [int(line.split(":")[1]) for line in text.splitlines()[:-1]] == [2, 8, 12]


def test_an_option_is_checked_with_each_method(tmp_path):
    def written(method):
        file = tmp_path / "rankers.yaml"
        fixed = "{model: m, task: pos, source: en}"
        file.write_text(
            f"steps: [finetune, rank]\nfixed: {fixed}\naxes:\n  - rank.method: [{method}]\n"
            "    rank.permutations: [10, 20]\n",
            "utf-8",
        )
        return file

    assert [trial.get("rank")["permutations"] for trial in load(written("shapley")).trials] == [
        10,
        20,
    ]
    with pytest.raises(
        RecipeError, match=r"rankers.yaml:5: .*no option of gradient 'permutations'"
    ):
        load(written("shapley, gradient"))


def test_search_has_its_controls(search_file):
    cells = load(search_file).cells
    arms = [
        (c.labels["arm"], c.labels["k"])
        for c in cells
        if c.labels["seed"] in (0, 1) or c.labels["arm"] == "seeds"
    ]
    assert len(cells) == len(arms) == 2 * (1 + 4 * 4)
    unpruned = [c.trial for c in cells if c.labels["arm"] in ("seeds", "full")]
    assert len({t.id for t in unpruned}) == 2 * (1 + 4)
    assert len({t.get("seed") for t in unpruned}) == 10
    assert all("remove" not in t.content for t in unpruned)


@pytest.mark.parametrize(
    ("value", "message"),
    [("4..1", "is empty"), ("1..99999999", "is too long"), ("none", "numbers of heads")],
)
def test_a_search_over_nothing_is_refused(search_file, value, message):
    with pytest.raises(
        RecipeError, match=f"--set search.lowest={value}: search.lowest: .*{message}"
    ):
        load(search_file, [f"search.lowest={value}"])
