"""Folders of retrieval as BEIR writes them, as tables and in gzip, and what is wrong with one."""

import gzip
import json

import pytest

from deadhead.errors import DataError
from deadhead.tasks import Row, check_folder, draw_examples, load_data
from deadhead.tasks.dataset import draw_documents

DOCUMENTS = [("d1", "Dogs", "A dog runs."), ("d2", "", "She sings."), ("d3", "Cars", "")]
QUERIES = [("q1", "running animals"), ("q2", "music"), ("q3", "judged by nobody")]
QRELS = [
    ("q1", "d1", "2"),
    ("q1", "d2", "0"),
    ("q2", "d2", "1"),
    ("q2", "gone", "1"),
    ("q9", "d1", "1"),
]
EXPECTED = [
    Row(("running animals",), ("q1", "d1", "2", "d2", "0")),
    Row(("music",), ("q2", "d2", "1", "gone", "1")),
]
NOTES = {
    "judged documents that the corpus does not have": 1,
    "judged queries that have no text, dropped": 1,
    "queries without a judgment dropped": 1,
}


def table(*rows):
    return "".join("\t".join(row) + "\n" for row in rows)


def objects(names, rows):
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)


def beir(folder, corpus=None, queries=None, qrels=None):
    """A folder as BEIR has it; a text replaces a file."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    documents = objects(("_id", "title", "text"), DOCUMENTS)
    (folder / "corpus.jsonl").write_text(documents if corpus is None else corpus)
    lines = objects(("_id", "text"), QUERIES)
    (folder / "queries.jsonl").write_text(lines if queries is None else queries)
    judged = table(("query-id", "corpus-id", "score"), *QRELS)
    (folder / "qrels" / "test.tsv").write_text(judged if qrels is None else qrels)
    return folder


def test_a_folder_of_beir_and_the_same_as_tables(tmp_path):
    data = load_data("retrieval", split="test", root=beir(tmp_path / "a"))
    assert (data.rows, dict(data.notes), data.labels) == (EXPECTED, NOTES, ())
    # title and text are joined by a blank
    assert data.documents == {"d1": "Dogs A dog runs.", "d2": "She sings.", "d3": "Cars"}
    tables = {
        "corpus.tsv.gz": table(("doc_id", "title", "text"), *DOCUMENTS),
        "queries_test.tsv.gz": table(*QUERIES),
        "qrels_test.tsv.gz": "".join(f"{q} 0 {d} {grade}\n" for q, d, grade in QRELS),  # TREC
    }
    (tmp_path / "b").mkdir()
    for name, text in tables.items():
        (tmp_path / "b" / name).write_bytes(gzip.compress(text.encode()))
    again = load_data("retrieval", split="test", root=tmp_path / "b")
    assert (again.rows, again.documents, again.notes) == (data.rows, data.documents, data.notes)
    assert again.fingerprint == data.fingerprint
    (finding,) = check_folder(tmp_path / "a")
    assert (finding.task, finding.split, finding.sentences) == ("retrieval", "test", 2)
    assert finding.notes == NOTES


def test_several_folders_are_read_by_name(tmp_path):
    beir(tmp_path / "x"), beir(tmp_path / "y")
    with pytest.raises(DataError, match="retrieval in text is here"):
        load_data("retrieval", split="test", root=tmp_path)
    assert load_data("retrieval", split="test", root=tmp_path, source="x").rows == EXPECTED
    assert [f.source for f in check_folder(tmp_path, "retrieval")] == ["x", "y"]


def test_a_task_file_names_the_three_files(tmp_path):
    beir(tmp_path)
    files = "{test: corpus.jsonl|queries.jsonl|qrels/test.tsv, dev: corpus.jsonl|queries.jsonl}"
    (tmp_path / "own.yaml").write_text(f"kind: retrieval\nfiles: {files}\n")
    assert load_data(str(tmp_path / "own.yaml"), split="test").rows == EXPECTED
    with pytest.raises(DataError, match="there is no file of qrels"):
        load_data(str(tmp_path / "own.yaml"), split="dev")


def test_draws_leave_the_corpus_whole_for_scores(tmp_path):
    data = load_data("retrieval", split="test", root=beir(tmp_path))
    few = draw_examples(data, 1)
    assert (len(few), few.documents) == (1, data.documents)
    assert few.fingerprint != data.fingerprint
    fewer = draw_documents(few, 2)
    assert len(fewer.documents) == 2
    assert fewer.notes["documents left out at random"] == 1
    documents = [("document", text) for text in fewer.documents.values()]
    assert fewer.single_texts == [("query", few.rows[0].texts[0]), *documents]


SAME = objects(("_id", "text"), [("d1", "same"), ("d1", "same"), ("d2", "x")])


def test_repeated_lines_are_counted(tmp_path):
    data = load_data("retrieval", split="test", root=beir(tmp_path, corpus=SAME))
    assert data.documents == {"d1": "same", "d2": "x"}
    assert data.notes["repeated lines of corpus.jsonl dropped"] == 1


def test_a_folder_without_judgments_is_no_retrieval(tmp_path):
    beir(tmp_path)
    (tmp_path / "qrels" / "test.tsv").unlink()
    with pytest.raises(DataError, match=r"corpus.jsonl \(retrieval needs a corpus, queries and q"):
        load_data("retrieval", split="test", root=tmp_path)


def test_queries_without_a_relevant_document_are_counted(tmp_path):
    qrels = table(*QRELS[:1], ("q2", "d2", "0"))
    data = load_data("retrieval", split="test", root=beir(tmp_path, qrels=qrels))
    assert data.notes["queries without a relevant document, which score 0"] == 1


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"corpus": ""}, "corpus.jsonl:1: no document in the file"),
        ({"queries": ""}, "queries.jsonl:1: no query in the file"),
        ({"qrels": "query-id\tcorpus-id\tscore\n"}, "test.tsv:1: no judgment in the file"),
        (
            {"corpus": SAME + '{"_id": "d2", "text": "y"}\n'},
            "corpus.jsonl:4: the id 'd2' is that of another document in line 3",
        ),
        ({"corpus": '{"text": "y"}\n'}, "corpus.jsonl:1: no id of a document"),
        ({"corpus": '{"_id": "d1", "text": 3}\n'}, "corpus.jsonl:1: 3 where a text was expected"),
        ({"corpus": "[]\n"}, "corpus.jsonl:1: not a JSON object"),
        ({"queries": "{\n"}, "queries.jsonl:1: not JSON"),
        ({"qrels": "q1\td1\tvery\n"}, "test.tsv:1: the grade 'very' is not a whole number"),
        ({"qrels": "q1\td1\n"}, "is no judgment"),
        ({"qrels": "q1\td1\t1\nq1\td1\t2\n"}, "test.tsv:2: document 'd1' has two grades"),
        ({"qrels": "q7\td1\t1\n"}, "none of its queries is in"),
        ({"qrels": "q1\tx1\t1\n"}, "none of its documents is in"),
    ],
)
def test_what_is_wrong_with_a_folder(files, message, tmp_path):
    beir(tmp_path, **files)
    with pytest.raises(DataError) as error:
        load_data("retrieval", split="test", root=tmp_path)
    assert message in error.value.message
    assert error.value.hint or "JSON" in message


def test_the_split_that_is_there_is_named(tmp_path):
    with pytest.raises(DataError, match="There is: test") as error:
        load_data("retrieval", split="dev", root=beir(tmp_path))
    assert error.value.hint.startswith("read the test data with --split test")
