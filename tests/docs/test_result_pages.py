"""Pages of results are short, and their appendix holds what the records give."""

import csv
import re
import sys

import pytest
from doc_blocks import FENCE, ROOT, Block, parse, run_block
from preludes import GIVEN

RESULTS = ROOT / "docs" / "results"
APPENDIX = RESULTS / "appendix"
PAGES = sorted(RESULTS.glob("*.md"))
MOST_WORDS = 900


def faults(text):
    """Say what makes a page long to read."""
    prose = FENCE.sub("", text)
    tables = re.findall(r"^\|[|: -]+\|$", prose, re.M)
    words = len(re.findall(r"\w+", text))
    return [
        *([f"{words} words"] if words > MOST_WORDS else []),
        *([f"{len(tables)} tables"] if len(tables) > 1 else []),
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_one_short_result(page):
    text = page.read_text(encoding="utf-8")
    assert faults(text) == []
    assert "\n## Limits\n" in text
    assert "\n![" in text or page.stem == "serving"


def test_long_pages_are_noticed():
    table = "| a |\n|---|\n| 1 |\n"
    assert faults(f"{table}\n{table}" + "word " * 900) == ["904 words", "2 tables"]


def test_every_appendix_is_linked_and_read():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    linked = set(re.findall(r"\(appendix/([^)]+)\)", text))
    assert linked == {file.name for file in APPENDIX.iterdir() if file.is_file()}
    for file in APPENDIX.glob("*.csv"):
        with file.open(encoding="utf-8", newline="") as stream:
            titles, *rows = csv.reader(stream)
        assert rows, file.name
        assert len(set(titles)) == len(titles), file.name
        assert {len(row) for row in rows} == {len(titles)}, file.name


@pytest.mark.parametrize("file", sorted(APPENDIX.glob("*.txt")), ids=lambda file: file.stem)
def test_commands_of_the_appendix_parse(file):
    commands = re.findall(r"^(?:.*&& )?(deadhead .*)$", file.read_text(encoding="utf-8"), re.M)
    assert len(commands) > 5
    for command in commands:
        parse(command)


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted(APPENDIX.glob("*.py")), ids=lambda file: file.stem)
def test_numbers_come_from_the_records(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page", **GIVEN[f"results/appendix/{file.name}"](tmp_path, tmp_path)}
    run_block(Block("python", "", file.read_text(encoding="utf-8"), 1), names, tmp_path)


@pytest.mark.slow
def test_shrink_curves_come_from_the_rows(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import shrink_curves_report as report

    tables = report.blocks(report.read([RESULTS / "shrink-curves.jsonl.xz"]))
    files = report.write_appendix(tmp_path, tables)
    assert len(files) == 9
    for file in files:
        assert file.read_text("utf-8") == (APPENDIX / file.name).read_text("utf-8")
    for name in ("shrink-curves.md", "refit-or-train.md", "ranking-without-training.md"):
        text = (RESULTS / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text.replace(" ± ", " - "), encoding="utf-8")
        report.fill_page(tmp_path / name, tables)
        marks = re.compile(r"<!-- made by.*?<!-- end -->", re.S)
        assert marks.findall((tmp_path / name).read_text("utf-8")) == marks.findall(text)


def test_the_numbers_of_circuits_come_from_their_records(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import circuits_page

    text, page = (RESULTS / "circuits.md").read_text(encoding="utf-8"), tmp_path / "circuits.md"
    empty = re.sub(r"(<!-- made by .*? -->).*?(<!-- end -->)", r"\1\2", text, flags=re.S)
    page.write_text(empty, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["circuits_page.py", "--page", str(page)])
    circuits_page.main()
    assert page.read_text(encoding="utf-8") == text != empty
