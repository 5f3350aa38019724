"""Configs that anybody may have written: known fields, checked sizes, nothing built first."""

import shutil
from pathlib import Path

import pytest
import transformers
from folders import edit_config

from deadhead import discover, load
from deadhead.errors import FolderError
from deadhead.heads import saved_config
from deadhead.layout import numbers_of
from deadhead.world import MODELS

RECORD = {"format": 2, "removed": {}}


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(MODELS / "encoder", tmp_path / "model"))


@pytest.mark.parametrize("part", ["__class__", "__init__", "_auto_class", "id2label", "no_part"])
def test_a_size_of_the_unpruned_model_changes_nothing_but_its_config(folder, part):
    edit_config(folder, deadhead={**RECORD, "unpruned": {f"{part}.head_dim": 5}})
    with pytest.raises(FolderError, match=r"unpruned model in config.json is damaged"):
        load(folder)
    assert not hasattr(transformers.BertConfig, "head_dim")


@pytest.mark.parametrize("value", ["8", 8.0, True, -8, 0, 2**30, [8], {"a": 8}])
def test_a_size_of_the_unpruned_model_is_a_number(folder, value):
    edit_config(folder, deadhead={**RECORD, "unpruned": {"num_attention_heads": value}})
    with pytest.raises(FolderError, match=r"unpruned model in config.json is damaged"):
        load(folder)


@pytest.mark.parametrize(
    "removed", [{"encoder": {"0": [1.7]}}, {"encoder": {"0": [True]}}, {"encoder": {"-1": [0]}}]
)
def test_a_removed_head_is_a_number(folder, removed):
    edit_config(folder, deadhead={**RECORD, "removed": removed})
    with pytest.raises(FolderError, match=r"list of removed heads in config.json is damaged"):
        load(folder)


@pytest.mark.parametrize(
    "text", ["0-900000,0-900000", "5,4", "3,3", "0-99999999999999", "0-5000000,6000000-9999999"]
)
def test_ranges_ascend_and_are_not_more_than_a_model_has(text):
    with pytest.raises(ValueError, match=r"range of further numbers|too many numbers"):
        numbers_of(text)


def test_a_good_record_is_still_read(folder):
    edit_config(folder, pruned_heads={"0": [1, 2]})
    saved = saved_config.read_saved(saved_config.read_config(folder, {}), folder)
    assert [head[1:] for head in saved.removed] == [(0, 1), (0, 2)]
    assert len(discover(load(MODELS / "encoder"))) == 40
