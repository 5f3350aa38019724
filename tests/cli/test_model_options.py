"""`--auto-class`, `--dtype` and `--device` of the commands that load a model."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from architectures.tiny import tiny
from deadhead.cli import app
from deadhead.errors import DeadheadError, UnknownName
from deadhead.heads import discover, load, save


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    return save(tiny("bert"), tmp_path_factory.mktemp("models") / "bert")


def run_command(*words):
    return CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200"})


def test_heads(bert):
    how = ("--dtype", "float64", "--device", "cpu", "--json")
    auto = ("--auto-class", "AutoModelForTokenClassification")
    done = run_command("heads", bert, *auto, "--check", *how)
    facts = json.loads(done.stdout)
    assert facts["class"] == "BertForTokenClassification"
    assert all(proof["holds"] for proof in facts["check"].values())


def test_prune(bert, tmp_path):
    words = (
        "--auto-class",
        "AutoModelForSequenceClassification",
        "--dtype",
        "bfloat16",
        "--out",
        tmp_path / "out",
    )
    done = run_command("prune", bert, "--remove-heads", "encoder.0.1", *words)
    assert done.exit_code == 0, done.exception
    model = load(tmp_path / "out")
    assert type(model).__name__ == "BertForSequenceClassification"
    assert str(model.dtype) == "torch.bfloat16"
    assert [str(head) for head in discover(model).removed] == ["encoder.0.1"]


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("bench", "--against", "other"), {"auto": "AutoModel", "dtype": "float16"}),
        (("export", "--onnx", "model.onnx"), {"auto": "AutoModel", "dtype": "float16"}),
    ],
)
def test_bench_and_export_hand_them_on(words, options, bert, monkeypatch):
    arguments: dict[str, Any] = {}

    def note(*_, **options):
        arguments.update(options)
        raise DeadheadError("enough")

    monkeypatch.setattr("deadhead.saved.bench.bench", note)
    monkeypatch.setattr("deadhead.exports.onnx.export.exported", note)
    command, *further = words
    run_command(command, bert, *further, "--auto-class", "AutoModel", "--dtype", "float16")
    assert options.items() <= arguments.items()


@pytest.mark.parametrize(
    ("option", "value", "near"),
    [
        ("--auto-class", "AutoModelForTokenClassifier", "TokenClassification"),
        ("--dtype", "bf16", "bfloat16"),
    ],
)
def test_a_wrong_name(option, value, near, bert):
    done = run_command("heads", bert, option, value)
    assert isinstance(done.exception, UnknownName)
    assert value in done.exception.message
    assert near in done.exception.message


WITHOUT_USE = [
    ("heads", "MODEL", "--device", "cpu"),
    ("export-study", "DIR", "--csv", "x.csv", "--auto-class", "AutoModel"),
]


@pytest.mark.parametrize("words", WITHOUT_USE)
def test_where_they_have_no_use(words):
    assert run_command(*words).exit_code == 2
