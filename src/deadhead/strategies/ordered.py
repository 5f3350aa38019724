"""Strategies without chance: whole layers, and the heads of lowest or highest score."""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan
from typing import Literal

from deadhead.errors import HeadError
from deadhead.layout import Head, HeadLayout

from .amounts import HEADS, LAYERS, layer_set, only_blocks, whole
from .draws import Bundle, Seed, prefix
from .strategy import Blocks, Heads, Scores, Strategy


def layers(
    layout: HeadLayout,
    which: str | int | Iterable[int],
    *,
    seed: Seed = 0,
    scores: Scores | None = None,
    blocks: Blocks = None,
    first: Literal[0, 1] = 1,
) -> Heads:
    """Remove all heads of a set of layers in every block: `top 3 + bottom 3`, `odd`, `0,2,5-7`.

    `layer_set` explains the words and `first`.
    """
    layout, chosen = only_blocks(layout, blocks), set[Head]()
    for block in layout.blocks:
        numbers = layer_set(which, [a.layer for a in layout.of(block)], block, first)
        chosen.update(head for a in layout.of(block) if a.layer in numbers for head in a.heads)
    return frozenset(chosen)


def lowest(
    layout: HeadLayout,
    k: int,
    *,
    seed: Seed = 0,
    scores: Scores | None = None,
    blocks: Blocks = None,
) -> Heads:
    """Remove the k heads of lowest score; equal scores are ordered by (layer, head), lower first.

    Heads that must go together count with the mean of their scores. Scores of other heads are
    ignored.
    """
    return prefix("model", _ascending(only_blocks(layout, blocks), scores), whole(k, "k"))


def highest(
    layout: HeadLayout,
    k: int,
    *,
    seed: Seed = 0,
    scores: Scores | None = None,
    blocks: Blocks = None,
) -> Heads:
    """Remove the k heads of highest score: the order of `lowest`, read from its end."""
    return prefix("model", _ascending(only_blocks(layout, blocks), scores)[::-1], whole(k, "k"))


def _ascending(layout: HeadLayout, scores: Scores | None) -> list[Bundle]:
    """The bundles by the mean of their scores, lowest first, ties by (layer, head)."""
    if scores is None:
        raise HeadError("there are no scores to go by.", "pass scores, a number for each head")
    missing = [head for head in layout if head not in scores]
    if missing:
        raise HeadError(
            f"{len(missing)} of {len(layout)} heads have no score; the first is {missing[0]}.",
            "rank all heads of this layout",
        )
    bundles = [bundle for a in layout.attentions for bundle in a.groups]
    means = {b: sum(scores[head] for head in b) / len(b) for b in bundles}
    bad = next((bundle for bundle, mean in means.items() if isnan(mean)), None)
    if bad is not None:
        name = next((head for head in bad if isnan(scores[head])), bad[0])
        hint = "check for a division by zero or an overflow in the ranking"
        raise HeadError(f"the score of {name} is not a number (NaN).", hint)
    return sorted(means, key=lambda bundle: (means[bundle], bundle[0].layer, bundle[0].index))


LAYER_SET = Strategy(
    select=layers,
    amount=LAYERS,
    help="Remove all heads of these layers: 'top 3 + bottom 3', 'odd', '0,2,5-7'.",
    label="whole layers",
    sentence="all heads of the layers {amount}",
)
LOWEST = Strategy(
    select=lowest,
    amount=HEADS,
    needs_scores=True,
    help="Remove the K lowest heads of --ranking.",
    label="lowest-ranked",
    sentence="the {amount} lowest-ranked heads",
    sentence_of_one="the lowest-ranked head",
)
HIGHEST = Strategy(
    select=highest,
    amount=HEADS,
    needs_scores=True,
    help="Remove the K highest heads of --ranking.",
    label="highest-ranked",
    sentence="the {amount} highest-ranked heads",
    sentence_of_one="the highest-ranked head",
)
