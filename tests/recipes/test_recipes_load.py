"""Every recipe of the papers loads and expands at both scales, with includes, figures and parts."""

import pytest
from paper_recipes import OF_PAPERS

from deadhead.report.check import load_recipe as load
from deadhead.studies.recipe.yaml import RecipeError


@pytest.mark.parametrize("name", OF_PAPERS)
def test_loads_at_both_scales(name):
    full, mini = load(name), load(name, scale="mini")
    assert full.about
    assert full.data.get("tables") or full.data.get("figures")
    assert full.data.get("claims") or name.endswith("/grid")  # their names are checked on loading
    assert 0 < len(mini.trials) <= min(len(full.trials), 100)
    assert {trial.get("model") for trial in mini.trials} <= {"world/encoder", "transformer-mini"}
    assert {trial.get("data")["root"] for trial in mini.trials} == {"world"}
    assert not any(trial.get("data", {}).get("root") for trial in full.trials)
    assert {trial.steps for trial in mini.trials} == {
        trial.steps for trial in full.trials
    }  # the same protocol


STEPS = "steps: [prune, finetune, evaluate]\n"
ONE = STEPS + ("fixed: {model: m/one, task: pos, source: en}\naxes: {remove: {random: [10, 20]}}\n")
TWO = STEPS + ("fixed: {model: m/two, task: ner, source: de}\naxes: {remove: {random: [10, 30]}}\n")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "one.yaml").write_text(ONE + "scales: {mini: {axes.remove: {random: 10}}}\n")
    (tmp_path / "two.yaml").write_text(TWO + "scales: {mini: {axes.remove: {random: 30}}}\n")
    (tmp_path / "both.yaml").write_text(
        "include: [one.yaml, two.yaml]\ntables: [{title: T, rows: remove, columns: task}]\n"
    )
    return tmp_path


def test_included_trials_are_those_of_the_others(folder):
    both = load(folder / "both.yaml")
    assert [t.id for t in both.trials] == [
        t.id for name in ("one", "two") for t in load(folder / f"{name}.yaml").trials
    ]
    assert [(c.labels["model"], c.labels["task"]) for c in both.cells] == [("m/one", "pos")] * 2 + [
        ("m/two", "ner")
    ] * 2
    assert [t.id for t in load(folder / "both.yaml", scale="mini").trials] == [
        both.trials[0].id,
        both.trials[3].id,
    ]


def test_overrides_go_to_the_included(folder):
    seeded = load(folder / "both.yaml", ["seed=3", "tables=[]"])
    assert {trial.get("seed") for trial in seeded.trials} == {3}
    assert seeded.data["tables"] == []


def test_own_trials_beside_included(folder):
    (folder / "own.yaml").write_text("include: [one.yaml]\n" + TWO)
    own = load(folder / "own.yaml")
    assert {cell.labels["model"] for cell in own.cells} == {"m/one", "m/two"}
    assert {t.id for t in own.trials} == {t.id for t in load(folder / "both.yaml").trials}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("include: one.yaml", "include: expected a list of recipes"),
        ("include: [three.yaml]", "there is no recipe"),
        (
            "include: [weak-link/table9]",
            "no recipe 'weak-link/table9'. Did you mean 'weak-link/table",
        ),
        ("include: [both.yaml]", "both.yaml includes others itself"),
        ("include: [wrong.yaml]", "wrong.yaml includes others itself"),
        ("include: [one.yaml]\nfixed: {model: m}", "which has no steps"),
        (
            ONE + "figures: [{title: F}]",
            "figures[0]: expected a kind of figure, got none. Known: cost, curve",
        ),
        (
            ONE + "figures: [{kind: curv, x: remove}]",
            "no kind of figure 'curv'. Did you mean 'curve'?",
        ),
        (ONE + "figures: [{kind: curve}]", "a figure of kind curve needs x."),
        (ONE + "figures: [{kind: curve, x: remov}]", "no axis 'remov'. Did you mean 'remove'?"),
        (
            ONE + "figures: [{kind: curve, x: remove, line: task}]",
            "no field of a figure of kind curve 'line'. Did you mean 'lines'?",
        ),
        (
            ONE + "figures: [{kind: curve, x: remove, group: wordorder}]",
            "figures[0].group: no value 'wordorder'. Did you mean 'word_order'?",
        ),
        (
            ONE + "figures: [{kind: heads, show: weight}]",
            "figures[0].show: no value 'weight'. Did you mean 'weights'?",
        ),
        (
            ONE + "figures: [{kind: heads, show: weights, where: {remve: none}}]",
            "no axis 'remve'. Did you mean 'remove'?",
        ),
        (
            ONE + "tables: [{title: T, kind: score}]",
            "no kind of table 'score'. Did you mean 'scores'?",
        ),
        (
            ONE + "tables: [{title: T, split: dev@2}]",
            "tables[0].split: expected train, dev, test, or such a name with @1",
        ),
        (ONE + "figures: {kind: curve}", "figures: expected a list of figures"),
        (
            ONE.replace("source: en", "source: en, data: {target_parts: 11}"),
            "`target_parts` of data expects 1 to 10, for the languages in train",
        ),
    ],
)
def test_mistakes_are_named(folder, text, message):
    (folder / "wrong.yaml").write_text(text)
    with pytest.raises(RecipeError) as caught:
        load(folder / "wrong.yaml")
    assert message in str(caught.value)


def test_target_parts_are_of_what_is_no_source(folder):
    text = ONE.replace("source: en", "source: en, train: [en, de, zh], data: {target_parts: 3}")
    (folder / "parts.yaml").write_text(text)
    assert [trial.get("data") for trial in load(folder / "parts.yaml").trials] == [
        {"parts": {"de": 3, "zh": 3}}
    ] * 2
    (folder / "parts.yaml").write_text(
        ONE.replace("source: en", "source: en, data: {target_parts: 3}")
    )
    with pytest.raises(RecipeError, match="there are none"):
        load(folder / "parts.yaml").trials  # noqa: B018
