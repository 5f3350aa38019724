"""Files that anybody may have written: each gets one clear error, at once, and names nothing
outside its folder.
"""

import json
import shutil
import time
from contextlib import suppress

import pytest
from typer.testing import CliRunner

from deadhead import load, save
from deadhead.cli import app
from deadhead.errors import DataError, DeadheadError, FolderError
from deadhead.ranking import Ranking
from deadhead.tasks import load_data, read_task_file
from deadhead.training.models import tokenizer_for
from deadhead.world import MODELS

ENCODER = MODELS / "encoder"


def test_aliases_in_a_task_file_are_refused_before_they_grow(tmp_path):
    """Nine lines of nine repetitions each stand for 9 ** 9 words."""
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    file = tmp_path / "bomb.yaml"
    file.write_text("\n".join([*lines, "kind: classify", "labels: *i"]))
    start = time.monotonic()
    with pytest.raises(DataError, match=r"bomb\.yaml:2: \*a repeats an anchor"):
        read_task_file(file)
    assert time.monotonic() - start < 30  # not minutes: nothing was expanded


@pytest.mark.parametrize(
    "name", ["../secret.tsv", "/etc/hostname", "pos/../../secret.tsv", "a\0b", ""]
)
def test_a_manifest_names_no_file_outside_its_folder(tmp_path, name):
    (tmp_path / "secret.tsv").write_text("word\tNOUN\n\n")
    root = tmp_path / "data"
    root.mkdir()
    manifest = {"tasks": {"pos": {"en": {"test": name}}}, "files": {name: {"format": "tsv2"}}}
    (root / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="not a manifest this version understands"):
        load_data("pos", "en", "test", root=root)


@pytest.mark.parametrize("text", ["[]", "{", '{"weight_map": 3}', "[" * 5000])
def test_a_damaged_index_of_weights(tmp_path, text):
    folder = tmp_path / "model"
    shutil.copytree(ENCODER, folder)
    (folder / "model.safetensors.index.json").write_text(text)
    with pytest.raises(FolderError, match="damaged"):
        load(folder)


def test_a_ranking_with_a_score_of_400_digits(tmp_path):
    from deadhead.layout import Attention, HeadLayout

    layout = HeadLayout([Attention(block="encoder", layer=0, size=2, kept=(0, 1), width=4)])
    good = Ranking(
        scores=dict.fromkeys(layout, 1.0), layout=layout, model="m", method="gradient"
    ).to_dict()
    file = tmp_path / "r.json"
    file.write_text(json.dumps(good))
    assert len(Ranking.load(file)) == 2  # the twin: as it is, it can be read
    for digits in (400, 5000):
        file.write_text(json.dumps(good).replace("1.0", "9" * digits, 1))
        with pytest.raises(DataError, match=r"r\.json"):
            Ranking.load(file)


@pytest.mark.parametrize(
    "field",
    [
        "architectures",
        "num_attention_heads",
        "hidden_size",
        "num_hidden_layers",
        "id2label",
        "model_type",
    ],
)
@pytest.mark.parametrize("value", [{}, -1, "x", None, 10**400])
def test_an_odd_config_gets_one_error_or_loads(tmp_path, field, value):
    folder = tmp_path / "model"
    shutil.copytree(ENCODER, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, field: value}))
    with suppress(DeadheadError):  # anything else is a bug
        load(folder)


@pytest.mark.parametrize("arguments", [["--out", ""], ["--out="]])
@pytest.mark.parametrize(
    "command",
    [["run", "smoke"], ["prune", str(ENCODER), "--remove-random", "50"], ["plan", "smoke"]],
)
def test_an_empty_out_is_not_the_current_folder(command, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [*command, *arguments])
    assert result.exit_code == 2
    assert "--out" in result.output
    assert "expected a value" in result.output
    assert not [*tmp_path.iterdir()]


def test_a_million_trials_are_refused_at_once(tmp_path):
    recipe = (
        "steps: [finetune, prune, evaluate]\n"
        "fixed: {model: world/encoder, task: pos, source: en}\naxes: {seed: %s}\n"
    )
    (tmp_path / "long.yaml").write_text(recipe % "0..999999")
    (tmp_path / "wide.yaml").write_text(recipe % "0..999, draw: 0..999, remove: [{random: 50}]")
    for name, text in (("long", "too long"), ("wide", "more than 200,000 trials")):
        result = CliRunner().invoke(app, ["plan", str(tmp_path / f"{name}.yaml")])
        assert text in str(result.exception)


@pytest.mark.parametrize("name", ["a" * 5000, "a/" * 2500, f"a@{'b' * 5000}"])
def test_a_name_too_long_for_any_file_system(name, tmp_path):
    recipe = tmp_path / "long.yaml"
    recipe.write_text(
        f"steps: [finetune, prune, evaluate]\nfixed: {{model: '{name}', task: pos, source: en}}\n"
        "axes: {remove: [{random: 50}]}\n"
    )
    out = ["--out", str(tmp_path / "out")]
    for command in (
        ["heads", name],
        ["prune", name, "--remove-random", "25", *out],
        ["plan", str(recipe)],
    ):
        result = CliRunner().invoke(app, command)
        assert isinstance(result.exception, DeadheadError)
        assert "the name is too long" in str(result.exception)
    with pytest.raises(FolderError, match="the name is too long"):
        load(name)


@pytest.mark.parametrize("text", ["[" * 20_000, "{a: " * 20_000, "- " * 20_000])
def test_yaml_that_is_nested_without_end(text, tmp_path):
    """The time of yaml grows with the square of the depth; nothing here reads it to the end."""
    file, folder = tmp_path / "deep.yaml", tmp_path / "model"
    file.write_text(text)
    with pytest.raises(DataError, match=r"deep\.yaml:1: this is nested too deeply"):
        read_task_file(file)
    result = CliRunner().invoke(app, ["plan", str(file)])
    assert "deep.yaml:1: this is nested too deeply" in str(result.exception)
    shutil.copytree(ENCODER, folder)
    (folder / "README.md").write_text(f"---\n{text}\n---\nMy model.\n")
    assert (save(load(folder), tmp_path / "out") / "README.md").is_file()


@pytest.mark.parametrize(
    "name", ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]
)
def test_a_tokenizer_that_is_nested_without_end(name, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(ENCODER, folder)
    assert len(tokenizer_for(str(folder))) > 100  # the twin
    for text in ("[" * 100_000, '{"a": ' * 100_000):
        (folder / name).write_text(text)
        with pytest.raises(DataError, match="has no readable tokenizer"):
            tokenizer_for(str(folder))


@pytest.mark.parametrize("number", [10**9, 2**31, 2**32 - 1])
def test_a_token_with_a_number_beyond_all_bounds(number, tmp_path):
    """The library of tokenizers counts up to it when it saves one, or ends the process."""
    folder = tmp_path / "model"
    shutil.copytree(ENCODER, folder)
    stored = json.loads((folder / "tokenizer.json").read_text())
    last = max(stored["model"]["vocab"], key=stored["model"]["vocab"].__getitem__)
    stored["model"]["vocab"][last] = number
    (folder / "tokenizer.json").write_text(json.dumps(stored))
    with pytest.raises(DataError, match=f"a token with the number {number:,}; expected at most"):
        tokenizer_for(str(folder))
