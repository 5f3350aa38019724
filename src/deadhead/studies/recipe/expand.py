"""From axes to trials: every combination is a cell, and a cell has a trial that others may share.

A cell remembers the values that led to it, so that a table can be filled by rows and columns even
where equal trials collapsed into one.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

from deadhead.papers import paper
from deadhead.studies.trial import Trial, digest, settle

from .yaml import RecipeError

MOST = 200_000  # cells; more is a typo, and would take minutes and gigabytes to write down
RANGE = re.compile(r"(\d+)\.\.(\d+)")
CONTROLS = ("seeds", "random", "highest")
APART = (
    "model",
    "task",
    "source",
    "train",
    "targets",
    "splits",
    "seed",
)  # fixed in one recipe, and another may have it otherwise
FROM_SCRATCH = "weak-link-transformer"  # the preset of a pretraining that names none
LATER = {
    "average": 1
}  # settings of training that came later, with what was done before: so much is in no id


@dataclass(frozen=True)
class Cell:
    """One combination of the axes: the values that led to it, and its trial."""

    labels: Mapping[str, Any]
    trial: Trial


def cells(data: Mapping[str, Any]) -> list[Cell]:
    """All cells of a checked recipe, those of the recipes it includes first."""
    included = data.get("include") or ()
    found = [_placed(part, cell) for part in included for cell in cells(part)]
    if "steps" in data:
        found += [_placed(data, cell) if included else cell for cell in _own(data)]
    return found


def _placed(data: Mapping[str, Any], cell: Cell) -> Cell:
    """A cell that also names what is fixed in its own recipe and may differ in another."""
    fixed = {name: value for name, value in (data.get("fixed") or {}).items() if name in APART}
    return Cell({**fixed, **cell.labels}, cell.trial)


def _own(data: Mapping[str, Any]) -> list[Cell]:
    grids = data.get("axes") or {}
    found: list[Cell] = []
    for grid in grids if isinstance(grids, list) else [grids]:
        axes = {name: values(name, spec) for name, spec in grid.items()}
        arms = list(search_arms(data["search"])) if data.get("search") else [{}]
        if len(found) + prod(map(len, axes.values())) * len(arms) > MOST:
            raise RecipeError(
                f"the axes multiply to more than {MOST:,} trials.",
                "shorten them, or split the recipe into several studies",
            )
        for combination in itertools.product(*axes.values()):
            labels = dict(zip(axes, combination, strict=True))
            found += [_cell(data, {**labels, **arm}) for arm in arms]
    return found


def _cell(data: Mapping[str, Any], labels: dict[str, Any]) -> Cell:
    fields = dict(data.get("fixed") or {})
    nth = labels.pop("another", 0)
    for name, value in labels.items():
        if name not in ("arm", "k"):
            _set(fields, name.split("."), value)
    if nth:
        fields["seed"] = 1000 * (int(fields.get("seed") or 0) + 1) + nth
    fields["finetune"] = _training(fields)
    if "pretrain" in data["steps"]:
        fields["pretrain"] = _pretraining(fields)
    if "target_parts" in (fields.get("data") or {}):
        fields["data"] = _parts(fields)
    if str(fields.get("task")).endswith(
        (".yaml", ".yml")
    ):  # what the file says, not its name, makes the number
        fields["data"] = {
            **(fields.get("data") or {}),
            "task_file": _digest_of(str(fields["task"]), os.stat(fields["task"]).st_mtime_ns),
        }
    return Cell(labels, settle(data["steps"], fields))


def _training(fields: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of training, those of a preset written out: what a preset means today must not change an id tomorrow."""
    return dict(
        _settings(
            json.dumps(fields.get("finetune") or {}, sort_keys=True),
            str(fields.get("task")),
            str(fields.get("source")),
        )
    )


def _pretraining(fields: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a training from scratch; without a preset, those of the paper that trains so."""
    from deadhead.translation import VOCABULARY

    given = {"preset": FROM_SCRATCH, **(fields.get("pretrain") or {})}
    own = {"seed": given.pop("seed", 0), "vocabulary": given.pop("vocabulary", VOCABULARY)}
    return {**_training({**fields, "finetune": given}), **own}


def _parts(fields: Mapping[str, Any]) -> dict[str, Any]:
    """`data.target_parts` written out: so many parts of every language that is trained on and not a source."""
    data = dict(fields["data"])
    number, source, learnt = (
        data.pop("target_parts"),
        fields.get("source") or (),
        fields.get("train") or (),
    )
    only = [
        one
        for one in ([learnt] if isinstance(learnt, str) else learnt)
        if one not in ([source] if isinstance(source, str) else source)
    ]
    if not only:
        raise RecipeError(
            "data.target_parts is of languages in `train` that are not in `source`, and there are none.",
            "name some in train",
        )
    return {**data, "parts": dict.fromkeys(only, number)}


@lru_cache(maxsize=64)
def _digest_of(file: str, changed: int) -> str:
    return digest(Path(file).read_text(encoding="utf-8"))


@lru_cache(maxsize=1024)
def _settings(text: str, task: str, source: str) -> Mapping[str, Any]:
    from deadhead.tasks import task_of
    from deadhead.training.settings import PRESETS, Settings, preset

    given = json.loads(text)
    ours = {"weights": given.pop("weights", "last"), "scored": given.pop("scored", "dev")}
    if ours["scored"] == "train_task":  # XNLI is trained on MNLI; other tasks on their own data
        ours["scored"] = task_of(task).train_on or "dev"
    if given.get("bleu_every") is not None:
        ours["bleu_every"] = given["bleu_every"]
    given.pop("bleu_every", None)
    if given.pop("first", False):  # what is not asked for is not in the id
        ours["first"] = True
    named = given.pop("preset", None)
    variant = source if f"{named}-{source}" in PRESETS else task  # of language pairs, or of tasks
    settings = Settings.from_dict(given) if named is None else preset(named, variant, **given)
    plain = {
        name: value
        for name, value in settings.to_dict().items()
        if name != "seed" and LATER.get(name, ...) != value
    }
    return {**plain, **ours}


def _set(fields: dict[str, Any], path: list[str], value: Any) -> None:
    for word in path[:-1]:
        fields[word] = dict(fields.get(word) or {})
        fields = fields[word]
    fields[path[-1]] = value


def values(name: str, spec: Any) -> list[Any]:
    """The values of an axis: a list, a range such as 1..12, or for `remove` a strategy with a list of amounts."""
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
    if not isinstance(spec, dict):
        yield spec
        return
    options = {name: value for name, value in spec.items() if name not in STRATEGIES}
    named = [name for name in spec if name in STRATEGIES]
    if not named:
        yield spec  # for the check to refuse
    for strategy in named:
        amounts = spec[strategy] if isinstance(spec[strategy], list) else [spec[strategy]]
        for amount in (one for item in amounts for one in _ranged(item)):
            yield {strategy: amount, **options}


def search_arms(search: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The trials of a lowest-k search and its controls: the unpruned model, then k heads by each rule.

    `another` asks for the k-th further seed of the unpruned model.
    """
    yield {"arm": "full", "k": 0, "remove": "none"}
    ks = values("k", search["lowest"])
    rules = {"random": "random_k", "highest": "highest"}
    yield from ({"arm": "lowest", "k": k, "remove": {"lowest": k}} for k in ks)
    for control in search.get("controls") or ():
        for k in ks:
            if control == "seeds":
                yield {"arm": "seeds", "k": k, "remove": "none", "another": k}
            else:
                extra = {"draw": paper("contributions").random_draw} if control == "random" else {}
                yield {"arm": control, "k": k, "remove": {rules[control]: k}, **extra}


def label(value: Any) -> Any:
    """A value as a table names it: numbers and texts stay, a removal is read out (`random 50 per=block`)."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list):
        return "+".join(str(item) for item in value)
    strategy = strategy_of(value)
    first = [] if strategy is None else [f"{strategy} {value[strategy]}"]
    return " ".join(
        [*first, *(f"{name}={item}" for name, item in value.items() if name != strategy)]
    )


def strategy_of(remove: Any) -> str | None:
    """The strategy a removal names."""
    from deadhead.strategies import STRATEGIES

    return (
        next((name for name in remove if name in STRATEGIES), None)
        if isinstance(remove, Mapping)
        else None
    )
