"""A recipe: one screen of YAML that says what a study does. Loaded, overridden, checked whole, expanded.

    steps: [prune, finetune, evaluate]      the protocol
    fixed: {model: ..., task: ...}          the same in every trial
    axes: {seed: [0, 1, 2], ...}            every combination is one cell; or a list of such grids
    search: {lowest: 1..12, controls: [seeds, random, highest]}
    include: [other/recipe]                 their trials as well, for what is drawn from several tables
    tables, figures, claims, scales, about  for the report, and for `--scale`

No model and no torch is loaded here: a typo in the last axis costs a second, not a night.
"""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path as File
from typing import Any

from deadhead.errors import unknown_name
from deadhead.papers import recipe_files
from deadhead.studies.inputs import Fingerprints, attached, fingerprints
from deadhead.studies.trial import FIELDS

from .check import TOLD, TOP, check
from .expand import Cell, cells, is_range
from .yaml import Path, Plain, RecipeError, dotted, read, scalar

SUFFIXES = (".yaml", ".yml")
ONE = ("model", "task", "remove", "seed", "draw")  # fields of a trial that cannot be lists


@dataclass(frozen=True)
class Recipe:
    """A checked recipe: its name and its plain data."""

    name: str
    data: Mapping[str, Any]
    source: str = ""  # the file it came from
    notes: tuple[str, ...] = field(default=(), compare=False)  # what was overridden, for people
    written: Plain | None = field(default=None, compare=False, repr=False)  # knows the lines
    inputs: Fingerprints = field(
        default_factory=dict
    )  # of what its trials read; empty before `with_inputs`

    @property
    def about(self) -> str:
        return str(self.data.get("about", ""))

    def where(self, path: Path) -> str:
        """The place of a value, for people, as far as it is known."""
        return self.name if self.written is None else self.written.where(path)

    @cached_property
    def cells(self) -> list[Cell]:
        """Every combination asked for with its trial; equal trials come more than once."""
        if not self.inputs:
            return cells(self.data)
        return [Cell(cell.labels, attached(cell.trial, self.inputs)) for cell in cells(self.data)]

    @cached_property
    def trials(self) -> list[Any]:
        """The distinct trials, in the order they first come."""
        return list({cell.trial.id: cell.trial for cell in self.cells}.values())


def with_inputs(recipe: Recipe, known: Fingerprints | None = None) -> Recipe:
    """The recipe whose trials know what they read: fingerprints of the files as they are now, or those given."""
    return replace(recipe, inputs=fingerprints(recipe.trials) if known is None else known)


def load(name: str | File, overrides: Sequence[str] = (), scale: str | None = None) -> Recipe:
    """The recipe of a built-in name or a file, with `a.b=c` overrides, checked whole."""
    return _load(name, overrides, scale, inside=False)


def _load(name: str | File, overrides: Sequence[str], scale: str | None, inside: bool) -> Recipe:
    """A recipe; `inside` another that includes it, or by itself."""
    file = _find(name)
    plain = read(_text(file), str(name) if _is_file(name) else f"{name}.yaml")
    if not isinstance(plain.data, dict):
        raise RecipeError(
            f"{plain.name}:1: a recipe is a mapping of fields, such as steps, fixed and axes."
        )
    folder = File(str(file)).parent
    if scale is not None and not (
        "include" in plain.data and "scales" not in plain.data
    ):  # then those it includes have it
        _scale(plain, scale)
    if not plain.data.get("include"):
        plain.data.pop("include", None)
    elif inside:
        raise RecipeError(f"{plain.name} includes others itself.", "name those instead")
    for text in overrides:
        if "include" not in plain.data or "steps" in plain.data or _is_told(text):
            _override(plain, text)
    plain.data.pop("scales", None)
    if "include" in plain.data:
        passed = [text for text in overrides if not _is_told(text)]
        plain.data["include"] = [
            _included(one, folder, passed, scale, plain.where(("include", i)))
            for i, one in enumerate(_names(plain))
        ]
    check(plain, folder)
    title = File(name).stem if _is_file(name) else str(name)
    return Recipe(title, plain.data, str(file), tuple(overrides), plain)


def _is_told(override: str) -> bool:
    """Whether an override is of what a recipe tells of its trials; all others are of the trials, those of included recipes too."""
    return override.partition("=")[0].strip().partition(".")[0] in TOLD


def _names(plain: Plain) -> list[str]:
    given = plain.data["include"]
    if not isinstance(given, list) or not given or not all(isinstance(one, str) for one in given):
        raise RecipeError(
            f"{plain.where(('include',))}: this is a list of recipes, such as [weak-link/table1, weak-link/table4]."
        )
    return given


def _included(
    name: str, folder: File, overrides: Sequence[str], scale: str | None, place: str
) -> dict[str, Any]:
    """The trials of another recipe: its plain data without what it tells of them."""
    try:
        other = _load(folder / name if _is_file(name) else name, overrides, scale, inside=True).data
    except RecipeError as problem:
        raise RecipeError(f"{place}: {problem.message}", problem.hint) from None
    return {"name": name, **{field: value for field, value in other.items() if field not in TOLD}}


def built_in() -> dict[str, Any]:
    """The recipes that come with deadhead: name -> file."""
    own = resources.files("deadhead.recipes").iterdir()
    files = {file.name.removesuffix(".yaml"): file for file in own if _is_file(file.name)}
    return dict(sorted({**files, **recipe_files()}.items()))


def _is_file(name: str | File) -> bool:
    return str(name).endswith(SUFFIXES)


def _find(name: str | File) -> Any:
    if _is_file(name):
        return File(name)
    known = built_in()
    if str(name) not in known:
        problem = unknown_name("recipe", name, known)
        raise RecipeError(
            problem.message, "name one of these, or a file of your own that ends in .yaml"
        )
    return known[str(name)]


def _text(file: Any) -> str:
    try:
        return str(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RecipeError(
            f"there is no recipe {file}.", "deadhead recipes lists the built-in ones"
        ) from None
    except (OSError, UnicodeDecodeError) as problem:
        raise RecipeError(f"{file} cannot be read: {problem}.") from None


def _scale(plain: Plain, scale: str) -> None:
    """Apply the overrides that the recipe itself keeps under `scales`."""
    scales = plain.data.get("scales") or {}
    if not isinstance(scales, dict) or scale not in scales:
        known = list(scales) if isinstance(scales, dict) else []
        raise RecipeError(
            f"{plain.name} has no scale {scale!r}; it has: {', '.join(known) or 'none'}.",
            "leave --scale out to run it in full",
        )
    changes = scales[scale]
    if not isinstance(changes, dict):
        raise RecipeError(
            f"{plain.where(('scales', scale))}: a scale is a mapping such as {{fixed.model: NAME}}."
        )
    for path, value in changes.items():
        put(
            plain,
            path.split("."),
            copy.deepcopy(value),
            f"scales.{scale}.{path}",
            plain.line(("scales", scale, path)),
        )


def _override(plain: Plain, text: str) -> None:
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise RecipeError(
            f"--set {text}: this is not FIELD=VALUE.", "for instance --set fixed.finetune.epochs=1"
        )
    put(plain, path.strip().split("."), _written(value.strip()), f"--set {text}", None)


def _written(text: str) -> Any:
    """A value on the command line: YAML in brackets (`[0, 1]`, `{random: 50}`), else a word or a number."""
    if text[:1] in "[{\"'":
        return read(text, "--set").data
    return scalar(text)


def put(plain: Plain, path: Sequence[str], value: Any, told: str, line: int | None) -> None:
    """Set the value at a dotted path; a first word that is a field of trials is looked for under axes and fixed."""
    for place in [path] if path[0] in TOP else _places(plain.data, path, value, told):
        _put(plain, place, value, told, line)


def _put(plain: Plain, path: Sequence[str], value: Any, told: str, line: int | None) -> None:
    here = plain.data
    for i, word in enumerate(path[:-1]):
        whole = ".".join(path[i:])  # an axis may have a dotted name, such as finetune.learning_rate
        if isinstance(here, dict) and whole in here:
            path = [*path[:i], whole]
            break
        here = _enter(here, word, path[:i], told)
    last = path[-1]
    if isinstance(here, list):
        here[_place(here, last, told)] = value
    elif isinstance(here, dict) and value is None and path[0] == "axes":
        here.pop(last, None)  # an axis is taken away
    elif isinstance(here, dict):
        here[last] = value
    else:
        raise RecipeError(f"{told}: {dotted(path[:-1])} is not a mapping.")
    spot = tuple(int(word) if word.isdecimal() else word for word in path)
    plain.lines[spot] = line or plain.line(spot[:-1])
    if line is None:
        plain.given[spot] = told


def _places(data: Mapping[str, Any], path: Sequence[str], value: Any, told: str) -> list[list[str]]:
    """Where a field of trials is to be set: in every grid that has it as an axis, else under fixed."""
    axes = data.get("axes") or {}
    grids = (
        [(["axes", str(i)], grid) for i, grid in enumerate(axes)]
        if isinstance(axes, list)
        else [(["axes"], axes)]
    )
    words = {".".join(path[: i + 1]) for i in range(len(path))}
    found = [
        [*place, *path] for place, grid in grids if isinstance(grid, dict) and words & grid.keys()
    ]
    if found and (len(found) == len(grids) or isinstance(value, list)):
        return found
    if (
        path[0] in ONE
        and len(path) == 1
        and len(grids) == 1
        and (isinstance(value, list) or is_range(value))
    ):
        return [["axes", *path]]  # several values of what a trial has one of: an axis
    if path[0] in FIELDS:
        return [*found, ["fixed", *path]]
    near = difflib.get_close_matches(path[0], [*TOP, *FIELDS], n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    raise RecipeError(
        f"{told}: a recipe has no field {path[0]!r}.{guess} Known: {', '.join(sorted([*TOP, *FIELDS]))}."
    )


def _enter(here: Any, word: str, path: Iterable[str], told: str) -> Any:
    if isinstance(here, list):
        return here[_place(here, word, told)]
    if not isinstance(here, dict):
        raise RecipeError(f"{told}: {dotted(path)} is not a mapping.")
    return here.setdefault(word, {})


def _place(here: list[Any], word: str, told: str) -> int:
    if not word.isdecimal() or int(word) >= len(here):
        raise RecipeError(
            f"{told}: {word!r} is not a place in a list of {len(here)}.",
            "places are counted from 0",
        )
    return int(word)


def stored(recipe: Recipe) -> str:
    """The recipe as a study keeps it."""
    return json.dumps({"name": recipe.name, "data": recipe.data}, ensure_ascii=False)
