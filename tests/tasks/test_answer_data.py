"""Question answering: files and what is wrong with them, windows, and the metrics by hand."""

import gzip
import json

import numpy as np
import pytest

from deadhead.errors import DataError
from deadhead.tasks import batches, check_folder, concatenate, dataset, encode, load_data, score
from deadhead.tasks.task import Row
from word_tokenizer import word_tokenizer

CONTEXT = "In April the rivers rise, er liest"
RECORDS = [
    {"id": "a", "question": "What rises?", "context": CONTEXT,
     "answers": [{"text": "the rivers", "answer_start": 9},
                 {"text": "rivers", "answer_start": 13}]},
    {"id": "b", "question": "When?", "context": CONTEXT,
     "answers": [{"text": "In April", "answer_start": 0}]},
]  # fmt: skip
ROWS = [
    Row(("What rises?", CONTEXT), ("a", "9", "the rivers", "13", "rivers")),
    Row(("When?", CONTEXT), ("b", "0", "In April")),
]


def squad(*records):
    """The JSON of SQuAD, with an article for each record."""
    articles = []
    for record in records:
        question = {name: value for name, value in record.items() if name != "context"}
        paragraph = {"context": record["context"], "qas": [question]}
        articles.append({"title": "Rivers", "paragraphs": [paragraph]})
    return json.dumps({"version": "1.1", "data": articles}, indent=1, ensure_ascii=False)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def as_lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def on_the_hub(record):
    answers = record["answers"]
    columns = {name: [answer[name] for answer in answers] for name in ("text", "answer_start")}
    return {**record, "answers": columns}


def test_every_form_gives_the_same_rows(tmp_path):
    short = [
        {**r, "answers": [{"text": a["text"], "start": a["answer_start"]} for a in r["answers"]]}
        for r in RECORDS
    ]
    files = [
        write(tmp_path / "dev-v1.1.json", squad(*RECORDS)),
        write(tmp_path / "lines.jsonl", as_lines(*RECORDS)),
        write(tmp_path / "hub.jsonl", as_lines(*map(on_the_hub, RECORDS))),
        write(tmp_path / "short.jsonl", as_lines(*short)),
    ]
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(files[0].read_bytes()))
    loaded = [load_data("qa", "en", root=file) for file in (*files, packed)]
    assert [data.rows for data in loaded] == [ROWS] * 5
    assert {(data.labels, data.split, len(data.notes)) for data in loaded} == {((), "dev", 0)}
    assert len({data.fingerprint for data in loaded}) == 1
    assert ROWS[0].answers == ("the rivers", "rivers")


def test_folders_by_the_names_of_their_files(tmp_path):
    write(tmp_path / "xquad" / "xquad.de.json", squad(RECORDS[0]))
    write(tmp_path / "xquad" / "xquad.zh.json", squad(RECORDS[1]))
    write(tmp_path / "xquad" / "README.json.md", "")
    assert load_data("qa", "zh", root=tmp_path / "xquad").rows == ROWS[1:]
    both = load_data("qa", ["de", "zh"], root=tmp_path / "xquad")
    assert both.rows == ROWS
    with pytest.raises(DataError, match="no test data of qa in de in"):
        load_data("qa", "de", "test", root=tmp_path / "xquad")
    for split in ("train", "dev"):
        write(tmp_path / "qa" / "squad" / f"{split}-v1.1.json", squad(*RECORDS))
    assert load_data("qa", "en", "train", root=tmp_path / "qa").rows == ROWS
    findings = [*check_folder(tmp_path / "qa")]
    assert {(f.task, f.language, f.split, f.sentences, f.error) for f in findings} == {
        ("qa", "en", "train", 2, None), ("qa", "en", "dev", 2, None),
    }  # fmt: skip
    # a json file of another task is no data
    write(tmp_path / "pos" / "en" / "train.json", "{}")
    write(tmp_path / "pos" / "en" / "dev.tsv", "words\ttags\nrivers rise\tNOUN VERB\n")
    assert [f.source for f in check_folder(tmp_path / "pos")] == [""]


def test_of_tydi_the_questions_in_the_language(tmp_path):
    russian, swahili = ({**RECORDS[0], "id": f"{name}-12-1"} for name in ("russian", "swahili"))
    file = write(tmp_path / "tydiqa-goldp-v1.1-train.json", squad(russian, swahili, RECORDS[1]))
    assert [row.labels[0] for row in load_data("qa", "sw", root=file).rows] == ["swahili-12-1", "b"]
    assert [row.labels[0] for row in load_data("qa", "ru", root=file).rows] == ["russian-12-1", "b"]


def test_a_task_file_names_the_fields(tmp_path):
    record = {"id": 3, "ask": "What rises?", "text": CONTEXT, "gold": RECORDS[0]["answers"]}
    write(tmp_path / "own.jsonl", as_lines(record))
    task = write(
        tmp_path / "own.yaml",
        "kind: qa\ntexts: [ask, text]\nlabel: gold\nmetrics: [exact_match]\n"
        "files: {test: own.jsonl}\n",
    )
    data = load_data(str(task), split="test")
    assert data.rows == [Row(ROWS[0].texts, ("3", *ROWS[0].labels[1:]))]
    assert score(data.task, ["Rivers!"], data) == {"exact_match": 1.0}


def test_what_is_dropped_or_odd_is_counted(tmp_path):
    impossible = {**RECORDS[1], "id": "c", "answers": [], "is_impossible": True}
    file = write(tmp_path / "v2.json", squad(*RECORDS, impossible, RECORDS[1]))
    data = load_data("qa", "en", root=file)
    assert data.rows == [*ROWS, ROWS[1]]
    assert data.notes == {
        "dropped: questions without an answer": 1, "questions with the id of another": 1,
    }  # fmt: skip
    german = load_data("qa", "de", root=write(tmp_path / "de.json", squad(*RECORDS)))
    assert not concatenate([german, german]).notes  # ids are the same in all languages of XQuAD


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": None}, "no field answers."),
        ({"question": None}, "no field question."),
        ({"context": None}, "no field context."),
        ({"id": None}, "no field id."),
        ({"id": ["a"]}, "`id` expects a text or a number, got ['a']."),
        ({"answers": "rivers"}, "the answers of question a expect a list of objects with `text`"),
        ({"answers": ["rivers"]}, "the answers of question a expect a list of objects"),
        ({"answers": {"text": ["rivers"], "answer_start": []}}, "no field answer_start or start."),
        ({"answers": {"text": "rivers", "answer_start": 13}}, "no field text."),
        ({"answers": [{"text": "rivers"}]}, "no field answer_start or start."),
        ({"answers": [{"text": " ", "answer_start": 2}]}, "an answer of question a is empty."),
        ({"answers": [{"text": "rivers", "answer_start": 12}]},
         "the answer 'rivers' of question a is not at character 12 of its context: ' river'."),
        ({"answers": [{"text": "rivers", "answer_start": "13"}]},
         "the answer 'rivers' of question a expects the character where it starts, got '13'."),
        ({"answers": [{"text": "liest", "answer_start": -5}]}, "starts, got -5."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_record(tmp_path, change, message):
    rows = as_lines(RECORDS[1], {**RECORDS[0], **change})
    lines = write(tmp_path / "rows.jsonl", rows)
    with pytest.raises(DataError) as error:
        load_data("qa", "en", root=lines)
    assert error.value.message.startswith(f"{lines}:2: ")
    assert message in error.value.message
    data = load_data("qa", "en", root=lines, malformed="drop")
    assert (data.rows, data.notes) == (ROWS[1:], {"malformed lines dropped": 1})
    if change.keys() != {"context"}:  # where a paragraph has it
        file = write(tmp_path / "squad.json", squad({**RECORDS[0], **change}))
        with pytest.raises(DataError) as error:
            load_data("qa", "en", root=file)
        assert error.value.message.startswith(f"{file}: ")
        assert message in error.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: not JSON (Expecting value"),
        ('{"data": [', ":1: not JSON"),
        (as_lines(*RECORDS), ":2: not JSON (Extra data"),
        ("[]", ": not the JSON of SQuAD: expected a list of objects `data` in []."),
        (json.dumps(RECORDS[0]), ": not the JSON of SQuAD: expected a list of objects `data` in {"),
        ('{"data": [{"qas": []}]}', "expected a list of objects `paragraphs` in {'qas': []}."),
        ('{"data": [{"paragraphs": [{"qas": [1]}]}]}', "expected a list of objects `qas` in {"),
        ('{"data": []}', ":1: no question in the file."),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path, text, message):
    file = write(tmp_path / "dev.json", text)
    with pytest.raises(DataError) as error:
        load_data("qa", "en", root=file)
    assert str(file) in error.value.message
    assert message in error.value.message
    assert error.value.hint


# The official script of SQuAD 1.1 gives the same numbers. Its steps: lower case, no ASCII
# punctuation, no articles, and then the words between blanks.
@pytest.mark.parametrize(
    ("answers", "prediction", "f1", "exact"),
    [
        (["rivers"], "Rivers", 1, 1),
        (["the rivers"], "a RIVERS!", 1, 1),
        (["rivers"], "theatre rivers", 2 / 3, 0),  # an article is a whole word
        (["rivers rise"], "rise rivers", 1, 0),  # F1 has no order
        (["rise rise"], "rise", 2 / 3, 0),  # repeated words count
        (["big rivers of April"], "rivers of May", 4 / 7, 0),
        (["the rivers of April", "rivers"], "rivers", 1, 1),  # the nearest answer counts
        (["April rivers", "rivers"], "April", 2 / 3, 0),
        (["rivers"], "", 0, 0),
        (["The"], "a", 0, 1),  # without words: equal, and no word in common
        (["U.S."], "us", 1, 1),  # punctuation leaves no blank
        (["24-10"], "24–10", 0, 0),  # an en dash is not ASCII
        (["“rivers”"], '"rivers"', 0, 0),  # nor are these quotes
        (["rivers rise"], "rivers\u00a0rise", 1, 1),  # a no-break space separates words
        (["308 分"], "308", 2 / 3, 0),
        (["308分"], "308", 0, 0),  # one word
        (["İzmir"], "izmir", 0, 0),  # lower() makes two characters of the dotted I
        (["l'an deux"], "lan deux", 1, 1),  # articles are found after the punctuation is gone
    ],
)
def test_metrics_by_hand(answers, prediction, f1, exact):
    labels = [word for answer in answers for word in ("0", answer)]
    data = dataset("qa", "en", "dev", [Row(("?", "-"), ("a", *labels))])
    assert score("qa", [prediction], data) == pytest.approx({"f1": f1, "exact_match": exact})


def test_metrics_are_means_over_questions():
    rows = [Row(("?", "-"), (str(i), "0", "one two", "0", "one")) for i in range(4)]
    data = dataset("qa", "en", "dev", rows)
    values = score("qa", ["one", "one two three", "three", ""], data)
    assert values == pytest.approx({"f1": (1 + 0.8) / 4, "exact_match": 0.25})
    with pytest.raises(DataError, match="expected 4 predictions, one for each row, got 1"):
        score("qa", ["one"], data)
    with pytest.raises(DataError, match="row 1 of qa in en: expected 1 predictions, got 2"):
        score("qa", ["one", ["one", "two"], "one", "one"], data)


def encoded(tmp_path, rows, tokenizer=None, **options):
    data = dataset("qa", "en", "dev", rows)
    return encode(data, tokenizer or word_tokenizer(), cache=tmp_path / "cache", **options)


def windows(e):
    """Of each window: its row, the text from the first to the last label, and the labels."""
    for n, row in enumerate(e.arrays["rows"]):
        place = slice(*e.starts[n : n + 2])
        begins, ends = e.arrays["begins"][place], e.arrays["ends"][place]
        first, last = e.arrays["labels"][slice(*e.label_starts[n : n + 2])]
        context = e.data.rows[row].texts[1]
        yield int(row), context[begins[first] : ends[last]], (int(first), int(last))


def test_a_window_is_the_question_and_the_context(tmp_path):
    tokenizer = word_tokenizer()
    e = encoded(tmp_path, ROWS, tokenizer)
    assert (len(e), e.notes) == (2, {})
    for n, row in enumerate(ROWS):
        place = slice(*e.starts[n : n + 2])
        expected = tokenizer(*row.texts)
        assert e.arrays["ids"][place].tolist() == expected["input_ids"]
        assert e.arrays["types"][place].tolist() == expected["token_type_ids"]
        offsets = tokenizer(*row.texts, return_offsets_mapping=True)["offset_mapping"]
        inside = np.array(expected["token_type_ids"], bool)
        inside[-1] = False
        assert e.arrays["begins"][place].tolist() == [
            begin if own else -1 for (begin, _), own in zip(offsets, inside, strict=True)
        ]
    assert [*windows(e)] == [(0, "the rivers", (7, 8)), (1, "In April", (4, 5))]
    (batch,) = batches(e)
    assert batch["labels"].tolist() == [[4, 5], [7, 8]]  # by length


def test_a_long_context_becomes_windows_that_overlap(tmp_path):
    words = [f"w{i}" for i in range(40)]
    context = " ".join(words)
    rows = [
        Row(("a b", context), (str(i), str(context.index(f"{word} ")), word))
        for i, word in enumerate(words[:-1])
    ]
    rows.append(Row(("a b", context), ("long", "0", " ".join(words[:9]))))
    room = 8  # of 13 positions, besides three special tokens and the question
    e = encoded(tmp_path, rows, max_length=13)
    assert max(e.arrays["lengths"]) == 13
    begins = e.arrays["begins"]
    starts = [[b for b in begins[slice(*e.starts[n : n + 2])] if b >= 0] for n in range(9)]
    assert [words[context[: s[0]].count(" ")] for s in starts] == [f"w{i}" for i in range(0, 36, 4)]
    assert {len(s) for s in starts} == {room}
    assert sorted({b for s in starts for b in s}) == [context.index(f"{w}") for w in words]
    by_row = [[w for w in windows(e) if w[0] == row] for row in range(len(rows))]
    for row, word in enumerate(words[:-1]):
        texts = [text for _, text, labels in by_row[row] if labels != (0, 0)]
        assert texts == [word] * (1 if row < 4 or row > 35 else 2)
    assert {labels for *_, labels in by_row[-1]} == {(0, 0)}
    assert e.notes == {"contexts split": 40, "answers that no window has": 1}


def test_a_long_question_is_cut(tmp_path):
    e = encoded(tmp_path, [Row(("the " * 50, CONTEXT), ROWS[1].labels)], max_length=15)
    assert e.notes == {"questions cut": 1, "contexts split": 1}
    first = e.arrays["begins"][: e.starts[1]].tolist()
    assert first[:8] == [-1] * 8  # [CLS], six tokens of the question and [SEP]
    assert first[8:] == [0, 3, 9, 13, 20, 24, -1]


def test_answers_are_found_again_in_any_script(tmp_path, tokenizers):
    context = "  eine Gruppe 人民日报 lädt; العربية 3.14 don't"
    texts = ["Gruppe", "人民", "lädt", "العربية", "3.14", "don't"]
    rows = [Row(("?", context), (t, str(context.index(t)), t)) for t in texts]
    for tokenizer in tokenizers.values():
        e = encoded(tmp_path, rows, tokenizer)
        for row, text, labels in windows(e):
            assert labels != (0, 0)
            assert texts[row] in text
            assert len(text) <= len(texts[row]) + 2  # with a blank, or the rest of a token


def test_a_tokenizer_without_places_is_refused(tmp_path):
    tokenizer = word_tokenizer()

    class Slow:
        backend_tokenizer = None

        def __getattr__(self, name):
            return getattr(tokenizer, name)

        def __call__(self, *texts, **options):
            return tokenizer(*texts, **options)

    with pytest.raises(DataError, match="the place of each token in its text, which Slow") as error:
        encoded(tmp_path, ROWS, Slow())
    assert error.value.hint == "save a fast tokenizer with the model"
