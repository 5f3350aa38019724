"""One check of options, for the command line, Python and recipes: names, types, words and bounds.

The options of a dataclass are its fields, those of a function its keyword-only parameters. What
each may be is written once, as its type: `int`, `bool`, `Literal["loss", "accuracy"]`,
`Share | None`, `Sequence[float]`. `Annotated[int, Bound(...)]` adds a bound to a type.
"""

import difflib
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from deadhead.errors import DeadheadError, UnknownName, unknown_name

WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
WORDS[NoneType] = "null"


@dataclass(frozen=True)
class Bound:
    """A condition beyond the type, and what an option then expects, in words."""

    holds: Callable[[Any], bool]
    words: str


def whole_from(least: int) -> Bound:
    return Bound(lambda value: value >= least, f"a whole number from {least}")


Count = Annotated[int, whole_from(1)]
Share = Annotated[float, Bound(lambda value: 0 <= value < 1, "a number from 0 to below 1")]


class OptionError(DeadheadError):
    """An option has a value that it cannot have."""


def options_of(part: Callable[..., Any]) -> dict[str, Any]:
    """The options of a part with their types, in the order in which they are declared."""
    hints = get_type_hints(part, include_extras=True)
    return {name: hints.get(name, Any) for name in _defaults(part)}


def problems(
    owner: str, part: Callable[..., Any], options: Mapping[str, Any], hidden: Collection[str] = ()
) -> Iterator[tuple[str, DeadheadError]]:
    """Each option that `part` does not accept, with the error; `hidden` ones count as unknown."""
    known = {name: kind for name, kind in _options_of(part).items() if name not in hidden}
    for name, value in options.items():
        if name not in known and not known:
            yield name, UnknownName(f"{owner} has no options, got {name!r}.")
        elif name not in known:
            yield name, unknown_name(f"option of {owner}", name, known)
        elif not accepts(known[name], value):
            words = literal_words(known[name])
            near = difflib.get_close_matches(str(value), words, n=1)
            guess = f" Did you mean {near[0]!r}?" if near else ""
            message = f"`{name}` of {owner} expects {expected(known[name])}, got {value!r}.{guess}"
            default = _defaults(part)[name]
            usable = default not in (MISSING, inspect.Parameter.empty, None)
            yield name, OptionError(message, f"for instance {name}={default}" if usable else None)


def check(owner: str, part: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise the error of the first option that `part` does not accept."""
    for _, problem in problems(owner, part, options):
        raise problem


class Checked:
    """A dataclass that checks its fields when it is made; its class name is the owner of them."""

    def __post_init__(self) -> None:
        check(type(self).__name__.lower(), type(self), vars(self))


_options_of = cache(options_of)


def _defaults(part: Callable[..., Any]) -> dict[str, Any]:
    if is_dataclass(part):
        return {field.name: field.default for field in fields(part)}
    parameters = inspect.signature(part).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def accepts(kind: Any, value: Any) -> bool:
    """Whether a value is of a declared type, within its bounds."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin is Annotated:
        return accepts(parts[0], value) and all(bound.holds(value) for bound in parts[1:])
    if origin in (Union, UnionType):
        return any(accepts(part, value) for part in parts)
    if origin is Literal:
        return any(value == word and type(value) is type(word) for word in parts)
    if origin is not None:
        if not isinstance(value, origin) or (isinstance(value, str) and origin is not str):
            return False
        return not issubclass(origin, Sequence) or all(accepts(parts[0], item) for item in value)
    if kind in (int, float):
        number = Integral if kind is int else Real
        return isinstance(value, number) and not isinstance(value, bool)
    return isinstance(value, kind)


def expected(kind: Any) -> str:
    """What a declared type accepts, in words."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return " and ".join(bound.words for bound in parts[1:])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(expected(part) for part in parts))
    if origin is Literal:
        return " or ".join(filter(None, (", ".join(map(str, parts[:-1])), str(parts[-1]))))
    if origin is not None and issubclass(origin, Sequence):
        return f"a list, each item {expected(parts[0])}"
    return WORDS.get(kind, getattr(origin or kind, "__name__", str(kind)))


def literal_words(kind: Any) -> tuple[str, ...]:
    """The words that an option may be; none where it is no choice of words."""
    if get_origin(kind) is Literal:
        return tuple(word for word in get_args(kind) if isinstance(word, str))
    return tuple(word for part in get_args(kind) for word in literal_words(part))
