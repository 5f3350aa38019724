"""The code blocks of a page, and how each runs: Python by statement, commands through `main`.

    ```python              run in order, one namespace per page; `print(...)  # this` prints this
    ```sh                  commands; those of deadhead run, others (pip, git, make) are looked up
    ```console             the same after `$ `, each followed by what it prints
    ```yaml title="FILE"   any block with a title is written to that file first
    ```text, ```           not run; commands of deadhead in it must still parse

`...` in the expected output matches anything. `deadhead run` runs its trials in this process unless
the page says otherwise: other tests compare executors, and each process would load torch again.
"""

import ast
import contextlib
import importlib.util
import io
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import yaml

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```([a-z]*)([^\n]*)\n(.*?)^```$", re.M | re.S)
REPR = re.compile(r"^[A-Z]\w+\(.*\)$")  # an object as it prints itself, beside an assignment
NOT_RUN = (
    "git clone",
    "cd ",
    "python -m venv ",
    "source ",
)  # commands that a page may have and no test can run


def script(name):
    """Return docs/NAME.py as a module: the scripts of docs/ are no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Block:
    """One code block: its language, its file if it has a title, its text and its first line."""

    tag: str
    file: str
    text: str
    line: int


def blocks(page):
    source = page.read_text(encoding="utf-8")
    result = []
    for fence in FENCE.finditer(source):
        title = re.search(r'title="([^"]+)"', fence[2])
        result.append(
            Block(
                fence[1],
                title[1] if title else "",
                fence[3],
                source.count("\n", 0, fence.start()) + 2,
            )
        )
    return result


def same(expected, output):
    """Whether the output is as expected; white space does not count, `...` matches anything."""
    words = [re.escape(word).replace(re.escape("..."), ".*") for word in expected.split()]
    return (
        re.fullmatch(
            r"\s*" + r"\s+".join(words).replace(r"\s+.*\s+", r"\s(.*\s)?") + r"\s*", output, re.S
        )
        is not None
    )


def run_block(block, names, folder):
    """Run one block in the folder; raise AssertionError where the page is wrong."""
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
        for line, expected in commands(block):
            code, output = run_command(line)
            assert expected is not None or code == 0, f"`{line}` ends with {code}:\n{output}"
            assert expected is None or same(expected, output), (
                f"`{line}` prints\n{output}\nand not\n{expected}"
            )
    else:
        assert block.tag in ("text", "", "latex"), (
            f"line {block.line}: expected a known language, got {block.tag!r}"
        )
        for line in block.text.splitlines():
            if line.startswith("deadhead "):
                parse(line)


def run_python(block, names):
    lines = block.text.splitlines()
    for statement in ast.parse(block.text).body:
        expected = (
            lines[statement.end_lineno - 1][statement.end_col_offset :].partition("# ")[2].strip()
        )  # type: ignore[operator]
        expected = (
            expected
            if statement.end_lineno == statement.lineno or isinstance(statement, ast.Expr)
            else ""
        )
        code, output = ast.get_source_segment(block.text, statement) or "", io.StringIO()
        with contextlib.redirect_stdout(output):
            if isinstance(statement, ast.Expr):
                value = eval(compile(code, f"line {block.line}", "eval"), names)
                output.write("" if value is None else repr(value))
            else:
                exec(compile(code, f"line {block.line}", "exec"), names)
                value = (
                    names.get(getattr(statement.targets[0], "id", ""))
                    if isinstance(statement, ast.Assign)
                    else None
                )
                output.write(repr(value) if REPR.match(expected) else "")
        if (
            not expected
            and hasattr(statement, "body")
            and not isinstance(statement, ast.FunctionDef | ast.ClassDef)
        ):
            expected = "\n".join(_printed(statement, lines))
        elif not _shows(statement) and not REPR.match(expected):
            continue
        if expected:
            assert same(expected, output.getvalue()), (
                f"`{code}` gives\n{output.getvalue()}\nand not\n{expected}"
            )


def _printed(statement, lines):
    """The expected output of the prints inside a statement, such as a `try`."""
    for inner in ast.walk(statement):
        if isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Call) and _shows(inner):
            yield (
                lines[(inner.end_lineno or 1) - 1][inner.end_col_offset :]
                .partition("# ")[2]
                .strip()
            )


def _shows(statement):
    """Whether the comment is the output: after a print or a bare value, not after other calls."""
    if not isinstance(statement, ast.Expr):
        return False
    return (
        not isinstance(statement.value, ast.Call)
        or getattr(statement.value.func, "id", "") == "print"
    )


def commands(block):
    """The commands of a block, each with its expected output, or None."""
    text = block.text.replace("\\\n", " ")
    if block.tag == "console":
        for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
            line, _, expected = part.partition("\n")
            yield line.strip(), expected.strip() or None
    else:
        yield from (
            (line.strip(), None)
            for line in text.splitlines()
            if line.strip() and not line.startswith("#")
        )


def words(line):
    return shlex.split(line, comments=True)


def run_command(line):
    """Exit code and output of a deadhead command; for others, check that their targets exist."""
    arguments = words(line)
    if arguments[0] != "deadhead":
        look_up(line, arguments)
        return 0, ""
    from deadhead.cli import main

    arguments += (
        ["--executor", "serial"] if arguments[1] == "run" and "--executor" not in arguments else []
    )
    output, before = io.StringIO(), sys.argv
    sys.argv = arguments
    try:
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
            # the pages show a terminal, which has no lines of a log
            mock.patch("deadhead.cli._command.logged", return_value=contextlib.nullcontext()),
        ):
            main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = before
    return code, output.getvalue()


def look_up(line, arguments):
    if arguments[0] == "make":
        assert re.search(
            rf"^{arguments[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M
        ), f"no target: {line}"
    elif arguments[:2] == ["pip", "install"]:
        project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        for extra in re.findall(r"\[([\w,]+)\]", line):
            assert all(re.search(rf"^{name} = \[", project, re.M) for name in extra.split(",")), (
                f"no such extra: {line}"
            )
    elif arguments[0] == "sbatch":
        assert any((ROOT / word).is_file() for word in arguments), f"no such script: {line}"
    else:
        assert line.startswith(NOT_RUN), f"expected a command that this test knows, got {line}"


def parse(line):
    """Check that a command which is not run exists and takes these options."""
    from typer.main import get_command

    from deadhead.cli import app

    command, arguments = (
        get_command(app),
        [word for word in words(line)[1:] if word not in ("[OPTIONS]", "...")],
    )
    while hasattr(command, "commands"):
        if not arguments or arguments[0].startswith("-"):
            return
        assert arguments[0] in command.commands, f"there is no command {arguments[0]!r}: {line}"
        command, arguments = command.commands[arguments[0]], arguments[1:]
    try:
        command.make_context(command.name, arguments)
    except SystemExit:
        return
    except Exception as problem:
        raise AssertionError(f"{line}: {problem}") from None
