"""The hub is asked by the name in the table, only when the folder has nothing, and says so when it cannot be reached."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from deadhead.errors import DataError, MissingExtra
from deadhead.tasks import TASKS, Row, find_data, load_data


class Table(list[Any]):
    """As much of a hub table as is read: records, and features with names."""

    def __init__(self, records: list[dict[str, Any]], **features: Any):
        super().__init__(records)
        self.features = features


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str, str], Any]:
    tables: dict[tuple[str, str, str], Any] = {}

    def load_dataset(repository: str, config: str, split: str) -> Any:
        found = tables.get((repository, config, split))
        if found is None:
            raise ConnectionError("Couldn't reach the hub (offline)\nlong story")
        return found

    module = ModuleType("datasets")
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)
    return tables


def test_classification_by_number(hub: dict[tuple[str, str, str], Any]) -> None:
    records = [{"premise": "a", "hypothesis": "b", "label": 2, "idx": 0}]
    hub["nyu-mll/glue", "mnli", "validation_matched"] = Table(records, label=SimpleNamespace(names=["x", "y", "z"]))
    data = load_data("mnli", "en", "dev")
    assert data.rows == [Row(("a", "b"), ("contradiction",))]
    assert data.files == ("hub:nyu-mll/glue:mnli:dev",)


def test_tags_by_number(hub: dict[tuple[str, str, str], Any]) -> None:
    feature = SimpleNamespace(feature=SimpleNamespace(names=["O", "B-PER", "I-PER"]))
    hub["unimelb-nlp/wikiann", "nl", "test"] = Table([{"tokens": ["Jan", "S"], "ner_tags": [1, 2]}], ner_tags=feature)
    assert load_data("ner", "nl", "test", source="wikiann").rows == [Row(("Jan", "S"), ("B-PER", "I-PER"))]


@pytest.mark.parametrize("folder", [True, False])
def test_another_corpus_than_the_papers_is_taken_only_by_name(hub: dict[tuple[str, str, str], Any], tmp_path: Path, folder: bool) -> None:
    hub["unimelb-nlp/wikiann", "nl", "test"] = Table([{"tokens": ["Jan"], "ner_tags": ["B-PER"]}], ner_tags=None)
    root = tmp_path if folder else None
    with pytest.raises(DataError, match=r"no test data of ner in nl .*\n.*put ner/conll2003/ .*--data DIR.*source: wikiann"):
        load_data("ner", "nl", "test", root=root)
    assert isinstance(find_data("ner", "nl", ["test"], root=root)["test"], DataError)
    assert find_data("ner", "nl", ["test"], root=root, source="wikiann") == {"test": "hub:unimelb-nlp/wikiann:nl:test"}


def test_translation(hub: dict[tuple[str, str, str], Any]) -> None:
    hub["wmt/wmt14", "de-en", "test"] = Table([{"translation": {"de": "x", "en": "a"}}])
    assert load_data("wmt14", "en-de", "test").rows == [Row(("a", "x"))]


def test_a_set_of_one_language_is_not_handed_out_as_another(hub: dict[tuple[str, str, str], Any]) -> None:
    hub["nyu-mll/glue", "mnli", "train"] = Table([{"premise": "a", "hypothesis": "b", "label": 2}])
    with pytest.raises(DataError, match="the hub has mnli in en only; met 'de'"):
        load_data("mnli", "de", "train")
    assert len(load_data("mnli", "en", "train")) == 1


def test_withheld_labels_are_refused_with_their_place(hub: dict[tuple[str, str, str], Any]) -> None:
    hub["nyu-mll/glue", "sst2", "test"] = Table([{"sentence": "a", "label": -1}])
    with pytest.raises(DataError, match=r"row 1: -1 is not a label of sst2 \(the label is withheld\)"):
        load_data("sst2", "en", "test")


def test_offline_says_what_to_do(hub: dict[tuple[str, str, str], Any]) -> None:
    with pytest.raises(
        DataError, match=r"could not be had from nyu-mll/glue on the hub: Couldn't reach the hub \(offline\)\n  Mend: .*DEADHEAD_DATA"
    ):
        load_data("sst2", "en", "train")


def test_the_folder_comes_first(hub: dict[tuple[str, str, str], Any], tmp_path: Path) -> None:
    hub["nyu-mll/glue", "sst2", "train"] = Table([{"sentence": "from the hub", "label": 1}])
    assert load_data("sst2", "en", "train", root=tmp_path).rows[0].texts == ("from the hub",)
    (tmp_path / "sst2").mkdir()
    (tmp_path / "sst2/train.tsv").write_text("sentence\tlabel\nfrom the folder\t1\n")
    assert load_data("sst2", "en", "train", root=tmp_path).rows[0].texts == ("from the folder",)


def test_without_datasets_the_install_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r'pip install "deadhead\[hub\]", or put SST-2/ of GLUE in a folder and name it with --data DIR'):
        load_data("sst2", "en", "train")


def test_every_task_says_what_to_put_into_a_folder() -> None:
    assert all(task.place for task in TASKS.values())


def test_a_task_without_hub_asks_for_a_folder() -> None:
    with pytest.raises(DataError, match="no train data of pos in en without a folder"):
        load_data("pos", "en", "train")
