"""Shapes of plain JSON data: is this a text, a list of numbers, a number for each head?

They compare types exactly and loop in C where they can: the index of a large study has very many
values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import lru_cache
from math import isfinite
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.layout import Head

NUMBERS = frozenset((float, int, type(None)))  # NaN is stored as null
TEXTS = frozenset((str,))
MOST = 1000  # layers, and heads of a layer: more than any model has
DEEP = 12  # lists and mappings within each other
LARGEST = 1e100  # of a number: sums and squares of some stay finite


def is_text(value: Any) -> bool:
    return type(value) is str


def are_texts(value: Any) -> bool:
    return type(value) is list and TEXTS.issuperset(map(type, value))


def is_dict_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: type(value) is dict and all(map(fits, value.values()))


def are_numbers(values: Collection[Any]) -> bool:
    """Whether all are finite numbers or null."""
    if not NUMBERS.issuperset(map(type, values)):
        return False
    numbers = [value for value in values if value is not None] if None in values else values
    try:
        return not numbers or (
            min(numbers) > -LARGEST and max(numbers) < LARGEST and all(map(isfinite, numbers))
        )
    except OverflowError:  # a whole number too large for a float
        return False


def are_rows(value: Any, width: int | None = None) -> bool:
    """Whether this is a list of lists of numbers, none of them null."""
    return type(value) is list and all(
        type(row) is list and width in (None, len(row)) and None not in row and are_numbers(row)
        for row in value
    )


def are_heads(names: Iterable[Any]) -> bool:
    return all(map(_is_head, names))


@lru_cache(maxsize=8192)
def _is_head(name: Any) -> bool:
    try:
        head = Head.parse(name)
    except (DeadheadError, AttributeError):
        return False
    return head.layer < MOST and head.index < MOST


def maps_heads_to_numbers(value: Any) -> bool:
    return type(value) is dict and are_heads(value) and are_numbers(value.values())


def is_plain(value: Any, deep: int = 0) -> bool:
    """Whether this can be shown: not nested too deeply, no number beyond all bounds."""
    items: Iterable[Any] = value.values() if type(value) is dict else value
    for item in items:
        kind = type(item)
        if kind is float or kind is int:
            if not -LARGEST < item < LARGEST:  # NaN is neither
                return False
        elif (kind is dict or kind is list) and (deep == DEEP or not is_plain(item, deep + 1)):
            return False
    return True
