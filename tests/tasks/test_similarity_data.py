"""Pairs with a score: every form in which STS sets are distributed, and what is wrong with one."""

import json

import pytest

from deadhead.errors import DataError
from deadhead.tasks import Row, check_folder, load_data, read_task_file

PAIRS = [
    Row(("A dog runs.", "A dog is running."), ("4.8",)),
    Row(("A dog.", "She sings."), ("0.2",)),
]
GLUE = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"


def write(folder, name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def lines(form):
    return "".join(form.format(*row.texts, *row.labels, n=n) + "\n" for n, row in enumerate(PAIRS))


FORMS = {
    "STS-B/dev.tsv": GLUE + lines("{n}\tmain\tfile\t2012\t{n}\tx\ty\t{0}\t{1}\t{2}"),
    "sts-dev.csv": lines("main\tfile\t2012\t{n}\t{2}\t{0}\t{1}\tx\ty"),
    "dev.csv": "sentence1,sentence2,label\n" + lines('"{0}",{1},{2}'),
    "valid.tsv": lines("{0}\t{1}\t{2}"),
    "dev.jsonl": "".join(
        json.dumps({"sentence1": a, "sentence2": b, "similarity": float(s)}) + "\n"
        for (a, b), (s,) in PAIRS
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_pairs(name, tmp_path):
    data = load_data("similarity", split="dev", root=write(tmp_path, name, FORMS[name]))
    assert (data.rows, data.lang, data.labels, dict(data.notes)) == (PAIRS, "en", (), {})
    alone = load_data("similarity", split="test", root=tmp_path / name)  # one file, for any split
    assert alone.rows == PAIRS
    assert alone.fingerprint == data.fingerprint


def test_the_sub_sets_of_a_year_are_one_set(tmp_path):
    for name, rows in (("MSRpar", PAIRS[:1]), ("surprise.OnWN", PAIRS[1:])):
        texts = "".join("\t".join(row.texts) + "\tmore\n" for row in rows)
        write(tmp_path, f"sts2012/test-gold/STS.input.{name}.txt", texts + "no\tscore\n")
        scores = "".join(row.labels[0] + "\n" for row in rows)
        write(tmp_path, f"sts2012/test-gold/STS.gs.{name}.txt", scores + "\n")
    write(tmp_path, "sts2012/test-gold/STS.input.alone.txt", "a\tb\n")
    data = load_data("similarity", split="test", root=tmp_path / "sts2012")
    assert (sorted(data.rows), data.lang) == (sorted(PAIRS), "en")
    assert data.notes == {"dropped: no gold score": 2, "files read as one split": 2}
    findings = [*check_folder(tmp_path / "sts2012", "similarity")]
    assert [(f.task, f.split, f.sentences) for f in findings[:1]] == [("similarity", "test", 2)]
    assert findings[1].skipped == "its scores, STS.gs.alone.txt, are not beside it"
    flat = load_data("similarity", split="test", root=tmp_path / "sts2012" / "test-gold")
    assert flat.rows == data.rows


def test_a_column_of_languages(tmp_path):
    text = "language\tsentence1\tsentence2\tscore\n"
    text += "de\tEin Hund.\tSie singt.\t0.5\npl\tPies.\tPies.\t5\n"
    folder = write(tmp_path, "dev.tsv", text)
    for root in (folder, folder / "dev.tsv"):
        german = load_data("similarity", "de", root=root)
        assert german.rows == [Row(("Ein Hund.", "Sie singt."), ("0.5",))]
        assert load_data("similarity", "pl", root=root).rows[0].labels == ("5.0",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sentence1\tsentence2\tscore\n", "dev.tsv:1: no pair in the file"),
        ("a\tb\t5.5\n", "dev.tsv:1: '5.5' is not a score from 0 to 5; a task file may name"),
        ("a\tb\tgood\n", "dev.tsv:1: 'good' is not a score; a task"),
        ("a\tb\tnan\n", "dev.tsv:1: 'nan' is not a score; a task"),
        ("a\tb\t-1\n", "withholds its scores"),
        ("sentence1\tsentence2\nx\ty\n", "none is score or label or similarity"),
        ("a\tb\t1\nc\t2\n", "dev.tsv:2: 2 columns where 3 were expected"),
    ],
)
def test_what_is_wrong_with_a_table(text, message, tmp_path):
    with pytest.raises(DataError) as error:
        load_data("similarity", root=write(tmp_path, "dev.tsv", text))
    assert message in error.value.message


@pytest.mark.parametrize(
    ("texts", "scores", "message"),
    [
        ("a\tb\nc\td\n", "1\n", "the file ends here"),
        ("a\tb\n", "7\n", "STS.gs.x.txt:1: '7' is not a score from 0 to 5"),
        ("a b\n", "1\n", "STS.input.x.txt:1: one sentence where two were expected"),
        ("a\tb\n", "\n", "no pair in the file"),
    ],
)
def test_what_is_wrong_with_files_of_sts(texts, scores, message, tmp_path):
    write(tmp_path, "STS.input.x.txt", texts)
    with pytest.raises(DataError) as error:
        load_data("similarity", split="test", root=write(tmp_path, "STS.gs.x.txt", scores))
    assert message in error.value.message


def test_pairs_without_a_score_are_counted(tmp_path):
    rows = [{"sentence1": "a", "sentence2": "b", "score": score} for score in (1, None, "", 2.5)]
    folder = write(tmp_path, "dev.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    data = load_data("similarity", root=folder)
    assert [row.labels for row in data.rows] == [("1.0",), ("2.5",)]
    assert data.notes == {"dropped: no gold score": 2}


def test_a_task_file_names_another_range(tmp_path):
    write(tmp_path, "test.tsv", "left\tright\tpercent\na\tb\t80\n")
    task = "kind: similarity\ntexts: [left, right]\nlabel: percent\nfiles: {test: test.tsv}\n"
    file = write(tmp_path, "own.yaml", task + "scores: [0, 100]\n") / "own.yaml"
    assert load_data(str(file), split="test").rows == [Row(("a", "b"), ("80.0",))]
    write(tmp_path, "own.yaml", task)
    with pytest.raises(DataError, match="'80' is not a score from 0 to 5"):
        load_data(str(file), split="test")
    write(tmp_path, "own.yaml", task + "scores: [5, 0]\n")
    with pytest.raises(DataError, match="expects the lowest and the highest"):
        read_task_file(file)
