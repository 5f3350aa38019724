"""The hub by the real `datasets` library, offline, on parquet files with the real feature types.

`load_dataset("nyu-mll/glue", ...)` reads a folder of that name where there is one, so the tests
work in a folder that holds small copies of the repositories.
"""

import sys
from collections.abc import Callable
from typing import Any

import datasets
import pytest
from datasets import ClassLabel, Features, List, Translation, Value

from deadhead.errors import DataError, MissingExtra
from deadhead.tasks import TASKS, Row, find_data, load_data
from deadhead.tasks.hub_sets import TREEBANKS
from deadhead.tasks.locating.hub import place_of
from deadhead.tasks.reading.tags import UPOS

Put = Callable[..., None]
PER = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"]
PAIR = {"premise": Value("string"), "hypothesis": Value("string")}
NLI = ClassLabel(names=["entailment", "neutral", "contradiction"])
SENTENCE = Features(
    {
        "sentence": Value("string"),
        "label": ClassLabel(names=["negative", "positive"]),
        "idx": Value("int32"),
    }
)
PINNED = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Write a split: parquet, and the card that lists configurations and splits, as on the hub."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    cards: dict[tuple[str, str], list[str]] = {}

    def write(repository, config, split, features, rows):
        file = tmp_path / repository / config / f"{split}-00000-of-00001.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        datasets.Dataset.from_list(rows, features=features).to_parquet(file)
        cards.setdefault((repository, config), []).append(
            f"  - split: {split}\n    path: {config}/{split}-*\n"
        )
        lists = [
            f"- config_name: {c}\n  data_files:\n{''.join(splits)}"
            for (r, c), splits in cards.items()
            if r == repository
        ]
        (tmp_path / repository / "README.md").write_text(f"---\nconfigs:\n{''.join(lists)}---\n")

    datasets.disable_progress_bars()
    return write


def test_the_pinned_revision_is_requested(put, monkeypatch):
    put("nyu-mll/glue", "sst2", "train", SENTENCE, [{"sentence": "fine", "label": 1, "idx": 0}])
    requested: list[Any] = []
    real = datasets.load_dataset
    monkeypatch.setattr(
        datasets, "load_dataset", lambda *a, **k: requested.append(k["revision"]) or real(*a, **k)
    )
    data = load_data("sst2", "en", "train")
    assert data.rows == [Row(("fine",), ("positive",))]
    assert data.files == (f"hub:nyu-mll/glue@{PINNED}:sst2:train",)
    assert requested == [PINNED]


def test_squad_in_english_and_xquad_in_other_languages(put):
    texts, numbers = datasets.List(datasets.Value("string")), datasets.List(datasets.Value("int32"))
    names = ("id", "question", "context")
    features = datasets.Features(
        {name: datasets.Value("string") for name in names}
        | {"answers": {"text": texts, "answer_start": numbers}}
    )
    answers = {"text": ["Bees", "Bees make"], "answer_start": [0, 0]}
    for repository, config in (
        ("rajpurkar/squad", "plain_text"),
        ("google/xquad", "xquad.de"),
        ("google/xquad", "xquad.en"),
    ):  # fmt: skip
        row = {"id": config, "question": "Who?", "context": "Bees make honey.", "answers": answers}
        put(repository, config, "validation", features, [row])
    for lang, source, config in (
        ("en", None, "plain_text"), ("de", None, "xquad.de"), ("en", "xquad", "xquad.en"),
    ):  # fmt: skip
        (row,) = load_data("qa", lang, "dev", source=source).rows
        assert row.labels == (config, "0", "Bees", "0", "Bees make")
    with pytest.raises(DataError, match=r"qa in de \(train\) could not be downloaded"):
        load_data("qa", "de", "train")


def test_pairs_of_the_hub_have_scores_by_several_names(put):
    texts = {name: Value("string") for name in ("sentence1", "sentence2")}
    for repository, config, split, score in (
        ("mteb/stsbenchmark-sts", "default", "validation", "score"),
        ("mteb/sts15-sts", "default", "test", "score"),
        ("mteb/stsb_multi_mt", "de", "dev", "similarity_score"),
        ("nyu-mll/glue", "stsb", "validation", "label"),
    ):
        features = Features({**texts, score: Value("float32")})
        put(repository, config, split, features, [{"sentence1": "a", "sentence2": "b", score: 2.5}])
    for lang, split, source in (
        ("en", "dev", None), ("en", "test", "sts15"), ("de", "dev", None), ("en", "dev", "glue"),
    ):  # fmt: skip
        assert load_data("similarity", lang, split, source=source).rows == [
            Row(("a", "b"), ("2.5",))
        ]


def test_search_of_the_hub_has_three_tables(put):
    words = {name: Value("string") for name in ("_id", "text")}
    documents = [
        {"_id": "d1", "title": "Dogs", "text": "run."},
        {"_id": "d2", "title": "", "text": "x"},
    ]
    queries = [{"_id": "q1", "text": "animals"}, {"_id": "q2", "text": "of another split"}]
    judged = [{"query-id": "q1", "corpus-id": "d1", "score": 1.0}]
    put(
        "mteb/nfcorpus",
        "corpus",
        "corpus",
        Features({**words, "title": Value("string")}),
        documents,
    )
    put("mteb/nfcorpus", "queries", "queries", Features(words), queries)
    names = {name: Value("string") for name in ("query-id", "corpus-id")}
    put("mteb/nfcorpus", "default", "dev", Features({**names, "score": Value("float64")}), judged)
    data = load_data("retrieval", split="dev", source="nfcorpus")
    assert data.rows == [Row(("animals",), ("q1", "d1", "1"))]
    assert data.documents == {"d1": "Dogs run.", "d2": "x"}
    assert data.notes == {"queries without a judgment dropped": 1}
    put("mteb/fiqa", "default", "test", Features(words), queries)
    with pytest.raises(DataError, match=r"retrieval in text \(test\) could not be downloaded"):
        load_data("retrieval", split="test", source="fiqa")


def test_every_set_is_pinned():
    sets = [hub for task in TASKS.values() for hub in task.hub]
    commits = [hub.revision for hub in sets if hub.name != "ud-*"]
    assert all(len(commit) == 40 and int(commit, 16) for commit in commits)
    assert [hub.revision for hub in sets if hub.name == "ud-*"] == ["2.17"]


def test_translation(put):
    features = Features({"translation": Translation(languages=["de", "en"])})
    pairs = [{"de": "x", "en": "a"}, {"de": "", "en": "b"}]
    put("wmt/wmt14", "de-en", "test", features, [{"translation": pair} for pair in pairs])
    data = load_data("wmt14", "en-de", "test")
    assert (data.rows, data.notes) == ([Row(("a", "x"))], {"dropped: an empty side": 1})


def ner(names):
    return Features(
        {
            "tokens": List(Value("string")),
            "ner_tags": List(ClassLabel(names=names)),
            "langs": List(Value("string")),
        }
    )


def test_conll2003_in_english_is_the_papers_own(put):
    features = ner([*PER, "B-MISC", "I-MISC"])
    row = {"tokens": ["EU", "rejects", "call"], "ner_tags": [3, 0, 7], "langs": ["en"] * 3}
    put("lhoestq/conll2003", "default", "validation", features, [row])
    expected = [Row(("EU", "rejects", "call"), ("B-ORG", "O", "B-MISC"))]
    for source in (None, "conll2003"):
        assert load_data("ner", "en", "dev", source=source).rows == expected
    with pytest.raises(DataError, match="no dev data of ner in de"):
        load_data("ner", "de", "dev")


def test_a_blank_token_of_wikiann_is_kept_and_counted(put):
    rows = [{"tokens": ["Jan", " ", "S"], "ner_tags": [1, 2, 2], "langs": ["nl"] * 3}]
    put("unimelb-nlp/wikiann", "nl", "test", ner(PER), rows)
    data = load_data("ner", "nl", "test", source="wikiann")
    assert data.rows == [Row(("Jan", " ", "S"), ("B-PER", "I-PER", "I-PER"))]
    assert data.notes == {"words that are blank": 1}


def test_universal_dependencies_by_release(put):
    names = [*UPOS, "_"]
    tags = List(ClassLabel(names=names))
    features = Features({"tokens": List(Value("string")), "upos": tags})
    expected = Row(("zu", "dem", "Haus"), ("ADP", "DET", "NOUN"))
    row = {"tokens": expected.texts, "upos": [names.index(tag) for tag in expected.labels]}
    for split in ("train", "dev", "test"):
        put("commul/universal_dependencies", "de_gsd", split, features, [row])
    for split in ("train", "dev", "test"):
        assert load_data("pos", "de", split, source="ud-2.17").rows == [expected]
    place = "hub:commul/universal_dependencies@2.7:de_gsd:dev"
    assert find_data("pos", "de", ["dev"], source="UD-2.7") == {"dev": place}
    assert {*TREEBANKS} == {*TASKS["pos"].languages}


@pytest.mark.parametrize(("task", "source"), [("pos", "ud-2.17"), ("ner", "wikiann")])
@pytest.mark.parametrize("folder", [True, False])
def test_other_data_than_the_papers_is_used_only_by_name(put, tmp_path, folder, task, source):
    root = tmp_path if folder else None
    with pytest.raises(
        DataError,
        match=rf"no test data of {task} in nl .*\n.*put {task}/.*https.*--data DIR.*--source "
        rf"{source}",
    ):
        load_data(task, "nl", "test", root=root)
    assert isinstance(find_data(task, "nl", ["test"], root=root)["test"], DataError)
    assert str(find_data(task, "nl", ["test"], root=root, source=source)["test"]).startswith("hub:")


@pytest.mark.parametrize("source", ["ud-new", "wikiannn"])
def test_an_unknown_source_names_no_set(put, source):
    with pytest.raises(DataError, match="no test data of pos in nl"):
        load_data("pos", "nl", "test", source=source)


def test_a_set_of_one_language_is_not_handed_out_as_another(put):
    put("nyu-mll/glue", "sst2", "train", SENTENCE, [{"sentence": "fine", "label": 1, "idx": 0}])
    with pytest.raises(DataError, match=r"no train data of sst2 in de .* Its languages: en"):
        load_data("sst2", "de", "train")
    assert len(load_data("sst2", "en", "train")) == 1


def test_withheld_labels_are_refused_with_their_place(put):
    put("nyu-mll/glue", "sst2", "test", SENTENCE, [{"sentence": "a", "label": -1, "idx": 0}])
    with pytest.raises(
        DataError, match=r"row 1: -1 is not a label of sst2 \(the label is withheld\)"
    ):
        load_data("sst2", "en", "test")


def test_offline_says_what_to_do(put, tmp_path):
    with pytest.raises(
        DataError,
        match=rf"could not be downloaded from nyu-mll/glue at {PINNED} on the hub: .*\n  Hint: "
        r"put SST-2/.*DEADHEAD_DATA",
    ):
        load_data("sst2", "en", "train")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"\(nothing of it is in .*/empty\) could not"):
        load_data("sst2", "en", "train", root=tmp_path / "empty")
    row = '{"id": 1, "question": "Who?", "context": "Bees", "answers": []}\n'
    (tmp_path / "empty" / "train.jsonl").write_text(row)
    with pytest.raises(DataError, match="which has files that name no language"):
        load_data("qa", "en", "train", root=tmp_path / "empty")


def test_a_hub_out_of_reach_is_not_tried_again(put, monkeypatch):
    put("nyu-mll/glue", "sst2", "train", SENTENCE, [{"sentence": "fine", "label": 1, "idx": 0}])
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("deadhead.tasks.locating.hub.hub_problem", lambda: "no network")
    seen: list[bool] = []
    real = datasets.load_dataset
    monkeypatch.setattr(
        datasets,
        "load_dataset",
        lambda *a, **k: seen.append(datasets.config.HF_HUB_OFFLINE) or real(*a, **k),
    )
    assert len(load_data("sst2", "en", "train")) == 1
    with pytest.raises(DataError, match="could not be downloaded from mteb/stsbenchmark-sts"):
        load_data("similarity", "en", "dev")
    assert (seen, datasets.config.HF_HUB_OFFLINE) == ([True, True], False)


def test_the_folder_comes_first(put, tmp_path):
    row = {"sentence": "from the hub", "label": 1, "idx": 0}
    put("nyu-mll/glue", "sst2", "train", SENTENCE, [row])
    root = tmp_path / "data"
    (root / "sst2").mkdir(parents=True)
    assert load_data("sst2", "en", "train", root=root).rows[0].texts == ("from the hub",)
    (root / "sst2/train.tsv").write_text("sentence\tlabel\nfrom the folder\t1\n")
    assert load_data("sst2", "en", "train", root=root).rows[0].texts == ("from the folder",)


def test_without_datasets_the_install_line_is_printed(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        MissingExtra,
        match=r"hub.*, or put SST-2/train.tsv, dev.tsv \(GLUE: .*\) into a folder and name it "
        r"with --data DIR",
    ):
        load_data("sst2", "en", "train")


def test_every_task_says_what_to_put_into_a_folder():
    assert all(
        place_of(task, lang) != "the files" for task in TASKS.values() for lang in task.languages
    )


def test_a_task_without_hub_asks_for_a_folder():
    with pytest.raises(DataError, match="no train data of slots in en without a folder"):
        load_data("slots", "en", "train")
