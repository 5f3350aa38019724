"""Tag schemes and entity types: every corpus becomes BIO over PER, ORG, LOC and MISC.

IOB1 and IOB2 need not be distinguished: in both a span begins at a `B-` and wherever an `I-`
follows something of another type. BIOES and BILOU are recognised by their letters. In a file whose
tags have no prefix, a run of equal tags is one span. The table of types follows Ma et al.: every
type that is not listed becomes MISC.
"""

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

# Our entity types, and the corpora's names for them, in capitals. Not listed: MISC.
_NAMES = {
    # PERS: ArmanPersoNER, Hebrew news; PERSON: ja.wikipedia, MK-PUCIT; PSN: hironsan; NE*: IL-NER
    "PER": ("PER", "PERS", "PERSON", "PSN", "NEP", "PER.NAM", "PER.NOM"),  # *.NAM, *.NOM: Weibo
    "ORG": ("ORG", "ORGANIZATION", "ORGANISATION", "NEO", "ORG.NAM", "ORG.NOM"),
    # GPE: NEMO, OntoNotes
    "LOC": ("LOC", "LOCATION", "GPE", "NEL", "LOC.NAM", "LOC.NOM", "GPE.NAM", "GPE.NOM"),
}
NER_TYPES: Mapping[str, str] = {name: ours for ours, names in _NAMES.items() for name in names}
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


def tags_expected(*, task_file: bool) -> str:
    """Which tags a task with spans expects, and how that of a task file does without spans."""
    without = "; for tags such as NOUN add `metrics: [micro_f1]` to the task file"
    return "O, B-TYPE and I-TYPE" + (without if task_file else "")


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
    result = []
    begun, last = 0, ("O", "")
    for tag in tags:
        prefix, kind = ("O", "") if unprefixed else split_tag(tag) or ("O", "")
        if unprefixed and tag.upper() not in OUTSIDE:
            prefix, kind = "I" if tag == last[1] else "B", tag
        if prefix in _INSIDE and (kind != last[1] or last[0] in "ESLU"):
            begun += prefix == "I"
            begins = True
        else:
            begins = prefix in _BEGIN
        name = kind if types is None else types.get(kind.upper(), "MISC")
        result.append("O" if prefix == "O" else f"{'B' if begins else 'I'}-{name}")
        last = (prefix, kind)
    return tuple(result), begun
