"""A study never mixes two versions of its model or data: it refuses."""

import json
import os
import shutil

import pytest

from deadhead.studies import load, plan, run, status
from deadhead.studies.inputs import InputsChanged, fingerprints
from deadhead.studies.recipe.load import with_inputs
from deadhead.world import MODELS, rows

SIZES = {"train": 24, "dev": 8, "test": 8}


def write_data(root, start, languages=("en", "de")):
    """Tagged sentences of the small world as files; another start gives other sentences."""
    for lang in languages:
        for split, size in SIZES.items():
            sentences = rows("pos", lang, split)[start : start + size]
            text = "\n\n".join(
                "\n".join(f"{word}\t{tag}" for word, tag in zip(*sentence, strict=True))
                for sentence in sentences
            )
            file = root / "pos" / lang / f"{split}.tsv"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")
    return root


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    monkeypatch.setenv("DEADHEAD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A folder with a model, two versions of the data, and a recipe that names neither by
    content."""
    shutil.copytree(MODELS / "encoder", tmp_path / "model")
    write_data(tmp_path / "data1", 0)
    write_data(tmp_path / "data2", 100)
    (tmp_path / "recipe.yaml").write_text(
        f"steps: [finetune, prune, evaluate]\n"
        f"fixed: {{model: {tmp_path / 'model'}, task: pos, source: en, targets: [en, de], "
        f"finetune: {{epochs: 1}}}}\n"
        "axes: {remove: [none, {random: 50}], seed: [0]}\n"
        "tables: [{title: T, rows: remove, columns: language}]\n"
    )
    monkeypatch.setenv("DEADHEAD_DATA", str(tmp_path / "data1"))
    return tmp_path


def recipe_of(world, *overrides):
    return load(world / "recipe.yaml", overrides)


def contents(folder):
    return {
        file.stem: json.loads(file.read_text())
        for file in sorted((folder / "records").glob("*.json"))
    }


def test_changed_data_is_refused_and_nothing_is_lost(world, monkeypatch):
    assert run(recipe_of(world), world / "s", executor="serial").done == 2
    before = contents(world / "s")
    monkeypatch.setenv("DEADHEAD_DATA", str(world / "data2"))
    with pytest.raises(
        InputsChanged, match=r"the data of pos in en \(train\).*changed since"
    ) as problem:
        run(recipe_of(world, "seed=[0,1]"), world / "s", executor="serial")
    assert "--out NEW" in str(problem.value)
    assert contents(world / "s") == before
    notes = plan(recipe_of(world, "seed=[0,1]"), world / "s").warnings
    assert any("changed since" in note for note in notes)
    monkeypatch.setenv("DEADHEAD_DATA", str(world / "data1"))
    assert (
        run(recipe_of(world, "seed=[0,1]"), world / "s", executor="serial").done == 4
    )  # the way back stays open


def test_an_overwritten_model_is_refused(world):
    run(recipe_of(world), world / "s", executor="serial")
    weights = world / "model" / "model.safetensors"
    noise = bytearray(weights.read_bytes())
    noise[-64:] = bytes(64)
    weights.write_bytes(noise)
    with pytest.raises(InputsChanged, match=r"the model .*model changed since"):
        run(recipe_of(world, "seed=[0,1]"), world / "s", executor="serial")


TOKENIZERS = "source.spm spiece.model vocab.bpe bpe.codes dict.txt merges.txt qwen.tiktoken "
TOKENIZERS += "prophetnet.tokenizer vocab.json chat_template.jinja"


@pytest.mark.parametrize("name", TOKENIZERS.split())
def test_every_file_of_a_tokenizer_counts(world, name):
    prints = []
    for text in (None, "one", "two"):
        if text is not None:
            (world / "model" / name).write_text(text)
        prints.append(
            with_inputs(recipe_of(world)).inputs[json.dumps(["model", str(world / "model")])]
        )
    assert len(set(prints)) == 3


def test_a_file_that_changes_under_a_running_study_stops_it(world):
    recipe = with_inputs(recipe_of(world))
    write_data(world / "data1", 50)
    from deadhead.studies import run_trial

    with pytest.raises(InputsChanged, match="changed while the study was running"):
        run_trial(recipe.trials[0])


def test_a_second_run_in_one_process_reads_changed_files_again(world):
    from deadhead.studies.steps.models import dataset

    first = dataset(with_inputs(recipe_of(world)).trials[0], ["en"], "train").rows
    write_data(world / "data1", 50)
    assert dataset(with_inputs(recipe_of(world)).trials[0], ["en"], "train").rows != first


def test_the_same_content_elsewhere_is_the_same_input(world, monkeypatch):
    run(recipe_of(world), world / "s", executor="serial")
    shutil.copytree(world / "data1", world / "moved")
    for file in (world / "model").iterdir():
        os.utime(file, (1, 1))
    monkeypatch.setenv("DEADHEAD_DATA", str(world / "moved"))
    assert run(recipe_of(world), world / "s", executor="serial").ran == 0


def test_a_longer_axis_reads_more_and_is_no_change(world):
    write_data(world / "data1", 0, ("zh",))
    run(recipe_of(world), world / "s", executor="serial")
    result = run(recipe_of(world, "targets=[en,de,zh]"), world / "s", executor="serial")
    assert result.ran == 2


def test_a_study_from_before_fingerprints_is_readable_and_not_continued(world):
    run(recipe_of(world), world / "s", executor="serial")
    file = world / "s" / "study.json"
    stored = json.loads(file.read_text())
    del stored["inputs"], stored["digest"]
    file.write_text(json.dumps({**stored, "format": 1}))
    assert status(world / "s").done == 2
    with pytest.raises(InputsChanged, match="does not say which files its records were made with"):
        run(recipe_of(world), world / "s", executor="serial")


def test_what_is_bundled_needs_no_fingerprint_so_its_ids_stay():
    recipe = load("smoke")
    assert fingerprints(recipe.trials) == {}
    assert [trial.id for trial in with_inputs(recipe).trials] == [
        trial.id for trial in recipe.trials
    ]


def test_every_line_parallel_file_counts(tmp_path, monkeypatch):
    """A translation reads two files; the second one matters as much."""
    for split in SIZES:
        for lang in ("en", "de"):
            file = tmp_path / "parallel" / "mine-en-de" / f"{split}.{lang}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("one\ntwo\n")
    monkeypatch.setenv("DEADHEAD_DATA", str(tmp_path))
    (tmp_path / "r.yaml").write_text(
        "steps: [pretrain, evaluate]\nfixed: {model: transformer-mini, task: parallel, source: "
        "en-de, pretrain: {epochs: 1}}\naxes: {seed: [0]}\n"
    )
    before = with_inputs(load(tmp_path / "r.yaml")).inputs
    assert len(before) == 3
    (tmp_path / "parallel" / "mine-en-de" / "train.de").write_text("one\nthree\n")
    after = with_inputs(load(tmp_path / "r.yaml")).inputs
    assert [name for name in before if before[name] != after[name]] == [
        '["data", "parallel", "en-de", "train", {}]'
    ]
