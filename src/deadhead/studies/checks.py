"""Is a recipe right? Every field of it is looked at, and everything wrong is told at once.

Each problem names the file, the line and the field, and for a name that is not known the nearest
one. Names are checked against the tables of the other rooms (TASKS, STRATEGIES, RANKERS); options of
rankers are read from the source of their classes, because importing them loads torch.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path as File
from typing import Any

from ..errors import DeadheadError, unknown_name
from .expand import CONTROLS, RANGE, values
from .plain import Path, Plain, RecipeError
from .trial import FIELDS, SCORED, USES, removal

TOP = ("about", "steps", "fixed", "axes", "search", "tables", "claims")
TABLE = ("title", "rows", "columns", "mean_over", "metric", "published", "where", "kind")
SEARCH = ("lowest", "controls")
RANK = ("method", "split", "examples", "batch")  # what `rank` takes besides the options of its method
DATA = ("root", "source", "cut", "deduplicate", "parts", "merge", "document_starts", "malformed", "max_length", "align", "long", "examples")
TRAINING = {"weights": ("last", "best"), "scored": ("dev", "test", "none")}  # what `finetune` takes besides the settings of training
SPLITS = ("train", "dev", "test")
WORLD = ("world/encoder", "world/seq2seq")
LABELS = ("arm", "k")  # what a search adds to the axes

Problem = tuple[Path, str]


def check(plain: Plain, folder: File) -> None:
    """Raise a RecipeError that names everything wrong with the recipe."""
    found = [*_unknown(plain.data, TOP, (), "field"), *_structure(plain.data, folder)]
    if not found:
        found = [*_cells(plain.data), *_tables(plain.data, folder)]
    if found:
        told = [f"{plain.where(path)}: {problem}" for path, problem in sorted(found, key=lambda item: plain.line(item[0]))]
        mend = "deadhead plan RECIPE checks it again; docs: the fields of a recipe" if len(told) > 1 else None
        raise RecipeError("\n".join(told), mend)


def _unknown(given: Mapping[str, Any], known: Iterable[str], path: Path, kind: str) -> Iterator[Problem]:
    for name in given:
        if name not in known:
            yield (*path, name), unknown_name(kind, name, known).message


def _structure(data: Mapping[str, Any], folder: File) -> Iterator[Problem]:
    yield from _steps(data.get("steps"))
    if not isinstance(data.get("about", ""), str):
        yield ("about",), "this is one line of text."
    fixed = data.get("fixed") or {}
    if not isinstance(fixed, dict):
        yield ("fixed",), "this is a mapping of fields, such as {model: NAME, task: pos}."
    else:
        yield from _fields(fixed, ("fixed",))
    axes = data.get("axes") or {}
    grids = axes if isinstance(axes, list) else [axes]
    for i, grid in enumerate(grids):
        yield from _grid(grid, ("axes", i) if isinstance(axes, list) else ("axes",))
    if data.get("search") is not None:
        yield from _search(data["search"])


def _steps(steps: Any) -> Iterator[Problem]:
    if not isinstance(steps, list) or not steps:
        yield ("steps",), f"a recipe needs a list of steps, out of {', '.join(USES)}."
        return
    for i, step in enumerate(steps):
        if step not in USES:
            yield ("steps", i), unknown_name("step", step, USES).message
    if "restart" in steps and "rank" not in steps[: steps.index("restart")]:
        yield ("steps", steps.index("restart")), "a restart forgets all but a ranking, and none is made before it."


def _grid(grid: Any, path: Path) -> Iterator[Problem]:
    if not isinstance(grid, dict):
        yield path, "this is a mapping from fields to lists of values, such as {seed: [0, 1, 2]}."
        return
    for name, spec in grid.items():
        field = name.partition(".")[0]
        if field not in FIELDS:
            yield (*path, name), unknown_name("field of a trial", field, FIELDS).message
            continue
        if spec is None or spec in ([], {}):
            yield (*path, name), "this axis has no values."
            continue
        try:
            points = values(name, spec)
        except DeadheadError as problem:
            yield (*path, name), problem.message
            continue
        for i, value in enumerate(points):
            at = (*path, name, i) if isinstance(spec, list) and len(spec) == len(points) else (*path, name)
            nested = value
            for word in reversed(name.split(".")[1:]):
                nested = {word: nested}
            yield from (((*at, *rest[1:]) if "." not in name else at, told) for rest, told in _field(field, nested))


def _fields(fields: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    yield from _unknown(fields, FIELDS, path, "field of a trial")
    for name, value in fields.items():
        if name in FIELDS and value is not None:
            yield from (((*path, *rest), told) for rest, told in _field(name, value))


def _field(name: str, value: Any) -> Iterator[Problem]:
    """What is wrong with the value of a field; paths begin with its name."""
    yield from (((name, *path), told) for path, told in CHECKS[name](value))


def _model(value: Any) -> Iterator[Problem]:
    if not isinstance(value, str) or not value:
        yield (), "this is a folder or a name on the hub."
    elif value.startswith("world/") and value not in WORLD and not File(value).is_dir():
        yield (), unknown_name("model of the small world", value, WORLD).message
    elif value.startswith((".", "/", "~")) and not (File(value).expanduser() / "config.json").is_file():
        yield (), f"there is no model in {value} (no config.json)."


def _task(value: Any) -> Iterator[Problem]:
    from ..tasks import task_of

    try:
        task_of(value if isinstance(value, str) else str(value))
    except DeadheadError as problem:
        yield (), problem.message


def _languages(value: Any) -> Iterator[Problem]:
    for language in value if isinstance(value, list) else [value]:
        if not isinstance(language, str) or not language:
            yield (), f"{language!r} is not a language; write a code such as en, or a list of them."


def _splits(value: Any) -> Iterator[Problem]:
    for split in value if isinstance(value, list) else [value]:
        if split not in SPLITS:
            yield (), unknown_name("split", split, SPLITS).message


def _whole(value: Any) -> Iterator[Problem]:
    if isinstance(value, bool) or not isinstance(value, int):
        yield (), f"{value!r} is not a whole number."


def _data(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield (), f"this is a mapping; known are {', '.join(DATA)}."
        return
    yield from _unknown(value, DATA, (), "option of data")
    if value.get("root", "world") != "world":  # where files lie changes no number
        yield ("root",), "only the embedded `world` is named here; name a folder of data with --data or DEADHEAD_DATA."


def _rank(value: Any) -> Iterator[Problem]:
    from ..rankers import RANKERS

    if not isinstance(value, dict):
        yield (), "this is a mapping such as {method: gradient, split: dev}."
        return
    method = value.get("method", "gradient")
    if method not in RANKERS:
        yield ("method",), unknown_name("ranking method", method, RANKERS).message
        return
    module, kind = RANKERS[method].split(":")
    yield from _unknown(value, (*RANK, *fields_of(f"deadhead.rankers.{module}", kind)), (), f"option of {method}")
    if value.get("split") not in (None, *SPLITS):
        yield ("split",), unknown_name("split", value["split"], SPLITS).message


def _finetune(value: Any) -> Iterator[Problem]:
    from ..training.settings import PRESETS, Settings

    known = [name for name in Settings.__dataclass_fields__ if name != "seed"]
    if not isinstance(value, dict):
        yield (), f"this is a mapping; known are preset, {', '.join(known)}."
        return
    yield from _unknown(value, ("preset", *TRAINING, *known), (), "setting of training")
    if value.get("preset", "contributions") not in PRESETS:
        yield ("preset",), unknown_name("preset", value["preset"], PRESETS).message
    for name, allowed in TRAINING.items():
        if value.get(name, allowed[0]) not in allowed:
            yield (name,), unknown_name(name, value[name], allowed).message
    for name in known:
        if name in value:
            try:
                Settings.from_dict({name: value[name]})
            except DeadheadError as problem:
                yield (name,), problem.message
            except (TypeError, ValueError):
                yield (name,), f"{value[name]!r} is not a value for this."


def _remove(value: Any) -> Iterator[Problem]:
    from ..strategies import STRATEGIES

    if value == "none":
        return
    if not isinstance(value, dict):
        yield (), f"{value!r} removes nothing known; write none, or a strategy and its amount such as {{random: 50}}."
        return
    named = [name for name in value if name in STRATEGIES]
    if len(named) != 1:
        near = [name for key in value for name in difflib.get_close_matches(key, STRATEGIES, n=1)]
        guess = f" Did you mean {near[0]!r}?" if near and not named else ""
        yield (), f"this names {len(named) or 'no'} strategies, not one.{guess} Known: {', '.join(sorted(STRATEGIES))}."
        return
    options = list(inspect.signature(STRATEGIES[named[0]]).parameters)[2:]
    allowed = [name for name in options if name not in ("seed", "scores")]
    yield from _unknown({name: 0 for name in value if name != named[0]}, allowed, (), f"option of {named[0]}")
    if value[named[0]] is None:
        yield (named[0],), "the amount is missing."


def _search(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict) or "lowest" not in value:
        yield ("search",), f"this is a mapping such as {{lowest: 1..12, controls: [{', '.join(CONTROLS)}]}}."
        return
    yield from _unknown(value, SEARCH, ("search",), "field of a search")
    ks = value["lowest"]
    plain = ks if isinstance(ks, list) else [ks]
    if not all((isinstance(k, int) and k > 0) or (isinstance(k, str) and RANGE.fullmatch(k)) for k in plain):
        yield ("search", "lowest"), "these are numbers of heads, such as 1..12 or [1, 2, 4]."
    for i, control in enumerate(value.get("controls") or ()):
        if control not in CONTROLS:
            yield ("search", "controls", i), unknown_name("control", control, CONTROLS).message


CHECKS: Mapping[str, Callable[[Any], Iterator[Problem]]] = {
    "model": _model,
    "task": _task,
    "data": _data,
    "source": _languages,
    "train": _languages,
    "targets": _languages,
    "splits": _splits,
    "finetune": _finetune,
    "rank": _rank,
    "remove": _remove,
    "seed": _whole,
    "draw": _whole,
}


def _cells(data: Mapping[str, Any]) -> Iterator[Problem]:
    """What only shows when fields and steps are seen together."""
    axes = data.get("axes") or {}
    for i, grid in enumerate(axes if isinstance(axes, list) else [axes]):
        path: Path = ("axes", i) if isinstance(axes, list) else ("axes",)
        given = {*(data.get("fixed") or {}), *(name.partition(".")[0] for name in grid)}
        if data.get("search"):
            if "remove" in given:
                yield ("search",), "a search sets `remove` itself."
            given |= {"remove"}
        yield from ((path, told) for told in _missing(data["steps"], given))
        removals = [*values("remove", (data.get("fixed") or {}).get("remove", "none")), *values("remove", grid.get("remove", "none"))]
        if data.get("search"):
            removals.append({"lowest": 1})
        yield from ((("steps",), told) for told in _orders(data["steps"], removals))


def _missing(steps: list[str], given: set[str]) -> Iterator[str]:
    for name in ("model", "task"):
        if name not in given:
            yield f"no {name} is given; put it under fixed, or make it an axis."
    if {"finetune", "rank", "evaluate"} & set(steps) and not given & {"source", "train"}:
        yield "no language is given: name the source."
    if "rank" in steps and "source" not in given:
        yield "heads are ranked on the languages of `source`, which is not given."
    if "remove" in given and "prune" not in steps:
        yield "`remove` is given, but no step prunes; add prune to steps."
    if "prune" in steps and "remove" not in given:
        yield "a step prunes, but `remove` is not given."


def _orders(steps: list[str], removals: list[Any]) -> Iterator[str]:
    for remove in removals:
        found = removal(remove)
        if found and found[0] in SCORED and "prune" in steps and "rank" not in steps[: steps.index("prune")]:
            yield f"{found[0]} goes by a ranking, and none is made before prune; add rank to steps."
            return


def _tables(data: Mapping[str, Any], folder: File) -> Iterator[Problem]:
    tables = data.get("tables") or []
    axes = data.get("axes") or {}
    known = {*FIELDS, *LABELS, "language", "metric", "strategy", "amount"}
    known |= {name for grid in (axes if isinstance(axes, list) else [axes]) for name in grid}
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        yield ("tables",), "this is a list of tables, each {title: TEXT, rows: AXIS, columns: AXIS}."
        return
    for i, table in enumerate(tables):
        yield from _unknown(table, TABLE, ("tables", i), "field of a table")
        for part in ("rows", "columns", "mean_over"):
            for name in table.get(part) if isinstance(table.get(part), list) else filter(None, [table.get(part)]):
                if name not in known:
                    yield ("tables", i, part), unknown_name("axis", name, known).message
        published = table.get("published")
        if published is not None and not _beside(folder, published):
            yield ("tables", i, "published"), f"there is no file {published} beside the recipe."
    claims = data.get("claims") or []
    if not isinstance(claims, list) or not all(isinstance(claim, str) for claim in claims):
        yield ("claims",), "this is a list of names."


def _beside(folder: File, name: Any) -> bool:
    return isinstance(name, str) and File(name).name == name and (folder / name).is_file()


@cache
def _tree(module: str) -> ast.Module:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return ast.Module(body=[], type_ignores=[])
    return ast.parse(File(spec.origin).read_text(encoding="utf-8"))


def fields_of(module: str, name: str) -> tuple[str, ...]:
    """The fields of a dataclass, without importing its module."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return tuple(item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name))
    return ()
