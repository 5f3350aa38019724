"""Load a recipe and check everything it says: its trials, tables, figures and claims.

The room of studies does not know the kinds of tables and figures, nor the claims of papers, so
`studies.load` takes the check of these from here.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deadhead.errors import UnknownName, unknown_name
from deadhead.registry import Registry
from deadhead.studies import Recipe, load
from deadhead.studies.fields import Problem
from deadhead.studies.recipe.display import axes_of

from .figures import FIGURES
from .spec import D, Names, kind_of, problems
from .tables import TABLES, USUAL


def load_recipe(
    name: str | Path, overrides: Sequence[str] = (), scale: str | None = None
) -> Recipe:
    """The recipe of a built-in name or a file, with `a.b=c` overrides, checked whole."""
    return load(name, overrides, scale, display=check_display)


def check_display(data: Mapping[str, Any], folder: Path) -> Iterator[Problem]:
    """Yield what is wrong with the tables, figures and claims of a recipe, each with its path."""
    names = Names(axes_of(data), folder)
    for i, entry in enumerate(data.get("tables") or ()):
        yield from ((("tables", i, *p), text) for p, text in _entry(entry, TABLES, USUAL, names))
    for i, entry in enumerate(data.get("figures") or ()):
        yield from ((("figures", i, *p), text) for p, text in _entry(entry, FIGURES, "", names))
    for i, claim in enumerate(data.get("claims") or ()):
        from deadhead.papers.claims import named  # reads every paper, so only if a claim is named

        try:
            named(claim)
        except UnknownName as unknown:
            message = f"{unknown.message} `deadhead claims --published` lists them."
            yield ("claims", i), message


def _entry(
    entry: Mapping[str, Any], kinds: Registry[type[D]], usual: str, names: Names
) -> Iterator[Problem]:
    kind = kind_of(entry, kinds, usual)
    if kind is not None:
        yield from problems(entry, kind, names)
    elif entry.get("kind") is None:
        yield (), f"expected a {kinds.kind}, got none. Known: {', '.join(sorted(kinds))}."
    else:
        yield ("kind",), unknown_name(kinds.kind, entry["kind"], kinds).message
