"""A trial keeps its id from version to version, or a study of last year would begin again."""

from deadhead.studies import load

SEARCH = """\
steps: [finetune, rank, restart, prune, finetune, evaluate]
fixed: {model: world/encoder, source: en, task: pos, targets: [de, zh]}
search: {lowest: 1..2, controls: [seeds]}
"""
IDS = ["a133de19886cc24e", "61c9f039e9b74aca", "7f18676ed8f9688b", "fbcc36ac81e1214e"]
SEARCH_IDS = [
    "139410bbb0938c51",
    "ddf8fd60137232d5",
    "bb3a81864ffa5504",
    "6fa9bddc048d4e95",
    "251f9ecb3f97fc34",
]
KEYS = ["04e98b868cf80892", "3152303c1c3bfd53", "718be1e7469d10c5", "83713cf8dcd58859"]


def test_ids_are_those_of_the_first_version(tmp_path):
    """Whoever has to change these must raise FORMAT in `trial.py`, and say in the changelog that
    studies begin again."""
    assert [trial.id for trial in load("smoke").trials] == IDS
    (tmp_path / "search.yaml").write_text(SEARCH)
    trials = load(tmp_path / "search.yaml").trials
    assert [trial.id for trial in trials] == SEARCH_IDS
    assert sorted({key for trial in trials for key in trial.work}) == KEYS


def test_settings_that_matter_are_in_the_id():
    ids = {
        load("smoke", change).trials[0].id
        for change in ([], ["finetune.average=2"], ["finetune.first=true"], ["seed=1"])
    }
    assert len(ids) == 4


def test_a_task_file_that_was_changed_makes_other_trials(tmp_path):
    """Its content is in the id; also where one process loads the recipe before and after."""
    task, recipe = tmp_path / "mine.yaml", tmp_path / "recipe.yaml"
    recipe.write_text(
        f"steps: [finetune, evaluate]\nfixed: {{model: world/encoder, source: en, task: {task}}}\n"
        f"axes: {{seed: [0]}}\n"
    )
    ids = []
    for order in ("[a, b]", "[b, a]", "[b, a]"):
        task.write_text(
            f"name: mine\nkind: classify\ntexts: [text]\nlabel: label\nlabels: {order}\n"
            f"files: {{train: x.tsv}}\n"
        )
        ids.append(load(recipe).trials[0].id)
    assert ids[0] != ids[1] == ids[2]


def test_a_task_file_without_a_language_needs_no_source(tmp_path):
    """Whoever names one keeps the trials of before."""
    task, recipe = tmp_path / "mine.yaml", tmp_path / "recipe.yaml"
    task.write_text("name: mine\nkind: classify\ntexts: [text]\nfiles: {train: x.tsv}\n")
    for source, names in (("", "text"), ("source: en, ", "en"), ("train: de, ", "de")):
        recipe.write_text(
            f"steps: [finetune, evaluate]\nfixed: {{model: world/encoder, {source}task: {task}}}\n"
            f"axes: {{seed: [0]}}\n"
        )
        (trial,) = load(recipe).trials
        assert (trial.get("source"), trial.targets) == (names, [names])
