"""The small world is loaded like other data."""

import pytest

from deadhead.errors import UnknownName
from deadhead.tasks import load_data, score


@pytest.mark.parametrize(
    ("task", "lang"),
    [
        ("pos", "tr"),
        ("ner", "zh"),
        ("slots", "ar"),
        ("xnli", "sw"),
        ("sst2", "hi"),
        ("parallel", "en-de"),
    ],
)
def test_the_small_world_is_loaded_like_other_data(task, lang):
    train, test = (load_data(task, lang, split, root="world") for split in ("train", "test"))
    assert len(train) > len(test) > 0
    assert set(test.used_labels) <= set(train.labels)
    assert train.fingerprint != test.fingerprint
    if task != "parallel":
        gold = [row.labels if train.task.kind == "tag" else row.labels[0] for row in test.rows]
        assert score(task, gold, test)[test.task.metric] == 1.0
        assert not set(test.labels) - set(train.labels)
    assert len(load_data(task, lang, "train", root="world", parts=5)) == round(len(train) / 2)


def test_a_folder_called_world_goes_first(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("here")
    (folder / "world" / "pos").mkdir(parents=True)
    rows = "".join(f"w{i}\tNOUN\n\n" for i in range(3))
    (folder / "world" / "pos" / "en-test.tsv").write_text(rows)
    monkeypatch.chdir(folder)
    assert len(load_data("pos", "en", "test", root="world")) == 3


def test_what_the_small_world_does_not_have_is_named():
    with pytest.raises(UnknownName, match="no task of the small world 'qqp'"):
        load_data("qqp", "en", "train", root="world")
    with pytest.raises(UnknownName, match="no language of the small world 'ja'"):
        load_data("pos", "ja", "train", root="world")
