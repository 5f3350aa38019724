"""The step `measure`, and the weights after epoch 1, on the embedded world."""

from typing import Any

import pytest

from deadhead.studies import load, read, run, run_trial
from deadhead.studies.recipe.yaml import RecipeError
from deadhead.studies.trial import settle

SMALL = ["data.examples=48", "targets=[en, de]", "finetune.scored=none"]
STEPS = "steps=[prune, measure, finetune, measure, evaluate]"
PATTERNS = "{patterns: {sequences: 2, length: 6}}"
MEASURE = (
    f"measure=[{{embeddings: {{sentences: 12}}}}, {{entropy: {{sentences: 20}}}}, weights, "
    f"{PATTERNS}]"
)
FIRST = ["finetune.first=true", "finetune.epochs=2", "splits=[dev]"]


@pytest.fixture(scope="module")
def measured():
    """One trial: half of the heads cut at random, two epochs, everything measured."""
    trial = load("smoke", [*SMALL, *FIRST, STEPS, MEASURE, "remove={random: 50}"]).trials[0]
    record = run_trial(trial)
    assert record.error is None, record.error
    return record


def test_stages_and_shapes(measured):
    stages = measured.details["measures"]
    assert set(stages) == {"before", "first", "after"}
    alive = {f"encoder.{layer}.{head}" for layer in range(5) for head in range(8)} - set(
        measured.removed
    )
    assert len(alive) == 20
    for stage in stages.values():
        assert set(stage) == {"entropy", "weights", "embeddings", "patterns"}
        assert all(set(scores) == alive for scores in stage["patterns"].values())
        assert len(stage["patterns"]) == 6
        assert (
            set(stage["entropy"]) == set(stage["weights"]) == alive
        )  # under the names they were born with
        assert set(stage["embeddings"]["points"]) == {"en", "de"}
        assert all(len(points) == 12 for points in stage["embeddings"]["points"].values())


def test_before_first_and_after_differ(measured):
    stages = measured.details["measures"]
    assert set(stages["before"]["weights"].values()) == {0.0}  # nothing was trained yet
    first, after = (sum(stages[name]["weights"].values()) for name in ("first", "after"))
    assert 0 < first < after  # weights move on in epoch 2
    assert stages["before"]["entropy"] != stages["first"]["entropy"] != stages["after"]["entropy"]


def test_epoch_one_is_that_of_a_training_of_the_same_schedule_stopped_there(measured):
    """The scores at @1 belong to the weights after epoch 1: not to those at the end, and they
    leave those in place."""
    unmeasured = run_trial(
        load(
            "smoke",
            [*SMALL, *FIRST[1:], "steps=[prune, finetune, evaluate]", "remove={random: 50}"],
        ).trials[0]
    )
    at_end = {name: value for name, value in measured.metrics.items() if "@1" not in name}
    assert at_end == unmeasured.metrics  # measuring, and scoring epoch 1, changed nothing
    early = {
        name.replace("@1", ""): value for name, value in measured.metrics.items() if "@1" in name
    }
    assert early.keys() == unmeasured.metrics.keys()
    assert early != unmeasured.metrics


def test_epoch_one_scores_are_those_that_training_itself_saw():
    changes = [
        SMALL[0],
        "finetune.scored=dev",
        *FIRST,
        "steps=[prune, finetune, evaluate]",
        "remove=none",
        "targets=[en]",
    ]
    record = run_trial(load("smoke", changes).trials[0])
    assert [epoch["number"] for epoch in record.epochs] == [1, 2]
    assert record.metrics["en/dev@1/micro_f1"] == pytest.approx(record.epochs[0]["micro_f1"])
    assert record.metrics["en/dev/micro_f1"] == pytest.approx(record.epochs[1]["micro_f1"])


@pytest.mark.slow
def test_shared_training_brings_its_first_epoch_and_its_beginning_along(tmp_path):
    """Two trials that differ in the splits they score share one training, and have the numbers of
    a trial alone."""
    changes = [*SMALL, *FIRST[:2], STEPS, "measure=[weights]", "remove=none"]
    recipe = load("smoke", [*changes, "axes={splits: [[dev], [dev, test]]}", "fixed.remove=none"])
    assert run(recipe, tmp_path / "s", executor="serial").done == 2
    records = [read(tmp_path / "s", trial.id) for trial in recipe.trials]
    assert [("reused" in record.cost) for record in records] == [False, True]
    alone = run_trial(recipe.trials[1])
    assert records[1].metrics == alone.metrics
    assert (
        records[1].details["measures"]
        == alone.details["measures"]
        == records[0].details["measures"]
    )
    assert set(alone.details["measures"]) == {"before", "first", "after"}


TRAINED: dict[str, Any] = {"model": "m", "task": "pos", "source": "en", "finetune": {"epochs": 2}}


def test_defaults_are_not_in_the_id():
    defaults = settle(["finetune", "evaluate"], TRAINED)
    assert defaults == settle(
        ["finetune", "evaluate"], {**TRAINED, "measure": ["entropy"]}
    )  # no step measures
    first = settle(["finetune", "evaluate"], {**TRAINED, "finetune": {"epochs": 2, "first": True}})
    assert first != defaults
    never = settle(["finetune", "rank"], {**TRAINED, "finetune": {"epochs": 2, "first": True}})
    assert never == settle(
        ["finetune", "rank"], TRAINED
    )  # nobody looks at the weights after epoch 1
    assert load("smoke", ["finetune.first=false"]).trials == load("smoke").trials


def test_one_spelling_for_equal_measures():
    steps = ["finetune", "measure"]
    spellings = [
        ["weights", "entropy"],
        ["entropy", {"weights": {}}],
        {"entropy": None, "weights": {}},
    ]
    assert len({settle(steps, {**TRAINED, "measure": spelling}).id for spelling in spellings}) == 1
    assert settle(steps, {**TRAINED, "measure": ["entropy"]}) != settle(
        steps, {**TRAINED, "measure": [{"entropy": {"sentences": 9}}]}
    )
    assert settle(steps, {**TRAINED, "measure": "entropy"}).measures == {"entropy": {}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("measure=[entropi]", "Did you mean 'entropy'"),
        ("measure=[{embeddings: {sentence: 3}}]", "Did you mean 'sentences'"),
        (
            "measure=[{embeddings: {sentences: many}}]",
            "`sentences` of embeddings expects a whole number from 2, got 'many'",
        ),
        ("measure=[3]", "a list of names"),
        ("finetune.first=yes please", "true"),
    ],
)
def test_mistakes_are_reported(change, message):
    with pytest.raises(RecipeError, match=message):
        load("smoke", [STEPS, "measure=[entropy]", change])


def test_a_step_without_its_field_and_a_field_without_its_step():
    with pytest.raises(
        RecipeError, match=r"the step measure needs `measure`, such as \[entropy, weights\]\."
    ):
        load("smoke", [STEPS])
    with pytest.raises(
        RecipeError, match="`measure` is given, but no step uses it; add measure to steps"
    ):
        load("smoke", ["measure=[entropy]"])
