"""Makes the pages that are lists: every command and every built-in recipe. `make docs` runs it, a test runs `pages`.

python docs/make.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MADE = "<!-- Made by docs/make.py: change the code it describes, then run `make docs`. -->"


def pages() -> dict[str, str]:
    """Every page that is made, by its path from docs/."""
    return {"reference/commands.md": commands(), "reference/recipes.md": recipes()}


def commands() -> str:
    """The help text of every command."""
    from typer.main import get_command

    from deadhead.cli import app

    return "\n".join(_commands(get_command(app))) + "\n"


def _commands(app: Any) -> Iterator[str]:
    found = dict(_leaves(app, "deadhead"))
    yield from (
        "# Commands",
        "",
        MADE,
        "",
        "The help text of every command. Exit codes: 0 success; 1 failure, with a message that says "
        "what is wrong and what to do; 2 wrong usage. Results go to standard output, progress and "
        "errors to standard error. `--json` prints one JSON document.",
        "",
        "| command | what it does |",
        "|---|---|",
        *(
            f"| [`{name}`](#{name.replace(' ', '-')}) | {_cell(one.help.split(chr(10))[0])} |"
            for name, one in found.items()
        ),
    )
    for name, one in found.items():
        yield from ("", f"## {name}", "", *_command(name, one))


def _leaves(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, one in group.commands.items():
        whole = f"{prefix} {name}"
        if hasattr(one, "commands"):
            yield from _leaves(one, whole)
        else:
            yield whole, one


def _command(name: str, one: Any) -> Iterator[str]:
    text, _, examples = one.help.partition("Example")
    yield from (
        text.strip(),
        "",
        "```text",
        " ".join((name, *_usage(one))),
        "```",
        "",
        "| | |",
        "|---|---|",
    )
    for param in one.params:
        yield f"| `{_named(param)}` | {_cell(' '.join((param.help or '', _default(param))).strip())} |"
    lines = [line.strip() for line in examples.partition(":")[2].splitlines() if line.strip()]
    if lines:
        yield from ("", "```text", *lines, "```")


def _argument(param: Any) -> str:
    """An argument as a usage line shows it: `MODEL`, `[MODEL]` or `MODEL...`."""
    name = f"{param.metavar}..." if param.nargs != 1 else str(param.metavar)
    return name if param.required else f"[{name}]"


def _usage(one: Any) -> Iterator[str]:
    for param in one.params:
        if param.param_type_name == "argument":
            yield _argument(param)
        elif param.required:
            yield _named(param)
    yield "[OPTIONS]"


def _named(param: Any) -> str:
    if param.param_type_name == "argument":
        return _argument(param)
    flag = param.is_flag or isinstance(param.default, bool)
    return param.opts[0] if flag else f"{param.opts[0]} {param.metavar or param.name.upper()}"


def _default(param: Any) -> str:
    if isinstance(param.show_default, str):
        return f"By default {param.show_default}."
    if (
        param.required
        or not param.show_default
        or param.default in (None, "", False)
        or isinstance(param.default, bool)
    ):
        return ""
    return f"By default `{param.default}`."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def recipes() -> str:
    """Every built-in recipe: its question, its size, and what its report shows."""
    from deadhead.studies import built_in

    return "\n".join(_recipes([*built_in()])) + "\n"


def _recipes(names: list[str]) -> Iterator[str]:
    from deadhead.studies import load

    yield from (
        "# Recipes",
        "",
        MADE,
        "",
        "All bundled recipes. `deadhead plan NAME` says what one will take, `deadhead run NAME --out STUDY` runs it, "
        "`--scale mini` is the same protocol on the [embedded world](../tasks.md), offline, in minutes. *Trials* are distinct "
        "trainings with their scores. The claims are explained in [claims](../claims.md), data and decisions in "
        "[the three papers](../papers.md).",
        "",
        "| recipe | trials | at scale `mini` |",
        "|---|---:|---:|",
    )
    whole = {name: load(name) for name in names}
    for name, one in whole.items():
        yield f"| [`{name}`](#{name.replace('/', '')}) | {len(one.trials):,} | {_mini(name)} |"
    for name, one in whole.items():
        yield from (
            "",
            f"## {name}",
            "",
            f"{one.about[:1].upper()}{one.about[1:]}.",
            "",
            *_made(one.data),
        )


def _mini(name: str) -> str:
    from deadhead.studies import load
    from deadhead.studies.recipe.yaml import RecipeError

    try:
        return f"{len(load(name, scale='mini').trials):,}"
    except RecipeError:  # it is small as it is
        return ""


def _made(data: Mapping[str, Any]) -> Iterator[str]:
    if "include" in data:
        yield f"- includes: {', '.join('`' + one['name'] + '`' for one in data['include'])}"
    if "steps" in data:
        yield f"- steps: {', '.join(data['steps'])}"
        axes = data.get("axes") or {}
        names = dict.fromkeys(
            name for grid in (axes if isinstance(axes, list) else [axes]) for name in grid
        )
        if names:
            yield f"- varies: {', '.join('`' + name + '`' for name in names)}"
    if data.get("search"):
        controls = data["search"].get("controls") or []
        yield f"- searches: the lowest {data['search']['lowest']} heads" + (
            f", with controls {', '.join(controls)}" if controls else ""
        )
    for kind in ("tables", "figures"):
        for one in data.get(kind) or ():
            beside = f", beside the published `{one['published']}`" if one.get("published") else ""
            yield f"- {kind.removesuffix('s')}: {one['title']}{beside}"
    if data.get("claims"):
        yield f"- claims: {', '.join(data['claims'])}"


if __name__ == "__main__":
    for path, text in pages().items():
        (HERE / path).write_text(text, encoding="utf-8")
        print(f"docs/{path}: {len(text.splitlines())} lines")
