"""Tag schemes and entity types: every corpus becomes BIO over PER, ORG, LOC and MISC.

IOB1 and IOB2 need not be distinguished: in both a span begins at a `B-` and wherever an `I-`
follows something of another type. BIOES and BILOU are recognised by their letters. In a file whose
tags have no prefix, a run of equal tags is one span. The table of types follows Ma et al.: every
type that is not listed becomes MISC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

# fmt: off
UPOS = (
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN",
    "PUNCT", "SCONJ", "SYM", "VERB", "X",
)
# fmt: on
ENTITIES = ("PER", "ORG", "LOC", "MISC")
BIO_ENTITIES = ("O", *(f"{prefix}-{entity}" for entity in ENTITIES for prefix in "BI"))

# The corpora's names of entity types, in capitals, and ours. Not listed: MISC.
NER_TYPES: Mapping[str, str] = {
    "PER": "PER",  # CoNLL, WikiANN, GermEval, People's Daily, AQMAR, NEMO
    "PERS": "PER",  # ArmanPersoNER, Hebrew news
    "PERSON": "PER",  # ja.wikipedia, MK-PUCIT
    "PSN": "PER",  # hironsan
    "NEP": "PER",  # IL-NER
    "PER.NAM": "PER",  # Weibo
    "PER.NOM": "PER",
    "ORG": "ORG",
    "ORGANIZATION": "ORG",
    "ORGANISATION": "ORG",
    "NEO": "ORG",
    "ORG.NAM": "ORG",
    "ORG.NOM": "ORG",
    "LOC": "LOC",
    "LOCATION": "LOC",
    "GPE": "LOC",  # NEMO, OntoNotes
    "NEL": "LOC",
    "LOC.NAM": "LOC",
    "LOC.NOM": "LOC",
    "GPE.NAM": "LOC",
    "GPE.NOM": "LOC",
}

OUTSIDE = ("O", "OTHER")  # in files without prefixes; with them, B-OTHER is an entity
_TAG = re.compile(r"([BIESLUM])[-_](.+)", re.DOTALL)
_BEGIN, _INSIDE = "BSU", "IELM"


@lru_cache(4096)
def split_tag(tag: str) -> tuple[str, str] | None:
    """Return prefix and type: `("B", "PER")`, `("O", "")` outside, None if it is of no scheme."""
    if tag == "O":
        return "O", ""
    match = _TAG.fullmatch(tag)
    return (match[1], match[2]) if match else None


def has_no_prefixes(tags: Iterable[str]) -> bool:
    """Whether the tags of a file have no prefixes at all (and are not all outside)."""
    named = {tag for tag in tags if tag != "O"}
    return bool(named) and not any(split_tag(tag) for tag in named)


def to_bio(
    tags: Sequence[str], types: Mapping[str, str] | None = None, unprefixed: bool = False
) -> tuple[tuple[str, ...], int]:
    """Return the tags of a sentence in BIO with merged types, and how many `I-` became `B-`.

    Types are merged after spans, so two neighbours that get the same type stay two.
    unprefixed: the tags have no prefixes.
    """
    result: list[str] = []
    begun, last = 0, ("O", "")
    for tag in tags:
        prefix, kind = _without_prefix(tag, last[1]) if unprefixed else split_tag(tag) or ("O", "")
        if prefix in _INSIDE and (kind != last[1] or last[0] in "ESLU"):
            begun += prefix == "I"
            begins = True
        else:
            begins = prefix in _BEGIN
        name = kind if types is None else types.get(kind.upper(), "MISC")
        result.append("O" if prefix == "O" else f"{'B' if begins else 'I'}-{name}")
        last = (prefix, kind)
    return tuple(result), begun


def _without_prefix(tag: str, last: str) -> tuple[str, str]:
    if tag.upper() in OUTSIDE:
        return "O", ""
    return ("I" if tag == last else "B"), tag
