"""The papers' data sizes beside those of a folder, and the release of a treebank."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deadhead.cli.data import app
from deadhead.errors import UnknownName
from deadhead.papers.catalogue import published_files
from deadhead.tasks.corpus_sizes import Size, sizes
from deadhead.tasks.languages import facts
from deadhead.tasks.locating.folder import release_of

SENTENCE = "1\ta\ta\tNOUN\t_\t_\t0\troot\t_\t_\n\n"


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def slot_rows(size: int, types: int) -> str:
    rows = [f"{i}\tto bonn now\tO B-t{i % types} I-t{i % types}\tflight\n" for i in range(size)]
    return "id\tutterance\tslot_labels\tintent\n" + "".join(rows)


@pytest.fixture
def root(tmp_path):
    start, word = "-DOCSTART- -X- -X- O\n\n", "EU NNP B-NP B-ORG\n\n"
    return put(
        tmp_path,
        {
            "ner/conll2003/eng.train": start * 946 + word * 14041,
            "ner/conll2003/eng.testa": word,
            "ner/wikiann/en-train.txt": "EU\tB-ORG\n\n"
            * 3,  # another corpus in English does not get in the way
            "ner/IOB2Corpus/ja.wikipedia.conll": "a\tB-PER\n\n" * 1000,
            "slots/train_TR.tsv": slot_rows(578, 71),
            "slots/dev_TR.tsv": slot_rows(60, 5),
            "slots/train_HI.tsv": slot_rows(1441, 74),
            "slots/dev_HI.tsv": slot_rows(1, 1),
            "pos/UD_Japanese-GSD/ja_gsd-ud-dev.conllu": SENTENCE * 501,
            "pos/UD_Japanese-GSD/ja_gsd-ud-test.conllu": SENTENCE * 544,
        },
    )


def of(rows: list[Size], task: str, lang: str) -> dict[str, int | None]:
    return {row.split: row.difference for row in rows if (row.task, row.language) == (task, lang)}


def test_ours_beside_the_papers(root):
    rows = list(sizes(root, "contributions"))
    assert of(rows, "ner", "ja") == {"train": 0, "dev": 0, "test": 0}  # the first 80 % of the file
    assert of(rows, "ner", "zh") == {"train": None, "dev": None, "test": None}
    assert of(rows, "slots", "tr") == {"train": 0, "types": 0, "dev": 0, "test": None}
    assert of(rows, "slots", "hi") == {"train": 1, "types": -1, "dev": -159, "test": None}
    assert {row.note for row in rows if (row.task, row.language) == ("ner", "ja")} == {
        "a share of the file, which has no such split"
    }
    english = next(
        row for row in rows if (row.task, row.language, row.split) == ("ner", "en", "train")
    )
    assert (english.ours, english.source, english.note) == (
        14987,
        "conll2003",
        "14,987 with the 946 document starts",
    )
    assert of(rows, "pos", "ja") == {"train": None, "dev": 0, "test": 1}


def test_the_note_on_a_number_is_printed_where_it_differs(tmp_path):
    put(
        tmp_path,
        {"ner/conll2003/eng.train": "EU\tB-ORG\n\n" * 5, "ner/conll2003/eng.testa": "EU\tB-ORG\n"},
    )
    row = next(row for row in sizes(tmp_path, "contributions", "ner") if row.language == "en")
    assert (row.difference, row.note) == (
        5 - 14987,
        "train count includes the document-start lines (14041 real sentences)",
    )


def test_the_command_marks_what_differs(root):
    printed = CliRunner().invoke(
        app, ["check", str(root), "--paper", "contributions", "--task", "slots"]
    )
    assert printed.exit_code == 1
    lines = {
        tuple(line.split()[1:3]): line.split()[3:6]
        for line in printed.stdout.splitlines()
        if line.startswith("slots")
    }
    assert lines["tr", "types"] == ["71", "71", "equal"]
    assert lines["hi", "train"] == ["1,440*", "1,441", "+1"]
    assert lines["en", "types"] == ["84", "-", "missing"]
    assert "36 numbers: 3 equal, 3 differ, 30 missing here." in printed.stdout
    rows = json.loads(
        CliRunner()
        .invoke(app, ["check", str(root), "--paper", "contributions", "--task", "slots", "--json"])
        .stdout
    )
    assert [row["difference"] for row in rows if row["language"] == "hi"] == [1, -1, -159, None]


def test_an_unknown_paper_is_named(root):
    with pytest.raises(UnknownName, match="contributions, mbert-prunability"):
        list(sizes(root, "contribution"))


def test_table_1_is_what_the_sizes_are_compared_with(tmp_path):
    with published_files()["contributions/table1.csv"].open(encoding="utf-8") as file:
        table = {(row["task"], row["target"]): int(row["value"]) for row in csv.DictReader(file)}
    ours = {
        (row.task, row.language): row.published
        for row in sizes(tmp_path, "contributions")
        if row.from_paper and row.split == "train"
    }
    assert ours == table
    assert len(table) == 18
    types = {
        row.language: row.published
        for row in sizes(tmp_path, "contributions", "slots")
        if row.split == "types"
    }
    assert types == dict.fromkeys(("en", "es", "pt", "de", "fr", "zh", "ja"), 84) | {
        "hi": 75,
        "tr": 71,
    }
    assert any(row["paper"] == "contributions" for row in facts())


@pytest.mark.parametrize(
    ("files", "release"),
    [
        ({"ud-treebanks-v2.7/UD_X/x.conllu": ""}, "2.7, by its folder"),
        ({"UD_X/x.conllu": "", "UD_X/README.md": "Uses v2.12 of a tool.\n# Changelog\n* 2020-11-15 v2.7\n* From v1.2 to v2.0\n"}, "2.7 or later, by its README"),
        ({"UD_X/x.conllu": "", "UD_X/README.txt": "Changelog\n2.10\n2.9\n"}, "2.10 or later, by its README"),
        ({"UD_X/x.conllu": "", "UD_X/README.md": "Nothing."}, ""),
        ({"UD_X/x.conllu": ""}, ""),
    ],
)  # fmt: skip
def test_the_release_of_a_treebank(tmp_path, files, release):
    put(tmp_path, files)
    assert release_of(tmp_path / next(iter(files))) == release


def test_a_check_names_the_release(tmp_path):
    put(tmp_path, {"ud-treebanks-v2.7/pos/UD_German-GSD/de_gsd-ud-test.conllu": SENTENCE})
    assert "(UD 2.7, by its folder)" in CliRunner().invoke(app, ["check", str(tmp_path)]).stdout
