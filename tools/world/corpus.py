"""The facts that the tiny models are pre-trained on. None is in a dev or test set."""

from __future__ import annotations

from random import Random

from facts import hypotheses, pairs, request, review, split_of, statement
from grammar import Fact, world


def corpus(n: int) -> list[Fact]:
    """Draw n different facts of all kinds, all from the training side of the split."""
    rng, facts = Random("deadhead world corpus"), dict[Fact, None]()
    while len(facts) < n:
        fact = rng.choice((statement, statement, statement, statement, review, request))(rng)
        if split_of(fact) == "train":
            facts[fact] = None
    return list(facts)


def neighbours(facts: list[Fact]) -> list[tuple[Fact, Fact]]:
    """Pair each fact with up to three that say almost the same, in no order and without a label.

    No pair has a combination of the dev and test sets, nor a sentence of their entailment pairs.
    """
    rng = Random("deadhead world neighbours")
    tested = {fact for split in ("dev", "test") for pair in pairs()[split] for fact in pair[:2]}
    neighbours = dict[tuple[Fact, Fact], None]()
    for fact in facts:
        if fact.frame in world()["slots"] or fact in tested:
            continue
        near = [
            other
            for _, other in hypotheses(fact, rng)
            if other != fact and split_of(other) == "train" and other not in tested
        ]
        for other in rng.sample(near, min(3, len(near))):
            neighbours[(fact, other) if rng.random() < 0.5 else (other, fact)] = None
    return list(neighbours)
