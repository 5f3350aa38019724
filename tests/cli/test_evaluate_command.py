"""`deadhead evaluate`: the numbers are those of the library, models stand side by side, mistakes are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import AutoModelForTokenClassification, AutoTokenizer
from typer.testing import CliRunner

from deadhead import prune, save
from deadhead.cli import app
from deadhead.errors import DataError
from deadhead.evaluate import evaluate
from deadhead.tasks import encode, load_data
from deadhead.world import MODELS

ENCODER = MODELS / "encoder"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger with a classifier drawn at random, whole and cut in half: different numbers in no time."""
    home, tokenizer = tmp_path_factory.mktemp("models"), AutoTokenizer.from_pretrained(ENCODER)
    names = dict(enumerate(load_data("pos", "en", "dev", root="world").labels))
    model = AutoModelForTokenClassification.from_pretrained(ENCODER, id2label=names, label2id={name: i for i, name in names.items()})
    save(model, home / "whole", tokenizer)
    save(prune(model, [f"encoder.{layer}.{head}" for layer in range(5) for head in range(4)]), home / "half", tokenizer)
    return home


def asked(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["evaluate", *map(str, arguments), "--data", "world", "--device", "cpu"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_it_gives_the_numbers_of_the_library(folder: Path) -> None:
    told = json.loads(asked(folder / "whole", folder / "half", "--task", "pos", "--lang", "en,de", "--json"))
    assert (told["task"], told["split"], told["metric"]) == ("pos", "dev", "micro_f1")
    tokenizer = AutoTokenizer.from_pretrained(ENCODER)
    sets = {lang: encode(load_data("pos", lang, "dev", root="world"), tokenizer, max_length=256) for lang in ("en", "de")}
    whole = AutoModelForTokenClassification.from_pretrained(folder / "whole")
    assert told["scores"][str(folder / "whole")] == evaluate(whole, sets)
    assert told["scores"][str(folder / "whole")] != told["scores"][str(folder / "half")]


def test_models_stand_side_by_side(folder: Path) -> None:
    wanted = json.loads(asked(folder / "whole", folder / "half", "--task", "pos", "--lang", "en,de", "--split", "test", "--json"))["scores"]
    whole, half = ([100 * scores["micro_f1"] for scores in wanted[str(folder / name)].values()] for name in ("whole", "half"))
    shown = asked(folder / "whole", folder / "half", "--task", "pos", "--lang", "en,de", "--split", "test")
    assert "micro_f1, test" in shown
    for own, other in [*zip(whole, half, strict=True), (sum(whole) / 2, sum(half) / 2)]:
        assert f"{own:.2f}" in shown
        assert f"{other:.2f} ({other - own:+.2f})" in shown
    assert "mean" not in asked(folder / "whole", "--task", "pos", "--lang", "de")


def test_mistakes(folder: Path) -> None:
    with pytest.raises(DataError, match="is not made for pos"):
        asked(ENCODER, "--task", "pos", "--lang", "en")
    with pytest.raises(DataError, match="are not the labels of slots"):
        asked(folder / "whole", "--task", "slots", "--lang", "en")
    for wrong in (["--lang", "en"], ["--task", "pos", "--lang", ","]):
        assert CliRunner().invoke(app, ["evaluate", "nowhere", *wrong]).exit_code == 2
