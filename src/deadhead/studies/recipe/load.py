"""A recipe: one screen of YAML that says what a study does. Loaded, overridden, checked, expanded.

    steps: [prune, finetune, evaluate]      the protocol
    fixed: {model: ..., task: ...}          the same in every trial
    axes: {seed: [0, 1, 2], ...}            every combination is one cell; or a list of such grids
    search: {lowest: 1..12, controls: [seeds, random, highest]}
    include: [other/recipe]                 its trials as well, for figures of several tables
    tables, figures, claims, scales, about  for the report, and for `--scale`

No model and no torch is loaded here: a typo in the last axis costs a second, not a night.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path as File
from typing import Any

from deadhead.errors import unknown_name
from deadhead.papers.catalogue import recipe_files
from deadhead.studies.inputs import Fingerprints, attached, fingerprints
from deadhead.studies.trial import Trial

from .check import DISPLAY, check
from .display import DisplayCheck
from .expand import Cell, cells
from .overrides import apply_override, apply_scale, is_display
from .yaml import RecipeError, read

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A checked recipe: its name and its plain data."""

    name: str
    data: Mapping[str, Any]
    source: str = ""  # the file it came from
    inputs: Fingerprints = field(default_factory=dict)  # what its trials read: `with_inputs`

    @property
    def about(self) -> str:
        return str(self.data.get("about", ""))

    @cached_property
    def cells(self) -> list[Cell]:
        """Every combination with its trial; equal trials come more than once."""
        if not self.inputs:
            return cells(self.data)
        return [Cell(cell.labels, attached(cell.trial, self.inputs)) for cell in cells(self.data)]

    @cached_property
    def trials(self) -> list[Trial]:
        """The distinct trials, in the order they first come."""
        return list({cell.trial.id: cell.trial for cell in self.cells}.values())


def with_inputs(recipe: Recipe, known: Fingerprints | None = None) -> Recipe:
    """The recipe with fingerprints of what its trials read: of today's files, or known ones."""
    return replace(recipe, inputs=fingerprints(recipe.trials) if known is None else known)


def load(
    name: str | File,
    overrides: Sequence[str] = (),
    scale: str | None = None,
    *,
    display: DisplayCheck | None = None,
    included: bool = False,
) -> Recipe:
    """The recipe of a built-in name or a file, with `a.b=c` overrides, checked.

    display: checks tables, figures and claims, which the studies do not know. All commands use
        `deadhead.report.check.load_recipe`, which gives it.
    included: another recipe includes this one.
    """
    file, text = _find(name)
    folder = File(str(file)).parent
    recipe = read(text, str(name) if _is_file(name) else f"{name}.yaml")
    data = recipe.data
    if not isinstance(data, dict):
        fields = "such as steps, fixed and axes"
        raise RecipeError(f"{recipe.name}:1: a recipe is a mapping of fields, {fields}.")
    if scale is not None and ("scales" in data or "include" not in data):
        apply_scale(recipe, scale)  # else those it includes have that scale
    if not data.get("include"):
        data.pop("include", None)
    elif included:
        raise RecipeError(f"{recipe.name} includes others itself.", "name those instead")
    for text in overrides:
        if "include" not in data or "steps" in data or is_display(text):
            apply_override(recipe, text)
    data.pop("scales", None)
    if "include" in data:
        names = data["include"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            example = "such as [weak-link/table1, weak-link/table4]"
            raise RecipeError(
                f"{recipe.where(('include',))}: expected a list of recipes, {example}."
            )
        passed = [text for text in overrides if not is_display(text)]
        for i, other in enumerate(names):
            names[i] = _included(other, folder, passed, scale, recipe.where(("include", i)))
    check(recipe, folder, display)
    return Recipe(
        name=File(name).stem if _is_file(name) else str(name), data=data, source=str(file)
    )


def _included(
    name: str, folder: File, overrides: Sequence[str], scale: str | None, place: str
) -> dict[str, Any]:
    """The trials of another recipe: its plain data without what is for its report."""
    try:
        other = load(folder / name if _is_file(name) else name, overrides, scale, included=True)
    except RecipeError as problem:
        raise RecipeError(f"{place}: {problem.message}", problem.hint) from None
    trials = {field: value for field, value in other.data.items() if field not in DISPLAY}
    return {"name": name, **trials}


def built_in() -> dict[str, Any]:
    """The recipes bundled with deadhead: name -> file."""
    own = resources.files("deadhead.recipes").iterdir()
    files = {file.name.removesuffix(".yaml"): file for file in own if _is_file(file.name)}
    return dict(sorted({**files, **recipe_files()}.items()))


def _is_file(name: str | File) -> bool:
    return str(name).endswith(SUFFIXES)


def _find(name: str | File) -> tuple[Any, str]:
    """The file of a recipe, and its text."""
    known = {} if _is_file(name) else built_in()
    if not _is_file(name) and str(name) not in known:
        message = unknown_name("recipe", name, known).message
        raise RecipeError(message, "name one of these, or a file of your own that ends in .yaml")
    file = known.get(str(name), File(name))
    try:
        return file, file.read_text(encoding="utf-8")
    except FileNotFoundError:
        hint = "deadhead recipes lists the built-in ones"
        raise RecipeError(f"there is no recipe {file}.", hint) from None
    except (OSError, UnicodeDecodeError) as problem:
        raise RecipeError(f"{file} cannot be read: {problem}.") from None
