"""From axes to trials: every combination is a cell, and equal cells share a trial.

A cell keeps the values that led to it, so that a table can be filled by rows and columns even where
equal trials became one.
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path as File
from typing import Any

from deadhead.papers.catalogue import paper
from deadhead.studies.fields import as_list, own_source
from deadhead.studies.step import STEPS
from deadhead.studies.trial import Trial, digest, settle
from deadhead.tasks import task_of

from .yaml import Path, RecipeError

MOST = 200_000  # cells; more is a typo, and would take minutes and gigabytes to write down
RANGE = re.compile(r"(\d+)\.\.(\d+)")
# Fields that are fixed in one recipe and may differ in another that is included beside it.
APART = ("model", "task", "source", "train", "targets", "splits", "seed")


@dataclass(frozen=True)
class Cell:
    """One combination of the axes: the values that led to it, and its trial."""

    labels: Mapping[str, Any]
    trial: Trial


def cells(data: Mapping[str, Any]) -> list[Cell]:
    """All cells of a checked recipe, those of the recipes it includes first."""
    included = data.get("include") or ()
    every = [_placed(part, cell) for part in included for cell in cells(part)]
    if "steps" in data:
        every += [_placed(data, cell) if included else cell for cell in _own(data)]
    return every


def _placed(data: Mapping[str, Any], cell: Cell) -> Cell:
    """A cell that also names what is fixed in its own recipe and may differ in another."""
    fixed = {name: value for name, value in (data.get("fixed") or {}).items() if name in APART}
    return Cell({**fixed, **cell.labels}, cell.trial)


def grids(data: Mapping[str, Any]) -> dict[Path, Any]:
    """The grids of a recipe by their paths: `axes` is one, or a list of them."""
    axes = data.get("axes") or {}
    if isinstance(axes, list):
        return {("axes", i): grid for i, grid in enumerate(axes)}
    return {("axes",): axes}


def _own(data: Mapping[str, Any]) -> list[Cell]:
    own: list[Cell] = []
    for grid in grids(data).values():
        axes = {name: values(name, spec) for name, spec in grid.items()}
        arms = list(search_arms(data["search"])) if data.get("search") else [{}]
        if len(own) + prod(map(len, axes.values())) * len(arms) > MOST:
            hint = "shorten them, or split the recipe into several studies"
            raise RecipeError(f"the axes multiply to more than {MOST:,} trials.", hint)
        for combination in itertools.product(*axes.values()):
            labels = dict(zip(axes, combination, strict=True))
            own += [_cell(data, {**labels, **arm}) for arm in arms]
    return own


def _cell(data: Mapping[str, Any], labels: dict[str, Any]) -> Cell:
    fields = dict(data.get("fixed") or {})
    further = labels.pop("further_seed", 0)
    for name, value in labels.items():
        if name not in ("arm", "k"):
            _set(fields, name.split("."), value)
    if further:
        fields["seed"] = 1000 * (int(fields.get("seed") or 0) + 1) + further
    for step in dict.fromkeys(data["steps"]):
        fields |= STEPS[step].write_out(fields)
    task, options = str(fields.get("task")), dict(fields.get("data") or {})
    if "target_parts" in options:
        options["parts"] = _parts(options.pop("target_parts"), fields)
    if isinstance(options.get("source"), Mapping):
        options = own_source(task, options)
    default = task_of(task).default_language
    if default is not None and "train" not in fields:
        fields.setdefault("source", default)
    if task.endswith((".yaml", ".yml")):  # what the file says makes the number, not its name
        options["task_file"] = digest(File(task).read_text(encoding="utf-8"))
    return Cell(labels, settle(data["steps"], {**fields, "data": options}))


def _parts(number: int, fields: Mapping[str, Any]) -> dict[str, int]:
    """`data.target_parts` written out: N parts of every training language that is no source."""
    source = as_list(fields.get("source"))
    languages = [lang for lang in as_list(fields.get("train")) if lang not in source]
    if not languages:
        raise RecipeError(
            "data.target_parts is for languages in `train` but not in `source`; there are none.",
            "name some in train",
        )
    return dict.fromkeys(languages, number)


def _set(fields: dict[str, Any], path: list[str], value: Any) -> None:
    for word in path[:-1]:
        fields[word] = dict(fields.get(word) or {})
        fields = fields[word]
    fields[path[-1]] = value


def values(name: str, spec: Any) -> list[Any]:
    """The values of an axis: a list, a range such as 1..12, or for `remove` strategies."""
    if name == "remove":
        return list(_removals(spec))
    if isinstance(spec, list):
        return [value for item in spec for value in _ranged(item)]
    return list(_ranged(spec))


def is_range(item: Any) -> bool:
    return isinstance(item, str) and RANGE.fullmatch(item) is not None


def _ranged(item: Any) -> Iterator[Any]:
    match = RANGE.fullmatch(item) if isinstance(item, str) else None
    if match is None:
        yield item
        return
    first, last = int(match[1]), int(match[2])
    if not 0 <= last - first <= MOST:
        raise RecipeError(f"the range {item} is {'empty' if last < first else 'too long'}.")
    yield from range(first, last + 1)


def _removals(spec: Any) -> Iterator[Any]:
    from deadhead.strategies import STRATEGIES

    if isinstance(spec, list):
        for item in spec:
            yield from _removals(item)
        return
    strategies = [name for name in spec if name in STRATEGIES] if isinstance(spec, dict) else []
    if not strategies:
        yield spec  # `none`, or for the check to refuse
        return
    options = {name: value for name, value in spec.items() if name not in STRATEGIES}
    for strategy in strategies:
        for amount in values(strategy, spec[strategy]):
            yield {strategy: amount, **options}


def search_arms(search: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The trials of a lowest-k search: the unpruned model, k lowest heads, and the controls.

    `further_seed` is the number of another seed of the unpruned model.
    """
    yield {"arm": "full", "k": 0, "remove": "none"}
    ks = values("k", search["lowest"])
    yield from ({"arm": "lowest", "k": k, "remove": {"lowest": k}} for k in ks)
    for control in search.get("controls") or ():
        for k in ks:
            arm = {"arm": control, "k": k}
            if control == "seeds":
                yield {**arm, "remove": "none", "further_seed": k}
            elif control == "random":
                yield {**arm, "remove": {"random_k": k}, "draw": paper("contributions").random_draw}
            else:
                yield {**arm, "remove": {"highest": k}}
