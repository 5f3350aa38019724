"""What the tiny encoder is for: a task learnt from few English examples works in the others."""

from __future__ import annotations

import json

import build
import pytest
import torch
from transfer import TASKS, majority, slots, transfer
from transformers import AutoConfig, AutoModelForMaskedLM, AutoTokenizer

from deadhead.world import LANGUAGES, MODELS

OTHERS = LANGUAGES[1:]
# English examples to learn from, and what the mean over the other languages and the worst of them
# must exceed. The most frequent label has .17 to .28 (pos), 0 (slots), .34 (nli), .50 (sentiment).
FEW = {
    "pos": (640, 0.62, 0.50),
    "slots": (480, 0.64, 0.45),
    "nli": (320, 0.75, 0.65),
    "sentiment": (600, 0.75, 0.62),
}


@pytest.fixture(scope="module")
def encoder():
    for name in ("encoder", "seq2seq"):
        if not (MODELS / name / "model.safetensors").is_file():
            pytest.fail(
                f"there is no {name} in {MODELS}; make it with: python tools/world/build.py"
            )
    return MODELS / "encoder"


def test_models_fit_the_package(encoder):
    assert (
        sum(
            file.stat().st_size
            for name in ("encoder", "seq2seq")
            for file in (MODELS / name).iterdir()
        )
        <= build.LARGEST
    )


def test_the_log_reports_how_well_the_models_do():
    log = json.loads((MODELS / "log.json").read_text())
    for name in ("encoder", "seq2seq"):
        assert log[name]["steps"][-1]["loss"] < log[name]["steps"][0]["loss"] / 3
    assert set(log["transfer"]) == set(TASKS)
    for task, result in log["transfer"].items():
        assert list(result) == list(LANGUAGES)
        assert all(
            first["majority"] == majority(task, lang) for lang, first in result.items()
        )  # so the log is of these test sets
        assert all(
            first["mean"] >= first["lowest"] > first["majority"] + 0.2 for first in result.values()
        )


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_zero_shot_transfer_from_english(task, encoder):
    examples, mean, worst = FEW[task]
    result = transfer(task, encoder, "cpu", examples=examples)
    others = {lang: result[lang] for lang in OTHERS}
    assert sum(others.values()) / len(others) > mean, result
    assert min(others.values()) > worst, result
    for lang in OTHERS:
        assert worst > majority(task, lang) + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("task", ["pos", "nli"])
def test_it_is_the_pre_training_that_transfers(task, encoder, tmp_path):
    """The same encoder with chance weights, taught alike, is below the bounds of the other."""
    torch.manual_seed(0)
    AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(encoder)).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(encoder).save_pretrained(tmp_path)
    result = transfer(task, tmp_path, "cpu", examples=FEW[task][0] // 2)
    assert sum(result[lang] for lang in OTHERS) / len(OTHERS) < FEW[task][1] - 0.1, result


def test_slots_are_whole():
    assert slots(["O", "B-city", "I-city", "B-city", "O", "B-date"]) == {
        ("city", 1, 3),
        ("city", 3, 4),
        ("date", 5, 6),
    }
    assert slots(["I-city", "I-date", "I-date", "O"]) == {("city", 0, 1), ("date", 1, 3)}
    assert slots(["O", "O"]) == set()
