"""YAML that is nothing but data, and that remembers the line each value stood on.

A recipe may come from anybody, so only plain mappings, lists, texts and numbers are read: a tag, an
anchor or a key given twice is refused. Scalars are read by the YAML 1.2 rules, in which `no` is a
language (Norwegian) and `5e-5` is a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from deadhead.errors import DeadheadError

Path = tuple[str | int, ...]

LARGEST = 1_000_000  # characters; a recipe is a screen
DEEPEST = 20
NULLS, TRUTHS = {"", "~", "null"}, {"true": True, "false": False}
INTEGER = re.compile(r"[-+]?[0-9]+")
RESOLVED = {
    f"tag:yaml.org,2002:{name}"
    for name in ("null", "bool", "int", "float", "str", "timestamp", "merge", "value")
}
FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


class RecipeError(DeadheadError):
    """A recipe that cannot be run as it is written."""


@dataclass
class Plain:
    """Plain data, the name of the file it came from, and the line of every value in it."""

    name: str
    data: Any
    lines: dict[Path, int] = field(default_factory=dict)
    given: dict[Path, str] = field(
        default_factory=dict
    )  # what was set on the command line, by what

    def line(self, path: Path) -> int:
        """The line of a value, or of the nearest thing around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def where(self, path: Path) -> str:
        """The place of a value, for people: file, line and field, or what was typed on the command line."""
        told = next(
            (self.given[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.given),
            f"{self.name}:{self.line(path)}",
        )
        return f"{told}: {dotted(path)}" if path else told


def dotted(path: Iterable[str | int]) -> str:
    """A path as people write it: `axes.remove.random[3]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def read(text: str, name: str) -> Plain:
    """The data in a YAML text."""
    import yaml

    if len(text) > LARGEST:
        raise RecipeError(f"{name} has {len(text):,} characters; a recipe has at most {LARGEST:,}.")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        anchor = next(
            (
                event
                for event in yaml.parse(text, Loader=yaml.SafeLoader)
                if isinstance(event, yaml.AliasEvent)
            ),
            None,
        )
    except RecursionError:
        raise RecipeError(
            f"{name} is nested too deeply.", "a recipe is a few levels deep"
        ) from None
    except yaml.YAMLError as problem:
        raise _unreadable(problem, name) from None
    if anchor is not None:
        raise RecipeError(
            f"{name}:{anchor.start_mark.line + 1}: *{anchor.anchor} repeats an anchor.",
            "write the value out",
        )
    plain = Plain(name, None)
    plain.data = _value(root, (), plain) if root is not None else None
    return plain


def scalar(text: str) -> Any:
    """A word as the value it spells: null, true, a number, or itself."""
    if text in NULLS:
        return None
    if text in TRUTHS:
        return TRUTHS[text]
    if INTEGER.fullmatch(text) and len(text) < 100:
        return int(text)
    return float(text) if FLOAT.fullmatch(text) else text


def _unreadable(problem: Any, name: str) -> RecipeError:
    mark = getattr(problem, "problem_mark", None)
    told = getattr(problem, "problem", None) or str(problem).splitlines()[0]
    return RecipeError(
        f"{name}{f':{mark.line + 1}' if mark else ''}: this is not YAML: {told}.",
        "look at the brackets, quotes and indents",
    )


def _value(node: Any, path: Path, plain: Plain) -> Any:
    import yaml

    plain.lines[path] = node.start_mark.line + 1
    if len(path) > DEEPEST:
        raise RecipeError(
            f"{plain.where(path[:3])} is nested too deeply.", "a recipe is a few levels deep"
        )
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, plain)
    if isinstance(node, yaml.SequenceNode):
        _refuse_tag(node, "seq", path, plain)
        return [_value(child, (*path, i), plain) for i, child in enumerate(node.value)]
    if node.style is None and node.tag in RESOLVED:
        return scalar(node.value)
    _refuse_tag(node, "str", path, plain)
    return node.value


def _mapping(node: Any, path: Path, plain: Plain) -> dict[str, Any]:
    _refuse_tag(node, "map", path, plain)
    found: dict[str, Any] = {}
    for key, child in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key.value, str):
            raise RecipeError(f"{plain.name}:{line}: a field must have a plain name.")
        if key.value in found:
            raise RecipeError(
                f"{plain.name}:{line}: {dotted((*path, key.value))} is given twice.",
                "keep one of the two",
            )
        if key.value == "<<":
            raise RecipeError(
                f"{plain.name}:{line}: << merges are not read.", "write the fields out"
            )
        found[key.value] = _value(child, (*path, key.value), plain)
        plain.lines[(*path, key.value)] = line
    return found


def _refuse_tag(node: Any, wanted: str, path: Path, plain: Plain) -> None:
    if node.tag not in (f"tag:yaml.org,2002:{wanted}", "!"):
        raise RecipeError(
            f"{plain.where(path)}: the tag {node.tag} is not plain data.",
            "write the value without a tag",
        )
