"""A task of your own in a few lines of YAML takes the same road as those of the table."""

import pytest

from deadhead.errors import DataError, UnknownName
from deadhead.tasks import Row, load_data, read_task_file, score
from deadhead.tasks.load import data_files

REVIEWS = """
name: reviews
kind: classify
labels: [bad, good]
texts: [review]
label: stars
metrics: [accuracy]
files: {train: train.tsv, test: "{lang}/test.tsv"}
"""


def test_classification(tmp_path):
    (tmp_path / "task.yaml").write_text(REVIEWS)
    (tmp_path / "de").mkdir()
    (tmp_path / "de/test.tsv").write_text("review\tstars\nprima\tgood\nmies\t0\n")
    data = load_data(str(tmp_path / "task.yaml"), "de", "test")
    assert data.rows == [Row(("prima",), ("good",)), Row(("mies",), ("bad",))]
    assert score(data.task, ["good", "good"], data) == {"accuracy": 0.5}


def test_a_language_that_the_file_does_not_list_is_refused(tmp_path):
    """Without {lang} in its paths, each language would read the same file."""
    (tmp_path / "task.yaml").write_text(REVIEWS.replace("{lang}/", "") + "languages: [en, de]\n")
    (tmp_path / "test.tsv").write_text("review\tstars\nprima\tgood\n")
    name = str(tmp_path / "task.yaml")
    assert len(load_data(name, "de", "test")) == 1
    for langs in ("xx", ["en", "xx"]):
        with pytest.raises(UnknownName, match=r"no language of reviews \(.*task.yaml\) 'xx'"):
            load_data(name, langs, "test")


@pytest.mark.parametrize(("line", "name"), [("", "text"), ("languages: [en]\n", "en")])
def test_paths_without_a_language_need_none(tmp_path, line, name):
    (tmp_path / "{lang}").mkdir()  # braces of the folder are no place for a language
    file = tmp_path / "{lang}" / "task.yaml"
    file.write_text(REVIEWS.replace("{lang}/", "") + line)
    (file.parent / "test.tsv").write_text("review\tstars\nprima\tgood\n")
    assert load_data(str(file), split="test").lang == name
    assert load_data(str(file), "en", "test").lang == "en"  # one that is named still is


def test_paths_with_a_language_need_one(tmp_path):
    (tmp_path / "task.yaml").write_text(REVIEWS)
    with pytest.raises(DataError, match=r"needs a language: the paths in .* contain {lang}"):
        load_data(str(tmp_path / "task.yaml"), split="test")


def test_words_with_the_prefix_of_a_language_that_nobody_named(tmp_path):
    (tmp_path / "own.yaml").write_text("kind: tag\nfiles: {test: x.txt}\n")
    (tmp_path / "x.txt").write_text("de:Jan\tB-PER\nde:geht\tO\n")
    assert load_data(str(tmp_path / "own.yaml"), split="test").rows[0].texts == ("Jan", "geht")


def test_tagging_with_columns(tmp_path):
    (tmp_path / "t.yml").write_text(
        "kind: tag\nmerge: true\nformat: columns\ncolumns: {word: 1, tag: 0}\n"
        "files: {test: x.txt}\n"
    )
    (tmp_path / "x.txt").write_text("B-Person\tJan\nO\tloopt\n")
    data = load_data(read_task_file(tmp_path / "t.yml"), "nl", "test")
    assert data.task.name == "t"
    assert data.rows == [Row(("Jan", "loopt"), ("B-PER", "O"))]


def test_tags_without_spans(tmp_path):
    """Labels without prefixes say it; without any labels, the error says what to add."""
    (tmp_path / "x.txt").write_text("Dogs\tNOUN\nbark\tVERB\n\n")
    file, lines = tmp_path / "own.yaml", "kind: tag\nformat: columns\nfiles: {test: x.txt}\n"
    for more, metric in (
        ("labels: [NOUN, VERB]\n", "micro_f1"),
        ("metrics: [accuracy]\n", "accuracy"),
    ):
        file.write_text(lines + more)
        assert load_data(str(file), "en", "test").rows[0].labels == ("NOUN", "VERB")
        assert read_task_file(file).metric == metric
    file.write_text(lines)
    with pytest.raises(DataError, match="'NOUN' is not a tag") as error:
        load_data(str(file), "en", "test")
    assert "add `metrics: [micro_f1]`" in str(error.value.hint)


def test_translation_of_two_files(tmp_path):
    (tmp_path / "t.yaml").write_text("kind: translate\nfiles: {test: a.en|a.de}\n")
    (tmp_path / "a.en").write_text("one\n")
    (tmp_path / "a.de").write_text("eins\n")
    assert load_data(str(tmp_path / "t.yaml"), "en-de", "test").rows == [Row(("one", "eins"))]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (
            REVIEWS.replace("kind: classify", "kind: clasify"),
            UnknownName,
            "Did you mean 'classify'",
        ),
        (
            REVIEWS.replace("metrics: [accuracy]", "metrics: [acuracy]"),
            UnknownName,
            "Did you mean 'accuracy'",
        ),
        (
            REVIEWS.replace("metrics: [accuracy]", "metrics: [bleu]"),
            UnknownName,
            "no metric of the kind classify .* 'bleu'",
        ),
        (REVIEWS.replace("metrics: [accuracy]", "metrics: []"), DataError, "`metrics` is empty"),
        (REVIEWS + "merge: maybe\n", DataError, "`merge` expects true or false, got 'maybe'"),
        (REVIEWS.replace("texts:", "text:"), UnknownName, "Did you mean 'texts'"),
        (REVIEWS.replace("{train:", "{trian:"), UnknownName, "Did you mean 'train'"),
        (
            REVIEWS.replace("labels: [bad, good]", "labels: bad"),
            DataError,
            "`labels` expects a list, got 'bad'",
        ),
        (REVIEWS + "format: tvs\n", UnknownName, "Did you mean 'tsv'"),
        (
            REVIEWS + "columns: {word: x}\n",
            DataError,
            "`word` expects the number of a column, got 'x'",
        ),
        (REVIEWS.replace("train.tsv", "'{x}.tsv'"), DataError, r"only \{lang\} can be filled in"),
        (REVIEWS.replace("train.tsv", "'{lang.tsv'"), DataError, r"only \{lang\} can be filled in"),
        (
            REVIEWS.replace("train.tsv", "[a, b]"),
            DataError,
            r"the train file expects one path, got \['a', 'b'\]",
        ),
        (
            REVIEWS.replace("[bad, good]", "[[bad], good]"),
            DataError,
            r"`labels` expects words, got \['bad'\]",
        ),
        (REVIEWS.replace("[bad, good]", "[bad, bad]"), DataError, "`labels` has 'bad' twice"),
        (REVIEWS.replace("texts: [review]\n", ""), DataError, "`texts` is missing"),
        ("kind: tag\n", DataError, "`files` is missing"),
        ("- a\n", DataError, ":1: expected `key: value` lines"),
        ("a: [\n", DataError, r":2: not YAML"),
    ],
)
def test_mistakes_are_named(tmp_path, text, error, words):
    (tmp_path / "task.yaml").write_text(text)
    with pytest.raises(error, match=words):
        read_task_file(tmp_path / "task.yaml")


@pytest.mark.parametrize(
    ("old", "new"), [("texts: [review]", "texts: [revue]"), ("label: stars", "label: star")]
)
def test_a_header_with_a_misnamed_column_is_no_row(tmp_path, old, new):
    """Where any word is a label, the names of the columns would be the first row."""
    assert old in REVIEWS
    (tmp_path / "task.yaml").write_text(
        REVIEWS.replace("labels: [bad, good]\n", "").replace(old, new)
    )
    (tmp_path / "train.tsv").write_text("review\tstars\na fine book\tgood\n")
    with pytest.raises(
        DataError,
        match=r"train.tsv:1: the first line names columns, but none is "
        rf"{new.split()[1].strip('[]')}",
    ):
        load_data(str(tmp_path / "task.yaml"), "en", "train")


def test_two_columns_of_one_name(tmp_path):
    (tmp_path / "task.yaml").write_text(REVIEWS)
    (tmp_path / "train.tsv").write_text("review\treview\tstars\na\tb\tgood\n")
    with pytest.raises(DataError, match=r"train.tsv:1: 2 columns are named 'review'"):
        load_data(str(tmp_path / "task.yaml"), "de", "train")
    (tmp_path / "train.tsv").write_text(
        "note\tnote\treview\tstars\na\tb\tc\tgood\n"
    )  # columns nobody reads
    assert load_data(str(tmp_path / "task.yaml"), "de", "train").rows == [Row(("c",), ("good",))]


def test_blank_texts_are_counted(tmp_path):
    (tmp_path / "task.yaml").write_text(REVIEWS)
    (tmp_path / "train.tsv").write_text("review\tstars\n \tgood\nfine\tgood\n\tbad\n")
    data = load_data(str(tmp_path / "task.yaml"), "de", "train")
    assert (len(data), data.notes) == (3, {"rows with a text that is blank": 2})


def test_a_missing_task_file_is_named(tmp_path):
    with pytest.raises(DataError, match="no such task file"):
        read_task_file(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("split", "message", "hint"),
    [
        (
            "train",
            "train.tsv: there is no such file.",
            "correct `train` under `files` in {}; paths there start at the folder of that file",
        ),
        (
            "dev",
            "task.yaml names no dev data. There is: train, test.",
            "add dev: FILE under `files` in {}",
        ),
    ],
)
@pytest.mark.parametrize("find", [load_data, data_files])
def test_data_that_is_not_there(tmp_path, find, split, message, hint):
    """The folder of other data has no part in it."""
    (tmp_path / "task.yaml").write_text(REVIEWS)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(DataError) as seen:
        find(str(tmp_path / "task.yaml"), "de", split, root=other, cut="given")
    assert seen.value.message.removeprefix(f"{tmp_path}/") == message
    assert seen.value.hint == hint.format(tmp_path / "task.yaml")
