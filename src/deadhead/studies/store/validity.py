"""Is a stored record as deadhead writes it? It is checked once, where a file is read.

`problem(stored, name)` says what is wrong with a record. `is_summary(parts)` checks a line of
the index, of which there may be very many. A file that somebody edited, or that a disk changed,
is no record: it counts as absent, and its trial runs again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from deadhead.studies.step import STEPS, fields
from deadhead.studies.trial import Trial, digest

from .shapes import MOST, TEXTS, are_heads, are_numbers, are_texts, is_dict_of, is_plain, is_text

STATES = ("done", "failed")
WHOLE = frozenset((int, type(None)))
DICTS = frozenset((dict,))
OPTIONS = frozenset((str, int, float, bool, type(None)))  # of `data`, except `parts`
# Fields of tables and figures: those that are texts, and those that name one axis or more.
WORDS = ("title", "kind", "metric", "split", "published", "note", "value", "group", "show")
AXES = ("rows", "columns", "mean_over", "x", "lines", "panels")
COUNTS = ("heads before", "parameters", "parameters after")  # costs that are whole numbers


class Invalid(Exception):
    """What is wrong with a record."""


def problem(stored: Any, name: str) -> str | None:
    """What makes this no record of the trial with this id; None if it is one."""
    try:
        _check(stored, name)
    except Invalid as reason:
        return str(reason)
    return None


def is_summary(parts: list[Any]) -> bool:
    """Whether these are state, trial, metrics and cost of a record."""
    state, trial, metrics, cost = parts
    if state not in STATES or not DICTS.issuperset(map(type, (trial, metrics, cost))):
        return False
    types = _types(tuple(STEPS))
    for name, value in trial.items():
        kind = type(value)
        if name in types and (
            kind not in types[name] or (kind is list and not TEXTS.issuperset(map(type, value)))
        ):
            return False
    return are_numbers(metrics.values()) and _is_cost(cost)


@cache
def _types(names: tuple[str, ...]) -> dict[str, frozenset[type]]:
    """The types that the fields of a trial may have; lists are of texts."""
    own = {name: frozenset(field.types) for name, field in fields().items() if field.types}
    return own | {"steps": frozenset((list,)), "inputs": DICTS}


def is_recipe(recipe: Any) -> bool:
    """Whether this has the shape of a recipe, as far as reports rely on it."""
    if type(recipe) is not dict or not is_plain(recipe):
        return False
    tables, figures, include = (recipe.get(name) or [] for name in ("tables", "figures", "include"))
    for specs in (tables, figures, include):
        if type(specs) is not list or not DICTS.issuperset(map(type, specs)):
            return False
    return (
        all(map(_is_display, (*tables, *figures)))
        and are_texts(recipe.get("claims") or [])
        and _is_fixed(recipe.get("fixed") or {})
        and is_text(recipe.get("about") or "")
        and all(map(is_recipe, include))
    )


def _is_display(spec: Mapping[str, Any]) -> bool:
    """Whether this may be a table or a figure."""
    words = [spec[name] for name in WORDS if spec.get(name) is not None]
    axes = [spec[name] for name in AXES if spec.get(name) is not None]
    return (
        TEXTS.issuperset(map(type, words))
        and all(is_text(axis) or are_texts(axis) for axis in axes)
        and type(spec.get("where") or {}) is dict
    )


def _is_fixed(fixed: Any) -> bool:
    """Whether these may be the fixed fields of a recipe, which has more forms than a trial."""
    if type(fixed) is not dict or not DICTS.issuperset(
        type(fixed[name]) for name in ("data", "finetune", "rank") if name in fixed
    ):
        return False
    return _are_named(fixed) and all(is_text(fixed.get(name, "")) for name in ("model", "task"))


def is_labels(labels: Any) -> bool:
    """Whether these may be the labels of a cell."""
    if type(labels) is not dict:
        return False
    k, remove = labels.get("k", 0), labels.get("remove", "")
    if type(k) is not int or abs(k) > MOST**2 or not is_text(labels.get("arm", "")):
        return False
    return _are_named(labels) and is_plain([remove])


def _are_named(values: Mapping[str, Any]) -> bool:
    """Whether fields that name languages or splits are a name or a list of them."""
    named = [values[name] for name in ("source", "train", "targets", "splits") if name in values]
    return all(is_text(value) or are_texts(value) for value in named)


def _is_cost(cost: Mapping[str, Any]) -> bool:
    numbers = [value for name, value in cost.items() if name != "reused"]
    if not are_numbers(numbers) or any(value < 0 for value in numbers if value is not None):
        return False
    return is_text(cost.get("reused", "")) and all(type(cost.get(name)) in WHOLE for name in COUNTS)


def _check(stored: Any, name: str) -> None:
    if type(stored) is not dict:
        raise Invalid("it is not a JSON object")
    if stored.get("id") != name:
        raise Invalid(f"its id is {stored.get('id')!r:.40}")
    for field, fits in FIELDS.items():
        if field not in stored:
            raise Invalid(f"{field} is missing")
        if not fits(stored[field]):
            raise Invalid(f"{field} is not as deadhead writes it")
    if not is_summary([stored["state"], stored["trial"], stored["metrics"], stored["cost"]]):
        raise Invalid("trial, metrics or cost are not as deadhead writes them")
    if not _is_trial(stored["trial"], name):
        raise Invalid("its trial is not the one of its id")
    if not is_unedited(stored):
        raise Invalid("it was edited: its content does not fit its digest")


def is_unedited(stored: Mapping[str, Any]) -> bool:
    """Whether this fits its digest. What an earlier version wrote has format 1 and no digest."""
    if stored.get("format") == 1 and "digest" not in stored:
        return True
    try:
        content = {name: value for name, value in stored.items() if name != "digest"}
        return bool(digest(content) == stored.get("digest"))
    except (ValueError, TypeError, RecursionError):  # NaN, for instance
        return False


def _is_trial(trial: Mapping[str, Any], name: str) -> bool:
    options = [value for option, value in trial.get("data", {}).items() if option != "parts"]
    if not OPTIONS.issuperset(map(type, options)) or type(trial.get("steps")) is not list:
        return False
    try:
        return Trial(trial).id == name
    except (ValueError, TypeError, RecursionError):  # NaN, for instance
        return False


def _is_epoch(value: Any) -> bool:
    return type(value) is dict and are_numbers(value.values())


def _is_details(value: Any) -> bool:
    if type(value) is not dict or not is_plain(value):
        return False
    checks = (*DETAILS, *(detail for step in STEPS.values() for detail in step.details))
    return all(fits(value[name]) for name, fits in checks if name in value)


def _is_shortfall(value: Any) -> bool:
    numbers = [value.get(name) for name in ("expected", "got")] if type(value) is dict else [None]
    return all(type(number) is int and number >= 0 for number in numbers)


def _is_corpus(value: Any) -> bool:
    if type(value) is not dict or type(value.get("rows")) is not int:
        return False
    return all(is_text(value.get(name)) for name in ("corpus", "release"))


# Details of every trial; those that a step adds are checked by the step.
DETAILS = (
    ("shortfalls", is_dict_of(_is_shortfall)),
    ("corpora", is_dict_of(_is_corpus)),
    ("damaged work", are_texts),
)
FIELDS: Mapping[str, Callable[[Any], bool]] = {  # of a record
    "state": is_text,
    "trial": lambda value: type(value) is dict,
    "metrics": lambda value: type(value) is dict,
    "cost": lambda value: type(value) is dict,
    "removed": lambda value: are_texts(value) and are_heads(value),
    "epochs": lambda value: type(value) is list and all(map(_is_epoch, value)),
    "versions": is_dict_of(is_text),
    "data": is_dict_of(is_text),
    "shared": is_dict_of(is_text),
    "details": _is_details,
    "error": lambda value: value is None or is_text(value),
}
