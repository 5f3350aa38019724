"""Figures and tables as files, and the command that writes them."""

import csv
import io
import re
import sys

import pytest
from by_hand import DRAWN, SEARCH, done, drawn, searched, study
from typer.testing import CliRunner

from deadhead.cli import app
from deadhead.errors import MissingExtra
from deadhead.report.export import export
from deadhead.report.tables.build import tables
from deadhead.report.tables.text import escape, to_csv, to_latex
from deadhead.studies.store.folder import StudyError

HOSTILE = r"50% \of_{heads} & <b>more</b> | a*b #1 ~ ^ $x$ [y](z)"


def test_every_figure_and_table_is_written(tmp_path):
    folder = study(tmp_path, DRAWN, drawn)
    files = export(folder, tmp_path / "out" / "deep")
    assert sorted(tmp_path.glob("out/deep/*")) == sorted(files)
    begins = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF"}
    for file in files:
        if file.suffix in begins:
            assert file.read_bytes().startswith(begins[file.suffix])
    stems = {
        ending: {file.stem for file in files if file.suffix == ending}
        for ending in (".svg", ".png", ".pdf", ".csv", ".tex")
    }
    assert stems[".svg"] == stems[".png"] == stems[".pdf"] != set()
    assert stems[".csv"] == stems[".tex"] == {"table-1-scores", "table-2-drops"}


def test_csv_has_every_number(tmp_path):
    scores, _ = tables(study(tmp_path, DRAWN, drawn))
    rows = {
        (row["remove"], row["task"]): row for row in csv.DictReader(io.StringIO(to_csv(scores)))
    }
    assert len(rows) == 4
    row = rows["random 50 %", "mnli"]
    assert [float(row[name]) for name in ("ours", "published", "difference", "n")] == [
        72,
        82,
        -10,
        3,
    ]
    assert (row["state"], row["p"], row["mark"]) == ("done", "", "")
    assert rows["none", "sst2"]["published"] == ""


def test_csv_is_no_formula(tmp_path):
    table = {**tables(study(tmp_path, DRAWN, drawn))[0], "rows": [["=cmd()"], ["-x"]]}
    assert [row["remove"] for row in csv.DictReader(io.StringIO(to_csv(table)))][::2] == [
        "'=cmd()",
        "'-x",
    ]


def test_latex_by_hand(tmp_path):
    text = to_latex(tables(study(tmp_path, DRAWN, drawn))[0])
    assert r"remove & mnli & sst2 \\" in text
    assert r"none & 80.00 {\scriptsize(83.69)} & 90.00 \\" in text
    assert (
        r"random 50 \% & 72.00 {\scriptsize$\pm$2.00} {\scriptsize(82.00)} & 90.00 "
        r"{\scriptsize$\pm$2.00} \\" in text
    )
    for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
        assert text.count(rule) == 1


def test_published_numbers_have_the_decimals_they_were_printed_with(tmp_path):
    numbers = "task,remove,value\nmnli,none,83.7\nmnli,random 50,82\n"
    scores = tables(study(tmp_path, DRAWN, drawn, {"numbers.csv": numbers}))[0]
    assert scores["decimals"] == 1
    assert r"none & 80.00 {\scriptsize(83.7)} & 90.00 \\" in to_latex(scores)


def test_decimals_are_limited(tmp_path):
    """A file may come from anybody, and a browser prints no number with hundreds of decimals."""
    numbers = f"task,remove,value\nmnli,none,83.{'7' * 300}\nmnli,random 50,a word. Or several\n"
    assert tables(study(tmp_path, DRAWN, drawn, {"numbers.csv": numbers}))[0]["decimals"] == 4


def form(text):
    """What LaTeX asks: brackets and environments closed in order, no special sign left bare."""
    depth = 0
    for sign in re.sub(r"\\[{}\\%&#$_]", "", text):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0
    assert depth == 0
    records_read: list[str] = []
    for what, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if what == "begin":
            records_read.append(name)
        else:
            assert records_read.pop() == name
    assert not records_read
    assert re.sub(r"\\\$", "", text).count("$") % 2 == 0
    assert not re.search(r"(?<!\\)[%#^~<>|]", text)


def hostile(trial, labels):
    return done(trial, {"en/dev/accuracy": 0.5}) if trial.get("seed") else None


@pytest.fixture
def odd_names(tmp_path):
    recipe = f"""\
steps: [finetune, evaluate]
fixed: {{task: mnli, source: en, splits: dev}}
axes: {{model: ['{HOSTILE}', plain], seed: [0, 1]}}
tables: [{{title: '{HOSTILE}', rows: model, columns: seed}}]
"""
    return tables(study(tmp_path, recipe, hostile))


def test_latex_escapes_what_it_would_take_for_commands(odd_names):
    text = to_latex(odd_names[0])
    form(text)
    assert r"50\% \textbackslash{}of\_\{heads\} \& \textless{}b\textgreater{}more" in text
    assert escape("a_b\nc") == r"a\_b c"
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", line)) for line in rows] == [
        2,
        2,
        2,
    ]  # no & of a label parts columns
    assert "plain & -- & 50.00" in text  # not run, done


def test_without_the_extra_there_is_one_line_to_type(tmp_path, monkeypatch):
    folder = study(tmp_path, DRAWN, drawn)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingExtra, match=r'pip install .*\[report\]"'):
        export(folder, tmp_path / "out")


def test_a_place_that_cannot_be_written_to(tmp_path):
    folder = study(tmp_path, DRAWN, drawn)
    (tmp_path / "file").write_text("x")
    with pytest.raises(StudyError, match="cannot write to the folder"):
        export(folder, tmp_path / "file")


def run(*arguments):
    result = CliRunner().invoke(app, ["report", *map(str, arguments)])
    return result.output, result.exception


@pytest.fixture
def no_pictures(monkeypatch):
    """Drawing is tested once, above; here it would only take its time."""
    monkeypatch.setattr("deadhead.report.export._drawers", lambda: {"svg": lambda spec: "<svg>"})


@pytest.mark.usefixtures("no_pictures")
def test_the_command_writes_the_page_and_the_files(tmp_path):
    folder = study(tmp_path, DRAWN, drawn)
    output, problem = run(folder, "--figures", tmp_path / "figures")
    assert problem is None
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "half of the heads, at random" in page
    assert f"{folder / 'report.html'}: " in output
    assert (tmp_path / "figures" / "table-1-scores.tex").is_file()
    run(folder, "--out", tmp_path / "elsewhere.html")
    assert (tmp_path / "elsewhere.html").read_text(encoding="utf-8") == page


@pytest.mark.usefixtures("no_pictures")
def test_the_command_takes_several_studies(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first = study(tmp_path / "one", DRAWN, drawn)
    second = study(tmp_path / "two", SEARCH, searched).rename(tmp_path / "two" / "search")
    _, problem = run(
        first, second, "--out", tmp_path / "both.html", "--figures", tmp_path / "figures"
    )
    assert problem is None
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {"study", "search"}
    assert "lowest-k prunings" in (tmp_path / "both.html").read_text(encoding="utf-8")
    run(first, first, "--out", tmp_path / "both.html", "--figures", tmp_path / "twice")
    assert {file.name for file in (tmp_path / "twice").iterdir()} == {"study-1", "study-2"}


def test_a_number_that_rounds_to_zero_has_no_sign(tmp_path):
    (table, *_) = tables(study(tmp_path, DRAWN, drawn))
    table["cells"][0][0] |= {"ours": -0.001, "change": -0.001, "published_change": None}
    assert "0.00 (+0.00)" in to_latex(table)
    assert "-0.00" not in to_latex(table)
