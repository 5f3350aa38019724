"""What can be said in the small world: facts, in no language, and which follow from which.

Facts are drawn by a seed, the same for every language, so the n-th sentence of one is the
translation of the n-th of another. The split of a fact is decided by a hash of its *combination*
(anyone may eat, but a red apple that is eaten in a test is never eaten in training), so dev and
test hold combinations of known words that training does not have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from random import Random
from typing import Any

from grammar import Fact, Phrase, world

SPLITS = ("train", "dev", "test")
SIZES = {  # examples in train, dev and test
    "statement": (2400, 300, 300),
    "review": (700, 100, 100),
    "request": (1000, 150, 150),
    "pair": (1800, 300, 300),
}
ENTAILMENT, NEUTRAL, CONTRADICTION = LABELS = ("entailment", "neutral", "contradiction")
TENSES = ("past", "past", "fut")
# The share of negated premises. With few of them, "not" in a hypothesis would be a sure sign of
# contradiction.
NEGATED = 0.4


def fact(frame: str, features: str, **roles: Phrase | str | None) -> Fact:
    """Build a fact from its parts; roles that nobody plays may be None."""
    fillers = sorted((role, filler) for role, filler in roles.items() if filler is not None)
    return Fact(frame, frozenset(features.split()), tuple(fillers))


def combination(fact: Fact) -> str:
    """Return the words of a fact that decide its split: all but subject, time and tense."""
    thing = fact.role("O")
    if fact.frame == "review":
        parts = [fact.role("S").head, fact.role("A")]
    elif thing:
        parts = [fact.role("V"), thing.head, thing.adjective or thing.last_name]
    elif fact.frame in world()["slots"]:
        parts = [fact.role(r) for r in ("CD" if fact.frame == "weather" else "RGCHM")]
    else:
        parts = [fact.role("V"), *(fact.role(r).head for r in "WPG" if fact.role(r))]
    return " ".join([fact.frame, *map(str, parts)])


def split_of(fact: Fact) -> str:
    bucket = hashlib.blake2b(combination(fact).encode(), digest_size=2).digest()[0] % 8
    return {0: "dev", 1: "test"}.get(bucket, "train")


def _of(rng: Random, *types: str) -> str:
    return rng.choice([concept for kind in types for concept in world()["types"][kind]])


def _person(rng: Random) -> Phrase:
    if rng.random() < 0.35:
        return Phrase("full", _of(rng, "first_name"), last_name=_of(rng, "last_name"))
    return Phrase("name", _of(rng, "first_name"))


def _subject(rng: Random) -> Phrase:
    if rng.random() < 0.5:
        return _person(rng)
    return Phrase("def", _of(rng, "human"), rng.choice(("sg", "sg", "pl")))


def _thing(rng: Random, verb: str, kind: str, negated: bool) -> Phrase:
    unfit = world()["unfit"].get(verb, ())
    head = _of(rng, kind)
    adjective = rng.choice([None, *(a for a in world()["adjectives"][kind] if a not in unfit)])
    wider = world()["kinds_of"].get(kind)
    if rng.random() < 0.12 and wider and wider not in unfit:
        return Phrase("indef", wider)
    how = rng.choice(("def", "indef") if negated else ("def", "indef", "indef", "num"))
    if how == "num":
        return Phrase(how, head, "pl", adjective, _of(rng, "number"))
    return Phrase(how, head, "sg", adjective)


def _place(rng: Random, verb: str) -> Phrase:
    where = rng.choice(("city", "city", "country") + ("place",) * (verb not in ("build", "open")))
    return Phrase("place" if where == "place" else "loc", _of(rng, where))


def _sometimes(rng: Random, share: float, make: Callable[[], Any]) -> Any:
    value = make()  # always drawn, so that the draws that follow stay the same
    return value if rng.random() < share else None


def transitive(rng: Random) -> Fact:
    by_org = rng.random() < 0.2
    verbs = world()["verbs"]["by_org" if by_org else "transitive"]
    verb, tense, negated = _verb(rng, verbs)
    thing = _thing(rng, verb, rng.choice(verbs[verb]), negated)
    subject = Phrase("name", _of(rng, "org")) if by_org else _subject(rng)
    place = None if negated else _sometimes(rng, 0.4, lambda: _place(rng, verb))
    new = fact("transitive", tense, S=subject, V=verb, O=thing, P=place, T=_time(rng, tense))
    return _negated(new, negated)


def social(rng: Random) -> Fact:
    verb, tense, negated = _verb(rng, world()["verbs"]["social"])
    helped = _person(rng) if rng.random() < 0.6 else Phrase("def", _of(rng, "human"))
    subject = _subject(rng)
    while subject.head == helped.head:
        subject = _subject(rng)
    place = None if negated else _sometimes(rng, 0.4, lambda: _place(rng, verb))
    new = fact("social", tense, S=subject, V=verb, O=helped, P=place, T=_time(rng, tense))
    return _negated(new, negated)


def motion(rng: Random) -> Fact:
    verb, tense, negated = _verb(rng, world()["verbs"]["motion"])
    cities = world()["types"]["city"] + world()["types"]["country"]
    goal, source = rng.sample(cities, 2)
    time = _time(rng, tense)
    start = None if negated else _sometimes(rng, 0.4, lambda: Phrase("source", source))
    aim = Phrase("goal", goal)
    new = fact("motion", tense, S=_subject(rng), V=verb, G=aim, R=start, T=time)
    return _negated(new, negated)


def _verb(rng: Random, verbs: Iterable[str]) -> tuple[str, str, bool]:
    """Draw a verb, its tense, and whether it is negated."""
    return rng.choice(list(verbs)), rng.choice(TENSES), rng.random() < 0.15


def _time(rng: Random, tense: str) -> str | None:
    time: str | None = _sometimes(rng, 0.5, lambda: rng.choice(world()["times"][tense]))
    return time


def residence(rng: Random) -> Fact:
    place, org = Phrase("loc", _of(rng, "city", "country")), Phrase("work", _of(rng, "org"))
    works, negated, subject = rng.random() < 0.5, rng.random() < 0.15, _subject(rng)
    if works:
        where = None if negated else place
        return _negated(fact("work", "pres", S=subject, V="work", W=org, P=where), negated)
    return _negated(fact("live", "pres", S=subject, V="live", P=place), negated)


def review(rng: Random) -> Fact:
    head = rng.choice(list(world()["reviews"]))
    adjective, how = rng.choice(world()["reviews"][head]), rng.choice(("", "very", "neg"))
    place = _sometimes(rng, 0.6, lambda: Phrase("loc", _of(rng, "city", "country")))
    opinions = world()["opinions"]
    how = "" if adjective in opinions["strong"] else how
    place = place if head in opinions["somewhere"] else None
    return fact("review", how, S=Phrase("def", head), A=adjective, P=place)


def request(rng: Random) -> Fact:
    frame = rng.choice(list(world()["slots"]))
    roles: dict[str, Phrase | str] = {}
    for role, kind in world()["slots"][frame].items():
        if kind == "first_name":
            roles[role] = _person(rng)
        else:
            used = {filler.head for filler in roles.values() if isinstance(filler, Phrase)}
            concept = rng.choice([c for c in world()["types"][kind] if c not in used])
            roles[role] = Phrase("name", concept) if kind == "city" else concept
    return fact(frame, "", **roles)


def statement(rng: Random) -> Fact:
    return rng.choice((transitive, transitive, transitive, social, motion, residence, review))(rng)


def _negated(fact: Fact, negated: bool = True) -> Fact:
    return fact.but(features=fact.features | {"neg"}) if negated else fact


@cache
def facts(kind: str) -> dict[str, list[Fact]]:
    """Return all facts of a kind (statement, review, request), by split, each once."""
    make = {"statement": statement, "review": review, "request": request}[kind]
    return _fill(kind, lambda rng: iter([make(rng)]), split_of)


@cache
def pairs() -> dict[str, list[tuple[Fact, Fact, str]]]:
    """Return premise, hypothesis and label, by the split of the premise; labels are balanced."""
    return _fill("pair", _pairs_from, lambda pair: split_of(pair[0]))


def _fill(
    kind: str, draw: Callable[[Random], Iterator[Any]], place: Callable[[Any], str]
) -> dict[str, list[Any]]:
    """Draw different items until every split has its size."""
    rng = Random(f"deadhead world {kind}")
    sizes = dict(zip(SPLITS, SIZES[kind], strict=True))
    items: dict[str, dict[Any, None]] = {split: {} for split in SPLITS}
    while any(len(items[split]) < sizes[split] for split in SPLITS):
        for item in draw(rng):
            split = place(item)
            if len(items[split]) < sizes[split]:
                items[split][item] = None
    return {split: list(items[split]) for split in SPLITS}


def _pairs_from(rng: Random) -> Iterator[tuple[Fact, Fact, str]]:
    """Yield a pair for each label from one premise, or none, so that no premise has one label."""
    premise, negated = statement(rng), rng.random() < NEGATED
    while negated != ("neg" in premise.features):
        premise = statement(rng)
    by_label: dict[str, list[Fact]] = {label: [] for label in LABELS}
    for label, hypothesis in hypotheses(premise, rng):
        if hypothesis != premise:
            by_label[label].append(hypothesis)
    if all(by_label.values()):
        yield from ((premise, rng.choice(by_label[label]), label) for label in LABELS)


def hypotheses(premise: Fact, rng: Random) -> Iterator[tuple[str, Fact]]:
    """Yield facts that follow from a fact, that it leaves open, and that it rules out."""
    thing, negated = premise.role("O"), "neg" in premise.features
    yield CONTRADICTION, _opposite(premise)
    other = _someone_else(premise, rng)
    if other and premise.frame != "review":
        yield NEUTRAL, other
    if premise.frame == "review":
        yield from _about_review(premise)
        return
    for role in "TPR":
        if premise.role(role) and not (role == "P" and premise.frame == "live"):
            shorter = premise.but(**{role: None})
            yield (NEUTRAL, shorter) if negated else (ENTAILMENT, shorter)
            if not negated:
                placeless = shorter.but(P=None) if premise.frame != "live" else shorter
                yield CONTRADICTION, _opposite(placeless)
        elif role == "T" and premise.frame in ("transitive", "social", "motion"):
            tense = "past" if "past" in premise.features else "fut"
            longer = premise.but(T=rng.choice(world()["times"][tense]))
            yield (ENTAILMENT, longer) if negated else (NEUTRAL, longer)
    if thing and premise.frame == "transitive" and thing.kind != "num":
        yield from _about_thing(premise, thing, negated)


def _about_thing(premise: Fact, thing: Phrase, negated: bool) -> Iterator[tuple[str, Fact]]:
    unfit = world()["unfit"].get(premise.role("V"), ())
    kinds = {k: wider for k, wider in world()["kinds_of"].items() if wider not in unfit}
    wider = {concept: kinds[k] for k in kinds for concept in world()["types"][k]}
    opposite = opposites().get(thing.adjective or "")
    label = NEUTRAL if negated else ENTAILMENT
    if thing.adjective and not (negated and thing.kind == "def"):
        yield label, premise.but(O=thing._replace(adjective=None))
    if thing.head in wider and thing.kind == "indef":
        yield label, premise.but(O=Phrase("indef", wider[thing.head]))
    # someone who bought the new one may have bought the old one too
    if opposite and opposite not in unfit:
        yield NEUTRAL, premise.but(O=thing._replace(adjective=opposite))


def _about_review(premise: Fact) -> Iterator[tuple[str, Fact]]:
    adjective, opposite = premise.role("A"), opposites().get(premise.role("A"))
    if "very" in premise.features:
        yield ENTAILMENT, premise.but(features=())
    elif "neg" not in premise.features and adjective not in world()["opinions"]["strong"]:
        yield NEUTRAL, premise.but(features=("very",))
    if opposite and "neg" not in premise.features:
        yield CONTRADICTION, premise.but(features=(), A=opposite)
        yield ENTAILMENT, premise.but(features=("neg",), A=opposite)
    for unrelated in ("comfortable", "beautiful", "interesting", "cheap"):
        fits = world()["reviews"][premise.role("S").head]
        if unrelated in fits and unrelated not in (adjective, opposite):
            yield NEUTRAL, premise.but(features=(), A=unrelated)


def _opposite(premise: Fact) -> Fact:
    if "neg" in premise.features:
        return premise.but(features=premise.features - {"neg"})
    thing = premise.role("O")
    if thing and thing.kind == "num":  # "did not buy three cars" would leave open how many
        single = thing._replace(kind="indef", number="sg", quantity=None)
        return _negated(premise.but(O=single, P=None))
    bare = premise.but(P=None) if premise.frame in ("transitive", "social", "work") else premise
    return _negated(bare.but(features=bare.features - {"very"}))


def _someone_else(premise: Fact, rng: Random) -> Fact | None:
    """Return the fact with another subject of the same kind, who has no role in it yet."""
    subject, types = premise.role("S"), world()["types"]
    used = {filler.head for _, filler in premise.roles if isinstance(filler, Phrase)}
    kind = next((k for k in ("first_name", "org", "human") if subject.head in types[k]), None)
    others = [c for c in types[kind] if c not in used] if kind else []
    return premise.but(S=subject._replace(head=rng.choice(others))) if others else None


@cache
def opposites() -> dict[str, str]:
    forward = world()["opposites"]
    return forward | {b: a for a, b in forward.items()}
