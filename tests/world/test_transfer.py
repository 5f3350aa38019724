"""What the tiny encoder is for: parts of speech learnt in English are found in the other languages too."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

from deadhead.world import LANGUAGES, MODELS, build


@pytest.fixture(scope="module")
def models() -> Path:
    for name in ("encoder", "seq2seq"):
        if not (MODELS / name / "model.safetensors").is_file():
            pytest.fail(f"there is no {name} in {MODELS}; make it with: python -m deadhead.world.build")
    return MODELS


def test_models_fit_the_package(models: Path) -> None:
    assert sum(file.stat().st_size for name in ("encoder", "seq2seq") for file in (models / name).iterdir()) <= build.LARGEST
    assert (models / "log.json").is_file()


@pytest.mark.slow
def test_zero_shot_transfer_from_english(models: Path, tmp_path: Path) -> None:
    found = build.transfer(models, "cpu")
    assert found["en"]["accuracy"] > 0.95
    for lang in LANGUAGES[1:]:
        assert found[lang]["accuracy"] > found[lang]["majority"] + 0.2, lang
    # The twin: the same encoder without its pre-training learns English as well, and hardly anything of the others.
    torch.manual_seed(0)
    AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(models / "encoder")).save_pretrained(tmp_path / "encoder")
    AutoTokenizer.from_pretrained(models / "encoder").save_pretrained(tmp_path / "encoder")
    blank = build.transfer(tmp_path, "cpu")
    others = LANGUAGES[1:]
    assert sum(found[lang]["accuracy"] - blank[lang]["accuracy"] for lang in others) / len(others) > 0.15
