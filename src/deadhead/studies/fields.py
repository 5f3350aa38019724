"""What a field of a trial is, and the fields that steps share; others are with their steps.

Names are checked against the registries; options are checked by `deadhead.registry.options`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as File
from typing import Annotated, Any, Literal, Self

from deadhead.errors import DeadheadError, unknown_name
from deadhead.files.hub import BUNDLED
from deadhead.files.hub import split as split_name
from deadhead.files.model_folder import MARKER
from deadhead.registry.options import Bound, problems
from deadhead.tasks.dataset import SPLITS as SPLIT_NAMES
from deadhead.tasks.task import SHORTEST_WINDOW

Path = tuple[str | int, ...]  # the place of a value in a recipe
Problem = tuple[Path, str]  # the place of a value, and what is wrong with it


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a trial."""

    name: str
    check: Callable[[Any], Iterator[Problem]]  # what is wrong with a value; paths begin within it
    default: Any = None
    canonical: Callable[[Any], Any] = lambda value: value  # one spelling of equal values; or None
    single: bool = False  # a trial has one value of it, so that a list of values is an axis
    needs_step: bool = True  # a recipe that gives it must have a step that uses it
    example: str = ""  # a value, for a message


LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z]{2,4})?")


def under(path: Path, inner: Iterable[Problem]) -> Iterator[Problem]:
    """Problems of a value that is at this path."""
    yield from (((*path, *rest), message) for rest, message in inner)


def among(value: Any, known: Collection[str]) -> bool:
    return isinstance(value, str) and value in known


def one_of(value: Any, known: Collection[str], kind: str, path: Path = ()) -> Iterator[Problem]:
    if not among(value, known):
        yield path, unknown_name(kind, value, known).message


def unknown(names: Iterable[str], known: Collection[str], kind: str) -> Iterator[Problem]:
    for name in names:
        yield from one_of(name, known, kind, (name,))


def option_problems(
    owner: str, part: Callable[..., Any], options: Mapping[str, Any], *hidden: str
) -> Iterator[Problem]:
    """What is wrong with options of a part; `hidden` ones count as unknown."""
    for name, problem in problems(owner, part, options, hidden):
        yield (name,), problem.message


def _model(value: Any) -> Iterator[Problem]:
    if not isinstance(value, str) or not value:
        yield (), "expected a folder or a name on the hub."
        return
    try:
        split_name(value)
    except DeadheadError as problem:
        yield (), problem.message
        return
    if value.startswith("world/") and value not in BUNDLED and not File(value).is_dir():
        yield (), unknown_name("model of the small world", value, BUNDLED).message
    elif value.startswith((".", "/", "~")) and not any(
        (File(value).expanduser() / name).is_file() for name in ("config.json", MARKER)
    ):
        yield (), f"there is no model in {value} (no config.json)."


def _task(value: Any) -> Iterator[Problem]:
    from deadhead.tasks import task_of

    try:
        task_of(str(value))
    except DeadheadError as problem:
        yield (), problem.message


def own_source(task: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """The field `data` with the corpus of this task, where `source` names one for each task."""
    from deadhead.tasks import task_of

    sources = data["source"]
    own = sources.get(task) or sources.get(task_of(task).name)
    rest = {name: value for name, value in data.items() if name != "source"}
    return {**rest, "source": own} if own else rest


def _languages(value: Any) -> Iterator[Problem]:
    for language in value if isinstance(value, list) else [value]:
        if not isinstance(language, str) or not LANGUAGE.fullmatch(language):
            yield (), f"{language!r} is not a language; write a code such as en, or a list of them."


def _splits(value: Any) -> Iterator[Problem]:
    for split in value if isinstance(value, list) else [value]:
        yield from one_of(split, SPLIT_NAMES, "split")


def is_whole(value: Any, least: int = 0, most: int = 2**32 - 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def check_seed(value: Any) -> Iterator[Problem]:
    if not is_whole(value):
        yield (), f"expected a whole number from 0, got {value!r}."


def check_counts(value: Mapping[str, Any], *names: str) -> Iterator[Problem]:
    for name in names:
        if name in value and not is_whole(value[name], 1):
            yield (name,), f"expected a whole number from 1, got {value[name]!r}."


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A field of a trial with options of its own, and others that it passes on."""

    options: dict[str, Any]  # the others

    @classmethod
    def parse(cls, value: Mapping[str, Any] | None) -> Self:
        names = cls.__dataclass_fields__.keys() - {"options"}
        own, options = dict[str, Any](), dict[str, Any]()
        for name, item in (value or {}).items():
            (own if name in names else options)[name] = item
        return cls(options=options, **own)


def _are_parts(value: Any) -> bool:
    numbers = value.values() if isinstance(value, dict) else [value]
    return all(is_whole(number, 1, 10) for number in numbers)


def _is_source(value: Any) -> bool:
    names = value.values() if isinstance(value, dict) else [value]
    return bool(names) and all(isinstance(name, str) and name for name in names)


WORLD = "world; name other data with --data or DEADHEAD_DATA"
World = Annotated[str, Bound(lambda v: v == "world", WORLD)]
SOURCES = "the name of a corpus, or one for each task: {pos: ud-2.17, ner: wikiann, slots: files}"
Source = Annotated[Any, Bound(_is_source, SOURCES)]
Parts = Annotated[Any, Bound(_are_parts, "1 to 10, or {de: 3}")]
FURTHER = "1 to 10, for the languages in train that are not in source"
TargetParts = Annotated[int, Bound(lambda v: is_whole(v, 1, 10), FURTHER)]
Rows = Annotated[int, Bound(lambda v: is_whole(v, 1), "a number of training rows")]
WINDOW = f"a number of sub-words, {SHORTEST_WINDOW} or more"
Length = Annotated[int, Bound(lambda v: is_whole(v, SHORTEST_WINDOW, 100_000), WINDOW)]
UNSET: Any = None


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """The field `data`: options of `load_data` and `encode`, which have the defaults."""

    root: World = UNSET  # the folder of other data changes no number, so no recipe names it
    source: Source = UNSET  # in a trial the name of a corpus: that of its task
    cut: Literal["auto", "given", "pooled"] = UNSET
    deduplicate: bool = UNSET
    merge: bool = UNSET
    document_starts: Literal["keep", "drop"] = UNSET
    malformed: Literal["error", "drop"] = UNSET
    parts: Parts = UNSET
    target_parts: TargetParts = UNSET
    examples: Rows = UNSET
    exact: bool = (
        UNSET  # refuse fewer training rows than `examples`, and other data than the papers'
    )
    max_length: Length = UNSET
    align: Literal["first", "all"] = UNSET
    long: Literal["split", "cut"] = UNSET
    task_file: str = UNSET  # the hash of a task file, for the id

    @classmethod
    def parse(cls, value: Mapping[str, Any] | None) -> DataOptions:
        known = cls.__dataclass_fields__
        return cls(**{name: item for name, item in (value or {}).items() if name in known})

    def chosen(self, *names: str) -> dict[str, Any]:
        """Those of these options that are set."""
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not UNSET}


def _data(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        known = (name for name in DataOptions.__dataclass_fields__ if name != "task_file")
        yield (), f"expected a mapping with some of {', '.join(known)}."
        return
    yield from option_problems("data", DataOptions, value, "task_file")
    for task in value["source"] if isinstance(value.get("source"), dict) else ():
        yield from under(("source", task), _task(task))


def options_by_name(value: Any) -> dict[str, dict[str, Any]]:
    """Names with their options, from a name or a list: `[weights, {entropy: {split: test}}]`."""
    names: dict[str, dict[str, Any]] = {}
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, Mapping):
            names |= {name: dict(options or {}) for name, options in item.items()}
        else:
            names[str(item)] = {}
    return names


def as_list(value: Any) -> list[Any]:
    """Names of languages or splits: one alone is a list of one."""
    return [value] if isinstance(value, str) else list(value or ())


def _one_or_more(value: Any) -> Any:
    names = list(dict.fromkeys(as_list(value)))
    return names[0] if len(names) == 1 else names


# The folder or hub name of the model every trial starts from, or a size such as transformer-base
# for pretrain.
MODEL = Field(name="model", check=_model, single=True)
# What is learnt and scored.
TASK = Field(name="task", check=_task, single=True)
# How its data is read: the options of load_data and encode.
DATA = Field(name="data", check=_data)
# The language(s) heads are ranked on, and trained on unless `train` says otherwise.
SOURCE = Field(name="source", check=_languages, canonical=_one_or_more)
# The language(s) of the training that is scored, where they are not those of `source`.
TRAIN = Field(name="train", check=_languages, canonical=_one_or_more)
# The languages scored; by default those of `train`.
TARGETS = Field(
    name="targets",
    check=_languages,
    canonical=lambda value: sorted({*as_list(value)}),  # the order changes no score
)
# The splits scored; by default test.
SPLITS = Field(
    name="splits",
    check=_splits,
    default=["test"],
    canonical=lambda value: sorted({*as_list(value)}),
)
# For training and ranking, and for heads removed at random unless `draw` is given.
SEED = Field(name="seed", check=check_seed, default=0, single=True)
SHARED = (MODEL, TASK, DATA, SOURCE, TRAIN, TARGETS, SPLITS, SEED)
