"""What the papers say of each language: word order, resources, family, corpora; and how far apart two are.

The facts are rows of `languages.csv` beside this file, exactly as the papers assign them: a row
with a `paper` is that paper's word, a row without one only names a language. Distances are
URIEL's, through the package urielplus.
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from ..errors import DataError, MissingExtra, unknown_name

DISTANCES = ("genetic", "geographic", "syntactic", "phonological", "inventory", "featural")
# Other codes that corpora use for the same language.
ALSO = {"zho": "zh", "ara": "ar", "fas": "fa", "swa": "sw", "ned": "nl", "esp": "es", "ger": "de", "dut": "nl", "fre": "fr", "iw": "he"}


class Language(NamedTuple):
    """A language, with the class each paper puts it in (empty where it says nothing)."""

    code: str
    iso639_3: str
    name: str
    word_order: str
    resource: str
    family: str


@cache
def facts() -> tuple[dict[str, str], ...]:
    """The rows of languages.csv, one for each language and corpus of a paper."""
    with (resources.files(__package__) / "languages.csv").open(encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


@cache
def languages() -> dict[str, Language]:
    """Every language known, by its two-letter code."""
    found: dict[str, Language] = {}
    for row in facts():
        old = found.get(row["code"])
        values = (row["word_order"], row["resource"], row["family"])
        merged = tuple(new or (old[3 + i] if old else "") for i, new in enumerate(values))
        found[row["code"]] = Language(row["code"], row["iso639_3"], row["language"], *merged)
    return found


def language(name: str) -> Language:
    """The language of a code (`de`, `deu`) or an English name (`German`)."""
    code = code_of(name)
    if code is None:
        raise unknown_name("language", name, languages())
    return languages()[code]


def code_of(name: str) -> str | None:
    """The two-letter code for a code or name in any of the ways corpora write it, if it is one."""
    return _names().get(name.lower())


@cache
def _names() -> dict[str, str]:
    names = dict(ALSO)
    for code, lang in languages().items():
        names |= {code: code, lang.iso639_3: code, lang.name.lower(): code}
    return names


def group(field: str, paper: str | None = None) -> dict[str, tuple[str, ...]]:
    """Language codes by `word_order`, `resource` or `family`, in the order the paper lists them."""
    if field not in ("word_order", "resource", "family"):
        raise unknown_name("grouping of languages", field, ("word_order", "resource", "family"))
    groups: dict[str, dict[str, None]] = {}
    for row in facts():
        if row[field] and paper in (None, row["paper"]):
            groups.setdefault(row[field], {})[row["code"]] = None
    return {name: tuple(codes) for name, codes in groups.items()}


def paper_languages(paper: str, dataset: str = "") -> tuple[str, ...]:
    """The languages a paper works on, in its order; only those of a corpus, if one is named."""
    rows = [row for row in facts() if row["paper"] == paper]
    if not rows:
        raise unknown_name("paper", paper, {row["paper"] for row in facts() if row["paper"]})
    return tuple(dict.fromkeys(row["code"] for row in rows if dataset.lower() in row["dataset"].lower()))


def distances(source: str, target: str, names: Sequence[str] = DISTANCES) -> dict[str, float]:
    """URIEL's distances between two languages (0: alike, 1: far apart); nan where it knows nothing they have in common.

    names: those of DISTANCES that are wanted. The genetic one alone takes ten times as long as the five others together.
    """
    pair = sorted([language(source).iso639_3, language(target).iso639_3])
    if pair[0] == pair[1]:
        return dict.fromkeys(names, 0.0)
    found = {name: _distance(name, *pair) for name in names}
    if all(value != value for value in found.values()):
        raise DataError(f"URIEL has no distance between {source} and {target}.", "compare other languages")
    return found


@cache
def _distance(name: str, one: str, other: str) -> float:
    with _quiet():
        try:
            return float(_uriel().new_distance(name, [one, other]))
        except (ValueError, IndexError, SystemExit):
            return float("nan")


@cache
def _uriel() -> Any:
    try:
        from urielplus import urielplus
    except ImportError as error:
        raise MissingExtra("urielplus", "lang", "The distance between languages") from error
    return urielplus.URIELPlus()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep urielplus from setting up the root logger and from telling how long each step took."""
    root, before = logging.getLogger(), logging.root.manager.disable
    handlers, level = list(root.handlers), root.level
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)
        root.handlers[:] = handlers
        root.setLevel(level)
