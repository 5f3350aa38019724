"""Every page does what it says: its blocks run in order in a new folder and print just that."""

from dataclasses import replace
from pathlib import Path

import pytest
from doc_blocks import ROOT, Block, blocks, run_block, same
from preludes import GIVEN, SHORTER

from few_rows import few_rows

PAGES = {
    str(page.relative_to(ROOT / "docs")): page for page in sorted((ROOT / "docs").rglob("*.md"))
} | {"README.md": ROOT / "README.md"}


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """Where a tagger and a study are kept for the pages that take one as given."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def as_it_was():
    """The tables of the package, which a page on how to add to them adds to, are put back."""
    from deadhead import cli, measures, papers, rankers, shrinking, strategies
    from deadhead.heads import names as part_names
    from deadhead.papers import catalogue
    from deadhead.report import figures
    from deadhead.report import tables as report_tables
    from deadhead.shrinking import repairs
    from deadhead.studies import STEPS, steps
    from deadhead.tasks import METRICS, TASKS

    rooms = (cli, figures, measures, papers, rankers, report_tables, shrinking, steps, strategies)
    triples, paths = part_names.TRIPLES, [(room, [*room.__path__]) for room in rooms]
    tables = [
        (table, dict(table))
        for table in (
            rankers.RANKERS,
            shrinking.CHOOSERS,
            repairs.REPAIRS,
            strategies.STRATEGIES,
            measures.MEASURES,
            STEPS,
            METRICS,
            TASKS,
            figures.FIGURES,
            report_tables.TABLES,
        )
    ]
    folders = [*catalogue.FOLDERS]
    commands = [*cli.app.registered_commands]
    with few_rows():  # clears the caches too: a page may add a metric, and data keeps its task
        yield
    cli.app.registered_commands[:] = commands
    part_names.TRIPLES, catalogue.FOLDERS[:] = triples, folders
    for room, path in paths:
        room.__path__[:] = path
    for table, before in tables:
        table.clear()
        table.update(before)


@pytest.mark.slow
@pytest.mark.usefixtures("as_it_was")
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if blocks(page)])
def test_page(name, shared, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
    monkeypatch.delenv("DEADHEAD_DATA", raising=False)
    # tested in tests/saved/test_bench.py, and each process would load torch again
    monkeypatch.setattr("deadhead.saved.bench._peak_of_process", lambda *_: 2**20)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page", **(GIVEN[name](shared, tmp_path) if name in GIVEN else {})}
    for block in blocks(PAGES[name]):
        for written, run in SHORTER.get(name, {}).items():
            block = replace(block, text=block.text.replace(written, run))
        try:
            run_block(block, names, tmp_path)
        except Exception as problem:
            problem.add_note(f"in the block at {PAGES[name]}:{block.line}")
            raise


def test_output_is_compared():
    assert same("4 of ... done", "4 of 12 done\n")
    assert same("a\n...\nz", "a\nb\nc\nz")
    assert same("a\n...\nz", "a\nz")
    assert not same("4 of 12 done", "4 of 13 done")
    assert not same("4 of", "4 of 13 done")


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        ("python", "print(2)  # 3"),
        ("python", "1 + 1  # 3"),
        ("python", "layout = Path('a')  # Path('b')"),
        ("python", "try:\n    1 / 0\nexcept ZeroDivisionError:\n    print(1)  # 2"),
        ("python", "assert False"),
        ("sh", "deadhead recipe\n"),
        ("sh", "make nonsense\n"),
        ("sh", 'pip install "deadhead[nonsense]"\n'),
        ("sh", "rm -rf /\n"),
        ("console", "$ deadhead --version\ndeadhead 99\n"),
        ("text", "deadhead run demo --nonsense\n"),
        ("text", "deadhead nonsense\n"),
        ("ruby", "puts 1"),
    ],
)
def test_a_wrong_page_is_noticed(tag, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError):
        run_block(Block(tag, "", text, 1), {"Path": Path}, tmp_path)


def test_right_blocks_pass(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_block(Block("yaml", "a/b.yaml", "x: 1\n", 1), {}, tmp_path)
    assert (tmp_path / "a/b.yaml").read_text(encoding="utf-8") == "x: 1\n"
    run_block(Block("console", "", "$ deadhead --version\ndeadhead ...\n", 1), {}, tmp_path)
    run_block(
        Block("console", "", "$ deadhead plan nonsense\nRecipeError: ...nonsense...\n", 1),
        {},
        tmp_path,
    )
    run_block(
        Block("sh", "", 'make demo\npip install "deadhead[report]"  # words\n', 1), {}, tmp_path
    )
    run_block(Block("python", "", "print(2)  # 2\nx = 3  # any words\nx  # 3\n", 1), {}, tmp_path)
