"""Which set on the Hugging Face hub holds the data of a task, at which revision.

Revisions are commits, so the same rows come back next year; Universal Dependencies has one
revision for each release. All sets are parquet: none runs code of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, kw_only=True)
class HubSet:
    """A set on the hub."""

    name: str  # of the corpus, for data: {source: NAME}; `ud-*` stands for every release
    repository: str
    revision: str
    config: str  # {lang}, {pair} and {treebank} are filled in
    dev: str = "validation"  # what the set calls the dev split
    unasked: bool = True  # the papers' own corpus, so it is taken where no source is named
    languages: tuple[str, ...] | None = None  # None: whatever the hub has
    rows: Mapping[str, int] = field(
        default_factory=dict
    )  # training rows by language, where they are known

    def speaks(self, lang: str) -> bool:
        turned = "-".join(reversed(lang.split("-")))
        return self.languages is None or lang in self.languages or turned in self.languages

    def called(self, source: str) -> HubSet | None:
        """The set itself if `source` names it, at the release that `source` says."""
        if self.name.endswith("*") and source.lower().startswith(self.name[:-1]):
            release = source[len(self.name) - 1 :]
            return (
                replace(self, name=source.lower(), revision=release)
                if release.replace(".", "").isdigit()
                else None
            )
        return self if source.lower() == self.name else None

    def config_of(self, lang: str) -> str:
        source, _, target = lang.partition("-")
        pair = (
            f"{target}-{source}" if source == "en" else lang
        )  # the hub writes de-en for either direction
        return self.config.format(lang=lang, pair=pair, treebank=TREEBANKS.get(lang, ""))


# The treebanks with the papers' numbers of sentences.
TREEBANKS = {"en": "en_ewt", "de": "de_gsd", "nl": "nl_alpino", "ar": "ar_padt", "he": "he_htb", "zh": "zh_gsd", "ja": "ja_gsd",
             "ur": "ur_udtb", "fa": "fa_seraji"}  # fmt: skip


def glue(config: str, rows: int, dev: str = "validation") -> tuple[HubSet, ...]:
    commit = "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c"
    return (
        HubSet(
            name="glue",
            repository="nyu-mll/glue",
            revision=commit,
            config=config,
            dev=dev,
            languages=("en",),
            rows={"en": rows},
        ),
    )


def xnli(languages: tuple[str, ...]) -> tuple[HubSet, ...]:
    commit = "b8dd5d7af51114dbda02c0e3f6133f332186418e"
    return (
        HubSet(
            name="xnli",
            repository="facebook/xnli",
            revision=commit,
            config="{lang}",
            languages=languages,
        ),
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
        unasked=False,
    ),
)
POS = (
    HubSet(
        name="ud-*",  # a later release than the papers' 2.7, so it is asked for by its number: ud-2.17
        repository="commul/universal_dependencies",
        revision="2.17",
        config="{treebank}",
        dev="dev",
        unasked=False,
        languages=tuple(TREEBANKS),
    ),
)
NEWEST_UD = "ud-2.17"


def hub_set(sets: tuple[HubSet, ...], lang: str, source: str | None) -> HubSet | None:
    """The set to ask for a language: the one named, or the papers' own."""
    named = (
        [one.called(source) for one in sets]
        if source
        else [one if one.unasked else None for one in sets]
    )
    return next((one for one in named if one is not None and one.speaks(lang)), None)


def other_names(sets: tuple[HubSet, ...], lang: str, source: str | None) -> list[str]:
    """The names of sets that have the language and are taken only where they are named."""
    names = [
        NEWEST_UD if one.name == "ud-*" else one.name
        for one in sets
        if not one.unasked and one.speaks(lang)
    ]
    return [name for name in names if name != (source or "").lower()]
