"""The real steps, on the embedded world: what is shared, ranked and cut is what the record says."""

import pytest
from transformers import AutoTokenizer

from architectures.tiny import tiny
from deadhead import discover, prune, save, strategies
from deadhead import load as load_model
from deadhead.errors import GroupError
from deadhead.layout import HeadLayout
from deadhead.rankers.merge import merge
from deadhead.ranking import Ranking
from deadhead.studies import load, read, run, run_trial
from deadhead.studies.recipe.yaml import RecipeError
from deadhead.studies.steps.models import dataset
from deadhead.studies.steps.prune import STEP as prune_step
from deadhead.studies.steps.state import State
from deadhead.studies.store.folder import StudyError, prepare
from deadhead.world import MODELS

SMALL = ["data.examples=48", "targets=[en, de]", "finetune.scored=none"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    result = run(load("smoke", SMALL), folder / "s", executor="serial")
    assert (result.done, result.total) == (4, 4)
    return folder / "s"


def test_shared_work_changes_no_number(study):
    """A trial that went on from another's training has the numbers of one that did all itself."""
    recipe = load("smoke", SMALL)
    for trial in recipe.trials[:3:2]:  # the unpruned model, and lowest 4
        alone, stored = run_trial(trial), read(study, trial.id)
        assert alone.error is None
        assert stored.metrics == alone.metrics
        assert stored.removed == alone.removed
        assert stored.data == alone.data
    assert "reused" in stored.cost
    assert "reused" not in alone.cost


def test_the_removed_heads_are_those_of_the_strategy(study):
    trials = load("smoke", SMALL).trials
    full, _, lowest, drawn = (read(study, trial.id) for trial in trials)
    ranking = Ranking.load(study / "shared" / lowest.shared["rank"] / "ranking.json")
    assert set(lowest.removed) == {str(head) for head in ranking.lowest(4)}
    layout: HeadLayout = ranking.layout
    assert set(drawn.removed) == {str(head) for head in strategies.random_k(layout, 4, seed=0)}
    assert full.removed == ()
    assert (
        len({str(r.metrics) for r in (full, lowest, drawn)}) == 3
    )  # the twin: pruning did something
    assert lowest.cost["parameters after"] < full.cost["parameters"]
    assert {*full.data} == {"en/train", "en/test", "de/test"}
    assert (study / "predictions" / full.trial.id / "test" / "de.npz").is_file()


def test_what_was_cut_is_in_the_record(study):
    """Windows of eight sub-words split many sentences."""
    short = ["data={root: world, examples: 2, max_length: 8}", "targets=[en, de]"]
    trial = load("smoke", [*short, "finetune.scored=none"]).trials[0]
    record = run_trial(trial)
    notes = record.details["data notes"]
    assert {"en/test", "de/test"} <= set(notes) <= set(record.data)
    assert all(note["sentences split"] > 0 for note in notes.values())
    full = read(study, load("smoke", SMALL).trials[0].id)
    assert "data notes" not in full.details  # the twin


def test_merged_rankings(tmp_path):
    changes = [
        "steps=[rank_each, restart, prune, finetune, evaluate]",
        "source=[en, de]",
        "rank={merge: sd}",
        "remove={lowest: 3}",
    ]
    recipe = load("smoke", [*SMALL, *changes])
    assert run(recipe, tmp_path / "s", executor="serial").done == 1
    trial = recipe.trials[0]
    both = [
        Ranking.load(tmp_path / "s" / "shared" / source.keys[1] / "ranking.json")
        for source in trial.sources
    ]
    assert [ranking.data["lang"] for ranking in both] == ["en", "de"]
    record = read(tmp_path / "s", trial.id)
    assert set(record.removed) == {str(head) for head in merge(both, "sd").lowest(3)}
    message = record.details["ranking"]
    assert (message["merge"], message["languages"]) == ("sd", ["en", "de"])
    assert message["scores"] == {
        str(head): score for head, score in merge(both, "sd").scores.items()
    }


def test_a_model_that_is_not_there_fails_the_trial_only(tmp_path):
    recipe = load("smoke", [*SMALL, "model=nobody/nothing", "remove=none"])
    result = run(recipe, tmp_path / "s", executor="serial")
    assert (result.failed, result.left) == (1, 0)
    assert "nobody/nothing" in str(read(tmp_path / "s", recipe.trials[0].id).error)


@pytest.mark.parametrize("part", ["training/{id}-0", "predictions/{id}", "predictions/{id}/test"])
def test_no_link_of_a_trial_is_followed(part, tmp_path):
    """What it would write there is outside of the study."""
    folder, outside = prepare(tmp_path / "s"), tmp_path / "outside"
    outside.mkdir()
    trial = load("smoke", [*SMALL, "targets=[de]", "finetune.epochs=2", "remove=none"]).trials[0]
    link = folder / part.format(id=trial.id)
    link.parent.mkdir(parents=True)
    link.symlink_to(outside, target_is_directory=True)
    with pytest.raises(StudyError, match="is a link"):
        run_trial(trial, folder)
    assert not list(outside.iterdir())


def test_drafts_of_predictions_are_swept(tmp_path):
    """Those of a run that was killed while it wrote them, once the trial is run again."""
    folder = prepare(tmp_path / "s")
    trial = load("smoke", [*SMALL, "targets=[de]", "remove=none"]).trials[0]
    home = folder / "predictions" / trial.id / "test"
    home.mkdir(parents=True)
    (home / ".draft-1-de.npz").write_bytes(b"half")
    assert run_trial(trial, folder).state == "done"
    assert sorted(path.name for path in home.iterdir()) == ["de.json", "de.npz"]


def test_data_is_of_the_folder_named_now(tmp_path, monkeypatch):
    """What is kept in a process is not mistaken for that of another DEADHEAD_DATA."""
    trial = load("smoke", [*SMALL, "data={examples: 48}", "remove=none"]).trials[0]
    results = []
    for word in ("one", "two"):
        folder = tmp_path / word / "UD_German-GSD"
        folder.mkdir(parents=True)
        line = "\t".join(["1", word, "_", "NUM", *"______"])
        (folder / "de_gsd-ud-test.conllu").write_text(f"# text = {word}\n{line}\n\n")
        monkeypatch.setenv("DEADHEAD_DATA", str(tmp_path / word))
        results.append(dataset(trial, ["de"], "test").rows[0].texts)
    assert [list(texts) for texts in results] == [["one"], ["two"]]


def test_why_a_training_ended_is_in_the_record():
    still = ["data.examples=32", "targets=[en]", "finetune={epochs: 9, patience: 1, rate: 1e-12}"]
    record = run_trial(load("smoke", still).trials[0])
    assert len(record.epochs) == 2  # nothing moves, so the second is no better
    assert "stopped early: no better micro_f1 for 1 epochs" in record.details["training notes"]
    wild = run_trial(
        load(
            "smoke", [*still[:2], "finetune={epochs: 9, rate: 1e6, clip: null, scored: none}"]
        ).trials[0]
    )
    assert wild.state == "failed"
    assert "a smaller rate may help" in wild.error
    assert "stopped early" not in str(wild.details)


def test_a_folder_that_was_pruned_can_be_the_model(tmp_path):
    """Cut first and saved, then named in a recipe, it learns just what it learns when the recipe
    does the cutting."""
    cut = run_trial(
        load(
            "smoke", [*SMALL, "steps=[prune, finetune, evaluate]", "remove={random_k: 12}"]
        ).trials[0]
    )
    assert len(cut.removed) == 12
    encoder = MODELS / "encoder"
    start = save(
        prune(load_model(encoder), cut.removed),
        tmp_path / "start",
        AutoTokenizer.from_pretrained(encoder),
    )
    (trial,) = load(
        "smoke", [*SMALL, "steps=[prune, finetune, evaluate]", "remove=none", f"model={start}"]
    ).trials
    record = run_trial(trial)
    assert record.error is None
    assert record.cost["parameters"] == cut.cost["parameters after"]
    assert record.metrics == cut.metrics


def test_a_layer_without_heads_can_drop_its_output_bias():
    calls = [*SMALL, "steps=[prune, finetune, evaluate]", "remove={layers: bottom 2}"]
    default, same = (
        load("smoke", [*calls, *more]).trials[0]
        for more in ([], ["prune={drop_output_bias: false}"])
    )
    (trial,) = load("smoke", [*calls, "prune={drop_output_bias: true}"]).trials
    assert default.id == same.id != trial.id
    assert (
        load("smoke", [*calls, "prune={drop_output_bias: true}", "remove=none"]).trials
        == load("smoke", [*calls, "remove=none"]).trials
    )
    kept, dropped = run_trial(default), run_trial(trial)
    assert dropped.error is None
    assert kept.removed == dropped.removed
    assert kept.metrics != dropped.metrics
    with pytest.raises(RecipeError, match="expected true or false, got 'yes'"):
        load("smoke", [*calls, "prune={drop_output_bias: 'yes'}"])


def test_single_heads_of_a_group_are_removed_with_copies():
    calls = [*SMALL, "steps=[prune, finetune, evaluate]", "remove={random_k: 1}"]
    default, same = (
        load("smoke", [*calls, *more]).trials[0] for more in ([], ["prune={groups: whole}"])
    )
    (trial,) = load("smoke", [*calls, "prune={groups: expand}"]).trials
    assert default.id == same.id != trial.id
    with pytest.raises(RecipeError, match="expected whole or expand, got 'single'"):
        load("smoke", [*calls, "prune={groups: single}"])
    with pytest.raises(GroupError, match="cannot remove exactly 1 heads"):
        prune_step.run(State(run=run_trial, model=tiny("llama")), default)
    state = State(run=run_trial, model=tiny("llama"))
    prune_step.run(state, trial)
    assert len(discover(state.model)) == 7
    assert len(state.removed) == 1
