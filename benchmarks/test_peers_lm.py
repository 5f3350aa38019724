"""The benchmark of other tools: a peer in its own process, our rows beside it, what it says."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import peers_lm
import pytest
import torch
from prune_and_quantise_page import change, quality
from test_scripts import RESULTS, keys
from transformers import LlamaConfig, LlamaForCausalLM

from tiny_decoders import tokenizer

RECORD = RESULTS / "peers-lm-x86_64.json"
PAGE = Path(__file__).parent.parent / "docs" / "results" / "language-model.md"
WORDS = ("Maria", "bought", "a", "car", ".", "The", "dog", "sleeps", ",", "and", "the", "café")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A decoder with neurons enough for OSSCAR, and two texts."""
    folder = tmp_path_factory.mktemp("peers")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=300, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
        hidden_size=32, intermediate_size=256, max_position_embeddings=512, bos_token_id=0,
        eos_token_id=1, initializer_range=0.2, rope_parameters={
            "rope_type": "default", "rope_theta": 50000.0,
        },
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    draw = random.Random(0)
    for name in ("train", "test"):
        text = " ".join(draw.choice(WORDS) for _ in range(3000))
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def run(folder, monkeypatch, tmp_path, capsys):
    def rows(*options):
        paths = ("--model", folder, "--calibration", folder / "train.txt")
        paths += ("--text", folder / "test.txt", "--json", tmp_path / "rows.json")
        sizes = ("--windows", 4, "--scored", 2, "--shares", 0.5)
        monkeypatch.setattr(sys, "argv", ["peers_lm.py", *map(str, (*paths, *sizes, *options))])
        peers_lm.main()
        return json.loads((tmp_path / "rows.json").read_text())["rows"], capsys.readouterr().out

    return rows


def test_our_rows(run, folder):
    tiny = LlamaForCausalLM.from_pretrained(folder)
    rows, out = run()
    whole, ours, random_neurons, layers = rows
    assert [row["tool"] for row in rows] == ["whole", *peers_lm.ours_of(tiny, 0.5)]
    assert whole["neurons"] == 768
    assert ours["neurons"] == random_neurons["neurons"] == 384
    assert layers["layers"] < 3
    assert layers["parameters"] <= ours["parameters"]
    assert len({str(row["parts"]) for row in rows}) == 4
    assert f"| deadhead | {quality(ours):,.1f} |  |" in out
    mean, half = change(ours, layers)
    line = f"| layers by similarity, no repair | {quality(layers):,.1f} | {mean:+,.0f} ± {half:,.0f} % |"
    assert line in out
    assert keys({"rows": rows}) <= keys(json.loads(RECORD.read_text()))


def test_rows_of_the_file_are_not_measured_again(run, monkeypatch):
    rows, _ = run()
    monkeypatch.setattr(peers_lm, "ours_of", lambda model, share: {"more": {"neurons": share}})
    again, _ = run()
    assert again[:-1] == rows
    assert again[-1]["tool"] == "more"
    with pytest.raises(SystemExit, match="other windows"):
        run("--seed", 1)


def test_the_page(tmp_path, monkeypatch):
    """The committed page has the table of the committed record."""
    page = tmp_path / "page.md"
    page.write_text("<!-- made by benchmarks/peers_lm.py -->\n<!-- end -->\n")
    words = ("--from", RECORD, "--page", page)
    monkeypatch.setattr(sys, "argv", ["peers_lm.py", *map(str, words)])
    peers_lm.main()
    assert page.read_text().strip() in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_peer_in_its_own_process(run, folder):
    """torch-pruning is in the environment of the tests."""
    rows, _ = run("--peers", f"torch-pruning={sys.executable}", "--no-ours")
    whole, *peers = rows
    assert [row["tool"] for row in peers] == ["torch-pruning, magnitude", "torch-pruning, Taylor"]
    for row in peers:
        assert row["neurons"] == 384
        assert row["parameters"] == whole["parameters"] - 384 * 3 * 32
        assert row["versions"].startswith("torch-pruning ")
    assert len({str(row["parts"]) for row in rows}) == 3


@pytest.mark.slow
def test_a_peer_that_fails(run):
    """Its row says why, and the others are still measured."""
    rows, out = run("--peers", f"optipfair={sys.executable}")
    assert "No module named 'optipfair'" in rows[1]["failed"]
    assert "parts" not in rows[1]
    assert len(rows) == 5
    assert "No module named 'optipfair'" in out


def test_another_loss_of_the_whole_model_is_refused(folder, tmp_path):
    """As an environment gives it that reads the config differently."""
    from safetensors.torch import save_file

    (tmp_path / "whole").symlink_to(folder)
    save_file({"ids": torch.arange(40)[None]}, tmp_path / "calibration.safetensors")
    (tmp_path / "loss.json").write_text("1.0")
    with pytest.raises(SystemExit, match=r"expected 1\.0"):
        peers_lm.work("torch-pruning, magnitude", tmp_path, 0.5, "cpu")
    assert not (tmp_path / "small").exists()
