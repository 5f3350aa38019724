"""Which set on the Hugging Face hub holds the data of a task, at which revision.

Revisions are commits, so the same rows come back next year; Universal Dependencies has one
revision for each release. All sets are parquet or JSON: none runs code of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, kw_only=True)
class HubSet:
    """A set on the hub."""

    name: str  # the corpus, for data: {source: NAME}; `ud-*` stands for every release
    repository: str
    revision: str
    config: str  # {lang}, {pair} and {treebank} are filled in
    dev: str = "validation"  # the set's name for the dev split
    default: bool = True  # the papers' own corpus: used if no source is named
    languages: tuple[str, ...] | None = None  # None: whatever the hub has
    rows: Mapping[str, int] = field(default_factory=dict)  # known training rows by language

    def has(self, lang: str) -> bool:
        """Whether the set has a language, or a pair in either direction."""
        turned = "-".join(reversed(lang.split("-")))
        return self.languages is None or lang in self.languages or turned in self.languages

    def named(self, source: str) -> HubSet | None:
        """Return the set if `source` names it, at the release that `source` says."""
        source = source.lower()
        prefix = self.name.removesuffix("*")
        if prefix == self.name:
            return self if source == self.name else None
        release = source.removeprefix(prefix)
        if not source.startswith(prefix) or not release.replace(".", "").isdigit():
            return None
        return replace(self, name=source, revision=release)

    def config_of(self, lang: str) -> str:
        """Return the configuration that holds a language."""
        source, _, target = lang.partition("-")
        pair = f"{target}-{source}" if source == "en" else lang  # de-en for both directions
        return self.config.format(lang=lang, pair=pair, treebank=TREEBANKS.get(lang, ""))


# The treebanks with the papers' numbers of sentences.
# fmt: off
TREEBANKS = {
    "en": "en_ewt", "de": "de_gsd", "nl": "nl_alpino", "ar": "ar_padt", "he": "he_htb",
    "zh": "zh_gsd", "ja": "ja_gsd", "ur": "ur_udtb", "fa": "fa_seraji",
}
# fmt: on


GLUE = HubSet(
    name="glue",
    repository="nyu-mll/glue",
    revision="bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c",
    config="",
    languages=("en",),
)


def glue(config: str, rows: int, dev: str = "validation") -> tuple[HubSet, ...]:
    """Return the set of a GLUE task."""
    return (replace(GLUE, config=config, rows={"en": rows}, dev=dev),)


XNLI = HubSet(
    name="xnli",
    repository="facebook/xnli",
    revision="b8dd5d7af51114dbda02c0e3f6133f332186418e",
    config="{lang}",
)
WMT14 = (
    HubSet(
        name="wmt14",
        repository="wmt/wmt14",
        revision="b199e406369ec1b7634206d3ded5ba45de2fe696",
        config="{pair}",
        languages=("en-de", "en-ru", "en-fr", "en-cs", "en-hi"),
        rows={"en-de": 4_508_785, "en-ru": 1_486_965},
    ),
)
NER = (
    HubSet(
        name="conll2003",
        repository="lhoestq/conll2003",
        revision="19edcb426bfd625c275c17b9a99b2239243f4377",
        config="default",
        languages=("en",),
        rows={"en": 14_041},
    ),
    HubSet(
        name="wikiann",  # another corpus than the papers', in most languages of Wikipedia
        repository="unimelb-nlp/wikiann",
        revision="f0a3be6dc5564c0cc4150bb660144800a1f539d4",
        config="{lang}",
        default=False,
    ),
)
POS = (
    HubSet(
        name="ud-*",  # a later release than the papers' 2.7, so it needs its number: ud-2.17
        repository="commul/universal_dependencies",
        revision="2.17",
        config="{treebank}",
        dev="dev",
        default=False,
        languages=tuple(TREEBANKS),
    ),
)
WIKITEXT = tuple(
    HubSet(
        name=name,
        repository="Salesforce/wikitext",
        revision="b08601e04326c79dfdd32d625aee71d232d685c3",
        config=f"{name}-raw-v1",
        default=name == "wikitext-2",
    )
    for name in ("wikitext-2", "wikitext-103")
)
SQUAD = HubSet(
    name="squad",
    repository="rajpurkar/squad",
    revision="7b6d24c440a36b6815f21b70d25016731768db1f",
    config="plain_text",
    languages=("en",),
    rows={"en": 87_599},
)
XQUAD = HubSet(
    name="xquad",  # SQuAD's dev articles; there is no training data
    repository="google/xquad",
    revision="51adfef1c1287aab1d2d91b5bead9bcfb9c68583",
    config="xquad.{lang}",
)


def similarity(languages: tuple[str, ...]) -> tuple[HubSet, ...]:
    """Return the sets of pairs with a score: the STS benchmark, its translations, and others."""
    english = {  # GLUE withholds the scores of its test set; the others have all
        "stsb": ("mteb/stsbenchmark-sts", "b0fddb56ed78048fa8b90373c8a3cfc37b684831"),
        "sts12": ("mteb/sts12-sts", "a0d554a64d88156834ff5ae9920b964011b16384"),
        "sts13": ("mteb/sts13-sts", "7e90230a92c190f1bf69ae9002b8cea547a64cca"),
        "sts14": ("mteb/sts14-sts", "6031580fec1f6af667f0bd2da0a551cf4f0b2375"),
        "sts15": ("mteb/sts15-sts", "ae752c7c21bf194d8b67fd573edf7ae58183cbe3"),
        "sts16": ("mteb/sts16-sts", "4d8694f8f0e0100860b497b999b3dbed754a0513"),
    }
    sets = [
        HubSet(
            name=name,
            repository=repository,
            revision=revision,
            config="default",
            languages=("en",),
            default=name == "stsb",
        )
        for name, (repository, revision) in english.items()
    ]
    translated = HubSet(
        name="stsb-multi-mt",
        repository="mteb/stsb_multi_mt",
        revision="29afa2569dcedaaa2fe6a3dcfebab33d28b82e8c",
        config="{lang}",
        dev="dev",
        languages=languages,
    )
    return (*sets, replace(GLUE, config="stsb", default=False), translated)


def retrieval() -> tuple[HubSet, ...]:
    """Return sets of BEIR: their queries and their corpus are configurations of their own."""
    revisions = {
        "scifact": "0228b52cf27578f30900b9e5271d331663a030d7",
        "nfcorpus": "ec0fa4fe99da2ff19ca1214b7966684033a58814",
        "fiqa": "27a168819829fe9bcd655c2df245fb19452e8e06",
        "arguana": "c22ab2a51041ffd869aaddef7af8d8215647e41a",
    }
    return tuple(
        HubSet(
            name=name,
            repository=f"mteb/{name}",
            revision=revision,
            config="default",
            dev="dev",
            default=name == "scifact",
        )
        for name, revision in revisions.items()
    )


NEWEST_UD = "ud-2.17"


def hub_set(sets: tuple[HubSet, ...], lang: str, source: str | None) -> HubSet | None:
    """Return the set that has a language: the named one, or the papers' own."""
    chosen = [s.named(source) if source else s if s.default else None for s in sets]
    return next((s for s in chosen if s is not None and s.has(lang)), None)


def other_names(sets: tuple[HubSet, ...], lang: str, source: str | None) -> list[str]:
    """Return the names of sets that have the language but are used only if they are named."""
    others = names_of(s for s in sets if not s.default and s.has(lang))
    return [name for name in others if name != (source or "").lower()]


def names_of(sets: Iterable[HubSet]) -> list[str]:
    """Return the names that `source` may have for sets; of many releases the newest."""
    return [NEWEST_UD if s.name == "ud-*" else s.name for s in sets]
