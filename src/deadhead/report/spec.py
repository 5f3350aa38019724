"""What a recipe may say about a table or a figure, as frozen dataclasses.

Each kind of table or figure is one file with a subclass of `Table` or `Figure`: its fields are the
options that a recipe may set, with their defaults and checks, and its methods build or draw it.

    x: str = axis(required=True)            the name of one axis
    panels: tuple[str, ...] = axes()        one axis, or a list of axes
    value: str = word("score", "drop")      one of a few words; the first is the default
    show: str = choice(function)            one of the words that the function returns

`problems` checks an entry of a recipe, `read` turns it into its spec.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from deadhead.errors import unknown_name
from deadhead.papers.catalogue import published_files
from deadhead.results import Mean, Study
from deadhead.strategies import STRATEGIES
from deadhead.studies.fields import Problem
from deadhead.studies.recipe.display import UNPRUNED, published
from deadhead.tasks import METRICS
from deadhead.tasks.dataset import SPLITS

Chart = dict[str, Any]  # a vega-lite specification
Suggested = Iterator[tuple[int, "Figure"]]
D = TypeVar("D", bound="Display")
SPLIT = re.compile(rf"({'|'.join(SPLITS)})(@1)?")


@dataclass(frozen=True)
class Names:
    """What the names of an entry are checked against: the axes of the recipe, its folder."""

    axes: Collection[str]
    folder: Path


# The options -----------------------------------------------------------------------------------
# A check yields what is wrong with a value. `names` is None for a recipe that a study has stored:
# its names were checked when it was run, and files that it names may be gone.

Check = Callable[[Any, Names | None], Iterator[Problem]]


def option(check: Check, default: Any = "", required: bool = False, read: Any = None) -> Any:
    """An option of a recipe: `check` yields problems, `read` turns the value into the field's."""
    metadata = {"check": check, "required": required, "read": read or (lambda value: value)}
    return dataclasses.field(default=default, metadata=metadata)


def typed(kind: type, noun: str, default: Any) -> Any:
    def check(value: Any, names: Names | None) -> Iterator[Problem]:
        if not isinstance(value, kind):
            yield (), f"expected {noun}, got {value!r}."

    return option(check, default)


def text() -> Any:
    return typed(str, "a text", "")


def flag() -> Any:
    return typed(bool, "true or false", False)


def _check_axis(value: Any, names: Names | None) -> Iterator[Problem]:
    if not isinstance(value, str):
        yield (), f"expected the name of one axis, got {value!r}."
    elif names is not None and value not in names.axes:
        yield (), unknown_name("axis", value, names.axes).message


def axis(required: bool = False) -> Any:
    return option(_check_axis, required=required)


def _check_axes(value: Any, names: Names | None) -> Iterator[Problem]:
    listed = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in listed):
        yield (), f"expected the name of an axis or a list of names, got {value!r}."
    else:
        yield from (problem for name in listed for problem in _check_axis(name, names))


def axes() -> Any:
    return option(_check_axes, (), read=lambda v: (v,) if isinstance(v, str) else tuple(v))


def word(*words: str, default: str | None = None) -> Any:
    return choice(lambda: words, words[0] if default is None else default)


def choice(words: Callable[[], Collection[str]], default: str = "", required: bool = False) -> Any:
    def check(value: Any, names: Names | None) -> Iterator[Problem]:
        if value not in words():
            yield (), unknown_name("value", value, words()).message

    return option(check, default, required)


def _check_where(value: Any, names: Names | None) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield (), f"expected a mapping from axes to values, such as {{task: mnli}}, got {value!r}."
    elif names is not None:
        for name in value:
            if name not in names.axes:
                yield (name,), unknown_name("axis", name, names.axes).message
        strategies = value.get("strategy", [])
        for name in strategies if isinstance(strategies, list) else [strategies]:
            if name not in (UNPRUNED, *STRATEGIES):
                yield ("strategy",), unknown_name("strategy", name, (UNPRUNED, *STRATEGIES)).message


def _check_metric(value: Any, names: Names | None) -> Iterator[Problem]:
    if not isinstance(value, str) or (names is not None and value not in METRICS):
        yield (), unknown_name("metric", value, METRICS).message


def _check_split(value: Any, names: Names | None) -> Iterator[Problem]:
    if not (isinstance(value, str) and SPLIT.fullmatch(value)):
        first = "or such a name with @1 for the scores after the first epoch"
        yield (), f"expected {', '.join(SPLITS)}, {first}, got {value!r}."


def _check_published(value: Any, names: Names | None) -> Iterator[Problem]:
    if not isinstance(value, str):
        yield (), f"expected the name of a CSV file, got {value!r}."
    elif names is not None and published(value, names.folder) is None:
        unknown_table = unknown_name("table of a built-in recipe", value, published_files()).message
        more = f", and {unknown_table}" if "/" in value else "."
        yield (), f"there is no file {value} beside the recipe{more}"


# The specs -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Display:
    """What tables and figures have in common."""

    kind: ClassVar[str]
    noun: ClassVar[str]
    default_title: ClassVar[str] = ""  # by default the name of the kind

    title: str = text()
    where: Mapping[str, Any] = dataclasses.field(
        default_factory=dict, metadata=option(_check_where).metadata
    )  # axes -> the values to show

    @property
    def heading(self) -> str:
        """The title, of its kind unless the recipe names one."""
        return self.title or self.default_title or self.kind.capitalize()

    def conflicts(self) -> Iterator[Problem]:
        """What is wrong with options that are valid one by one."""
        yield from ()


@dataclass(frozen=True, kw_only=True)
class Scored(Display):
    """A display of scores, of a metric and a split that the recipe may choose."""

    metric: str = option(_check_metric)
    split: str = option(_check_split)

    def metrics(self, study: Study) -> Sequence[str]:
        return [self.metric] if self.metric else study.metrics

    def means(
        self,
        study: Study,
        axes: Sequence[str],
        where: Mapping[str, Any],
        mean_over: Sequence[str] = (),
        **options: Any,
    ) -> dict[tuple[Any, ...], Mean]:
        """`study.means` by the metric and split of this display."""
        metric, split = (
            getattr(self, name) or self.where.get(name) for name in ("metric", "split")
        )
        return study.means(axes, where, mean_over, metric=metric, split=split, **options)


@dataclass(frozen=True, kw_only=True)
class Table(Scored, ABC):
    """A kind of table. `build` returns what the page and the files show, as plain data."""

    noun: ClassVar[str] = "table"

    rows: tuple[str, ...] = axes()
    columns: tuple[str, ...] = axes()
    mean_over: tuple[str, ...] = axes()
    published: str = option(_check_published)  # a file of published numbers

    @abstractmethod
    def build(self, study: Study) -> dict[str, Any]: ...

    @classmethod
    def suggest(cls, study: Study) -> Iterator[Table]:
        """The tables of this kind for a study whose recipe names no tables."""
        yield from ()


@dataclass(frozen=True, kw_only=True)
class Figure(Display, ABC):
    """A kind of figure. `draw` returns a vega-lite chart, or None if there is nothing to draw."""

    noun: ClassVar[str] = "figure"
    help: ClassVar[str] = ""  # how to read the figure

    note: str = text()  # replaces the explanation

    @abstractmethod
    def draw(self, study: Study) -> Chart | None: ...

    def explanation(self, chart: Chart) -> str:
        """How to read the figure."""
        return self.help

    @classmethod
    def suggest(cls, study: Study) -> Suggested:
        """The figures of this kind for a study whose recipe names no figures.

        Each comes with a number: suggested figures are shown in the order of their numbers.
        """
        yield from ()


# Reading ---------------------------------------------------------------------------------------


def kind_of(entry: Any, kinds: Mapping[str, type[D]], default: str = "") -> type[D] | None:
    name = entry.get("kind", default) if isinstance(entry, Mapping) else None
    return kinds[name] if isinstance(name, str) and name in kinds else None


def problems(entry: Any, kind: type[Display], names: Names | None = None) -> Iterator[Problem]:
    """What is wrong with an entry of a recipe; without `names`, wrong names are let through."""
    options = {field.name: field for field in dataclasses.fields(kind)}
    what, valid = f"{kind.noun} of kind {kind.kind}", True
    for name in entry:
        if name not in (*options, "kind"):
            valid = False
            yield (name,), unknown_name(f"field of a {what}", name, options).message
    for name, field in options.items():
        value = entry.get(name)
        if value is None and field.metadata["required"]:
            valid = False
            yield (), f"a {what} needs {name}."
        for path, problem in field.metadata["check"](value, names) if value is not None else ():
            valid = False
            yield (name, *path), problem
    if valid:
        yield from read(entry, kind).conflicts()


def read(entry: Mapping[str, Any], kind: type[D]) -> D:
    """The spec of a valid entry."""
    options = {field.name: field for field in dataclasses.fields(kind)}
    return kind(
        **{
            name: options[name].metadata["read"](value)
            for name, value in entry.items()
            if value is not None and name in options
        }
    )


def specs(entries: Any, kinds: Mapping[str, type[D]], default: str = "") -> Iterator[D]:
    """The specs of a stored recipe; a warning names each entry that this version cannot read."""
    for entry in entries if isinstance(entries, list) else ():
        kind = kind_of(entry, kinds, default)
        if kind is None:
            problem = f"expected a kind of {', '.join(kinds)}."
        else:
            problem = next((text for _, text in problems(entry, kind)), "")
            if not problem:
                yield read(entry, kind)
                continue
        warnings.warn(f"skipped {entry!r} of the study's recipe: {problem}", stacklevel=2)
