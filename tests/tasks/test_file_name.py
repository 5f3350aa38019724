"""Names of files and folders: each split comes from one file, and what is not read is reported."""

from pathlib import Path

import pytest
from data_folder import put, sizes
from typer.testing import CliRunner

from deadhead.cli.data import app
from deadhead.errors import DataError, UnknownName
from deadhead.tasks import check_folder, data_files, find_data, load_data

PAWSX = "id\tsentence1\tsentence2\tlabel\n1\tein Satz\tnoch einer\t0\n"
CONLLU = "1\tHallo\t_\tINTJ\t_\t_\t_\t_\t_\t_\n\n"


def tagged(size, tag="B-city"):
    return f"nach\tO\nBonn\t{tag}\n\n" * size


def skipped(root, task=None):
    """The files that are not read, with the reasons."""
    return {row.source: row.skipped for row in check_folder(root, task) if row.skipped}


@pytest.mark.parametrize(
    ("dev", "packed"), [("eval", ".gz"), ("development", ""), ("devel", ""), ("valid", "")]
)
def test_other_words_for_dev_do_not_hide_train(tmp_path, dev, packed):
    splits = {"train": 7, dev: 3, "test": 2}
    put(tmp_path, {f"slots/es/{n}-es.txt{packed}": tagged(size) for n, size in splits.items()})
    assert sizes("slots", "es", tmp_path) == [7, 3, 2]
    assert sorted(row.split for row in check_folder(tmp_path)) == ["dev", "test", "train"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("slots/train-es.txt", "slots/train-es.txt.gz"),
        ("slots/train-es.txt", "slots/es/train.txt"),
        ("slots/fb/dev-es.txt", "slots/fb/eval-es.txt"),
        ("slots/es_a.txt", "slots/es_b.txt"),  # not in the folder of a corpus
        ("slots/fb/es.txt", "slots/fb/es.tsv"),
        ("slots/fb/es-train.txt", "slots/fb/es-train_old.txt"),
        ("slots/fb/es-train2013.txt", "slots/fb/es-train2014.txt"),
    ],
)
def test_two_files_for_one_split_are_an_error_that_names_both(tmp_path, one, other):
    put(tmp_path, {one: tagged(2), other: tagged(3), "slots/fr/train-fr.txt": tagged(4)})
    split = "dev" if "dev" in one else "train"
    with pytest.raises(DataError, match="2 files for one split") as error:
        load_data("slots", "es", split, root=tmp_path)
    assert all(str(tmp_path / name) in str(error.value) for name in (one, other))
    assert str(find_data("slots", "es", [split], root=tmp_path)[split]) == str(error.value)
    assert any("2 files for one split" in (row.error or "") for row in check_folder(tmp_path))
    assert len(load_data("slots", "fr", "train", root=tmp_path)) == 3  # the rest is dev and test


@pytest.mark.parametrize(
    "names",
    [
        ("ner/aqmar/Atom.txt", "ner/aqmar/Real_Madrid.txt", "ner/aqmar/Universities_of_the_UK.txt"),
        ("ner/mine/ar/train/b.txt", "ner/mine/ar/train/a.txt.gz"),
        ("ner/mine/ar-train-a-1.txt", "ner/mine/ar-train-b-1.txt", "ner/mine/ar-train-b-2.txt"),
        ("ner/mine/ar-train-00000-of-00002.txt", "ner/mine/ar-train-00001-of-00002.txt"),
    ],
)
def test_parts_of_a_split_are_read_in_the_order_of_their_names(tmp_path, names):
    put(tmp_path, {name: f"{Path(name).name}\tO\n\n" * 10 for name in names})
    data = load_data("ner", "ar", "train", root=tmp_path, cut="given")
    assert [row.texts[0] for row in data.rows[::10]] == sorted(Path(name).name for name in names)
    assert (len(data), len(data.files)) == (10 * len(names), len(names))
    assert data.notes["files read as one split"] == len(names)
    assert len(data_files("ner", "ar", "train", root=tmp_path)) == len(names)
    assert [row.notes for row in check_folder(tmp_path)] == [data.notes]


@pytest.mark.parametrize("inside", [False, True])  # from inside the folder, named as `.`
def test_the_folder_that_is_named_may_be_the_corpus(inside, tmp_path, monkeypatch):
    root = tmp_path / "AQMAR_Arabic_NER_corpus-1.0"
    put(root, {"Linux.txt": tagged(2, "B-LOC"), "Light.txt": tagged(1, "B-LOC")})
    if inside:
        monkeypatch.chdir(root)
        root = Path()
    data = load_data("ner", "ar", "train", root=root, cut="given")
    assert (len(data), data.notes["files read as one split"]) == (3, 2)


@pytest.mark.parametrize("folder", ["conll2003", "AQMAR_Arabic_NER_corpus-1.0"])
def test_a_corpus_of_entities_is_not_read_as_slots(folder, tmp_path):
    put(tmp_path, {f"{folder}/en.{split}": tagged(2, "B-LOC") for split in ("train", "testa")})
    assert len(load_data("ner", "en", "train", root=tmp_path)) == 2
    reason = r"en\.testa \(a corpus of ner, which has no labels of slots\)"
    with pytest.raises(DataError, match=f"no train data of slots in en .*{reason}"):
        load_data("slots", "en", "train", root=tmp_path)
    (tmp_path / folder).rename(tmp_path / "mine")
    assert len(load_data("slots", "en", "train", root=tmp_path)) == 2


def test_several_pairs_in_one_folder(tmp_path):
    sides = [(pair, code) for pair in ("en-de", "en-ru") for code in pair.split("-")]
    put(tmp_path, {f"parallel/train.{pair}.{code}": f"{pair} {code}\n" for pair, code in sides})
    for pair in ("en-ru", "en-de"):
        (row,) = load_data("parallel", pair, "train", root=tmp_path).rows
        assert row.texts == tuple(f"{pair} {code}" for code in pair.split("-"))


# --- other tasks beside the one that is asked for ----------------------------------------------


@pytest.mark.parametrize("treebank", ["pos/UD_German-GSD", "UD_German-GSD"])
@pytest.mark.parametrize(
    "other", ["pawsx/de/test_2k.tsv", "paws-x/de-dev.tsv", "reviews/de-test.tsv"]
)
def test_a_folder_of_another_task_never_blocks(tmp_path, treebank, other):
    files = {f"{treebank}/de_gsd-ud-{split}.conllu": CONLLU for split in ("dev", "test")}
    put(tmp_path, files | {other: PAWSX})
    assert len(load_data("pos", "de", "test", root=tmp_path)) == 1
    printed = CliRunner().invoke(app, ["check", str(tmp_path), "--task", "pos"])
    assert printed.exit_code == 0, printed.output
    assert f"skipped {other}: " in printed.stdout
    assert "2 splits read, 2 sentences; 0 cannot be read; 1 file skipped." in printed.stdout


def test_a_check_of_one_task_skips_the_others(tmp_path):
    put(tmp_path, {"pos/de-test.conllu": CONLLU, "ner/de-test.txt": tagged(2, "B-LOC")})
    rows = [row for row in check_folder(tmp_path, "ner") if not row.skipped]
    assert [(row.task, row.error) for row in rows] == [("ner", None)]
    assert skipped(tmp_path, "ner") == {"pos/de-test.conllu": "data of another task, pos"}


def test_what_is_skipped_is_named_where_data_is_missing(tmp_path):
    put(tmp_path, {"de/test.tsv": PAWSX})
    named = r"pos in de .*Skipped: de/test\.tsv \(does not look like data of pos\)"
    with pytest.raises(DataError, match=f"no test data of {named}"):
        load_data("pos", "de", "test", root=tmp_path)
    named = r"data.\n  de/test\.tsv: no folder names its task"
    with pytest.raises(DataError, match=f"nothing here that looks like {named}"):
        list(check_folder(tmp_path))


def test_a_file_without_a_split_is_a_corpus_only_alone(tmp_path):
    put(tmp_path, {"slots/xSID/de.valid.txt": tagged(1), "slots/xSID/de.projected.txt": tagged(9)})
    assert isinstance(find_data("slots", "de", ["train"], root=tmp_path)["train"], DataError)
    assert [*skipped(tmp_path)] == ["slots/xSID/de.projected.txt"]
    (tmp_path / "slots/xSID/de.valid.txt").unlink()
    assert len(load_data("slots", "de", "train", root=tmp_path)) == 7


# --- corpora as they are given out --------------------------------------------------------------


@pytest.mark.parametrize("folder", ["ner/IOB2Corpus", "ner/iob2corpus-ja", "IOB2Corpus"])
def test_iob2corpus_is_ja_wikipedia(tmp_path, folder):
    wikipedia = tagged(100, "B-PERSON")
    other = {f"{folder}/hironsan.txt": tagged(50, "B-PSN")}
    put(tmp_path, {f"{folder}/ja.wikipedia.conll.gz": wikipedia, **other})
    assert sizes("ner", "ja", tmp_path) == sizes("ner", "ja", tmp_path, cut="pooled")
    assert sizes("ner", "ja", tmp_path) == [80, 10, 10]
    assert len(load_data("ner", "ja", "train", root=tmp_path, source="hironsan")) == 40
    # which of the two is read, and how to read the other
    listed = {finding.sentences: finding.only_with for finding in check_folder(tmp_path, "ner")}
    assert listed == {50: "hironsan", 100: ""}
    with pytest.raises(UnknownName, match="hironsan"):
        load_data("ner", "ja", "train", root=tmp_path, source="hironsam")


def test_utterances_and_labels_with_a_language_in_their_names(tmp_path):
    texts = {"text.en.gz": "to bonn\n", "label.en.gz": "O B-city\tbook\n"}
    put(tmp_path, {f"slots/xSID-train-en/{name}": text for name, text in texts.items()})
    assert load_data("slots", "en", "train", root=tmp_path).rows[0].labels == ("O", "B-city")


def test_glue_as_it_is_given_out(tmp_path):
    head = "index\tsentence1\tsentence2\tgold_label\n"
    qqp = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    files = {
        "MNLI/train.tsv": head + "0\ta\tb\tneutral\n" * 3,
        "MNLI/dev_matched.tsv": head + "0\tc\td\tneutral\n",
        "MNLI/dev_mismatched.tsv": head + "0\te\tf\tneutral\n" * 2,
        "MNLI/test_matched.tsv": "index\tsentence1\tsentence2\n0\tg\th\n",
        "MNLI/original/multinli_1.0_train.txt": head + "0\tx\ty\tneutral\n",
        "QQP/train.tsv": qqp + "0\t1\t2\ta\tb\t0\n1\t3\t4\tbroken\n\tgoes on\t1\n",
    }
    put(tmp_path, files)
    assert len(load_data("mnli", "en", "train", root=tmp_path)) == 3
    assert load_data("mnli", "en", "dev", root=tmp_path).rows[0].texts == ("c", "d")
    assert len(load_data("mnli", "en", "dev", root=tmp_path, source="mismatched")) == 2
    broken = load_data("qqp", "en", "train", root=tmp_path)
    assert (len(broken), broken.notes) == (1, {"malformed lines dropped": 2})
    with pytest.raises(DataError, match=r"train\.tsv:3: 4 columns where 6 were expected"):
        load_data("qqp", "en", "train", root=tmp_path, malformed="error")
    assert skipped(tmp_path) == {
        "MNLI/original/multinli_1.0_train.txt": "the original files that GLUE packs beside its own",
        "MNLI/test_matched.tsv": "it has no labels, as the test sets of GLUE",
    }
