"""Damaged files: right rows or one error with file and line, never a hang, never a silent drop."""

import gzip
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadhead.errors import DataError
from deadhead.tasks import TASKS
from deadhead.tasks.reading.formats import reader_of

NER, POS, MNLI, SST2 = (TASKS[name] for name in ("ner", "pos", "mnli", "sst2"))
FORMS = [("conllu", POS), ("columns", NER), ("germeval", NER), ("tsv", MNLI), ("csv", MNLI)]
FORMS += [("jsonl", SST2)]

CONLLU = (
    "1\tHi\t_\tINTJ\t_\t_\t_\t_\t_\t_\n2-3\tx\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\tyou\t_\tPRON\t_\t_\t_\t_\t_\t_\n3\t!\t_\tPUNCT\t_\t_\t_\t_\t_\t_\n\n"
)
WHOLE = {
    "conllu": CONLLU + CONLLU,
    "columns": "Jan\tB-PER\nJansen\tI-PER\n\nloopt\tO\nnaar\tO\nDelft\tB-LOC\n",
    "germeval": "#\thttp\n1\ta\tB-PER\tO\n2\tb\tO\tO\n\n1\tc\tO\tO\n",
    "tsv": "premise\thypothesis\tlabel\na\tb\tneutral\nc\td\tentailment\n",
    "csv": 'premise,hypothesis,label\n"a, b",c,neutral\nd,"e ""f""",entailment\n',
    "jsonl": '{"sentence": "a", "label": 0}\n{"sentence": "b", "label": "positive"}\n',
}
DAMAGE = [
    b"",
    b"\n",
    b"\n\n",
    b"\r\n",
    b"\r",
    b"\t",
    b" ",
    b"\0",
    b"\xff",
    b"\xc3",
    b"\xef\xbb\xbf",
    b"#",
    b'"',
    b",",
    b"-",
    b"{",
    b"1",
    b"9" * 5_000,  # more digits than Python turns into a number
    b"x" * 1_000_000,
]
edits = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(DAMAGE)), min_size=1, max_size=3
)


def damaged(raw, changes):
    for at, missing, new in changes:
        start = int(at * len(raw))
        raw = raw[:start] + new + raw[start + missing :]
    return raw


def rows_or_error(path, form, task):
    notes: Counter[str] = Counter()
    try:
        return reader_of(form)({"": path}, task, notes), notes
    except DataError as error:
        message = error.message
    assert re.match(re.escape(str(path)) + r":\d+: \S", message), message
    assert len(message) < 600  # a megabyte line is not printed
    return None


@pytest.mark.parametrize(("form", "task"), FORMS)
@given(edits, st.booleans())
def test_damage_gives_rows_or_one_error(tmp_path, form, task, changes, packed):
    path, raw = tmp_path / "f", damaged(WHOLE[form].encode(), changes)
    path.write_bytes(gzip.compress(raw, 1) if packed else raw)
    result = rows_or_error(path, form, task)
    if result is not None:
        check_nothing_lost(raw, form, *result)


def check_nothing_lost(raw, form, rows, notes):
    """Every line of the file is a word, a comment, a blank or counted."""
    text = raw.removeprefix(b"\xef\xbb\xbf").decode()
    body = [line.rstrip("\r") for line in text.split("\n")]
    full = [line for line in body if line.strip(" ")]
    dropped = sum(n for note, n in notes.items() if "dropped" in note)
    if form == "columns":
        assert sum(len(row.texts) for row in rows) == len(full)
        words = [word for row in rows for word in row.texts]
        assert all(word in line for word, line in zip(words, full, strict=True))
    elif form == "germeval":
        assert sum(len(row.texts) for row in rows) == len(
            [line for line in full if not line.startswith("#")]
        )
    elif form == "conllu":
        comments = sum(line.startswith("#") for line in full)
        assert sum(len(row.texts) for row in rows) + notes.total() + comments == len(full)
    elif form == "tsv":
        header = {"premise", "hypothesis", "label"} <= set(full[0].split("\t")) if full else False
        assert len(rows) + dropped == len(full) - header
    elif form == "jsonl":
        assert len(rows) + dropped == len([line for line in full if line.strip()])


@pytest.mark.parametrize(("form", "task"), FORMS)
@given(
    raw=st.binary(max_size=200)
    | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_any_bytes_at_all(tmp_path, form, task, raw):
    path = tmp_path / "f"
    path.write_bytes(raw)
    rows_or_error(path, form, task)


@given(cut=st.integers(0, 200))
def test_a_gzip_that_breaks_off(tmp_path, cut):
    packed = gzip.compress(WHOLE["columns"].encode() * 50)
    path = tmp_path / "f"
    path.write_bytes(packed[: max(2, len(packed) - cut)])
    result = rows_or_error(path, "columns", NER)
    assert (result is not None) == (cut == 0)


def test_deep_json_is_an_error_not_a_crash(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"[" * 1_000_000)
    assert rows_or_error(path, "jsonl", SST2) is None
