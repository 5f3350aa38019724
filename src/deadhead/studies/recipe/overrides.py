"""Changes to a recipe before it is checked: `--set FIELD=VALUE`, and those under `scales`."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from deadhead.errors import unknown_name
from deadhead.studies.step import fields

from .check import DISPLAY, TOP
from .expand import grids, is_range
from .yaml import Document, RecipeError, dotted, read, scalar


def is_display(override: str) -> bool:
    """Whether an override is about the report; all others are about the trials."""
    return override.partition("=")[0].strip().partition(".")[0] in DISPLAY


def apply_scale(recipe: Document, scale: str) -> None:
    """Apply the overrides that the recipe itself has under `scales`."""
    scales = recipe.data.get("scales") or {}
    if not isinstance(scales, dict) or scale not in scales:
        names = ", ".join(scales) if isinstance(scales, dict) else ""
        hint = "leave --scale out to run it in full"
        raise RecipeError(f"{recipe.name} has no scale {scale!r}; it has: {names or 'none'}.", hint)
    changes = scales[scale]
    if not isinstance(changes, dict):
        where = recipe.where(("scales", scale))
        raise RecipeError(f"{where}: a scale is a mapping such as {{fixed.model: NAME}}.")
    for name, value in changes.items():
        line = recipe.line(("scales", scale, name))
        put(recipe, name.split("."), copy.deepcopy(value), f"scales.{scale}.{name}", line)


def apply_override(recipe: Document, text: str) -> None:
    """Apply one `a.b=c`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        hint = "for instance --set fixed.finetune.epochs=1"
        raise RecipeError(f"--set expects FIELD=VALUE, got {text!r}.", hint)
    value = value.strip()  # YAML in brackets (`[0, 1]`) or in quotes, a word or a number
    parsed = read(value, "--set").data if value[:1] in "[{\"'" else scalar(value)
    put(recipe, name.strip().split("."), parsed, f"--set {text}", None)


def put(recipe: Document, path: Sequence[str], value: Any, source: str, line: int | None) -> None:
    """Set the value at a dotted path; a field of trials goes to axes of that name, or to fixed.

    source: what the user wrote, for messages. line: of the recipe; None for the command line.
    """
    for place in [path] if path[0] in TOP else _places(recipe.data, path, value, source):
        _put(recipe, place, value, source, line)


def _places(
    data: Mapping[str, Any], path: Sequence[str], value: Any, source: str
) -> list[Sequence[str]]:
    """Where to set a field of trials."""
    if path[0] not in fields():
        problem = unknown_name("field", path[0], {*TOP, *fields()})
        raise RecipeError(f"{source}: {problem.message}")
    prefixes = {".".join(path[: i + 1]) for i in range(len(path))}
    every = grids(data)
    axes: list[Sequence[str]] = [
        [*map(str, place), *path]
        for place, grid in every.items()
        if isinstance(grid, dict) and prefixes & grid.keys()
    ]
    more_values = isinstance(value, list)
    if axes and (len(axes) == len(every) or more_values):
        return axes  # it is an axis everywhere, or is to become one
    is_single = len(path) == 1 and fields()[path[0]].single
    if is_single and len(every) == 1 and (more_values or is_range(value)):
        return [["axes", *path]]  # several values of a field that has one in a trial: an axis
    return [*axes, ["fixed", *path]]


def _put(recipe: Document, path: Sequence[str], value: Any, source: str, line: int | None) -> None:
    here = recipe.data
    for i, word in enumerate(path[:-1]):
        rest = ".".join(path[i:])  # an axis may have a dotted name, such as finetune.learning_rate
        if isinstance(here, dict) and rest in here:
            path = [*path[:i], rest]
            break
        if isinstance(here, list):
            here = here[_index(here, word, source)]
        elif isinstance(here, dict):
            here = here.setdefault(word, {})
        else:
            raise _not_mapping(source, path[:i], here)
    last = path[-1]
    if isinstance(here, list):
        here[_index(here, last, source)] = value
    elif not isinstance(here, dict):
        raise _not_mapping(source, path[:-1], here)
    elif value is None and path[0] == "axes":
        here.pop(last, None)  # null removes an axis
    else:
        here[last] = value
    place = tuple(int(word) if word.isdecimal() else word for word in path)
    recipe.lines[place] = line or recipe.line(place[:-1])
    if line is None:
        recipe.overrides[place] = source


def _not_mapping(source: str, path: Sequence[str], value: object) -> RecipeError:
    return RecipeError(f"{source}: {dotted(path)} expects a mapping or a list, got {value!r}.")


def _index(items: list[Any], word: str, source: str) -> int:
    if not word.isdecimal() or int(word) >= len(items):
        message = (
            f"{source}: expected a place from 0 to {len(items) - 1} in this list, got {word!r}."
        )
        raise RecipeError(message, "places are counted from 0")
    return int(word)
