"""Is a stored record as deadhead writes it? Whoever reads on relies on it, and asks nothing again.

`problem(stored, name)` says what is wrong with a record, and is asked once, where a file is read.
`is_summary(parts)` is asked of the lines of the index, of which there may be very many. A file that
somebody edited, or a disk changed, is no record: it counts as absent, and its trial runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from math import isfinite
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.layout import Head
from deadhead.studies.trial import Trial

STATES = ("done", "failed")
NUMBERS = frozenset((float, int, type(None)))  # types of a number; what was no number (NaN) is null
WHOLE = frozenset((int, type(None)))
TEXTS, NAMES, LISTS, DICTS = (
    frozenset((str,)),
    frozenset((str, list)),
    frozenset((list,)),
    frozenset((dict,)),
)
TYPES: Mapping[
    str, frozenset[type]
] = {  # those that fields of a trial may have; lists are of texts
    "model": TEXTS,
    "task": TEXTS,
    "source": NAMES,
    "train": NAMES,
    "targets": LISTS,
    "splits": NAMES,
    "data": DICTS,
    "inputs": DICTS,
    "rank": DICTS,
    "remove": frozenset((dict, str)),
    "seed": frozenset((int,)),
    "draw": frozenset((int,)),
    "steps": LISTS,
    "finetune": DICTS,
    "pretrain": DICTS,
}
OPTIONS = frozenset(
    (str, int, float, bool, type(None))
)  # types of the options of `data` but `parts`
WORDS = (
    "title",
    "kind",
    "metric",
    "split",
    "published",
    "note",
    "value",
    "group",
    "show",
)  # fields of tables and figures
AXES = (
    "rows",
    "columns",
    "mean_over",
    "x",
    "lines",
    "panels",
)  # those that name one axis or several
COUNTED = ("heads before", "parameters", "parameters after")  # costs that are whole numbers
MOST = 1000  # layers, and heads of a layer: more than any model has
DEEP = 12  # lists and mappings within each other
LARGEST = 1e100  # of a number: sums and squares of some stay finite


class Unsound(Exception):
    """What is wrong with a record."""


def problem(stored: Any, name: str) -> str | None:
    """What makes this no record of the trial with this id; None if it is one."""
    try:
        _check(stored, name)
    except Unsound as wrong:
        return str(wrong)
    return None


def is_summary(parts: list[Any]) -> bool:
    """Whether these are state, trial, metrics and cost of a record."""
    state, trial, metrics, cost = parts
    if state not in STATES or not (
        type(trial) is dict and type(metrics) is dict and type(cost) is dict
    ):
        return False
    for name, value in trial.items():
        kind = type(value)
        if name in TYPES and (
            kind not in TYPES[name] or (kind is list and not TEXTS.issuperset(map(type, value)))
        ):
            return False
    return _are_numbers(metrics.values()) and _is_cost(cost)


def is_recipe(recipe: Any) -> bool:
    """Whether this has the shape of a recipe, as far as those who show a study rely on it."""
    if type(recipe) is not dict or not _is_plain(recipe):
        return False
    lists = [recipe.get(name) or [] for name in ("tables", "figures", "include")]
    if not all(
        type(several) is list and all(type(one) is dict for one in several) for several in lists
    ):
        return False
    if not all(map(_is_shown, (*lists[0], *lists[1]))):
        return False
    claims, fixed, about = (
        recipe.get("claims") or [],
        recipe.get("fixed") or {},
        recipe.get("about") or "",
    )
    return (
        _are_texts(claims)
        and _is_fixed(fixed)
        and type(about) is str
        and all(map(is_recipe, recipe.get("include") or ()))
    )


def _is_shown(asked: Mapping[str, Any]) -> bool:
    """Whether this may be a table or a figure."""
    words = [asked[name] for name in WORDS if asked.get(name) is not None]
    axes = [asked[name] for name in AXES if asked.get(name) is not None]
    if not TEXTS.issuperset(map(type, words)) or not all(
        type(one) is str or _are_texts(one) for one in axes
    ):
        return False
    return type(asked.get("where") or {}) is dict


def _is_fixed(fixed: Any) -> bool:
    """Whether these may be fields that all trials share; a field of the recipe may have more forms than one of a trial."""
    if type(fixed) is not dict or not DICTS.issuperset(
        type(fixed[name]) for name in ("data", "finetune", "rank") if name in fixed
    ):
        return False
    return _are_named(fixed) and all(_is_text(fixed.get(name, "")) for name in ("model", "task"))


def is_labels(labels: Any) -> bool:
    """Whether these may be the labels of a cell."""
    if type(labels) is not dict:
        return False
    k, remove = labels.get("k", 0), labels.get("remove", "")
    if type(k) is not int or abs(k) > MOST**2 or type(labels.get("arm", "")) is not str:
        return False
    return _are_named(labels) and _is_plain([remove])


def _are_named(fields: Mapping[str, Any]) -> bool:
    """Whether fields that name languages or splits are a name or a list of them."""
    named = [fields[name] for name in ("source", "train", "targets", "splits") if name in fields]
    return all(type(one) is str or _are_texts(one) for one in named)


def _are_numbers(values: Collection[Any]) -> bool:
    """Whether all are finite numbers or null; without a loop of Python's, since the index of a large study has many."""
    if not NUMBERS.issuperset(map(type, values)):
        return False
    try:
        held: Collection[Any] = (
            [value for value in values if value is not None] if None in values else values
        )
        return not held or (
            min(held) > -LARGEST and max(held) < LARGEST and all(map(isfinite, held))
        )
    except OverflowError:  # a whole number that no float can hold
        return False


def _is_cost(cost: Mapping[str, Any]) -> bool:
    numbers = [value for name, value in cost.items() if name != "reused"]
    if not _are_numbers(numbers) or any(value < 0 for value in numbers if value is not None):
        return False
    return isinstance(cost.get("reused", ""), str) and all(
        type(cost.get(name)) in WHOLE for name in COUNTED
    )


def _check(stored: Any, name: str) -> None:
    if type(stored) is not dict:
        raise Unsound("it is not a JSON object")
    if stored.get("id") != name:
        raise Unsound(f"its id is {stored.get('id')!r:.40}")
    for field, fits in FIELDS.items():
        if field not in stored:
            raise Unsound(f"{field} is missing")
        if not fits(stored[field]):
            raise Unsound(f"{field} is not as deadhead writes it")
    if not is_summary([stored["state"], stored["trial"], stored["metrics"], stored["cost"]]):
        raise Unsound("trial, metrics or cost are not as deadhead writes them")
    if not _is_trial(stored["trial"], name):
        raise Unsound("its trial is not the one of its id")


def _is_trial(trial: Mapping[str, Any], name: str) -> bool:
    data = trial.get("data", {})
    options = [value for option, value in data.items() if option != "parts"]
    if not OPTIONS.issuperset(map(type, options)) or type(trial.get("steps")) is not list:
        return False
    try:
        return Trial(trial).id == name
    except (ValueError, TypeError, RecursionError):  # NaN, say
        return False


def _is_dict_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: type(value) is dict and all(map(fits, value.values()))


def _is_text(value: Any) -> bool:
    return type(value) is str


def _are_texts(value: Any) -> bool:
    return type(value) is list and TEXTS.issuperset(map(type, value))


def _are_heads(names: Iterable[Any]) -> bool:
    return all(map(_is_head, names))


@lru_cache(maxsize=8192)
def _is_head(name: Any) -> bool:
    try:
        head = Head.parse(name)
    except (DeadheadError, AttributeError):
        return False
    return head.layer < MOST and head.index < MOST


def _is_of_heads(value: Any) -> bool:
    """Whether this is a number for each of some heads."""
    return type(value) is dict and _are_heads(value) and _are_numbers(value.values())


def _are_epochs(value: Any) -> bool:
    return type(value) is list and all(
        type(epoch) is dict and _are_numbers(epoch.values()) for epoch in value
    )


def _is_details(value: Any) -> bool:
    if type(value) is not dict or not _is_plain(value):
        return False
    return all(fits(value[name]) for name, fits in DETAILS.items() if name in value)


def _is_plain(value: Any, deep: int = 0) -> bool:
    """Whether there is nothing in this that cannot be shown: endless depth, numbers beyond all bounds."""
    held: Iterable[Any] = value.values() if type(value) is dict else value
    for one in held:
        kind = type(one)
        if kind is float or kind is int:
            if not -LARGEST < one < LARGEST:  # NaN is neither
                return False
        elif (kind is dict or kind is list) and (deep == DEEP or not _is_plain(one, deep + 1)):
            return False
    return True


def _is_ranking(value: Any) -> bool:
    if type(value) is not dict or not _is_of_heads(value.get("scores")):
        return False
    return (
        _is_text(value.get("method", ""))
        and _are_texts(value.get("languages", []))
        and _is_text(value.get("merge") or "")
    )


def _is_measured(value: Any) -> bool:
    """Whether these are the measures of one stage, by name; null where there are none."""
    return value is None or (
        type(value) is dict
        and all(MEASURED[name](found) for name, found in value.items() if name in MEASURED)
    )


def _is_embeddings(value: Any) -> bool:
    if type(value) is not dict or not _are_numbers([value.get("silhouette")]):
        return False
    points, centroids = value.get("points", {}), value.get("centroids", {})
    if type(points) is not dict or not all(_are_rows(several, 2) for several in points.values()):
        return False
    return (
        type(centroids) is dict
        and _are_rows(centroids.get("distances", []))
        and _are_texts(centroids.get("languages", []))
    )


def _are_rows(value: Any, width: int | None = None) -> bool:
    """Whether this is a list of lists of numbers, none of them null."""
    if type(value) is not list:
        return False
    return all(
        type(row) is list and width in (None, len(row)) and None not in row and _are_numbers(row)
        for row in value
    )


def _is_shortfall(value: Any) -> bool:
    return type(value) is dict and all(
        type(value.get(name)) is int and value[name] >= 0 for name in ("expected", "got")
    )


MEASURED: Mapping[str, Callable[[Any], bool]] = {
    "entropy": _is_of_heads,
    "weights": _is_of_heads,
    "embeddings": _is_embeddings,
}
DETAILS: Mapping[str, Callable[[Any], bool]] = {  # what else a step found, where somebody reads it
    "ranking": _is_ranking,
    "measures": _is_dict_of(_is_measured),
    "shortfalls": _is_dict_of(_is_shortfall),
    "damaged work": _are_texts,
}
FIELDS: Mapping[str, Callable[[Any], bool]] = {  # those of a record that the index does not keep
    "state": lambda value: type(value) is str,
    "trial": lambda value: type(value) is dict,
    "metrics": lambda value: type(value) is dict,
    "cost": lambda value: type(value) is dict,
    "removed": lambda value: _are_texts(value) and _are_heads(value),
    "epochs": _are_epochs,
    "versions": _is_dict_of(_is_text),
    "data": _is_dict_of(_is_text),
    "shared": _is_dict_of(_is_text),
    "details": _is_details,
    "error": lambda value: value is None or type(value) is str,
}
