"""The rooms of the house: imports flow one way, and neither the door nor the help loads torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import deadhead

SOURCE = Path(deadhead.__file__).parent
ONLY = {
    "install": set(),
    "errors": {"install"},
    "files": set(),
    "swap": {"errors", "files"},
    "hub": {"errors"},
    "layout": {"errors"},
    "numerics": {"errors"},
    "heads": {"errors", "files", "hub", "layout", "numerics", "swap"},
    "translation": {"errors", "heads"},
}  # a room -> the rooms it may know
NEVER = {  # a room -> the rooms above it or beside it, which it must not know
    "strategies": {"heads", "rankers", "tasks", "studies", "report", "cli", "world"},
    "rankers": {"strategies", "tasks", "studies", "report", "cli", "world"},
    "measures": {"strategies", "tasks", "studies", "results", "report", "cli", "world"},
    "claims": {"heads", "rankers", "measures", "training", "strategies", "report", "cli", "world"},
    "studies": {"claims", "report", "cli"},
    "report": {"heads", "rankers", "measures", "training", "strategies", "cli", "world"},
    "tasks": {"layout", "heads", "strategies", "rankers", "studies", "report", "cli"},
    "world": {"layout", "heads", "strategies", "rankers", "tasks", "studies", "report", "cli"},
}


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The rooms a file imports from, wherever in the file it does so."""
    package = ("deadhead", *path.relative_to(SOURCE).parts[:-1])
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            above = list(package[: len(package) - node.level + 1]) if node.level else []
            whole = [*above, *(node.module or "").split(".")] if node.module else above
            names = [[*whole, alias.name] for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        else:
            continue
        found.update(name[1] for name in names if name[0] == "deadhead" and len(name) > 1)
    return found - {"__version__"}


@pytest.mark.parametrize("name", [*ONLY, *NEVER])
def test_imports_flow_one_way(name: str) -> None:
    files = [f for f in SOURCE.rglob("*.py") if room(f) == name]
    assert files, f"there is no room {name}"
    for file in files:
        known = imported(file) - {name}
        strangers = known - ONLY[name] if name in ONLY else known & NEVER[name]
        assert not strangers, f"{file.relative_to(SOURCE)} imports {', '.join(sorted(strangers))}"


def test_the_reader_of_imports_reads_them() -> None:
    assert {"errors", "layout"} <= imported(SOURCE / "heads" / "gates.py")
    assert "heads" in imported(SOURCE / "cli" / "models.py")


def test_nothing_but_the_command_line_knows_the_command_line() -> None:
    assert not [
        f
        for f in SOURCE.rglob("*.py")
        if room(f) not in ("cli", "__main__") and "cli" in imported(f)
    ]


def test_there_is_no_room_for_odds_and_ends() -> None:
    assert not [f for f in SOURCE.rglob("*.py") if f.stem in ("utils", "helpers", "common", "misc")]


@pytest.mark.parametrize(
    "code",
    [
        "import deadhead",
        "import deadhead; deadhead.Head('encoder', 0, 1), deadhead.HeadLayout, dir(deadhead)",
        "import deadhead; deadhead.strategies",
        "import deadhead.cli",
        "import deadhead.claims; deadhead.claims.published()",
        "import deadhead.report.page.html, deadhead.report.page.serve, deadhead.report.export",
        "import sys; sys.argv = ['deadhead', '--help']\ntry:\n import deadhead.cli; deadhead.cli.main()\nexcept SystemExit: pass",
        "import sys; sys.argv = ['deadhead', 'heads', '--help']\ntry:\n import deadhead.cli; deadhead.cli.main()\nexcept SystemExit: pass",
    ],
)
def test_torch_is_not_loaded_before_it_is_needed(code: str) -> None:
    told = "\nimport sys; print(sorted({'torch', 'transformers'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code + told], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_torch_is_loaded_when_it_is_needed() -> None:
    code = "import sys, deadhead; deadhead.discover; print('torch' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "True\n"
    )
