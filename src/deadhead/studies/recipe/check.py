"""Is a recipe right? Every field is checked, and everything wrong is reported at once.

Each problem names the file, the line and the field, and for an unknown name the nearest known
one. What a field of a trial may be is stated where the field is; here is what holds for the
recipe as a whole.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path as File
from typing import Any

from deadhead.errors import DeadheadError, unknown_name
from deadhead.studies.fields import SHARED, Problem, among, is_whole, one_of, under, unknown
from deadhead.studies.step import STEPS, Step, fields
from deadhead.studies.trial import CONTROLS

from .display import DisplayCheck, display_problems
from .expand import grids, is_range, values
from .yaml import Document, RecipeError

DISPLAY = ("about", "tables", "figures", "claims")  # for the report; they change no trial
TOP = ("steps", "fixed", "axes", "search", "include", *DISPLAY)
SEARCH = ("lowest", "controls")


def check(recipe: Document, folder: File, display: DisplayCheck | None = None) -> None:
    """Raise a RecipeError that names everything wrong with the recipe."""
    data = recipe.data
    problems = [*unknown(data, (*TOP, "scales"), "field"), *_structure(data)]
    if not problems:
        problems = list(_combinations(data))
    problems += display_problems(data, folder, display)
    if problems:
        problems.sort(key=lambda item: recipe.line(item[0]))
        lines = [f"{recipe.where(path)}: {message}" for path, message in problems]
        hint = "deadhead plan RECIPE checks it again without running anything"
        raise RecipeError("\n".join(lines), hint if len(lines) > 1 else None)


def _structure(data: Mapping[str, Any]) -> Iterator[Problem]:
    if "include" not in data or "steps" in data:
        yield from _steps(data.get("steps"))
    elif data.keys() & {"fixed", "axes", "search"}:
        message = "fixed, axes and search are for trials of this recipe itself, which has no steps."
        yield ("include",), message
    fixed = data.get("fixed") or {}
    if not isinstance(fixed, dict):
        yield ("fixed",), "expected a mapping of fields, such as {model: NAME, task: pos}."
        fixed = {}
    yield from under(("fixed",), unknown(fixed, fields(), "field of a trial"))
    for name in fields().keys() & fixed.keys():
        if fixed[name] is not None:
            yield from under(("fixed", name), fields()[name].check(fixed[name]))
    for path, grid in grids(data).items():
        if not isinstance(grid, dict):
            expected = "a mapping from fields to lists of values, such as {seed: [0, 1, 2]}"
            yield path, f"expected {expected}."
            continue
        for name, spec in grid.items():
            yield from under((*path, name), _axis(name, spec, grid, fixed))
    if data.get("search") is not None:
        yield from under(("search",), _search(data["search"]))


def _steps(steps: Any) -> Iterator[Problem]:
    if not isinstance(steps, list) or not steps:
        yield ("steps",), f"a recipe needs a list of steps, some of {', '.join(STEPS)}."
        return
    for i, step in enumerate(steps):
        yield from one_of(step, STEPS, "step", ("steps", i))
    if all(among(step, STEPS) for step in steps):
        protocol = [STEPS[name] for name in steps]
        for i, step in enumerate(protocol):
            if message := step.misplaced(protocol, i):
                yield ("steps", i), message


def _axis(
    name: str, spec: Any, grid: Mapping[str, Any], fixed: Mapping[str, Any]
) -> Iterator[Problem]:
    field = name.partition(".")[0]
    if field not in fields():
        yield (), unknown_name("field of a trial", field, fields()).message
        return
    if name.startswith("remove."):
        yield (), "write this axis as remove: {STRATEGY: [amounts]}."
        return
    try:
        points = values(name, spec)
    except DeadheadError as problem:
        yield (), problem.message
        return
    if spec is None or spec == {} or not points:
        yield (), "this axis has no values."
    for i, value in enumerate(points):
        at = (i,) if isinstance(spec, list) and len(spec) == len(points) else ()
        for whole in _whole_values(name, value, grid, fixed):
            for rest, message in fields()[field].check(whole):
                yield ((*at, *rest) if "." not in name else at), message


def _whole_values(
    name: str, value: Any, grid: Mapping[str, Any], fixed: Mapping[str, Any]
) -> list[Any]:
    """The value of an axis in its field: an option of rankers beside each method."""
    for word in reversed(name.split(".")[1:]):
        value = {word: value}
    if not name.startswith("rank.") or name == "rank.method":
        return [value]
    rank = fixed.get("rank")
    methods = values("rank.method", grid["rank.method"]) if "rank.method" in grid else []
    if not methods and isinstance(rank, dict):
        methods = [rank.get("method")]
    return [{"method": m, **value} for m in methods if isinstance(m, str)] or [value]


def _search(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict) or "lowest" not in value:
        example = f"{{lowest: 1..12, controls: [{', '.join(CONTROLS)}]}}"
        yield (), f"expected a mapping such as {example}."
        return
    yield from unknown(value, SEARCH, "field of a search")
    ks = value["lowest"] if isinstance(value["lowest"], list) else [value["lowest"]]
    if not ks or not all(is_whole(k, 1) or is_range(k) for k in ks):
        yield ("lowest",), "expected numbers of heads, such as 1..12 or [1, 2, 4]."
    else:
        try:
            values("k", ks)
        except DeadheadError as problem:
            yield ("lowest",), problem.message
    controls = value.get("controls") or []
    if not isinstance(controls, list):
        yield ("controls",), f"expected a list of some of {', '.join(CONTROLS)}."
        return
    for i, control in enumerate(controls):
        yield from one_of(control, CONTROLS, "control", ("controls", i))


def _combinations(data: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with fields and steps together."""
    from deadhead.tasks import task_of
    from deadhead.translation import SIZES

    if "steps" not in data:
        return
    # null is no value: a trial leaves it out
    fixed = {name: v for name, v in (data.get("fixed") or {}).items() if v is not None}
    every = grids(data).values()
    for name in dict.fromkeys(name for grid in every for name in grid):
        if all(name in grid for grid in every) and _is_in(fixed, name.split(".")):
            reason = f"the axis {name} sets it in every trial; remove one of the two"
            yield ("fixed", *name.split(".")), f"this changes nothing, since {reason}."
    steps = [STEPS[name] for name in data["steps"]]
    for path, grid in grids(data).items():
        names = {*fixed, *(name.partition(".")[0] for name in grid)}
        choices = {
            name: [v for part in (fixed, grid) if name in part for v in values(name, part[name])]
            for name in names
        }
        if data.get("search"):
            if "remove" in names:
                yield ("search",), "a search sets `remove` itself."
            choices.setdefault("remove", []).append({"lowest": 1})
        names = {*choices}
        tasks = choices.get("task", ())
        no_language = [task for task in tasks if not task_of(str(task)).traits.has_language]
        messages = [*_useless(no_language, choices)] if no_language else []
        if (
            tasks
            and "train" not in names
            and all(task_of(str(task)).default_language for task in tasks)
        ):
            names |= {"source"}
        messages += _missing(steps, names)
        if not any(step.builds_model for step in steps):
            sizes = (model for model in choices.get("model", ()) if among(model, SIZES))
            messages += (f"{size} has no weights; begin steps with pretrain." for size in sizes)
        yield from ((path, message) for message in messages)
        for step in dict.fromkeys(steps):
            for part, message in step.conflicts(steps, choices):
                yield (path if part == "axes" else (part,)), message


def _is_in(here: Any, path: list[str]) -> bool:
    """Whether a mapping gives a value at a dotted path."""
    for word in path:
        here = here.get(word) if isinstance(here, Mapping) else None
    return here is not None


def _useless(no_language: list[Any], choices: Mapping[str, list[Any]]) -> Iterator[str]:
    """What is wrong with the languages of tasks that have none."""
    if len(no_language) < len(choices["task"]):
        yield f"{no_language[0]} has no languages and other tasks do; give it a recipe of its own."
    for name in ("source", "train", "targets"):
        if name in choices:
            yield f"the data of {no_language[0]} has no language; leave `{name}` out."


def _missing(steps: list[Step], names: set[str]) -> Iterator[str]:
    for name in ("model", "task"):
        if name not in names:
            yield f"no {name} is given; put it under fixed, or make it an axis."
    works = any(step.trains or step.ranks or step.inspects for step in steps)
    if works and not names & {"source", "train"}:
        yield "no language is given: name the source."
    if any(step.ranks for step in steps) and "source" not in names:
        yield "heads are ranked on the languages of `source`, which is not given."
    for step in dict.fromkeys(steps):
        for name in step.needs:
            if name not in names:
                example = fields()[name].example
                yield f"the step {step.name} needs `{name}`{example and f', such as {example}'}."
    used = {field.name for step in steps for field in step.fields}
    for step in STEPS.values():
        for field in step.fields:
            if field not in SHARED and field.needs_step and field.name in names - used:
                yield f"`{field.name}` is given, but no step uses it; add {step.name} to steps."
