"""YAML that is nothing but data, with the line of every value.

A recipe may come from anybody, so only plain mappings, lists, texts and numbers are read: a tag, an
anchor or a key given twice is refused. Scalars are read by the YAML 1.2 rules, in which `no` is a
language (Norwegian) and `5e-5` is a number.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.files.yaml_limits import refused_in
from deadhead.studies.fields import Path

LARGEST = 1_000_000  # characters; a recipe is a screen
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
class Document:
    """The data of a YAML file, its name, and the line of every value."""

    name: str
    data: Any
    lines: dict[Path, int] = field(default_factory=dict)
    overrides: dict[Path, str] = field(default_factory=dict)  # values set on the command line

    def line(self, path: Path) -> int:
        """The line of a value, or of the nearest thing around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def where(self, path: Path) -> str:
        """The place of a value for a message: file, line and field, or the `--set` it came from."""
        parents = (path[:n] for n in range(len(path), 0, -1))
        override = next((self.overrides[p] for p in parents if p in self.overrides), None)
        source = override or f"{self.name}:{self.line(path)}"
        return f"{source}: {dotted(path)}" if path else source


def dotted(path: Iterable[str | int]) -> str:
    """A path as people write it: `axes.remove.random[3]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def read(text: str, name: str) -> Document:
    """The data in a YAML text."""
    import yaml

    if len(text) > LARGEST:
        raise RecipeError(f"{name} has {len(text):,} characters; a recipe has at most {LARGEST:,}.")
    try:
        if (refused := refused_in(text)) is not None:
            line, reason, hint = refused
            raise RecipeError(f"{name}:{line}: {reason}.", hint)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f"{name}:{mark.line + 1}" if mark else name
        reason = getattr(problem, "problem", None) or str(problem).splitlines()[0]
        hint = "check the brackets, quotes and indents"
        raise RecipeError(f"{place}: this is not YAML: {reason}.", hint) from None
    document = Document(name, None)
    document.data = _value(root, (), document) if root is not None else None
    return document


def scalar(text: str) -> Any:
    """A word as the value it spells: null, true, a number, or itself."""
    if text in NULLS:
        return None
    if text in TRUTHS:
        return TRUTHS[text]
    if INTEGER.fullmatch(text) and len(text) < 100:
        return int(text)
    return float(text) if FLOAT.fullmatch(text) else text


def _value(node: Any, path: Path, document: Document) -> Any:
    import yaml

    document.lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, document)
    if isinstance(node, yaml.SequenceNode):
        _refuse_tag(node, "seq", path, document)
        return [_value(child, (*path, i), document) for i, child in enumerate(node.value)]
    if node.style is None and node.tag in RESOLVED:
        return scalar(node.value)
    _refuse_tag(node, "str", path, document)
    return node.value


def _mapping(node: Any, path: Path, document: Document) -> dict[str, Any]:
    _refuse_tag(node, "map", path, document)
    values: dict[str, Any] = {}
    for key, child in node.value:
        line = key.start_mark.line + 1
        place = f"{document.name}:{line}"
        if not isinstance(key.value, str):
            raise RecipeError(f"{place}: a field must have a plain name.")
        if key.value in values:
            name = dotted((*path, key.value))
            raise RecipeError(f"{place}: {name} is given twice.", "keep one of the two")
        if key.value == "<<":
            raise RecipeError(f"{place}: << merges are not read.", "write the fields out")
        values[key.value] = _value(child, (*path, key.value), document)
        document.lines[(*path, key.value)] = line
    return values


def _refuse_tag(node: Any, kind: str, path: Path, document: Document) -> None:
    if node.tag not in (f"tag:yaml.org,2002:{kind}", "!"):
        hint = "write the value without a tag"
        raise RecipeError(f"{document.where(path)}: the tag {node.tag} is not plain data.", hint)
