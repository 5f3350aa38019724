"""What the papers say of each language: word order, resources, family, corpora.

Each paper has a `languages.csv` in its folder, with its own classes and sizes. The file beside
this one only names further languages. Distances are in `distances.py`.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import NamedTuple

from deadhead.errors import unknown_name
from deadhead.papers import papers

# Other codes that corpora use for the same language.
ALSO = {
    "zho": "zh",
    "ara": "ar",
    "fas": "fa",
    "swa": "sw",
    "ned": "nl",
    "esp": "es",
    "ger": "de",
    "dut": "nl",
    "fre": "fr",
    "iw": "he",
}


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
    """A row for each language and corpus of a paper; those of no paper come last."""
    files = {paper.name: paper.folder / "languages.csv" for paper in papers().values()}
    files[""] = Path(__file__).with_name("languages.csv")
    return tuple(
        {"paper": name, **row}
        for name, file in files.items()
        if file.is_file()
        for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines())
    )


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
    return tuple(
        dict.fromkeys(row["code"] for row in rows if dataset.lower() in row["dataset"].lower())
    )
