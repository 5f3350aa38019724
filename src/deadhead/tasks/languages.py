"""What the papers say about each language: word order, resources, family, corpora.

Each paper has a `languages.csv` in its folder, with its own classes and sizes. The file beside
this one only names further languages. Distances are in `distances.py`.
"""

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

from deadhead.errors import unknown_name
from deadhead.papers.catalogue import papers

GROUPINGS = ("word_order", "resource", "family")
# Other codes that corpora use for the same language.
# fmt: off
OTHER_CODES = {
    "zho": "zh", "ara": "ar", "fas": "fa", "swa": "sw", "ned": "nl", "esp": "es", "ger": "de",
    "dut": "nl", "fre": "fr", "iw": "he",
}
# fmt: on


class Language(NamedTuple):
    """A language, with its classes in the papers (empty if they have none)."""

    code: str
    iso639_3: str
    name: str
    word_order: str
    resource: str
    family: str


@cache
def facts() -> tuple[dict[str, str], ...]:
    """Return a row for each language and corpus of a paper; those of no paper come last."""
    files = {paper.name: paper.folder / "languages.csv" for paper in papers().values()}
    files[""] = Path(__file__).with_name("languages.csv")
    texts = {name: f.read_text(encoding="utf-8") for name, f in files.items() if f.is_file()}
    tables = {name: csv.DictReader(text.splitlines()) for name, text in texts.items()}
    return tuple({"paper": name, **row} for name, table in tables.items() for row in table)


@cache
def languages() -> dict[str, Language]:
    """Return every known language, by its two-letter code."""
    known: dict[str, Language] = {}
    for row in facts():
        old = known.get(row["code"])
        values = [row[field] for field in GROUPINGS]
        merged = tuple(new or (old[3 + i] if old else "") for i, new in enumerate(values))
        known[row["code"]] = Language(row["code"], row["iso639_3"], row["language"], *merged)
    return known


def language(name: str) -> Language:
    """Return the language of a code (`de`, `deu`) or an English name (`German`)."""
    code = code_of(name)
    if code is None:
        raise unknown_name("language", name, languages())
    return languages()[code]


def code_of(name: str) -> str | None:
    """Return the two-letter code of a language, for any code or name that corpora use for it."""
    return _names().get(name.lower())


@cache
def _names() -> dict[str, str]:
    names = dict(OTHER_CODES)
    for code, lang in languages().items():
        names |= {code: code, lang.iso639_3: code, lang.name.lower(): code}
    return names


def group(field: str, paper: str | None = None) -> dict[str, tuple[str, ...]]:
    """Group language codes by `word_order`, `resource` or `family`, in the order of the paper."""
    if field not in GROUPINGS:
        raise unknown_name("grouping of languages", field, GROUPINGS)
    groups: dict[str, dict[str, None]] = {}
    for row in facts():
        if row[field] and paper in (None, row["paper"]):
            groups.setdefault(row[field], {})[row["code"]] = None
    return {name: tuple(codes) for name, codes in groups.items()}


def paper_languages(paper: str, dataset: str = "") -> tuple[str, ...]:
    """Return the languages of a paper, in its order; only those of a corpus, if one is named."""
    rows = [row for row in facts() if row["paper"] == paper]
    if not rows:
        raise unknown_name("paper", paper, {row["paper"] for row in facts() if row["paper"]})
    rows = [row for row in rows if dataset.lower() in row["dataset"].lower()]
    return tuple(dict.fromkeys(row["code"] for row in rows))
