"""Makes the lists of docs/: commands, built-in recipes and claims. `make docs` runs it, a test runs `pages`.

python docs/make.py
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SHARED = 2  # commands with the same option, for it to be described once
MADE = "<!-- Made by docs/make.py: change the code it describes, then run `make docs`. -->"


def pages() -> dict[str, str]:
    """Every page and table that is made, by its path from docs/."""
    return {
        "reference/commands.md": commands(),
        "reference/recipes.md": recipes(),
        "reference/recipes.csv": recipe_table(),
        "claims.csv": claim_table(),
    }


def commands() -> str:
    """The help text of every command."""
    from typer.main import get_command

    from deadhead.cli import app

    return "\n".join(_commands(get_command(app))) + "\n"


def _commands(app: Any) -> Iterator[str]:
    from deadhead.errors import NEXT

    leaves = dict(_leaves(app, "deadhead"))
    rows = Counter(row for one in leaves.values() for row in map(_row, one.params))
    shared = {row for row, commands in rows.items() if commands >= SHARED}
    yield from (
        "# Commands",
        "",
        MADE,
        "",
        "The help text of every command. Exit codes: 0 success; 1 failure, with a message that says "
        "what is wrong and what to do; 2 wrong usage. Results go to standard output, progress and "
        "errors to standard error. `--json` prints one JSON document. Old names of options work until deadhead "
        f"{NEXT}, with a note that says the new name.",
        "",
        "| command | what it does |",
        "|---|---|",
        *(
            f"| [`{name}`](#{name.replace(' ', '-')}) | {_cell(one.help.split(chr(10))[0])} |"
            for name, one in leaves.items()
        ),
        "",
        "## Options of several commands",
        "",
        "| | |",
        "|---|---|",
        *(row for row in rows if row in shared),
    )
    for name, one in leaves.items():
        yield from ("", f"## {name}", "", *_command(name, one, shared))


def _leaves(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, one in group.commands.items():
        whole = f"{prefix} {name}"
        if hasattr(one, "commands"):
            yield from _leaves(one, whole)
        else:
            yield whole, one


def _command(name: str, one: Any, shared: set[str]) -> Iterator[str]:
    text, _, examples = one.help.partition("Example")
    yield from (text.strip(), "", "```text", " ".join((name, *_usage(one))), "```")
    own = [row for row in map(_row, one.params) if row not in shared]
    if own:
        yield from ("", "| | |", "|---|---|", *own)
    others = [f"`{_named(param).split()[0]}`" for param in one.params if _row(param) in shared]
    if others:
        link = "[described above](#options-of-several-commands)"
        yield from ("", f"{'Also' if own else 'Options'}, {link}: {', '.join(others)}.")
    lines = [line.strip() for line in examples.partition(":")[2].splitlines() if line.strip()]
    if lines:
        yield from ("", "```text", *lines, "```")


def _row(param: Any) -> str:
    text = " ".join((param.help or "", _default(param))).strip()
    return f"| `{_cell(_named(param))}` | {_cell(text)} |"


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
    """Every built-in recipe: its question and its size."""
    from deadhead.studies import built_in, load

    lines = [
        "# Recipes",
        "",
        MADE,
        "",
        "`deadhead plan NAME` says what a recipe takes, `deadhead run NAME --out STUDY` runs it. `--scale mini` runs the "
        "same protocol on the [small world](../tasks.md#the-small-world), offline, in minutes. *Trials* are distinct "
        "trainings with their scores. [A table](recipes.csv) also lists the steps, the axes, the tables, the figures and "
        "the claims of each; [the three papers](../papers.md) explains data and decisions.",
        "",
        "| recipe | what it asks | trials | mini |",
        "|---|---|---:|---:|",
    ]
    for name in built_in():
        recipe = load(name)
        lines.append(
            f"| `{name}` | {_cell(recipe.about)} | {len(recipe.trials):,} | {_mini(name)} |"
        )
    return "\n".join(lines) + "\n"


def _mini(name: str) -> str:
    from deadhead.studies import load
    from deadhead.studies.recipe.yaml import RecipeError

    try:
        return f"{len(load(name, scale='mini').trials):,}"
    except RecipeError:  # it is small as it is
        return ""


def recipe_table() -> str:
    """CSV with a row for each recipe and each thing that it states."""
    from deadhead.studies import built_in, load

    rows = [(name, *stated) for name in built_in() for stated in _stated(load(name).data)]
    return _csv(("recipe", "states", "what"), rows)


def _stated(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for one in data.get("include") or ():
        yield "includes", one["name"]
    if "steps" in data:
        yield "steps", ", ".join(data["steps"])
        axes = data.get("axes") or {}
        grids = axes if isinstance(axes, list) else [axes]
        for name in dict.fromkeys(name for grid in grids for name in grid):
            yield "varies", name
    if data.get("search"):
        yield "searches", f"the lowest {data['search']['lowest']} heads"
        for control in data["search"].get("controls") or ():
            yield "control", control
    for kind in ("tables", "figures"):
        for one in data.get(kind) or ():
            beside = f", beside the published {one['published']}" if one.get("published") else ""
            yield kind.removesuffix("s"), f"{one['title']}{beside}"
    for claim in data.get("claims") or ():
        yield "claim", claim


def claim_table() -> str:
    """CSV with the verdict of every claim on the papers' own tables."""
    from deadhead.papers.claims import published
    from deadhead.papers.claims.verdict import COLUMNS

    return _csv(
        (*COLUMNS[:3], "follows", *COLUMNS[3:]),
        (
            (
                one.id,
                one.statement,
                one.verdict,
                one.follows,
                "" if one.margin is None else f"{one.margin:+.3g} {one.unit}",
                one.numbers,
                one.strength,
            )
            for one in published()
        ),
    )


def _csv(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([columns, *rows])
    return out.getvalue()


if __name__ == "__main__":
    for path, text in pages().items():
        (HERE / path).write_text(text, encoding="utf-8")
        print(f"docs/{path}: {len(text.splitlines())} lines")
