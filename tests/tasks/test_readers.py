"""Each layout that the corpora use gives the rows that are in it."""

import gzip
import json
from collections import Counter

import pytest
from read_text import Notes, read

from deadhead.errors import DataError, UnknownName
from deadhead.tasks import TASKS, Row
from deadhead.tasks.reading.formats import FORMATS, reader_of

CONLLU = """# sent_id = 1
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_
2.1\tir\t_\tVERB\t_\t_\t_\t_\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\t_\t_\t1\tobl\t_\t_

1\t#\t#\tSYM\t_\t_\t0\troot\t_\t_
"""


def test_conllu_takes_syntactic_words_only(tmp_path):
    rows, notes = read(tmp_path, "conllu", CONLLU, "pos")
    assert rows[0] == Row(
        ("vamos", "nos", "a", "el", "mar"), ("VERB", "PRON", "ADP", "DET", "NOUN")
    )
    assert rows[1] == Row(("#",), ("SYM",))
    assert notes == {"multiword ranges and empty nodes skipped": 3}


@pytest.mark.parametrize(
    ("spoil", "line", "words"),
    [
        (("3\ta\ta", "7\ta\ta"), 8, "'7' where 3"),
        (("2\tnos\t", "2\t\t"), 5, "no word"),
        (("DET", "DETT"), 9, "'DETT' is not a label of pos"),
        (("\n\n1", "\n1"), 11, "'1' where 6"),
        (("4\tel\tel\t", "4\tel\t"), 9, "9 columns"),
    ],
)
def test_conllu_names_the_line(tmp_path, spoil, line, words):
    assert spoil[0] in CONLLU
    with pytest.raises(DataError, match=rf"file\.txt:{line}: .*{words}"):
        read(tmp_path, "conllu", CONLLU.replace(spoil[0], spoil[1], 1), "pos")


TWO = "Der\tDET\nHund\tNOUN\n\nEr\tPRON\nbellt\tVERB\n"
TWO_ROWS = [Row(("Der", "Hund"), ("DET", "NOUN")), Row(("Er", "bellt"), ("PRON", "VERB"))]


@pytest.mark.parametrize(
    "raw",
    [
        TWO.encode(),
        TWO.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + TWO.encode(),
        gzip.compress(TWO.encode()),
        TWO.rstrip("\n").encode(),
        TWO.replace("\n\n", "\n\n\n  \n").encode(),
        TWO.replace("\t", " ").encode(),
    ],
    ids=["plain", "crlf", "bom", "gzip", "no end", "more blanks", "blanks for tabs"],
)
def test_two_columns_however_packed(tmp_path, raw):
    assert read(tmp_path, "tsv2", raw, "pos") == (TWO_ROWS, {})


CONLL2003 = """-DOCSTART- -X- -X- O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
call NN I-NP O

Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
"""


def test_conll2003_is_iob1_with_document_starts(tmp_path):
    rows, notes = read(tmp_path, "columns", CONLL2003, "ner")
    assert rows == [
        Row(("EU", "rejects", "German", "call"), ("B-ORG", "O", "B-MISC", "O")),
        Row(("Peter", "Blackburn"), ("B-PER", "I-PER")),
    ]
    assert notes == {"document starts dropped": 1, "spans begun by I-": 3}
    kept, _ = read(tmp_path, "columns", CONLL2003, "ner", document_starts="keep")
    assert kept == [Row(("-DOCSTART-",), ("O",)), *rows]


def test_conll2002_has_no_blank_line_after_a_document_start(tmp_path):
    text = "-DOCSTART- -DOCSTART- O\nDe Art O\ntekst N O\n-DOCSTART- -DOCSTART- O\nJan N B-PER\n"
    rows, notes = read(tmp_path, "columns", text, "ner")
    assert [row.texts for row in rows] == [("De", "tekst"), ("Jan",)]
    assert notes == {"document starts dropped": 2}


@pytest.mark.parametrize(
    ("form", "text", "words", "tags"),
    [
        (
            "wikiann",
            "en:New\tB-LOC\nen:York\tI-LOC\nen::\tO\n",
            ("New", "York", ":"),
            ("B-LOC", "I-LOC", "O"),
        ),
        (
            "germeval",
            "#\thttp://de.wiki [2010]\n1\tBonn\tB-LOC\tO\n2\tist\tO\tO\n",
            ("Bonn", "ist"),
            ("B-LOC", "O"),
        ),
        (
            "columns",
            "هاينريش B-PER\nفي O\nبارادايم B-MIS1\n",
            ("هاينريش", "في", "بارادايم"),
            ("B-PER", "O", "B-MISC"),
        ),
        (
            "columns",
            "علی\tPerson\nخان\tPerson\nنے\tOther\n",
            ("علی", "خان", "نے"),
            ("B-PER", "I-PER", "O"),
        ),
        (
            "columns",
            "ירושלים S-GPE\nשל O\nדוד B-PER\nכהן E-PER\n",
            ("ירושלים", "של", "דוד", "כהן"),
            ("B-LOC", "O", "B-PER", "I-PER"),
        ),
    ],
    ids=["wikiann", "germeval", "aqmar", "mk-pucit", "hebrew"],
)
def test_ner_corpora(tmp_path, form, text, words, tags):
    rows, _ = read(tmp_path, form, text, "ner")
    assert rows == [Row(words, tags)]


def test_a_malformed_tag_is_named(tmp_path):
    with pytest.raises(DataError, match=r"file\.txt:2: 'PRE' is not a tag"):
        read(tmp_path, "columns", "a\tB-PER\nb\tPRE\n", "ner")


def test_blank_words_are_kept_and_counted(tmp_path):
    rows, notes = read(tmp_path, "columns", "a\tO\n \tO\n\tO\n", "ner")
    assert rows == [Row(("a", " ", ""), ("O", "O", "O"))]
    assert notes == {"words that are blank": 2}


def test_a_no_break_space_does_not_cut_a_word(tmp_path):
    rows, _ = read(tmp_path, "columns", "10\u00a0000 O\n", "ner")
    assert rows == [Row(("10\u00a0000",), ("O",))]


def test_xsid(tmp_path):
    text = (
        "# text = wake me\n# intent = alarm\n1\twake\talarm\tO\n2\tme\talarm\tB-who\n\n# id\n"
        "1\tx\talarm\tOdd\n"
    )
    rows, notes = read(tmp_path, "xsid-conll", text, "slots")
    assert rows == [Row(("wake", "me"), ("O", "B-who")), Row(("x",), ("O",))]
    assert notes == {"tags read as O": 1}


def _files(tmp_path, **texts):
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    return {name.replace("_", "."): tmp_path / name for name in texts}


def test_slot_lines(tmp_path):
    notes: Notes = Counter()
    files = _files(
        tmp_path, seq_in="to boston\n\nfly\n", seq_out="O B-city\n\nO\n", label="a\nb\nc\n"
    )
    rows = reader_of("lines-seq.in")(files, TASKS["slots"], notes)
    assert rows == [Row(("to", "boston"), ("O", "B-city")), Row(("fly",), ("O",))]
    assert +notes == {"empty utterances dropped": 1}
    xsid = _files(tmp_path, text="to boston\n", label="O B-city\tflight\n")
    assert reader_of("lines-text")(xsid, TASKS["slots"], notes) == rows[:1]


def test_slot_lines_that_do_not_match_are_named(tmp_path):
    files = _files(tmp_path, seq_in="to boston\nfly\n", seq_out="O B-city\nO O\n")
    with pytest.raises(DataError, match=r"seq_out:2: 2 tags for the 1 words"):
        reader_of("lines-seq.in")(files, TASKS["slots"], Counter())
    files = _files(tmp_path, seq_in="to\nfly\n", seq_out="O\n")
    with pytest.raises(DataError, match=r"seq_out:2: the file ends here"):
        reader_of("lines-seq.in")(files, TASKS["slots"], Counter())


def test_parallel_lines_in_either_direction(tmp_path):
    files = _files(tmp_path, en="a\n\nc\n", de="x\ny\nz\n")
    notes: Notes = Counter()
    rows = reader_of("lines")(files, TASKS["parallel"], notes, lang="en-de")
    assert rows == [Row(("a", "x")), Row(("c", "z"))]
    assert notes == {"pairs with an empty side dropped": 1}
    assert reader_of("lines")(files, TASKS["parallel"], notes, lang="de-en")[0] == Row(("x", "a"))


def test_multiatis_and_massive(tmp_path):
    atis = "id\tutterance\tslot_labels\tintent\n1\tvuelos a boston\tO O B-city\tflight\n"
    assert read(tmp_path, "tsv", atis, "slots")[0] == [
        Row(("vuelos", "a", "boston"), ("O", "O", "B-city"))
    ]
    lines = [
        {
            "locale": "en-US",
            "partition": "train",
            "annot_utt": "wake me at [time : nine am] on [date : friday]",
        },
        {"locale": "en-US", "partition": "test", "annot_utt": "stop"},
    ]
    text = "\n".join(map(json.dumps, lines))
    rows, _ = read(tmp_path, "jsonl", text, "slots", partition="train")
    assert rows == [
        Row(
            ("wake", "me", "at", "nine", "am", "on", "friday"),
            ("O", "O", "O", "B-time", "I-time", "O", "B-date"),
        )
    ]
    chinese = json.dumps({"locale": "zh-CN", "annot_utt": "[date : 周五] 叫醒我"})
    assert read(tmp_path, "jsonl", chinese, "slots")[0] == [
        Row(tuple("周五叫醒我"), ("B-date", "I-date", "O", "O", "O"))
    ]
    with pytest.raises(DataError, match=r":1: unmatched bracket"):
        read(tmp_path, "jsonl", json.dumps({"annot_utt": "at [time : nine"}), "slots")


def test_a_row_of_no_split_is_refused(tmp_path):
    lines = [
        {"partition": "validation", "annot_utt": "stop"},
        {"partition": "train", "annot_utt": "go"},
    ]
    text = "\n".join(map(json.dumps, lines))
    assert read(tmp_path, "jsonl", text, "slots", partition="dev")[0] == [Row(("stop",), ("O",))]
    for partition in ("held out", None, ["train"]):
        with pytest.raises(
            DataError, match=r":3: .* in the field 'partition', which names no split"
        ):
            read(
                tmp_path,
                "jsonl",
                text + "\n" + json.dumps({"partition": partition, "annot_utt": "x"}),
                "slots",
                partition="train",
            )


def test_tags_in_tables_are_checked_and_repairs_counted(tmp_path):
    for task in ("slots", "ner"):
        with pytest.raises(DataError, match=rf":1: 'city' is not a tag of {task}"):
            read(tmp_path, "tsv", "to boston\tO city\n", task)
    rows, notes = read(tmp_path, "tsv", "to boston now\tO I-LOC I-PER\n", "ner")
    assert rows == [Row(("to", "boston", "now"), ("O", "B-LOC", "B-PER"))]
    assert notes == {"spans begun by I-": 2}
    with pytest.raises(DataError, match=r":1: 'noun' is not a label of pos"):
        read(tmp_path, "tsv", "dog\tnoun\n", "pos")


def test_rows_of_other_languages(tmp_path):
    """In a file of all languages each takes its own; rows of no known language are kept, told."""
    text = (
        "language\tpremise\thypothesis\tlabel\nen\ta\tb\tneutral\nde\tc\td\tneutral\n"
        "German\te\tf\tneutral\nqq\tg\th\tneutral\n"
    )
    rows, notes = read(tmp_path, "tsv", text, "xnli", lang="de")
    assert [row.texts[0] for row in rows] == ["c", "e", "g"]
    assert notes == {"rows of an unknown language kept": 1}


def test_half_a_surrogate_is_refused(tmp_path):
    with pytest.raises(DataError, match=r":1: half of a surrogate"):
        read(tmp_path, "jsonl", r'{"sentence": "\ud800", "label": 1}', "sst2")


def test_an_unknown_format_names_the_known():
    with pytest.raises(UnknownName, match="Did you mean 'conllu'"):
        reader_of("conlu")
    assert "conllu" in FORMATS
