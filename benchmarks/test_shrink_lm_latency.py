"""The benchmark of speeds of a language model: what it removes, and its table."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest
import torch

from deadhead import discover
from tiny_decoders import llama, tokenizer

BENCHMARKS = Path(__file__).parent


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield importlib.import_module("shrink_lm_latency")


def test_every_model_loses_its_share_and_no_other_units(script, monkeypatch):
    monkeypatch.setattr(script, "SHARES", (25, 50))
    whole = llama(positions=64)
    layout = discover(whole, neurons=True)
    neurons = sum(len(layer.kept) for layer in layout.feed_forwards)
    group = 1 / sum(len(layer.groups) for layer in layout.attentions)  # the least that can go
    models = script.smaller_models(whole, seed=0)
    assert len(models) == 6
    for (units, share), model in models.items():
        left = discover(model, neurons=True)
        of_neurons = sum(len(layer.kept) for layer in left.feed_forwards) / neurons
        of_heads = len(left) / len(layout)
        if units == "heads":
            assert of_neurons == 1
        else:
            assert of_neurons == pytest.approx(1 - share / 100, abs=1 / neurons)
        expected = 1 if units == "neurons" else 1 - share / 100
        assert of_heads == pytest.approx(expected, abs=group)
    assert discover(whole, neurons=True) == layout


def test_whole_layers_are_removed_from_copies(script):
    models = script.shallower_models(whole := llama(), [1])
    assert [*models] == [("layers", 50)]
    assert len(models["layers", 50].model.layers) == 1
    assert len(whole.model.layers) == 2


def test_prompts_and_new_tokens_are_timed(script, tmp_path, monkeypatch):
    llama(positions=600).float().save_pretrained(tmp_path / "model")
    tokenizer().save_pretrained(tmp_path / "model")
    monkeypatch.setattr(script, "SHARES", (50,))
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    options = ["--model", str(tmp_path / "model"), "--rounds", "2", "--json", str(results)]
    monkeypatch.setattr(sys, "argv", ["shrink_lm_latency.py", *options])
    script.main()
    rows = json.loads(results.read_text())["rows"]
    places = {(row["on"], row["units"]) for row in rows}
    inputs = ("512 tokens read", "32 tokens generated")
    units = ("heads", "neurons", "both")
    assert places == {(name, kind) for name in inputs for kind in units}
    assert {row["rounds"] for row in rows} == {2}
    page.write_text("before\n<!-- made by benchmarks/shrink_lm_latency.py -->\n<!-- end -->\nafter")
    arguments = ["--from", str(results), "--page", str(page)]
    monkeypatch.setattr(sys, "argv", ["shrink_lm_latency.py", *arguments])
    script.main()
    assert "| 32 tokens generated | both |" in page.read_text()
    assert page.read_text().endswith("after")


def test_the_same_number_of_tokens_is_generated_for_every_model(script):
    model = llama(positions=64)
    ids = torch.ones(1, 3).long()
    first = script.generating(model)(input_ids=ids)[0, 3]
    model.generation_config.eos_token_id = int(first)  # by itself, it would stop at once
    assert script.generating(model)(input_ids=ids).shape == (1, 3 + script.NEW)


def test_nothing_to_do_is_reported(script, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["shrink_lm_latency.py"])
    with pytest.raises(SystemExit):
        script.main()
    assert "name --model to measure" in capsys.readouterr().err
