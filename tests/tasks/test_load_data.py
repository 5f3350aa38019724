"""From task, language and split to rows: found, cut, put together and taken apart."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from data_folder import put, sizes, words

import deadhead
from deadhead.errors import DataError, UnknownName
from deadhead.tasks import Row, check_folder, concatenate, load_data
from deadhead.tasks.task import SPLITS


def sentences(start, stop, label="NOUN"):
    return "".join(f"w{i}\t{label}\n\n" for i in range(start, stop))


@pytest.fixture
def root(tmp_path):
    """Files in folders of any name, which the manifest describes."""
    splits = {"train": (0, 20), "dev": (20, 25), "test": (25, 30)}
    files = {
        **{f"pos/UD_A/en-{split}.tsv.gz": sentences(*ends) for split, ends in splits.items()},
        "pos/UD_B/en-test.tsv": sentences(90, 93),
        "ner/fa-train.txt": sentences(0, 50, "B-pers"),
        "ner/fa-test.txt": sentences(50, 60, "B-loc"),
        "ner/ja.conll": sentences(0, 1000, "B-PERSON"),
        "nt/src.eng": "a\nb\n",
        "nt/ref.deu": "x\ny\n",
        "nt/ref.rus": "m\nn\n",
        "mnli/train.tsv": "".join(f"p{i}\th{i}\tneutral\n" for i in range(3)),
    }
    names = {"en": "src.eng", "de": "ref.deu", "ru": "ref.rus"}
    tasks = {
        "pos": {"en": {split: f"pos/UD_A/en-{split}.tsv.gz" for split in splits}},
        "ner": {
            "fa": {"train": "ner/fa-train.txt", "test": "ner/fa-test.txt"},
            "ja": {"train": "ner/ja.conll"},
        },
        "parallel-nt": {lang: {"test": f"nt/{name}"} for lang, name in names.items()},
        "mnli": {"en": {"train": "mnli/train.tsv"}},
    }
    forms = {"pos": "tsv2", "ner": "iob2", "nt": "lines", "mnli": "tsv"}
    about = {"task": "pos", "language": "en", "split": "test"}
    listed = {name: {**about, "format": forms[name.partition("/")[0]]} for name in files}
    return put(tmp_path, {**files, "manifest.json": json.dumps({"tasks": tasks, "files": listed})})


def test_splits_as_given(root, monkeypatch):
    data = load_data("pos", "en", "dev", root=root)
    assert (data.lang, data.split, data.labels[0]) == ("en", "dev", "ADJ")
    assert (data.used_labels, data.notes) == (("NOUN",), {})
    assert words(data) == [f"w{i}" for i in range(20, 25)]
    monkeypatch.setenv("DEADHEAD_DATA", str(root))
    assert load_data("pos", "en", "dev").fingerprint == data.fingerprint


def test_another_corpus_of_the_same_task(root):
    assert words(load_data("pos", "en", "test", root=root, source="UD_B")) == ["w90", "w91", "w92"]
    with pytest.raises(UnknownName, match="UD_A, UD_B"):
        load_data("pos", "en", "test", root=root, source="UD_C")


def test_the_last_tenth_replaces_a_missing_dev_set(root):
    train, dev, test = (load_data("ner", "fa", split, root=root) for split in SPLITS)
    assert words(train) + words(dev) == [f"w{i}" for i in range(50)]
    assert (len(dev), len(test)) == (5, 10)
    assert dev.notes == {"rows of the file not in this share (dev)": 45}
    assert len(load_data("ner", "fa", "train", root=root, cut="given")) == 50
    with pytest.raises(DataError, match="no dev data of ner in fa"):
        load_data("ner", "fa", "dev", root=root, cut="given")


def test_a_corpus_without_splits_is_cut_in_file_order(root):
    parts = [load_data("ner", "ja", split, root=root) for split in SPLITS]
    assert [len(part) for part in parts] == [800, 100, 100]
    assert [w for part in parts for w in words(part)] == [f"w{i}" for i in range(1000)]


def test_pooled_takes_all_files_of_the_corpus(root):
    assert sizes("ner", "fa", root, cut="pooled") == [48, 6, 6]


def test_entity_types_are_merged_by_default(root):
    assert load_data("ner", "fa", "test", root=root).used_labels == ("B-LOC",)
    raw = load_data("ner", "fa", "test", root=root, merge=False)
    assert raw.labels == raw.used_labels == ("B-loc",)


def test_single_languages_make_a_pair(root):
    for pair, rows in {"en-de": ["ax", "by"], "ru-en": ["ma", "nb"]}.items():
        data = load_data("parallel-nt", pair, "test", root=root)
        assert data.rows == [Row(tuple(row)) for row in rows]
    assert [f.language for f in check_folder(root) if f.task == "parallel-nt"] == ["en-de", "en-ru"]


def test_xnli_trains_on_mnli(root):
    data = load_data("xnli", "en", "train", root=root)
    assert len(data) == 3  # whole: only tagged corpora are cut


def test_several_languages_in_fixed_order(root):
    both = load_data("ner", ["ja", "fa"], "test", root=root)
    first, other = (load_data("ner", lang, "test", root=root) for lang in ("ja", "fa"))
    assert list(both.rows) == [*first.rows, *other.rows]
    assert both.lang == "ja+fa"
    assert both.fingerprint != concatenate([other, first]).fingerprint


def test_unknown_names_are_named(root):
    for name, split, guess in (("poss", "test", "pos"), ("pos", "tets", "test")):
        with pytest.raises(UnknownName, match=f"Did you mean '{guess}'"):
            load_data(name, "en", split, root=root)
    with pytest.raises(DataError, match="no such folder"):
        load_data("pos", "en", "test", root=root / "nowhere")


def test_an_empty_file_is_an_error_with_its_place(root):
    (root / "pos/UD_A/en-test.tsv.gz").write_text("\n")
    with pytest.raises(DataError, match=r"en-test\.tsv\.gz:1: no sentence"):
        load_data("pos", "en", "test", root=root)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"tasks": {"pos": {"en": {"test": "f"}}}, "files": {}}']
)
def test_a_damaged_manifest_is_an_error(root, text):
    (root / "manifest.json").write_text(text)
    with pytest.raises(DataError, match=r"manifest\.json: not a manifest"):
        load_data("pos", "en", "test", root=root)


# --- folders that only have names ---------------------------------------------------------------

NAMED = {  # a file of one row -> task, language, splits
    "pos/UD_German-GSD/de_gsd-ud-test.conllu": (
        "1\tHi\t_\tINTJ\t_\t_\t_\t_\t_\t_\n",
        "pos de test",
    ),
    "ner/conll2003/eng.train": ("EU NNP I-NP I-ORG\n", "ner en train"),
    "ner/conll2003/eng.testa": ("EU NNP I-NP I-ORG\n", "ner en dev"),
    "ner/conll2002/ned.testb.gz": ("Jan N B-PER\n", "ner nl test"),
    "ner/wikiann/fr/train": ("fr:Paris\tB-LOC\n", "ner fr train"),
    "ner/germeval/NER-de-test.tsv": ("#\thttp\n1\tBonn\tB-LOC\tO\n", "ner de test"),
    "slots/MultiATIS/train_FR.tsv": (
        "id\tutterance\tslot_labels\tintent\n1\tà Nice\tO B-city\tf\n",
        "slots fr train",
    ),
    "slots/xSID/tr.valid.conll": ("# id\n1\tx\tweather\tO\n", "slots tr dev"),
    "slots/massive/de-DE.jsonl": (
        "".join(
            json.dumps({"partition": part, "annot_utt": f"[when : {part}]"}) + "\n"
            for part in SPLITS
        ),
        "slots de train dev test",
    ),
    "slots-atis/train/seq.in": ("to boston\n", "slots-atis en train"),
    "slots-atis/train/seq.out": ("O B-city\n", ""),
    "slots-atis/train/label": ("flight\n", ""),
    "sst2/dev.tsv": ("sentence\tlabel\nfine\t1\n", "sst2 en dev"),
    "parallel/train.en": ("a\n", "parallel en-de train"),
    "parallel/train.de": ("x\n", ""),
    "README.md": ("no data", ""),
}


def test_names_say_what_files_are(tmp_path):
    put(tmp_path, {name: text for name, (text, _) in NAMED.items()})
    result = {(f.task, f.language, f.split): (f.sentences, f.error) for f in check_folder(tmp_path)}
    assert all(got == (1, None) for got in result.values()), result
    expected = [place.split(" ") for _, place in NAMED.values() if place]
    assert {*result} == {(task, lang, split) for task, lang, *all_ in expected for split in all_}
    assert load_data("slots", "de", "dev", root=tmp_path).rows == [Row(("dev",), ("B-when",))]
    atis = load_data("slots-atis", "en", "train", root=tmp_path, cut="given")
    assert atis.rows == [Row(("to", "boston"), ("O", "B-city"))]
    turned = load_data("parallel", "de-en", "train", root=tmp_path, cut="given")
    assert turned.rows == [Row(("x", "a"))]


def test_the_papers_own_corpus_is_the_default(tmp_path):
    corpora = {"wikiann/nl/test": "nl:Jan\tB-PER\n", "conll2002/ned.testb": "Piet N B-PER\n"}
    put(tmp_path, {f"ner/{name}": text for name, text in corpora.items()})
    assert words(load_data("ner", "nl", "test", root=tmp_path)) == ["Piet"]
    assert words(load_data("ner", "nl", "test", root=tmp_path, source="wikiann")) == ["Jan"]


def test_corpora_that_do_not_name_language_or_split(tmp_path):
    files = {
        f"ner/ArmanPersoNER/{part}_fold{fold}.txt": sentences(10 * fold, 10 * fold + 10, "B-pers")
        for part in ("train", "test")
        for fold in (1, 2, 3)
    }
    files |= {"ner/peoples/example.dev": "厦 B-LOC\n"}
    put(tmp_path, files)
    assert words(load_data("ner", "zh", "dev", root=tmp_path)) == ["厦"]
    fold = load_data("ner", "fa", "test", root=tmp_path)
    assert words(fold) == [f"w{i}" for i in range(10, 20)]  # the first
    assert sizes("ner", "fa", tmp_path, cut="pooled") == [48, 6, 6]
    every = [f.sentences for f in check_folder(tmp_path) if f.language == "fa"]
    assert sum(every) == 60  # the check reads all folds


# --- datasets out of datasets -------------------------------------------------------------------


def test_deduplicate_takes_test_rows_out_of_train(root):
    repeated = sentences(24, 28) + sentences(0, 2) + sentences(0, 1)
    put(root, {"pos/UD_A/en-train.tsv.gz": repeated})
    distinct = load_data("pos", "en", "train", root=root, deduplicate=True)
    assert words(distinct) == ["w0", "w1"]
    assert distinct.notes == {"repeated rows dropped": 1, "rows of other splits dropped": 4}


def test_parts_through_load_data(root):
    part = load_data("pos", "en", "train", root=root, parts=3)
    assert len(part) == 6
    assert part.notes == {"rows outside the first 3 of 10 parts": 14}
    for parts in (0, 11):
        with pytest.raises(DataError, match=f"expects 1 to 10, got {parts}"):
            load_data("pos", "en", "train", root=root, parts=parts)


def test_packing_does_not_change_the_fingerprint(root):
    before = load_data("pos", "en", "test", root=root).fingerprint
    path = root / "pos/UD_A/en-test.tsv.gz"
    path.write_bytes(b"\xef\xbb\xbf" + gzip.decompress(path.read_bytes()).replace(b"\n", b"\r\n"))
    assert load_data("pos", "en", "test", root=root).fingerprint == before
    path.write_text(sentences(25, 29) + "w29\tVERB\n")
    assert load_data("pos", "en", "test", root=root).fingerprint != before


def test_reading_checking_and_scoring_need_no_torch(root):
    code = (
        "import sys; from deadhead.tasks import *; "
        f"d = load_data('pos', 'en', 'test', root={str(root)!r}); "
        f"list(check_folder({str(root)!r})); "
        "print(score('pos', [['NOUN']] * 5, d)); "
        "print({'torch', 'transformers', 'datasets', 'seqeval', 'sacrebleu', 'yaml'} & "
        "set(sys.modules))"
    )
    env = {"PYTHONPATH": str(Path(deadhead.__file__).parents[1]), "PATH": ""}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    scores = "{'micro_f1': 1.0, 'macro_f1': 1.0, 'chunk_f1': 1.0}"
    assert done.stdout.splitlines() == [scores, "set()"]


@pytest.mark.parametrize("lang", ["en", "en-", "-de"])
def test_a_translation_needs_a_pair(lang):
    with pytest.raises(DataError, match=r"parallel is a translation.*\n.*such as en-de"):
        load_data("parallel", lang, "dev", root="world")
