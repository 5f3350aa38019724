"""Folders of models without some neurons: record, card, damaged and trained folders."""

import pytest
import torch
from folders import config_of, edit_record

from deadhead.errors import FolderError
from deadhead.heads import discover, load, prune, save
from tiny_models import build


def test_the_record_has_one_line_for_a_layer_and_old_folders_have_none(tmp_path):
    model = build("bert")
    save(prune(model, ["encoder.0.1"]), tmp_path / "heads")
    record = config_of(tmp_path / "heads")["deadhead"]
    assert record == {"format": 1, "removed": {"encoder": {"0": [1]}}, "form": "compact"}
    assert discover(load(tmp_path / "heads"), neurons=True) == discover(model, neurons=True)
    save(prune(model, neurons={("encoder", 1): [9, 7, 8, 30]}), tmp_path / "both")
    record = config_of(tmp_path / "both")["deadhead"]
    assert record["removed"] == {"encoder": {"0": [1]}}
    assert record["removed_neurons"] == {"encoder": {"1": "7-9, 30"}}
    assert load(tmp_path / "both").config.deadhead == model.config.deadhead
    card = (tmp_path / "both" / "README.md").read_text()
    assert "4 feed-forward neurons were removed" in card
    assert "| encoder | 1 | 44 of 48 |" in card


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ({"encoder": {"0": "0-900"}}, "do not fit the model"),
        ({"encoder": {"0": "0-99999999999"}}, "list of removed neurons in config.json is damaged"),
        ({"encoder": {"0": "0-4"}}, "expected weights that fit"),
    ],
)
def test_a_record_that_does_not_fit(listed, words, tmp_path):
    save(prune(build("bert"), neurons={("encoder", 0): [0, 1]}), tmp_path)
    edit_record(tmp_path, removed_neurons=listed)
    with pytest.raises(FolderError, match=words):
        load(tmp_path)


def test_half_precision_keeps_what_the_architecture_keeps_in_single(tmp_path):
    model = build("t5").float()
    save(model, tmp_path / "whole")
    save(prune(model, neurons={("encoder", 0): range(30)}), tmp_path / "pruned")
    whole, pruned = (load(tmp_path / n, dtype="float16") for n in ("whole", "pruned"))
    types = [{n: p.dtype for n, p in m.named_parameters()} for m in (whole, pruned)]
    assert types[0] == types[1]
    assert {torch.float32, torch.float16} == set(types[0].values())  # `wo` and the rest
