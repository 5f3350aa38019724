"""Data is found without reading it: find_data names a place exactly where load_data finds rows."""

import sys
from pathlib import Path

import pytest
from data_folder import put

from deadhead.errors import DataError, DeadheadError
from deadhead.tasks import find_data, load_data
from deadhead.tasks.locating.small_world import WORLD_TASKS
from deadhead.tasks.task import SPLITS
from deadhead.world import LANGUAGES


@pytest.fixture
def root(tmp_path):
    files = {
        "pos/en/train.conllu": "1\ta\ta\tNOUN\t_\t_\t0\troot\t_\t_\n\n" * 20,
        "pos/en/test.conllu": "1\tb\tb\tNOUN\t_\t_\t0\troot\t_\t_\n\n",
        "pos/de/test.conllu": "1\tc\tc\tNOUN\t_\t_\t0\troot\t_\t_\n\n",
        "ner/ja.txt": "a\tB-PER\n\n" * 20,
        "mnli/train.tsv": "premise\thypothesis\tlabel\na\tb\tneutral\n",
        "xnli/en/test.tsv": "premise\thypothesis\tlabel\na\tb\tneutral\n",
        "parallel/test.en": "a\n",
        "parallel/test.de": "x\n",
    }
    return put(tmp_path, files)


def is_there(task, lang, split, root, cut):
    try:
        load_data(task, lang, split, root=root, cut=cut)
    except DeadheadError:
        return False
    return True


@pytest.mark.parametrize("cut", ["auto", "given", "pooled"])
def test_places_are_what_can_be_loaded(root, cut, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)  # the folder alone
    requested = {
        "pos": ("en", "de", "zh"),
        "ner": ("ja", "de"),
        "mnli": ("en",),
        "xnli": ("en", "de"),
        "parallel": ("en-de", "en-ru"),
    }
    seen = set()
    for task, langs in requested.items():
        for lang in langs:
            for split, result in find_data(task, lang, SPLITS, root=root, cut=cut).items():
                there = is_there(task, lang, split, root, cut)
                seen.add(there)
                assert isinstance(result, str) == there, (task, lang, split, result)
                assert not there or Path(str(result)).is_file()
    assert seen == {True, False}


def test_a_listed_file_that_is_missing(root):
    (root / "manifest.json").write_text(
        '{"tasks": {"pos": {"en": {"test": "pos/en/gone.conllu"}}}, "files": '
        '{"pos/en/gone.conllu": {"format": "conllu"}}}'
    )
    result = find_data("pos", "en", ["test"], root=root)["test"]
    assert isinstance(result, DataError)
    assert "gone.conllu: there is no such file" in str(result)


def test_the_small_world():
    for task in WORLD_TASKS:
        pairs = (
            ["en-de", "de-en", "en-en", "en-xx", "en"] if task == "parallel" else [*LANGUAGES, "fr"]
        )
        for lang in ["text", "fr"] if task == "lm" else pairs:
            result = find_data(task, lang, ["train"], root="world")["train"]
            good = lang in ("en-de", "de-en") if task == "parallel" else lang != "fr"
            assert (result == "world") == good
    assert isinstance(find_data("qqp", "en", ["train"], root="world")["train"], DataError)
