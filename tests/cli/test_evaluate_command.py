"""`deadhead evaluate`: numbers in points, their uncertainty, and what differs between models beyond chance."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "training"))
import small_tasks

from deadhead import save
from deadhead.cli import app
from deadhead.evaluate import predict
from deadhead.finetune import Settings, finetune


def said(*words: object) -> str:
    result = CliRunner(env={"COLUMNS": "150"}).invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that says something, with a task led by another BLEU than the usual."""
    home, model = tmp_path_factory.mktemp("translator"), small_tasks.marian()
    data = small_tasks.translate(home / "cache")
    finetune(model, data, Settings(batch=8, rate=5e-3, epochs=6), progress=False)
    save(model, home / "model", small_tasks.tokenizer())
    texts = predict(model, data, tokenizer=small_tasks.tokenizer()).texts  # what it says is right, in two of three sentences
    wanted = ["the dog runs" if i % 3 == 0 else text for i, text in enumerate(texts)]
    (home / "dev.en").write_text("".join(row.texts[0] + "\n" for row in data.data.rows))
    (home / "dev.de").write_text("".join(text + "\n" for text in wanted))
    (home / "mine.yaml").write_text("kind: translate\nmetrics: [bleu_13a, bleu]\nfiles: {dev: dev.en|dev.de}\n")
    return home


def test_every_bleu_is_shown_in_points(translator: Path) -> None:
    given = (translator / "model", "--task-file", translator / "mine.yaml", "--lang", "en-de", "--device", "cpu")
    (scores,) = json.loads(said("evaluate", *given, "--json"))["scores"].values()
    assert 5 < scores["en-de"]["bleu_13a"] < 100
    shown = said("evaluate", *given)
    assert f" {scores['en-de']['bleu_13a']:.2f} " in shown
    assert "tok:13a" in shown
