"""From task, language and split to rows: found, cut, put together, taken apart, and told."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

import deadhead
from deadhead.errors import DataError, UnknownName
from deadhead.tasks import Row, check_folder, concatenate, load_data


def sentences(start: int, stop: int, label: str = "NOUN") -> str:
    return "".join(f"w{i}\t{label}\n\n" for i in range(start, stop))


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return root


def words(data) -> list[str]:
    return [row.texts[0] for row in data.rows]


@pytest.fixture
def root(tmp_path):
    nli = "p{0}\th{0}\tneutral\n"
    files = {
        "pos/UD_A/en-train.tsv": sentences(0, 20),
        "pos/UD_A/en-dev.tsv.gz": sentences(20, 25),
        "pos/UD_A/en-test.tsv": sentences(25, 30),
        "pos/UD_B/en-test.tsv": sentences(90, 93),
        "ner/fa-train.txt": sentences(0, 50, "B-pers"),
        "ner/fa-test.txt": sentences(50, 60, "B-loc"),
        "ner/ja.conll": sentences(0, 1000, "B-PERSON"),
        "slots/train/seq.in": "to boston\n",
        "slots/train/seq.out": "O B-city\n",
        "nt/src.eng": "a\nb\n",
        "nt/ref.deu": "x\ny\n",
        "nt/ref.rus": "m\nn\n",
        "mnli/train.tsv": "".join(nli.format(i) for i in range(3)),
    }
    put(tmp_path, files)
    tasks = {
        "pos": {
            "en": {
                s: next(f for f in files if f"UD_A/en-{s}" in f) for s in ("train", "dev", "test")
            }
        },
        "ner": {
            "fa": {"train": "ner/fa-train.txt", "test": "ner/fa-test.txt"},
            "ja": {"train": "ner/ja.conll"},
        },
        "slots-atis": {
            "en": {"train": {"seq.in": "slots/train/seq.in", "seq.out": "slots/train/seq.out"}}
        },
        "parallel-nt": {
            "en": {"test": "nt/src.eng"},
            "de": {"test": "nt/ref.deu"},
            "ru": {"test": "nt/ref.rus"},
        },
        "mnli": {"en": {"train": "mnli/train.tsv"}},
    }
    forms = {"pos": "tsv2", "ner": "iob2", "nt": "lines", "mnli": "tsv"}
    about = {
        f: {
            "format": forms.get(f.split("/")[0], "lines-seq.in"),
            "task": "pos",
            "language": "en",
            "split": "test",
        }
        for f in files
    }
    (tmp_path / "manifest.json").write_text(json.dumps({"tasks": tasks, "files": about}))
    return tmp_path


def test_splits_as_given(root):
    data = load_data("pos", "en", "dev", root=root)
    assert (data.lang, data.split, len(data), data.labels[0], data.used_labels) == (
        "en",
        "dev",
        5,
        "ADJ",
        ("NOUN",),
    )
    assert data.notes == {}
    assert words(data) == [f"w{i}" for i in range(20, 25)]


def test_the_folder_may_come_from_the_environment(root, monkeypatch):
    monkeypatch.setenv("DEADHEAD_DATA", str(root))
    assert len(load_data("pos", "en", "test")) == 5


def test_another_corpus_of_the_same_task(root):
    assert words(load_data("pos", "en", "test", root=root, source="UD_B")) == ["w90", "w91", "w92"]
    with pytest.raises(UnknownName, match="UD_A, UD_B"):
        load_data("pos", "en", "test", root=root, source="UD_C")


def test_the_last_tenth_replaces_a_missing_dev_set(root):
    train, dev, test = (
        load_data("ner", "fa", split, root=root) for split in ("train", "dev", "test")
    )
    assert words(train) + words(dev) == [f"w{i}" for i in range(50)]
    assert (len(dev), len(test)) == (5, 10)
    assert dev.notes == {"rows of the file not in this share (dev)": 45}
    assert len(load_data("ner", "fa", "train", root=root, cut="given")) == 50
    with pytest.raises(DataError, match="no dev data of ner in fa"):
        load_data("ner", "fa", "dev", root=root, cut="given")


def test_a_corpus_without_splits_is_cut_in_file_order(root):
    parts = [load_data("ner", "ja", split, root=root) for split in ("train", "dev", "test")]
    assert [len(part) for part in parts] == [800, 100, 100]
    assert [w for part in parts for w in words(part)] == [f"w{i}" for i in range(1000)]


def test_pooled_takes_all_files_of_the_corpus(root):
    parts = [
        load_data("ner", "fa", split, root=root, cut="pooled") for split in ("train", "dev", "test")
    ]
    assert [len(part) for part in parts] == [48, 6, 6]
    assert parts[0].labels == load_data("ner", "fa", "train", root=root).labels


def test_entity_types_are_merged_by_default(root):
    assert load_data("ner", "fa", "test", root=root).used_labels == ("B-LOC",)
    raw = load_data("ner", "fa", "test", root=root, merge=False)
    assert raw.labels == raw.used_labels == ("B-loc",)


def test_single_languages_make_a_pair(root):
    assert load_data("parallel-nt", "en-de", "test", root=root).rows == [
        Row(("a", "x")),
        Row(("b", "y")),
    ]
    assert load_data("parallel-nt", "ru-en", "test", root=root).rows == [
        Row(("m", "a")),
        Row(("n", "b")),
    ]
    assert [f.language for f in check_folder(root) if f.task == "parallel-nt"] == ["en-de", "en-ru"]


def test_xnli_trains_on_mnli(root):
    assert (
        len(load_data("xnli", "en", "train", root=root)) == 3
    )  # whole: only tagged corpora are cut


def test_several_languages_in_fixed_order(root):
    both = load_data("ner", ["ja", "fa"], "test", root=root)
    first, other = (load_data("ner", lang, "test", root=root) for lang in ("ja", "fa"))
    assert list(both.rows) == [*first.rows, *other.rows]
    assert both.lang == "ja+fa"
    assert both.fingerprint != concatenate([other, first]).fingerprint


def test_unknown_names_are_named(root):
    with pytest.raises(UnknownName, match="Did you mean 'pos'"):
        load_data("poss", "en", "test", root=root)
    with pytest.raises(UnknownName, match="Did you mean 'test'"):
        load_data("pos", "en", "tets", root=root)
    with pytest.raises(DataError, match="no test data of pos in tr"):
        load_data("pos", "tr", "test", root=root)
    with pytest.raises(DataError, match="no such folder"):
        load_data("pos", "en", "test", root=root / "nowhere")


def test_an_empty_file_is_an_error_with_its_place(root):
    (root / "pos/UD_A/en-test.tsv").write_text("\n")
    with pytest.raises(DataError, match=r"en-test\.tsv:1: no sentence"):
        load_data("pos", "en", "test", root=root)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"tasks": {"pos": 3}, "files": {}}',
        '{"tasks": {"pos": {"en": {"test": "f"}}}, "files": {}}',
    ],
)
def test_a_damaged_manifest_is_an_error(root, text):
    (root / "manifest.json").write_text(text)
    with pytest.raises(DataError, match=r"manifest\.json: not a manifest"):
        load_data("pos", "en", "test", root=root)


# --- folders that only have names ---------------------------------------------------------------


def test_names_say_what_files_are(tmp_path):
    conllu = "1\tHi\t_\tINTJ\t_\t_\t_\t_\t_\t_\n"
    put(
        tmp_path,
        {
            "pos/UD_German-GSD/de_gsd-ud-test.conllu": conllu,
            "ner/conll2003/eng.train": "EU NNP I-NP I-ORG\n",
            "ner/conll2003/eng.testa": "EU NNP I-NP I-ORG\n",
            "ner/conll2002/ned.testb.gz": "Jan N B-PER\n",
            "ner/wikiann/fr/train": "fr:Paris\tB-LOC\n",
            "ner/germeval/NER-de-test.tsv": "#\thttp\n1\tBonn\tB-LOC\tO\n",
            "slots/MultiATIS/train_FR.tsv": "id\tutterance\tslot_labels\tintent\n1\tà Nice\tO B-city\tf\n",
            "slots/xSID/tr.valid.conll": "# id\n1\tx\tweather\tO\n",
            "slots/massive/de-DE.jsonl": "".join(
                json.dumps({"partition": part, "annot_utt": f"[when : {part}]"}) + "\n"
                for part in ("train", "dev", "test")
            ),
            "slots-atis/train/seq.in": "to boston\n",
            "slots-atis/train/seq.out": "O B-city\n",
            "slots-atis/train/label": "flight\n",
            "sst2/dev.tsv": "sentence\tlabel\nfine\t1\n",
            "parallel/train.en": "a\n",
            "parallel/train.de": "x\n",
            "README.md": "no data",
        },
    )
    result = {(f.task, f.language, f.split): (f.sentences, f.error) for f in check_folder(tmp_path)}
    assert all(got == (1, None) for got in result.values()), result
    assert set(result) == {
        ("pos", "de", "test"), ("ner", "en", "train"), ("ner", "en", "dev"), ("ner", "nl", "test"), ("ner", "fr", "train"),
        ("ner", "de", "test"), ("slots", "fr", "train"), ("slots", "tr", "dev"), ("slots", "de", "train"), ("slots", "de", "dev"),
        ("slots", "de", "test"), ("slots-atis", "en", "train"), ("sst2", "en", "dev"), ("parallel", "en-de", "train"),
    }  # fmt: skip
    assert load_data("slots", "de", "dev", root=tmp_path).rows == [Row(("dev",), ("B-when",))]
    assert load_data("parallel", "de-en", "train", root=tmp_path, cut="given").rows == [
        Row(("x", "a"))
    ]


def test_the_papers_own_corpus_is_the_default(tmp_path):
    put(
        tmp_path,
        {"ner/wikiann/nl/test": "nl:Jan\tB-PER\n", "ner/conll2002/ned.testb": "Piet N B-PER\n"},
    )
    assert words(load_data("ner", "nl", "test", root=tmp_path)) == ["Piet"]
    assert words(load_data("ner", "nl", "test", root=tmp_path, source="wikiann")) == ["Jan"]


def test_corpora_that_do_not_name_language_or_split(tmp_path):
    folds = {
        f"ner/ArmanPersoNER/{part}_fold{k}.txt": sentences(10 * k, 10 * k + 10, "B-pers")
        for part in ("train", "test")
        for k in (1, 2, 3)
    }
    put(
        tmp_path,
        folds
        | {
            "ner/peoples/example.dev": "厦 B-LOC\n",
            "ner/IOB2Corpus/hironsan.txt": sentences(0, 10, "B-PSN"),
        },
    )
    assert words(load_data("ner", "zh", "dev", root=tmp_path)) == ["厦"]
    assert len(load_data("ner", "ja", "train", root=tmp_path)) == 8
    assert words(load_data("ner", "fa", "test", root=tmp_path)) == [
        f"w{i}" for i in range(10, 20)
    ]  # fold 1
    assert [
        len(load_data("ner", "fa", split, root=tmp_path, cut="pooled"))
        for split in ("train", "dev", "test")
    ] == [48, 6, 6]
    assert (
        sum(f.sentences for f in check_folder(tmp_path) if f.language == "fa") == 60
    )  # every file is seen


def test_glue_and_xnli_as_they_are_given_out(tmp_path):
    head = "language\tgold_label\tsentence1\tsentence2\n"
    put(
        tmp_path,
        {
            "SST-2/train.tsv": "sentence\tlabel\nfine\t1\n",
            "MNLI/dev_matched.tsv": "index\tsentence1\tsentence2\tlabel1\tgold_label\n0\ta\tb\tx\tneutral\n",
            "XNLI/xnli.dev.tsv": head + "de\tneutral\ta\tb\nfr\tneutral\tc\td\nde\tneutral\te\tf\n",
        },
    )
    assert len(load_data("sst2", "en", "train", root=tmp_path)) == 1
    assert load_data("mnli", "en", "dev", root=tmp_path).rows == [Row(("a", "b"), ("neutral",))]
    assert [row.texts[0] for row in load_data("xnli", "de", "dev", root=tmp_path).rows] == [
        "a",
        "e",
    ]
    with pytest.raises(DataError, match=r"xnli\.dev\.tsv:1: no sentence"):
        load_data("xnli", "sw", "dev", root=tmp_path)


# --- datasets out of datasets -------------------------------------------------------------------


def test_deduplicate_takes_test_rows_out_of_train(root):
    (root / "pos/UD_A/en-train.tsv").write_text(
        sentences(24, 28) + sentences(0, 2) + sentences(0, 1)
    )
    left = load_data("pos", "en", "train", root=root, deduplicate=True)
    assert words(left) == ["w0", "w1"]
    assert left.notes == {"repeated rows dropped": 1, "rows of other splits dropped": 4}


def test_parts_through_load_data(root):
    part = load_data("pos", "en", "train", root=root, parts=3)
    assert len(part) == 6
    assert part.notes == {"rows outside the first 3 of 10 parts": 14}
    with pytest.raises(DataError, match="expects 1 to 10, got 11"):
        load_data("pos", "en", "train", root=root, parts=11)


# --- the small world ----------------------------------------------------------------------------


# --- fingerprints -------------------------------------------------------------------------------


def test_packing_does_not_change_the_fingerprint(root):
    before = load_data("pos", "en", "test", root=root).fingerprint
    path = root / "pos/UD_A/en-test.tsv"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n")))
    assert load_data("pos", "en", "test", root=root).fingerprint == before
    path.write_text(sentences(25, 29) + "w29\tVERB\n")
    assert load_data("pos", "en", "test", root=root).fingerprint != before


def test_reading_checking_and_scoring_need_no_torch(root):
    code = (
        "import sys; from deadhead.tasks import *; "
        f"d = load_data('pos', 'en', 'test', root={str(root)!r}); list(check_folder({str(root)!r})); "
        "print(score('pos', [['NOUN']] * 5, d)); "
        "print({'torch', 'transformers', 'datasets', 'seqeval', 'sacrebleu', 'yaml'} & set(sys.modules))"
    )
    path = str(Path(deadhead.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": path, "PATH": ""},
        check=True,
    )
    assert done.stdout.splitlines() == [
        "{'micro_f1': 1.0, 'macro_f1': 1.0, 'chunk_f1': 1.0}",
        "set()",
    ]


@pytest.mark.parametrize("lang", ["en", "en-", "-de"])
def test_a_translation_needs_a_pair(lang):
    with pytest.raises(DataError, match=r"parallel is a translation.*\n.*such as en-de"):
        load_data("parallel", lang, "dev", root="world")
    assert len(load_data("parallel", "en-de", "dev", root="world"))
