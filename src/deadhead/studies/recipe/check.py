"""Is a recipe right? Every field of it is looked at, and everything wrong is told at once.

Each problem names the file, the line and the field, and for a name that is not known the nearest
one. What a field of a trial may be is in `fields.py`; here is what holds for the recipe as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path as File
from typing import Any

from deadhead.errors import DeadheadError, unknown_name
from deadhead.strategies import STRATEGIES
from deadhead.studies.trial import FIELDS, LOOKS, RANKS, TRAINS, USES, removal

from .display import shown
from .expand import CONTROLS, RANGE, values
from .fields import CHECKS, Problem, among, unknown
from .yaml import Path, Plain, RecipeError

TOLD = (
    "about",
    "tables",
    "figures",
    "claims",
)  # what a recipe tells of its trials, which changes none of them
TOP = ("steps", "fixed", "axes", "search", "include", *TOLD)
SEARCH = ("lowest", "controls")


def check(plain: Plain, folder: File) -> None:
    """Raise a RecipeError that names everything wrong with the recipe."""
    found = [*unknown(plain.data, (*TOP, "scales"), (), "field"), *_structure(plain.data)]
    if not found:
        found = list(_cells(plain.data))
    found += shown(plain.data, folder)
    if found:
        told = [
            f"{plain.where(path)}: {problem}"
            for path, problem in sorted(found, key=lambda item: plain.line(item[0]))
        ]
        hint = (
            "deadhead plan RECIPE checks it again without running anything"
            if len(told) > 1
            else None
        )
        raise RecipeError("\n".join(told), hint)


def _structure(data: Mapping[str, Any]) -> Iterator[Problem]:
    if "include" not in data or "steps" in data:
        yield from _steps(data.get("steps"))
    elif data.keys() & {"fixed", "axes", "search"}:
        yield (
            ("include",),
            "fixed, axes and search are for trials of this recipe itself, which has no steps.",
        )
    fixed = data.get("fixed") or {}
    if not isinstance(fixed, dict):
        yield ("fixed",), "this is a mapping of fields, such as {model: NAME, task: pos}."
    else:
        yield from _fields(fixed, ("fixed",))
    axes = data.get("axes") or {}
    grids = axes if isinstance(axes, list) else [axes]
    for i, grid in enumerate(grids):
        yield from _grid(
            grid,
            ("axes", i) if isinstance(axes, list) else ("axes",),
            fixed if isinstance(fixed, dict) else {},
        )
    if data.get("search") is not None:
        yield from _search(data["search"])


def _steps(steps: Any) -> Iterator[Problem]:
    if not isinstance(steps, list) or not steps:
        yield ("steps",), f"a recipe needs a list of steps, out of {', '.join(USES)}."
        return
    for i, step in enumerate(steps):
        if not among(step, USES):
            yield ("steps", i), unknown_name("step", step, USES).message
    if "restart" in steps and not {*RANKS} & {*map(str, steps[: steps.index("restart")])}:
        yield (
            ("steps", steps.index("restart")),
            "a restart forgets all but a ranking, and none is made before it.",
        )
    if "pretrain" in steps[1:] or (
        steps[0] == "pretrain" and {"restart", "rank_each"} & {*map(str, steps)}
    ):
        yield (
            ("steps", steps.index("pretrain")),
            "pretrain makes the model: it comes first, once, and goes with neither restart nor rank_each.",
        )


def _grid(grid: Any, path: Path, fixed: Mapping[str, Any]) -> Iterator[Problem]:
    if not isinstance(grid, dict):
        yield path, "this is a mapping from fields to lists of values, such as {seed: [0, 1, 2]}."
        return
    for name, spec in grid.items():
        field = name.partition(".")[0]
        if field not in FIELDS:
            yield (*path, name), unknown_name("field of a trial", field, FIELDS).message
            continue
        if name.startswith("remove."):
            yield (*path, name), "write this axis as remove: {STRATEGY: [amounts]}."
            continue
        try:
            points = values(name, spec)
        except DeadheadError as problem:
            yield (*path, name), problem.message
            continue
        if spec is None or spec == {} or not points:
            yield (*path, name), "this axis has no values."
            continue
        for i, value in enumerate(points):
            at = (
                (*path, name, i)
                if isinstance(spec, list) and len(spec) == len(points)
                else (*path, name)
            )
            for nested in _nested(name, value, grid, fixed):
                yield from (
                    ((*at, *rest[1:]) if "." not in name else at, told)
                    for rest, told in _field(field, nested)
                )


def _nested(
    name: str, value: Any, grid: Mapping[str, Any], fixed: Mapping[str, Any]
) -> Iterator[Any]:
    """The value of an axis as its field would hold it: an option of rankers beside each method it meets."""
    for word in reversed(name.split(".")[1:]):
        value = {word: value}
    rank = fixed.get("rank")
    met = (
        values("rank.method", grid["rank.method"])
        if "rank.method" in grid
        else [rank.get("method") if isinstance(rank, dict) else None]
    )
    methods = (
        [method for method in met if isinstance(method, str)]
        if name.startswith("rank.") and name != "rank.method"
        else []
    )
    yield from [{"method": method, **value} for method in methods] or [value]


def _fields(fields: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    yield from unknown(fields, FIELDS, path, "field of a trial")
    for name, value in fields.items():
        if name in FIELDS and value is not None:
            yield from (((*path, *rest), told) for rest, told in _field(name, value))


def _field(name: str, value: Any) -> Iterator[Problem]:
    """What is wrong with the value of a field; paths begin with its name."""
    yield from (((name, *path), told) for path, told in CHECKS[name](value))


def _search(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict) or "lowest" not in value:
        yield (
            ("search",),
            f"this is a mapping such as {{lowest: 1..12, controls: [{', '.join(CONTROLS)}]}}.",
        )
        return
    yield from unknown(value, SEARCH, ("search",), "field of a search")
    ks = value["lowest"]
    plain = ks if isinstance(ks, list) else [ks]
    if not plain or not all(
        (isinstance(k, int) and not isinstance(k, bool) and k > 0)
        or (isinstance(k, str) and RANGE.fullmatch(k))
        for k in plain
    ):
        yield ("search", "lowest"), "these are numbers of heads, such as 1..12 or [1, 2, 4]."
    else:
        try:
            values("k", ks)
        except DeadheadError as problem:
            yield ("search", "lowest"), problem.message
    controls = value.get("controls") or []
    if not isinstance(controls, list):
        yield ("search", "controls"), f"this is a list, out of {', '.join(CONTROLS)}."
        return
    for i, control in enumerate(controls):
        if not among(control, CONTROLS):
            yield ("search", "controls", i), unknown_name("control", control, CONTROLS).message


def _cells(data: Mapping[str, Any]) -> Iterator[Problem]:
    """What only shows when fields and steps are seen together."""
    if "steps" not in data:
        return
    axes = data.get("axes") or {}
    grids = axes if isinstance(axes, list) else [axes]
    for name in dict.fromkeys(name for grid in grids for name in grid):
        if all(name in grid for grid in grids) and _is_in(data.get("fixed"), name.split(".")):
            yield (
                ("fixed", *name.split(".")),
                f"this changes nothing, since the axis {name} gives it to every trial; take one of the two away.",
            )
    for i, grid in enumerate(grids):
        path: Path = ("axes", i) if isinstance(axes, list) else ("axes",)
        given = {*(data.get("fixed") or {}), *(name.partition(".")[0] for name in grid)}
        if data.get("search"):
            if "remove" in given:
                yield ("search",), "a search sets `remove` itself."
            given |= {"remove"}
        yield from ((path, told) for told in _missing(data["steps"], given))
        yield from (((*path,), told) for told in _from_scratch(data, grid))
        removals = [
            *values("remove", (data.get("fixed") or {}).get("remove", "none")),
            *values("remove", grid.get("remove", "none")),
        ]
        if data.get("search"):
            removals.append({"lowest": 1})
        yield from ((("steps",), told) for told in _orders(data["steps"], removals))


def _is_in(here: Any, path: list[str]) -> bool:
    """Whether a mapping gives a value at a dotted path."""
    for word in path:
        here = here.get(word) if isinstance(here, Mapping) else None
    return here is not None


def _missing(steps: list[str], given: set[str]) -> Iterator[str]:
    for name in ("model", "task"):
        if name not in given:
            yield f"no {name} is given; put it under fixed, or make it an axis."
    if {*TRAINS, *LOOKS, *RANKS} & set(steps) and not given & {"source", "train"}:
        yield "no language is given: name the source."
    if {*RANKS} & set(steps) and "source" not in given:
        yield "heads are ranked on the languages of `source`, which is not given."
    if "remove" in given and "prune" not in steps:
        yield "`remove` is given, but no step prunes; add prune to steps."
    if "prune" in given and "prune" not in steps:
        yield "`prune` is given, but no step prunes; add prune to steps."
    if "prune" in steps and "remove" not in given:
        yield "a step prunes, but `remove` is not given."
    if "measure" in steps and "measure" not in given:
        yield "a step measures, but `measure` does not say what, such as [entropy, weights]."
    if "measure" in given and "measure" not in steps:
        yield "`measure` is given, but no step measures; add measure to steps."


def _from_scratch(data: Mapping[str, Any], grid: Mapping[str, Any]) -> Iterator[str]:
    """A size has no weights, so it must be trained; and only such a model can be."""
    from deadhead.tasks import task_of
    from deadhead.translation import SIZES

    made = "pretrain" in data["steps"]
    all_of = {
        name: [
            one
            for place in (data.get("fixed") or {}, grid)
            if name in place
            for one in values(name, place[name])
        ]
        for name in ("model", "task")
    }
    for model in all_of["model"]:
        if made and model not in SIZES:
            yield f"pretrain trains a model of a size from scratch, and {model!r} is none; known are {', '.join(SIZES)}."
        if not made and among(model, SIZES):
            yield f"{model} has no weights; begin steps with pretrain."
    for task in all_of["task"]:
        if made and task_of(str(task)).kind != "translate":
            yield f"pretrain trains a translation model, and {task} is no translation."


def _orders(steps: list[str], removals: list[Any]) -> Iterator[str]:
    for remove in removals:
        found = removal(remove)
        if (
            found
            and STRATEGIES[found[0]].needs_scores
            and "prune" in steps
            and not {*RANKS} & {*steps[: steps.index("prune")]}
        ):
            yield f"{found[0]} goes by a ranking, and none is made before prune; add rank to steps."
            return
