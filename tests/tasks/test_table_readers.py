"""Tables give the rows that they hold, whatever separates their columns; broken lines are named."""

import json

import pytest
from read_text import read

from deadhead.errors import DataError
from deadhead.tasks import Row

PAIR = Row(("A man, so to speak.", 'He said "no".'), ("neutral",))


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("tsv", 'A man, so to speak.\tHe said "no".\tneutral\n'),
        (
            "tsv",
            "index\tsentence1\tsentence2\tgold_label\n"
            '7\tA man, so to speak.\tHe said "no".\tneutral\n',
        ),
        ("csv", 'premise,hypothesis,label\n"A man, so to speak.","He said ""no"".",1\n'),
        ("jsonl", json.dumps({"premise": PAIR.texts[0], "hypothesis": PAIR.texts[1], "label": 1})),
        (
            "jsonl",
            json.dumps(
                {"sentence1": PAIR.texts[0], "sentence2": PAIR.texts[1], "gold_label": "neutral"}
            ),
        ),
    ],
    ids=["tsv", "tsv with header", "csv", "jsonl by number", "jsonl by name"],
)
def test_tables(tmp_path, form, text):
    assert read(tmp_path, form, text, "mnli") == ([PAIR], {})


def test_the_original_columns_of_mrpc(tmp_path):
    text = 'Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tHe said "no".\tHe refused.\n'
    rows, notes = read(tmp_path, "tsv", text, "mrpc")
    assert (rows, notes) == ([Row(('He said "no".', "He refused."), ("equivalent",))], {})


def test_sentences_of_cola(tmp_path):
    rows, _ = read(tmp_path, "tsv", "sentence\tlabel\nHe go.\t0\nHe goes.\t1\n", "cola")
    assert [row.labels for row in rows] == [("unacceptable",), ("acceptable",)]


def test_rows_without_agreement_are_counted(tmp_path):
    rows, notes = read(tmp_path, "tsv", "a\tb\tneutral\nc\td\t-\ne\tf\tcontradictory\n", "mnli")
    assert [row.labels for row in rows] == [("neutral",), ("contradiction",)]
    assert notes == {"dropped: no label": 1}


def test_withheld_labels_are_refused(tmp_path):
    with pytest.raises(
        DataError, match=r":1: '-1' is not a label of sst2 \(the label is withheld\)"
    ):
        read(tmp_path, "tsv", "fine film\t-1\n", "sst2")


def test_malformed_lines_can_be_dropped_and_are_counted(tmp_path):
    text = "a\tb\tneutral\nbroken\nc\td\tneutral\n"
    with pytest.raises(DataError, match=r"(?s):2: 1 column where 3.*correct or remove the line"):
        read(tmp_path, "tsv", text, "mnli")
    rows, notes = read(tmp_path, "tsv", text, "mnli", malformed="drop")
    assert len(rows) == 2
    assert notes == {"malformed lines dropped": 1}
