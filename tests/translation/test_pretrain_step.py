"""The step pretrain: one model from scratch for all trials; a kill changes no number."""

import pytest
from toy_pair import TINY, pairs

from deadhead import load as load_model
from deadhead.studies import load, read, run, run_trial
from deadhead.studies.plan import plan
from deadhead.studies.recipe.load import with_inputs
from deadhead.studies.recipe.yaml import RecipeError
from deadhead.studies.steps import state
from deadhead.translation import SIZES

RECIPE = """\
about: a toy pair from scratch
steps: [pretrain, prune, finetune, evaluate]
fixed:
  model: transformer-tiny
  task: {task}
  source: en-de
  pretrain: {{tokens: 300, rate: 0.003, warmup: 5, epochs: 3, \
accumulate: 2, average: 2, vocabulary: 310}}
  finetune: {{preset: weak-link-transformer, tokens: 300, rate: 0.003, warmup: 5, epochs: 2}}
axes:
  remove: [none, {{random: 50, per: block}}]
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    for split, n in (("train", 40), ("dev", 8), ("test", 8)):
        for side, lang in enumerate(("en", "de")):
            (folder / f"{split}.{lang}").write_text(
                "\n".join(pair[side] for pair in pairs(n, len(split))) + "\n", encoding="utf-8"
            )
    files = ", ".join(f'{split}: "{split}.en|{split}.de"' for split in ("train", "dev", "test"))
    (folder / "toy.yaml").write_text(f"name: toy\nkind: translate\nfiles: {{{files}}}\n")
    (folder / "recipe.yaml").write_text(RECIPE.format(task=folder / "toy.yaml"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEADHEAD_CACHE", str(folder / "cache"))
        patch.setitem(SIZES, "transformer-tiny", TINY)
        yield with_inputs(
            load(folder / "recipe.yaml")
        )  # as `run` does, so that ids are those of its records


@pytest.fixture(scope="module")
def study(recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "s"
    result = run(recipe, folder, executor="serial")
    assert (result.done, result.total) == (2, 2)
    return folder


def test_one_training_from_scratch_serves_all(recipe, study):
    from transformers import AutoTokenizer

    full, cut = (read(study, trial.id) for trial in recipe.trials)
    assert full.shared == cut.shared
    home = study / "shared" / full.shared["pretrain"] / "model"
    assert len(AutoTokenizer.from_pretrained(home)) == full.details["vocabulary"] == 310
    assert load_model(home).config.projection_bias is False
    assert [(e["step"], e["number"]) for e in full.epochs] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 1),
        (1, 2),
    ]
    assert [e for e in full.epochs if e["step"] == 0] == [e for e in cut.epochs if e["step"] == 0]
    assert len(cut.removed) == 12
    assert "tok:intl" in full.details["signature"]
    assert {name.rpartition("/")[2] for name in full.metrics} == {
        "bleu",
        "bleu_13a",
        "bleu_uncased",
    }
    assert plan(recipe).trainings == 3


def test_shared_or_alone_the_numbers_are_the_same(recipe, study):
    trial = recipe.trials[1]
    alone, stored = run_trial(trial), read(study, trial.id)
    assert alone.error is None
    assert alone.metrics == stored.metrics
    assert list(alone.epochs) == list(stored.epochs)
    assert alone.removed == stored.removed


@pytest.mark.parametrize(
    "at", ["epoch 2/3", "epoch 2/2"]
)  # in the pretraining, and in the training after it
def test_a_kill_changes_no_number(at, recipe, study, tmp_path, monkeypatch):
    monkeypatch.setattr(state, "EVERY", 0.0)
    trial, message = recipe.trials[0], []

    def killed(text):
        if text.startswith(at):
            raise KeyboardInterrupt

    (tmp_path / "shared").mkdir()
    (tmp_path / "training").mkdir()
    with pytest.raises(KeyboardInterrupt):
        run_trial(trial, tmp_path, trial.work, killed)
    again = run_trial(trial, tmp_path, trial.work, message.append)
    expected = read(study, trial.id)
    assert again.error is None
    assert again.metrics == expected.metrics
    assert list(again.epochs) == list(expected.epochs)
    assert not any(
        text.startswith("epoch 1/3") for text in message
    )  # it went on, and did not begin again


def test_its_heads_are_ranked(recipe, tmp_path):
    """A ranking of the model that was trained, by a trial that continues from the shared model."""
    changes = [
        "steps=[pretrain, rank, prune, finetune, evaluate]",
        "rank={method: gradient, examples: 8}",
        "remove={lowest: 5}",
    ]
    trial = load(recipe.source, changes).trials[0]
    (tmp_path / "shared").mkdir()
    first = run_trial(trial, tmp_path, trial.work)
    assert first.error is None
    assert len(first.removed) == 5
    again = run_trial(trial, tmp_path, trial.work)  # from the ranking on
    assert again.cost["reused"] == trial.keys[1]
    assert (again.removed, again.metrics) == (first.removed, first.metrics)


def test_the_seed_of_a_study_starts_no_second_pretraining(recipe):
    first, two = (load(recipe.source, [f"seed={seed}", "remove=none"]).trials[0] for seed in (0, 1))
    assert first.keys[0] == two.keys[0]
    assert first.keys[1] != two.keys[1]
    other = load(recipe.source, ["pretrain.seed=1", "remove=none"]).trials[0]
    assert other.keys[0] != first.keys[0]


def test_without_settings_it_is_the_papers_training(recipe):
    trial = load(
        recipe.source, ["pretrain={}", "task=wmt14", "source=en-ru", "remove=none"]
    ).trials[0]
    assert {
        name: trial.get("pretrain")[name]
        for name in ("tokens", "accumulate", "warmup", "smoothing", "vocabulary", "epochs")
    } == {
        "tokens": 32_000, "accumulate": 10, "warmup": 16_000, "smoothing": 0.1,
        "vocabulary": 32_768, "epochs": 30,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model=bert-base-uncased", "is not a size; known sizes: transformer-base"),
        ("steps=[prune, finetune, evaluate]", "has no weights; begin steps with pretrain"),
        ("steps=[prune, pretrain, evaluate]", "it comes first"),
        (
            "steps=[pretrain, rank, restart, prune, finetune, evaluate]",
            "cannot be combined with restart or rank_each",
        ),
        ("task=pos", "is no translation"),
        ("pretrain.vocabulary=12", "number of sub-words"),
        ("pretrain.vocabulry=12", "Did you mean"),
        ("pretrain.first=true", "no setting of training 'first'"),
    ],
)
def test_what_cannot_be_is_refused(change, message, recipe):
    with pytest.raises(RecipeError, match=message):
        load(recipe.source, [change])
