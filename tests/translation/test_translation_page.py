"""The example of docs/translation.md runs, with less training."""

from __future__ import annotations

import re
from pathlib import Path

from deadhead import load
from deadhead.studies import load as load_recipe

PAGE = Path(__file__).parents[2] / "docs" / "translation.md"


def block(language: str) -> str:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEADHEAD_CACHE", str(tmp_path / "cache"))
    code = (
        block("python")
        .replace("epochs=12, average=3", "epochs=1, average=1")
        .replace("finetune(model, train,", "finetune(model, few,")
    )
    code = code.replace(
        "model = build",
        "few = encode(replace(data['train'], rows=data['train'].rows[:60]), tokenizer)\nmodel = build",
    )
    code = code.replace(
        "encode(data[split], tokenizer)",
        "encode(replace(data[split], rows=data[split].rows[:60]), tokenizer)",
    )
    exec(compile("from dataclasses import replace\n" + code, "translation.md", "exec"), {})
    assert len(load(tmp_path / "smaller").config.deadhead["removed"]) == 3  # blocks


def test_the_recipe_is_right(tmp_path):
    (tmp_path / "recipe.yaml").write_text(block("yaml"), encoding="utf-8")
    recipe = load_recipe(tmp_path / "recipe.yaml")
    assert len(recipe.trials) == 1 + 3 * 3
    assert len({trial.keys[0] for trial in recipe.trials}) == 1
