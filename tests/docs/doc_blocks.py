"""The code blocks of a page, and how each is run: Python statement by statement, commands through the real `main`.

    ```python              run in order, one namespace per page; `print(...)  # this` must print this
    ```sh                  commands; those of deadhead are run, others (pip, git, make) are looked up
    ```console             the same after `$ `, each followed by what it prints
    ```yaml title="FILE"   any block with a title is written to that file first
    ```text, ```           not run; commands of deadhead in it must still parse

`...` in what is said to be printed stands for anything. `deadhead run` runs its trials in this process unless the page says
otherwise: that those in others give the same records is tested elsewhere, and each of them would load torch anew.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```([a-z]*)([^\n]*)\n(.*?)^```$", re.M | re.S)
SPOKEN = re.compile(r"^[A-Z]\w+\(.*\)$")  # an object as it prints itself, beside an assignment
ELSEWHERE = (
    "git clone",
    "cd ",
    "python -m venv ",
    "source ",
)  # what a page may ask for and no test can run


@dataclass(frozen=True)
class Block:
    """One code block: its language, the file it is to be kept in, its text, and the line it begins at."""

    tag: str
    file: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    source = page.read_text(encoding="utf-8")
    found = []
    for fence in FENCE.finditer(source):
        title = re.search(r'title="([^"]+)"', fence[2])
        found.append(
            Block(
                fence[1],
                title[1] if title else "",
                fence[3],
                source.count("\n", 0, fence.start()) + 2,
            )
        )
    return found


def same(said: str, met: str) -> bool:
    """Whether the output is what the page says; white space does not count, and `...` is anything."""
    words = [re.escape(word).replace(re.escape("..."), ".*") for word in said.split()]
    return (
        re.fullmatch(
            r"\s*" + r"\s+".join(words).replace(r"\s+.*\s+", r"\s(.*\s)?") + r"\s*", met, re.S
        )
        is not None
    )


def run_block(block: Block, names: dict[str, Any], folder: Path) -> None:
    """Run one block in the folder; an AssertionError where it does not do what the page says."""
    if block.file:
        (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
        (folder / block.file).write_text(block.text, encoding="utf-8")
    if block.tag == "python" and block.file:
        compile(block.text, block.file, "exec")  # it is run by whoever imports it
    elif block.tag == "python":
        run_python(block, names)
    elif block.tag == "yaml":
        yaml.safe_load(block.text)
    elif block.tag in ("sh", "console"):
        for line, said in commands(block):
            code, met = run_command(line)
            assert said is not None or code == 0, f"`{line}` ends with {code}:\n{met}"
            assert said is None or same(said, met), f"`{line}` prints\n{met}\nand not\n{said}"
    else:
        assert block.tag in ("text", "", "latex"), (
            f"line {block.line}: nobody knows how to run {block.tag!r}"
        )
        for line in block.text.splitlines():
            if line.startswith("deadhead "):
                parse(line)


def run_python(block: Block, names: dict[str, Any]) -> None:
    lines = block.text.splitlines()
    for statement in ast.parse(block.text).body:
        said = (
            lines[statement.end_lineno - 1][statement.end_col_offset :].partition("# ")[2].strip()
        )  # type: ignore[operator]
        said = (
            said
            if statement.end_lineno == statement.lineno or isinstance(statement, ast.Expr)
            else ""
        )
        code, met = ast.get_source_segment(block.text, statement) or "", io.StringIO()
        with contextlib.redirect_stdout(met):
            if isinstance(statement, ast.Expr):
                value = eval(compile(code, f"line {block.line}", "eval"), names)
                met.write("" if value is None else repr(value))
            else:
                exec(compile(code, f"line {block.line}", "exec"), names)
                value = (
                    names.get(getattr(statement.targets[0], "id", ""))
                    if isinstance(statement, ast.Assign)
                    else None
                )
                met.write(repr(value) if SPOKEN.match(said) else "")
        if (
            not said
            and hasattr(statement, "body")
            and not isinstance(statement, ast.FunctionDef | ast.ClassDef)
        ):
            said = "\n".join(_printed(statement, lines))
        elif not _shows(statement) and not SPOKEN.match(said):
            continue
        if said:
            assert same(said, met.getvalue()), f"`{code}` gives\n{met.getvalue()}\nand not\n{said}"


def _printed(statement: ast.stmt, lines: list[str]) -> Iterator[str]:
    """What the prints inside a statement, such as those of a `try`, are said to print."""
    for inner in ast.walk(statement):
        if isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Call) and _shows(inner):
            yield (
                lines[(inner.end_lineno or 1) - 1][inner.end_col_offset :]
                .partition("# ")[2]
                .strip()
            )


def _shows(statement: ast.stmt) -> bool:
    """Whether the comment beside it is what it shows: a print, or a bare value; beside other calls it says what they are for."""
    if not isinstance(statement, ast.Expr):
        return False
    return (
        not isinstance(statement.value, ast.Call)
        or getattr(statement.value.func, "id", "") == "print"
    )


def commands(block: Block) -> Iterator[tuple[str, str | None]]:
    """The commands of a block, each with what it is said to print: None where nothing is said."""
    text = block.text.replace("\\\n", " ")
    if block.tag == "console":
        for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
            line, _, said = part.partition("\n")
            yield line.strip(), said.strip() or None
    else:
        yield from (
            (line.strip(), None)
            for line in text.splitlines()
            if line.strip() and not line.startswith("#")
        )


def words(line: str) -> list[str]:
    return shlex.split(line, comments=True)


def run_command(line: str) -> tuple[int, str]:
    """What a command of deadhead answers; of any other, whether what it names is there."""
    given = words(line)
    if given[0] != "deadhead":
        look_up(line, given)
        return 0, ""
    from deadhead.cli import main

    given += ["--executor", "serial"] if given[1] == "run" and "--executor" not in given else []
    met, before = io.StringIO(), sys.argv
    sys.argv = given
    try:
        with contextlib.redirect_stdout(met), contextlib.redirect_stderr(met):
            main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = before
    return code, met.getvalue()


def look_up(line: str, given: list[str]) -> None:
    if given[0] == "make":
        assert re.search(rf"^{given[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M), (
            f"no target: {line}"
        )
    elif given[:2] == ["pip", "install"]:
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        for extra in re.findall(r"\[([\w,]+)\]", line):
            assert all(re.search(rf"^{one} = \[", project, re.M) for one in extra.split(",")), (
                f"no such extra: {line}"
            )
    elif given[0] == "sbatch":
        assert any((ROOT / word).is_file() for word in given), f"no such script: {line}"
    else:
        assert line.startswith(ELSEWHERE), f"nobody knows whether this works: {line}"


def parse(line: str) -> None:
    """A command that is not run: it exists, and takes these options."""
    from typer.main import get_command

    from deadhead.cli import app

    command, given = (
        get_command(app),
        [word for word in words(line)[1:] if word not in ("[OPTIONS]", "...")],
    )
    while hasattr(command, "commands"):
        if not given or given[0].startswith("-"):
            return
        assert given[0] in command.commands, f"there is no command {given[0]!r}: {line}"
        command, given = command.commands[given[0]], given[1:]
    try:
        command.make_context(command.name, given)
    except SystemExit:
        return
    except Exception as problem:
        raise AssertionError(f"{line}: {problem}") from None
