"""What each field of a trial may be. CHECKS has a function for every field that yields what is wrong.

Names are checked against the tables of the other rooms (TASKS, STRATEGIES, RANKERS, PRESETS). The options
of rankers are read from the source of their classes, because importing them loads torch.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path as File
from typing import Any

from deadhead.errors import DeadheadError, unknown_name
from deadhead.files.model_folder import MARKER
from deadhead.hub import split as split_name
from deadhead.options import problems
from deadhead.strategies import STRATEGIES
from deadhead.studies.trial import SPLITS

from .yaml import Path

Problem = tuple[Path, str]  # the place of a value, and what is wrong with it

RANK = (
    "method",
    "split",
    "examples",
    "batch",
    "merge",
)  # what `rank` takes besides the options of its method
TRAINING = {  # what `finetune` takes besides the settings of training; train_task: dev of the task whose training set is used
    "weights": ("last", "best"),
    "scored": ("dev", "test", "none", "train_task"),
}
WORLD = ("world/encoder", "world/seq2seq")
TYPES: Mapping[
    str, tuple[Callable[[Any], bool], str]
] = {  # options of rankers, by how their type is written
    "bool": (lambda v: isinstance(v, bool), "true or false"),
    "int": (lambda v: is_whole(v), "a whole number"),
    "int | None": (lambda v: v is None or is_whole(v, 1), "a whole number from 1"),
    "float": (lambda v: isinstance(v, int | float) and not isinstance(v, bool), "a number"),
    "str": (lambda v: isinstance(v, str), "a word"),
}
LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z]{2,4})?")


def unknown(
    given: Mapping[str, Any], known: Iterable[str], path: Path, kind: str
) -> Iterator[Problem]:
    for name in given:
        if name not in known:
            yield (*path, name), unknown_name(kind, name, known).message


def among(value: Any, known: Collection[str]) -> bool:
    return isinstance(value, str) and value in known


def _model(value: Any) -> Iterator[Problem]:
    if not isinstance(value, str) or not value:
        yield (), "this is a folder or a name on the hub."
    elif value.startswith("world/") and value not in WORLD and not File(value).is_dir():
        yield (), unknown_name("model of the small world", value, WORLD).message
    elif value.startswith((".", "/", "~")) and not any(
        (File(value).expanduser() / name).is_file() for name in ("config.json", MARKER)
    ):
        yield (), f"there is no model in {value} (no config.json)."
    else:
        try:
            split_name(value)
        except DeadheadError as problem:
            yield (), problem.message


def _task(value: Any) -> Iterator[Problem]:
    from deadhead.tasks import task_of

    try:
        task_of(value if isinstance(value, str) else str(value))
    except DeadheadError as problem:
        yield (), problem.message


def _languages(value: Any) -> Iterator[Problem]:
    for language in value if isinstance(value, list) else [value]:
        if not isinstance(language, str) or not LANGUAGE.fullmatch(language):
            yield (), f"{language!r} is not a language; write a code such as en, or a list of them."


def _splits(value: Any) -> Iterator[Problem]:
    for split in value if isinstance(value, list) else [value]:
        if not among(split, SPLITS):
            yield (), unknown_name("split", split, SPLITS).message


def is_whole(value: Any, least: int = 0, most: int = 2**32 - 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _seed(value: Any) -> Iterator[Problem]:
    if not is_whole(value):
        yield (), f"{value!r} is not a whole number from 0."


# The options of `data`: those of load_data and encode, with what each may be.
DATA: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    # where files lie changes no number, so only the embedded world is named in a recipe
    "root": (lambda v: v == "world", "world; name a folder of data with --data or DEADHEAD_DATA"),
    "source": (lambda v: isinstance(v, str), "the name of a corpus"),
    "cut": (lambda v: among(v, ("auto", "given", "pooled")), "auto, given or pooled"),
    "deduplicate": (lambda v: isinstance(v, bool), "true or false"),
    "merge": (lambda v: isinstance(v, bool), "true or false"),
    "document_starts": (lambda v: among(v, ("keep", "drop")), "keep or drop"),
    "malformed": (lambda v: among(v, ("error", "drop")), "error or drop"),
    "parts": (
        lambda v: all(is_whole(n, 1, 10) for n in (v.values() if isinstance(v, dict) else [v])),
        "1 to 10, or {de: 3}",
    ),
    "target_parts": (
        lambda v: is_whole(v, 1, 10),
        "1 to 10, of the languages in train that are not in source",
    ),
    "examples": (lambda v: is_whole(v, 1), "a number of training rows"),
    "exact": (
        lambda v: isinstance(v, bool),
        "true (refuse fewer training rows than `examples`) or false",
    ),
    "max_length": (lambda v: is_whole(v, 4, 100_000), "a number of sub-words"),
    "align": (lambda v: among(v, ("first", "all")), "first or all"),
    "long": (lambda v: among(v, ("split", "cut")), "split or cut"),
}


def _data(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield (), f"this is a mapping; known are {', '.join(DATA)}."
        return
    yield from unknown(value, DATA, (), "option of data")
    if value.get("exact") is True and "examples" not in value:
        yield ("exact",), "this needs `examples`, the number of training rows that matters."
    for name in value.keys() & DATA.keys():
        fits, wanted = DATA[name]
        if not fits(value[name]):
            yield (name,), f"{value[name]!r} was met; wanted is {wanted}."


def _rank(value: Any) -> Iterator[Problem]:
    from deadhead.rankers import RANKERS
    from deadhead.ranking.merge import MERGES

    if not isinstance(value, dict):
        yield (), "this is a mapping such as {method: gradient, split: dev}."
        return
    method = value.get("method", "gradient")
    if not among(method, RANKERS):
        yield ("method",), unknown_name("ranking method", method, RANKERS).message
        return
    module, kind = RANKERS[method].split(":")
    options = fields_of(f"deadhead.rankers.{module}", kind)
    yield from unknown(value, (*RANK, *options), (), f"option of {method}")
    words = words_of(f"deadhead.rankers.{module}")
    for name in value.keys() & options.keys():
        fits, wanted = TYPES.get(options[name], (lambda v: True, ""))
        if not fits(value[name]):
            yield (name,), f"{value[name]!r} was met; wanted is {wanted}."
        elif options[name] == "str" and value[name] not in words.get(name, (value[name],)):
            yield (name,), unknown_name(name, value[name], words[name]).message
    if not among(value.get("merge", "md"), MERGES):
        yield ("merge",), unknown_name("way to merge", value["merge"], MERGES).message
    for name in ("examples", "batch"):
        if name in value and not is_whole(value[name], 1):
            yield (name,), f"{value[name]!r} is not a whole number from 1."
    if not among(value.get("split", "dev"), SPLITS):
        yield ("split",), unknown_name("split", value["split"], SPLITS).message


def _finetune(value: Any, more: tuple[str, ...] = ("first",)) -> Iterator[Problem]:
    from deadhead.training.settings import PRESETS, Settings

    known = [name for name in Settings.__dataclass_fields__ if name != "seed"]
    if not isinstance(value, dict):
        yield (), f"this is a mapping; known are preset, {', '.join(known)}."
        return
    yield from unknown(
        value, ("preset", "bleu_every", *more, *TRAINING, *known), (), "setting of training"
    )
    if value.get("bleu_every") is not None and not is_whole(value["bleu_every"], 1):
        yield (
            ("bleu_every",),
            f"{value['bleu_every']!r} was met; wanted is a number of epochs, after which dev data is translated.",
        )
    if not isinstance(value.get("first", False), bool):
        yield (
            ("first",),
            f"{value['first']!r} was met; wanted is true (score and measure the weights after epoch 1 too) or false.",
        )
    if "preset" in value and not among(value["preset"], PRESETS):
        yield ("preset",), unknown_name("preset", value["preset"], PRESETS).message
    for name, allowed in TRAINING.items():
        if not among(value.get(name, allowed[0]), allowed):
            yield (name,), unknown_name(name, value[name], allowed).message
    if value.get("patience") is not None and value.get("scored") == "none":
        yield ("patience",), "patience waits for better scores, and `scored: none` makes none."
    for name in known:
        if name in value:
            try:
                Settings.from_dict({name: value[name]})
            except DeadheadError as problem:
                yield (name,), problem.message
            except (TypeError, ValueError):
                yield (name,), f"{value[name]!r} is not a value for this."


def _pretrain(value: Any) -> Iterator[Problem]:
    from deadhead.translation.vocabulary import LEAST

    if isinstance(value, dict):
        if not is_whole(value.get("vocabulary", LEAST), LEAST):
            yield (
                ("vocabulary",),
                f"{value['vocabulary']!r} was met; wanted is a number of sub-words, {LEAST} or more.",
            )
        if not is_whole(value.get("seed", 0)):
            yield ("seed",), f"{value['seed']!r} is not a whole number from 0."
    yield from _finetune(value, ("vocabulary", "seed"))


def _remove(value: Any) -> Iterator[Problem]:
    if value == "none":
        return
    if not isinstance(value, dict):
        example = "{random: 50}"
        yield (), f"expected none, or a strategy and its amount such as {example}, got {value!r}."
        return
    strategies = [name for name in value if name in STRATEGIES]
    if len(strategies) != 1:
        near = [name for key in value for name in difflib.get_close_matches(key, STRATEGIES, n=1)]
        guess = f" Did you mean {near[0]!r}?" if near and not strategies else ""
        known = ", ".join(sorted(STRATEGIES))
        number = len(strategies) or "no"
        yield (), f"this names {number} strategies, not one.{guess} Known: {known}."
        return
    (name,) = strategies
    options = {option: item for option, item in value.items() if option != name}
    for option, problem in problems(name, STRATEGIES[name].select, options, ("seed", "scores")):
        yield (option,), problem.message
    try:
        STRATEGIES[name].check_amount(name, value[name])
    except DeadheadError as problem:
        yield (name,), problem.message


def _measure(value: Any) -> Iterator[Problem]:
    from deadhead.measures import MEASURES, measure
    from deadhead.studies.trial import named

    several = value if isinstance(value, list) else [value]
    whole = all(
        isinstance(one, str)
        or (isinstance(one, dict) and all(isinstance(o, dict | None) for o in one.values()))
        for one in several
    )
    if not several or not whole:
        yield (
            (),
            f"this is a list of names, such as [{', '.join(MEASURES)}]; one with options is {{embeddings: {{sentences: 200}}}}.",
        )
        return
    for name, options in named(several).items():
        try:
            measure(name, **options)
        except DeadheadError as problem:
            yield (), f"{name}: {problem.message}" if name in MEASURES else problem.message


def _prune(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield (), "this is a mapping such as {drop_output_bias: true}."
        return
    yield from unknown(value, ("drop_output_bias",), (), "option of prune")
    if not isinstance(value.get("drop_output_bias", False), bool):
        yield ("drop_output_bias",), f"got {value['drop_output_bias']!r}; expected true or false."


CHECKS: Mapping[str, Callable[[Any], Iterator[Problem]]] = {
    "model": _model,
    "task": _task,
    "data": _data,
    "source": _languages,
    "train": _languages,
    "targets": _languages,
    "splits": _splits,
    "pretrain": _pretrain,
    "finetune": _finetune,
    "rank": _rank,
    "remove": _remove,
    "prune": _prune,
    "measure": _measure,
    "seed": _seed,
    "draw": _seed,
}


@cache
def _tree(module: str) -> ast.Module:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return ast.Module(body=[], type_ignores=[])
    return ast.parse(File(spec.origin).read_text(encoding="utf-8"))


def fields_of(module: str, name: str) -> dict[str, str]:
    """The fields of a dataclass with their types as written, without importing its module."""
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ClassDef) and node.name == name:
            fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
            return {
                item.target.id: ast.unparse(item.annotation)
                for item in fields
                if isinstance(item.target, ast.Name)
            }
    return {}


@cache
def words_of(module: str) -> dict[str, tuple[str, ...]]:
    """The words an option may be, where its module refuses others with `self.OPTION not in WORDS`; not imported either."""
    lists: dict[str, tuple[str, ...]] = {}
    for node in _tree(module).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(
            node.value, ast.Tuple | ast.Dict
        ):
            parts = node.value.elts if isinstance(node.value, ast.Tuple) else node.value.keys
            words = tuple(
                part.value
                for part in parts
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and len(words) == len(parts):
                    lists[target.id] = words
    found = {}
    for compared in ast.walk(_tree(module)):
        if (
            isinstance(compared, ast.Compare)
            and isinstance(compared.ops[0], ast.NotIn)
            and isinstance(compared.comparators[0], ast.Name)
        ):
            option = getattr(compared.left, "attr", getattr(compared.left, "id", ""))
            if compared.comparators[0].id in lists:
                found[option] = lists[compared.comparators[0].id]
    return found
