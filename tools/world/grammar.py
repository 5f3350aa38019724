"""From a fact to a sentence: one small machine for all nine languages, driven by `tables/`.

A table has three parts. `syntax` gives each kind of sentence (and of noun phrase, `np.def`,
`np.num`, ...) as a row of items; `words` says how each concept is written; `paradigms` are endings
that words share. The whole grammar rests on one rule: things come in variants with conditions,
`Autos[pl]` or `transitive.fut.neg`, and **of the variants whose conditions all hold, the one with
the most conditions wins**. So agreement, case, vowel harmony, noun classes and measure words are
rows of a table, not lines of code.

    car = "NOUN n | Auto Autos[pl]"         tag, inherent features | variants
                                            (`+` joins words, `-` is nothing)
    red = "ADJ | rot:adj"                   the stem `rot`, put at every `_` of paradigm `adj`
    transitive = "S V<S T P O+acc ./PUNCT"  roles, each with features it takes from another (`<S`),
                                            gains or loses (`+acc`, `-pl`); `word/TAG` is itself;
                                            `G:to_city` fills a slot
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

TABLES = Path(__file__).parent / "tables"
Features = frozenset[str]
NO_FEATURES: Features = frozenset()
ITEM = re.compile(r"([A-Z]|[a-z_]+)((?:[<+-][A-Za-z]\w*)*)(?::(\w+))?")
VARIANT = re.compile(r"(.+?)(?:\[([\w.]+)\])?")


class Phrase(NamedTuple):
    """A phrase with a noun or a name. `kind` picks the pattern: def, indef, num, name, loc, ..."""

    kind: str
    head: str
    number: str = "sg"
    adjective: str | None = None
    quantity: str | None = None
    last_name: str | None = None


Filler = Phrase | str | None  # of a role


class Fact(NamedTuple):
    """What a sentence says, in no language: its frame, its features, and who plays which role."""

    frame: str
    features: Features
    roles: tuple[tuple[str, Phrase | str], ...]

    def role(self, name: str) -> Any:
        """Return who or what plays a role, if anyone does."""
        return dict(self.roles).get(name)

    def but(self, *, features: Iterable[str] | None = None, **roles: Filler) -> Fact:
        """Return the same fact with some roles changed, added, or (None) left out."""
        changed = (dict(self.roles) | roles).items()
        fillers = tuple(sorted((name, filler) for name, filler in changed if filler is not None))
        return Fact(self.frame, self.features if features is None else frozenset(features), fillers)


class Token(NamedTuple):
    """A word as written, its part of speech, entity and slot (in BIO), and its concept, if any."""

    form: str
    tag: str
    entity: str = "O"
    slot: str = "O"
    concept: str = ""


Variants = list[tuple[Features, tuple[Token, ...]]]  # conditions -> words


class Item(NamedTuple):
    """One place in a pattern: a role, a word of the grammar, or a token written as it is."""

    name: str
    takes: tuple[str, ...] = ()
    gains: Features = NO_FEATURES
    loses: Features = NO_FEATURES
    slot: str = ""
    literal: Token | None = None


class Language:
    """The grammar of one language, read from its table."""

    def __init__(self, table: Mapping[str, Any], entities: Mapping[str, str]):
        self.capital: bool = table.get("capital", False)
        self.dotted_i: bool = table.get("dotted_i", False)
        sandhi = table.get("sandhi", ())
        self.sandhi = [(left, re.compile(right), new) for left, right, new in sandhi]
        self.entities = entities
        self.paradigms = {name: text.split() for name, text in table["paradigms"].items()}
        self.words = {name: self._entry(name, text) for name, text in table["words"].items()}
        self.patterns: dict[str, list[tuple[Features, tuple[Item, ...]]]] = {}
        for key, text in table["syntax"].items():
            frame, *conditions = key.split(".")
            pattern = frozenset(conditions), tuple(map(_item, text.split()))
            self.patterns.setdefault(frame, []).append(pattern)
        # Facts share most of their parts, so each part is computed once.
        self.word, self.part = cache(self._word), cache(self._part)
        self.pattern = cache(self._pattern)

    def _entry(self, name: str, text: str) -> tuple[Features, Variants]:
        """Return the inherent features of a word, and its variants with their conditions."""
        head, _, body = text.partition(" | ")
        tag, *inherent = head.split()
        variants = []
        for form in body.split():
            stem, _, paradigm = form.partition(":")
            endings = [form]
            if paradigm:
                endings = [ending.replace("_", stem) for ending in self.paradigms[paradigm]]
            for variant in endings:
                match = VARIANT.fullmatch(variant)
                assert match is not None
                written, conditions = match.groups()
                parts = [] if written == "-" else written.split("+")
                words = tuple(_token(part, tag, name) for part in parts)
                variants.append((frozenset(conditions.split(".") if conditions else ()), words))
        return frozenset(inherent), variants

    def _word(self, concept: str, features: Features) -> tuple[Token, ...]:
        return _best(self.words[concept][1], features)

    def _pattern(
        self, frame: str, features: Features, kinds: tuple[tuple[str, str], ...] = ()
    ) -> tuple[Item, ...]:
        """A pattern may also depend on a role (`work.P`) and on its kind (`transitive.O_def`)."""
        by_role = [(role, f"{role}_{kind}") for role, kind in kinds]
        return _best(self.patterns[frame], features.union(*by_role))

    def own(self, filler: Phrase | str) -> Features:
        """Return the features of a filler: gender, class, number, and its kind of phrase."""
        if isinstance(filler, str):
            return self.words[filler][0]
        adjective = self.words[filler.adjective][0] if filler.adjective else NO_FEATURES
        return self.words[filler.head][0] | adjective | {filler.number, filler.kind}

    def _phrase(self, phrase: Phrase, features: Features) -> tuple[Token, ...]:
        parts = {"N": phrase.head, "A": phrase.adjective}
        parts |= {"Q": phrase.quantity, "L": phrase.last_name}
        entity, tokens = self.entities.get(phrase.head, ""), []
        for item in self.pattern("np", features):
            if item.literal:
                tokens.append(item.literal)
            elif concept := parts.get(item.name, item.name):
                words = self.word(concept, (features | item.gains) - item.loses)
                if entity and item.name in ("N", "L"):  # a last name continues the first
                    tags = zip(words, _bio(entity, len(words), item.name == "N"), strict=True)
                    words = tuple(word._replace(entity=tag) for word, tag in tags)
                tokens += words
        return tuple(tokens)

    def tokens(self, fact: Fact) -> list[Token]:
        """Return the sentence that says this fact, word by word."""
        roles, features, tokens = dict(fact.roles), fact.features, list[Token]()
        kinds = tuple((r, f.kind if isinstance(f, Phrase) else "") for r, f in fact.roles)
        for item in self.pattern(fact.frame, features, kinds):
            tokens += self.part(item, features, roles.get(item.name), *map(roles.get, item.takes))
        return self._finish(tokens)

    def _part(
        self, item: Item, features: Features, filler: Filler, *givers: Filler
    ) -> tuple[Token, ...]:
        """Write one item of a sentence, with the features that it takes from the givers."""
        if item.literal:
            return (item.literal,)
        if filler is None and item.name.isupper():
            return ()
        sources = [giver for giver in (filler, *givers) if giver is not None]
        features = features.union(item.gains, *map(self.own, sources)) - item.loses
        if isinstance(filler, Phrase):
            tokens = self._phrase(filler, features)
        else:
            tokens = self.word(filler or item.name, features)
        if not item.slot:
            return tokens
        slots = _bio(item.slot, len(tokens))
        return tuple(t._replace(slot=slot) for t, slot in zip(tokens, slots, strict=True))

    def _finish(self, tokens: list[Token]) -> list[Token]:
        """Let neighbours act on each other (a + apple, a + el), and start with a capital."""
        for left, right, new in self.sandhi:
            for i in range(len(tokens) - 1, 0, -1):
                if tokens[i - 1].form == left and right.match(tokens[i].form):
                    tokens[i - 1] = tokens[i - 1]._replace(form=new)
                    if right.fullmatch(tokens[i].form):  # the rule names all of it: one word now
                        del tokens[i]
        if self.capital:
            first = tokens[0].form
            start = "İ" if self.dotted_i and first[0] == "i" else first[0].upper()
            tokens[0] = tokens[0]._replace(form=start + first[1:])
        return tokens


def _best(variants: list[tuple[Features, Any]], features: Features) -> Any:
    """Return the variant whose conditions all hold and are the most; of equals, the first."""
    fitting = [variant for variant in variants if variant[0] <= features]
    return max(fitting, key=lambda variant: len(variant[0]))[1]


def _bio(name: str, n: int, begin: bool = True) -> list[str]:
    return [f"{'B' if begin and not i else 'I'}-{name}" for i in range(n)]


def _token(text: str, tag: str, concept: str = "") -> Token:
    form, _, own = text.partition("/")
    # words with a tag of their own only help to say the concept
    return Token(form, own or tag, concept="" if own else concept)


def _item(text: str) -> Item:
    if "/" in text:
        return Item("", literal=_token(text, ""))
    name, signs, slot = ITEM.fullmatch(text).groups()  # type: ignore[union-attr]
    marks = re.findall(r"([<+-])(\w+)", signs)
    takes, gains, loses = ([word for mark, word in marks if mark == sign] for sign in "<+-")
    return Item(name, tuple(takes), frozenset(gains), frozenset(loses), slot or "")


def read_table(name: str) -> dict[str, Any]:
    """Return the table `world`, or that of a language by its code."""
    return tomllib.loads((TABLES / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def world() -> dict[str, Any]:
    """Return the concepts, by type, and what goes with what."""
    return read_table("world")


@cache
def language(code: str) -> Language:
    """Return the grammar of a language; words that its table lacks are those of all languages."""
    types, table = world()["types"], read_table(code)
    table["words"] = world()["shared"]["words"] | table["words"]
    kinds = {"first_name": "PER", "last_name": "PER", "org": "ORG", "city": "LOC", "country": "LOC"}
    entities = {concept: entity for kind, entity in kinds.items() for concept in types[kind]}
    return Language(table, entities)
