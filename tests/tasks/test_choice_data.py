"""Multiple choice: rows of a file, their windows, and what is refused."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from deadhead.errors import DataError
from deadhead.forward import IGNORED
from deadhead.tasks import Row, batches, dataset, encode, find_data, load_data, score
from tiny_decoders import tokenizer

ROWS = [
    {
        "context": "Maria bought a",
        "options": [" red car .", " dog", " city ; a house"],
        "answer": 0,
    },
    {"context": "The dog ", "options": ["sleeps .", "is open ."], "answer": 1},
    {"context": "The café is", "options": [" 北京", " open .", " red", " a car"], "answer": 3},
]
DATA = [Row((r["context"], *r["options"]), (str(r["answer"]),)) for r in ROWS]


def write(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_one_file_or_a_folder(tmp_path):
    file = write(tmp_path / "rows.jsonl", *ROWS)
    data = load_data("choice", split="test", root=file)
    assert data.rows == DATA
    assert (data.split, data.notes, data.files) == ("test", {}, (str(file),))
    write(tmp_path / "folder" / "train.jsonl", *ROWS[:2])
    write(tmp_path / "folder" / "test.jsonl", *ROWS[2:])
    assert load_data("choice", split="train", root=tmp_path / "folder").rows == DATA[:2]
    assert load_data("choice", split="test", root=tmp_path / "folder").rows == DATA[2:]
    places = find_data("choice", "text", ["train", "dev", "test"], root=tmp_path / "folder")
    assert [isinstance(place, str) for place in places.values()] == [True, False, True]


def test_a_task_file_names_the_fields(tmp_path):
    rows = [{"ctx": r["context"], "endings": r["options"], "gold": r["answer"]} for r in ROWS]
    write(tmp_path / "endings.jsonl", *rows)
    task = tmp_path / "task.yaml"
    task.write_text(
        "kind: choice\ntexts: [ctx, endings]\nlabel: gold\nmetrics: [acc_norm]\n"
        "files: {test: endings.jsonl}\n"
    )
    data = load_data(str(task), split="test")
    assert data.rows == DATA
    assert list(score(data.task, [["0", "0", "0"], ["1", "1", "1"], ["3", "0", "3"]], data)) == [
        "acc_norm"
    ]


def test_a_row_without_a_blank_is_counted(tmp_path):
    row = {"context": "Answer:", "options": ["yes", "no"], "answer": 0}
    data = load_data("choice", split="dev", root=write(tmp_path / "rows.jsonl", row, *ROWS))
    assert data.notes == {"rows without a blank between context and option": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context": None}, "no field context."),
        ({"options": None}, "no field options."),
        ({"answer": None}, "no field answer."),
        ({"context": 3}, "`context` expects a text, got 3."),
        ({"options": "yes"}, "`options` expects a list of texts, got 'yes'."),
        ({"options": ["yes", 1]}, "`options` expects a list of texts, got ['yes', 1]."),
        ({"options": [" yes"]}, "`options` expects two texts or more, got 1."),
        ({"options": ["yes", " "]}, "option 1 (counted from 0) is empty."),
        ({"options": ["yes", "no", " yes"]}, "options 0 and 2 (counted from 0) are equal: 'yes'."),
        ({"answer": 2}, "`answer` expects the number of an option, 0 to 1, got 2."),
        ({"answer": "0"}, "`answer` expects the number of an option, 0 to 1, got '0'."),
        ({"answer": True}, "`answer` expects the number of an option, 0 to 1, got True."),
    ],
)
def test_bad_rows(change, message, tmp_path):
    row = {"context": "Is it?", "options": [" yes", " no"], "answer": 0, **change}
    file = write(tmp_path / "rows.jsonl", ROWS[0], row)
    with pytest.raises(DataError) as problem:
        load_data("choice", split="test", root=file)
    assert problem.value.message == f"{file}:2: {message}"
    assert problem.value.hint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n\n", "no row in the file."),
        (b"hello\n", "not JSON"),
        (b"[1]\n", "a JSON list, where each line should be one JSON object."),
        (b"1\n", "not a JSON object."),
    ],
)
def test_bad_files(content, message, tmp_path):
    (tmp_path / "rows.jsonl").write_bytes(content)
    with pytest.raises(DataError) as problem:
        load_data("choice", split="test", root=tmp_path / "rows.jsonl")
    assert message in problem.value.message
    assert problem.value.hint


@pytest.mark.parametrize("bos", [False, True])
def test_windows_are_those_of_the_harness(bos):
    """By hand, as lm-evaluation-harness writes it: blanks move to the option, one text is cut."""
    cut = tokenizer(bos)
    encoded = encode(dataset("choice", "text", "test", DATA), cut)
    number = 0
    for row in DATA:
        context, *options = row.texts
        for option in options:
            bare = context.rstrip()
            whole, before = cut.encode(context + option), cut.encode(bare)
            window = slice(encoded.starts[number], encoded.starts[number + 1])
            ids, labels = encoded.arrays["ids"][window], encoded.arrays["labels"][window]
            assert ids.tolist() == whole
            assert labels.tolist() == [IGNORED] * len(before) + whole[len(before) :]
            number += 1
    assert number == len(encoded) == 9
    assert (encoded.arrays["ids"][0] == cut.bos_token_id) == bos
    # ranking and training read the right options alone, scoring reads all
    assert encoded.learned.tolist() == [0, 4, 8]
    right = [n for group in batches(encoded, size=2).numbers for n in group]
    every = [n for group in batches(encoded, size=2, every_option=True).numbers for n in group]
    assert (sorted(right), sorted(every)) == ([0, 4, 8], list(range(9)))
    shuffled = [n for group in batches(encoded, size=2, seed=1).numbers for n in group]
    assert sorted(shuffled) == [0, 4, 8]


def test_an_empty_context_begins_with_a_special_token():
    data = dataset("choice", "text", "test", [Row(("", "The dog", "A car"), ("0",))])
    for bos in (False, True):
        cut = tokenizer(bos)
        encoded = encode(data, cut)
        expected = [cut.bos_token_id, *cut.encode("The dog", add_special_tokens=False)]
        assert encoded.arrays["ids"][: encoded.starts[1]].tolist() == expected
    built = Tokenizer(models.WordLevel({"A": 0, "car": 1, "[UNK]": 2}, unk_token="[UNK]"))
    built.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(DataError, match="no token to begin with"):
        encode(data, PreTrainedTokenizerFast(tokenizer_object=built, unk_token="[UNK]"))


def test_a_long_context_is_cut_on_the_left_and_counted():
    long = Row(("The dog sleeps . " * 9 + "Maria bought", " a red car .", " a"), ("0",))
    data = dataset("choice", "text", "test", [*DATA, long])
    cut = tokenizer()
    encoded = encode(data, cut, max_length=20)
    assert encoded.notes == {"contexts cut on the left": 1}
    for option, number in ((long.texts[1], 9), (long.texts[2], 10)):
        ids = encoded.arrays["ids"][encoded.starts[number] : encoded.starts[number + 1]]
        assert ids.tolist() == cut.encode(long.texts[0] + option)[-20:]
    assert encode(data, cut).notes == {}
    size = len(cut.encode(long.texts[1]))
    problem = rf"option 0 of row 0 \(both from 0\) has {size} tokens.*\n.* to {size + 1} or more"
    with pytest.raises(DataError, match=problem):
        encode(dataset("choice", "text", "test", [long]), cut, max_length=size)
    assert len(encode(dataset("choice", "text", "test", [long]), cut, max_length=size + 1)) == 2


def test_an_option_that_becomes_part_of_the_context():
    built = Tokenizer(models.WordLevel({"ab": 0, "a": 1, "[UNK]": 2}, unk_token="[UNK]"))
    built.pre_tokenizer = pre_tokenizers.Whitespace()
    cut = PreTrainedTokenizerFast(tokenizer_object=built, unk_token="[UNK]", eos_token="[UNK]")
    with pytest.raises(DataError, match="no token of its own") as problem:
        encode(dataset("choice", "text", "test", [Row(("a", "b", "c"), ("0",))]), cut)
    assert problem.value.hint == "begin the options with a blank"


def test_the_metrics_compare_three_choices():
    data = dataset("choice", "text", "test", DATA)
    values = score("choice", [["0", "1", "0"], ["1", "1", "0"], ["0", "3", "0"]], data)
    assert values == {
        "acc": pytest.approx(2 / 3),
        "acc_norm": pytest.approx(2 / 3),
        "acc_bytes": pytest.approx(1 / 3),
    }
    with pytest.raises(DataError, match="expected 3 predictions, got 1"):
        score("choice", ["0", "1", "3"], data)
    assert np.isclose(
        values["acc"], score("choice", [["0"] * 3, ["1"] * 3, ["1"] * 3], data)["acc"]
    )
