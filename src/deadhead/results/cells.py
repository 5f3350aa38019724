"""A study as the report reads it: its cells with their labels, and the score of each in each language.

A cell is one combination of the recipe's axes. Its axes are the recipe's own, and `language` (also
called `target`), `setting`, `strategy` and `amount`. Scores are in points: shares times 100, BLEU as it is.
"""

from __future__ import annotations

import csv
import io
from ast import literal_eval
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.papers import published_files
from deadhead.studies.recipe.expand import label, strategy_of
from deadhead.studies.store.records import Summary
from deadhead.studies.trial import removal
from deadhead.tasks import points, task_of

from .scores import Pair, Studied, setting

LANGUAGE = ("language", "target")
PRUNING = (
    "remove",
    "strategy",
    "amount",
    "draw",
    "arm",
    "k",
)  # axes in which a pruned cell differs from its unpruned one
CHANCE = ("seed", "draw")  # axes that only repeat
APART = ("model", "task", "source")  # labels that tell recipes that are drawn together apart
NOTHING = {"remove": "none", "strategy": "none"}
PLAIN = frozenset((str, int, float))  # types of labels that stay as they are
LABELLED = (
    "model",
    "task",
    "source",
    "train",
    "seed",
    "remove",
)  # fixed fields that tables may name


@dataclass(frozen=True)
class Cell:
    """One combination of the axes: its labels, and its record so far as there is one."""

    axes: Mapping[str, Any]
    trial: str
    unpruned: bool
    languages: tuple[str, ...]  # those it is or will be scored in
    learnt: tuple[str, ...]  # those it is trained on
    splits: tuple[str, ...]
    state: str  # of done, failed, left
    summary: Summary | None = None

    @property
    def split(self) -> str:
        """The split that is reported unless another is asked for."""
        return "test" if "test" in self.splits else self.splits[0]

    @property
    def metric(self) -> str:
        return main_metric(str(self.axes.get("task")))

    def axis(self, name: str, language: str = "") -> Any:
        if name in LANGUAGE:
            return language
        if name == "setting":
            return self.setting(language)
        return self.parts(language) if name == "parts" else self.axes.get(name)

    def parts(self, language: str) -> Any:
        """Tenths of the language's training set that are trained on; None is all of it."""
        data = self.summary.trial.get("data") if self.summary is not None else None
        given = data.get("parts") if isinstance(data, Mapping) else None
        given = _label(given.get(language) if isinstance(given, Mapping) else given)
        return (
            given
            if given is not None
            else self.axes.get("data.target_parts", self.axes.get("data.parts"))
        )

    def variants(self, names: Iterable[str]) -> list[dict[str, str]]:
        """The splits and metrics it was scored by, where a table or figure has them for an axis; else one empty choice."""
        asked = [name for name in ("split", "metric") if name in names]
        if not asked:
            return [{}]
        parts = [name.split("/") for name in (self.summary.metrics if self.summary else {})]
        found = dict.fromkeys((part[1], part[2]) for part in parts if len(part) == 3)
        chosen = dict.fromkeys(
            tuple((name, {"split": split, "metric": metric}[name]) for name in asked)
            for split, metric in found
        )
        return [dict(one) for one in chosen] or [dict.fromkeys(asked, "")]

    def setting(self, language: str) -> str:
        """How the language scored stands to those trained on."""
        return setting("+".join(self.learnt), language)

    @cached_property
    def usual(self) -> tuple[float | None, ...]:
        """The usual score in each of its languages."""
        return self.row()

    @property
    def scores(self) -> dict[str, float]:
        """The usual score in each language that has one, in points."""
        return {
            language: score
            for language, score in zip(self.languages, self.usual, strict=True)
            if score is not None
        }

    def row(self, metric: str | None = None, split: str | None = None) -> tuple[float | None, ...]:
        """The score in each of its languages, in points; None where there is none (yet)."""
        if self.summary is None or self.summary.state != "done":
            return (None,) * len(self.languages)
        name = metric or self.metric
        scale = points(name, 1.0)
        held = map(self.summary.metrics.get, _names(self.languages, split or self.split, name))
        return tuple([None if value is None else scale * value for value in held])


@dataclass(frozen=True)
class Study:
    """A study's recipe and cells, read once."""

    read: Studied
    name: str
    recipe: Mapping[str, Any]
    cells: tuple[Cell, ...]
    published: Mapping[str, list[dict[str, str]]] = field(default_factory=dict)  # file -> its rows
    unreadable: list[str] = field(
        default_factory=list
    )  # records that turned out to be damaged when they were opened

    @cached_property
    def languages(self) -> tuple[str, ...]:
        distinct = dict.fromkeys(cell.languages for cell in self.cells)
        return tuple(dict.fromkeys(language for languages in distinct for language in languages))

    @cached_property
    def pairs(self) -> list[Pair]:
        """The searches of the study, one for each language they are scored in."""
        return [pair for pair in self.read.pairs if isfinite(pair.unpruned)]

    @property
    def home(self) -> Path:
        return self.read.home

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The axes of the recipe that have more than one label."""
        names = dict.fromkeys(
            name
            for names in dict.fromkeys(tuple(cell.axes) for cell in self.cells)
            for name in names
        )
        return tuple(
            name
            for name in names
            if len({cell.axes[name] for cell in self.cells if name in cell.axes}) > 1
        )

    def labels(self, name: str) -> list[Any]:
        """The labels of an axis in the recipe's order."""
        if name in LANGUAGE:
            return list(self.languages)
        if name in ("split", "metric"):
            return list(
                dict.fromkeys(one[name] for cell in self.cells for one in cell.variants([name]))
            )
        if name == "setting":
            places = dict.fromkeys((cell.learnt, cell.languages) for cell in self.cells)
            return list(
                dict.fromkeys(
                    setting("+".join(learnt), language)
                    for learnt, languages in places
                    for language in languages
                )
            )
        if name == "parts":
            return list(
                dict.fromkeys(
                    cell.parts(language) for cell in self.cells for language in cell.languages
                )
            )
        return list(dict.fromkeys(cell.axes.get(name) for cell in self.cells))

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The usual metric of each of its tasks."""
        return tuple(dict.fromkeys(main_metric(str(task)) for task in self.labels("task")))

    @cached_property
    def splits(self) -> tuple[str, ...]:
        """The splits that are reported unless others are asked for."""
        return tuple(dict.fromkeys(cell.split for cell in self.cells))

    @cached_property
    def by_trial(self) -> dict[str, Cell]:
        """The first cell of each trial."""
        found: dict[str, Cell] = {}
        for cell in self.cells:
            found.setdefault(cell.trial, cell)
        return found

    @cached_property
    def known_trials(self) -> set[str]:
        """The trials of this recipe that have a record."""
        return {cell.trial for cell in self.cells if cell.summary is not None}

    def done(self) -> Iterator[Summary]:
        """The records of this recipe that are done, each once."""
        yield from {
            c.trial: c.summary
            for c in self.cells
            if c.summary is not None and c.summary.state == "done"
        }.values()


def read_study(folder: str | Path) -> Study:
    """Everything the index and the description of a study say of it; no record is opened."""
    read = Studied.at(folder)
    home, told, known = read.home, read.told, read.known
    recipe = as_dict(told.get("recipe"))
    fixed = [as_dict(part.get("fixed")) for part in parts_of(recipe)]
    found = tuple(
        _cell(fixed_of(fixed, labels), labels, trial, known.get(trial))
        for labels, trial in told["cells"]
    )
    return Study(read, str(told.get("name", home.name)), recipe, found, _published(told))


def fixed_of(parts: Sequence[Mapping[str, Any]], labels: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is fixed in the recipe a cell is of: the first, of those drawn together, that agrees with its labels."""
    if len(parts) == 1:
        return parts[0]
    return next(
        (
            one
            for one in parts
            if all(one.get(name, value) == value for name, value in labels.items() if name in APART)
        ),
        {},
    )


def _cell(
    fixed: Mapping[str, Any], labels: Mapping[str, Any], trial: str, summary: Summary | None
) -> Cell:
    fields = {**(summary.trial if summary is not None else {}), **fixed, **labels}
    remove = fields.get("remove")
    removed = NOTHING if remove is None or remove == "none" else _removal(repr(remove))
    if "remove" in fields:
        fields |= removed
    axes = {name: _label(fields[name]) for name in LABELLED if name in fields}
    axes |= {name: _label(value) for name, value in labels.items() if name not in LABELLED}
    if "remove" in fields:
        axes |= removed
    learnt, splits = (
        several(fields.get("train", fields.get("source"))),
        several(fields.get("splits")) or ("test",),
    )
    state = "left" if summary is None else summary.state
    return Cell(
        axes,
        trial,
        removed["remove"] == "none",
        several(fields.get("targets")) or learnt,
        learnt,
        splits,
        state,
        summary,
    )


def _label(value: Any) -> Any:
    return (
        value if type(value) in PLAIN else label(value)
    )  # nearly all are, and there are very many


@cache
def _removal(written: str) -> dict[str, Any]:
    """The labels of a removal, from its Python form: the same few come for very many cells."""
    remove = literal_eval(written)
    try:
        if removal(remove) is None:
            return NOTHING
    except StopIteration:  # names no strategy that is known
        return {"remove": label(remove)}
    strategy = strategy_of(remove)
    return {"remove": label(remove), "strategy": strategy, "amount": label(remove[strategy])}


@cache
def _names(languages: tuple[str, ...], split: str, metric: str) -> tuple[str, ...]:
    """What a record calls the scores in these languages."""
    return tuple(f"{language}/{split}/{metric}" for language in languages)


def several(value: Any) -> tuple[str, ...]:
    return (
        ()
        if value is None
        else _one((value,))
        if isinstance(value, str)
        else _one(tuple(map(str, value)))
    )


@cache
def _one(names: tuple[str, ...]) -> tuple[str, ...]:
    """The same tuple for the same names: very many cells have them, and what is the same is quickly compared."""
    return names


@cache
def main_metric(task: str) -> str:
    """The one number that tables show of a task; empty where its task file is not here."""
    try:
        return task_of(task).metric
    except (DeadheadError, OSError):
        return ""


def _published(described: Mapping[str, Any]) -> dict[str, list[dict[str, str]]]:
    """The published files of a study's tables: as the study kept them, else out of the built-in recipe of its name."""
    tables = as_dict(described.get("recipe")).get("tables") or []
    kept = as_dict(described.get("published"))
    found: dict[str, list[dict[str, str]]] = {}
    for table in tables if isinstance(tables, list) else []:
        name = table.get("published") if isinstance(table, dict) else None
        if isinstance(name, str) and name not in found:
            text = kept.get(name) or _built_in(str(described.get("name", "")), name)
            if text:
                found[name] = list(csv.DictReader(io.StringIO(text)))
    return found


def _built_in(recipe: str, file: str) -> str | None:
    """The text of the table that the paper of a built-in recipe prints."""
    beside = published_files().get(f"{recipe.partition('/')[0]}/{file}")
    return None if beside is None else beside.read_text(encoding="utf-8")


def plain_text(value: Any) -> str:
    """A label as it is compared: 50 and 50.0 and "50" are the same."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(label(value)).strip()
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else text


def as_dict(value: Any) -> dict[str, Any]:
    """A mapping out of a file that anyone may have written."""
    return value if isinstance(value, dict) else {}


def parts_of(recipe: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The recipes that are drawn together: those included, and the recipe itself."""
    included = recipe.get("include")
    return [
        *(
            part
            for part in (included if isinstance(included, list) else ())
            if isinstance(part, dict)
        ),
        recipe,
    ]


def as_names(value: Any) -> tuple[str, ...]:
    """One axis or a list of them."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def matches(cell: Cell, language: str, where: Mapping[str, Any]) -> bool:
    """Whether a cell is among those a table or figure asks for."""
    for name, wanted in where.items():
        allowed: Iterable[Any] = wanted if isinstance(wanted, list) else [wanted]
        if plain_text(cell.axis(name, language)) not in {plain_text(one) for one in allowed}:
            return False
    return True
