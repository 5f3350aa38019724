"""Strategies that draw heads at random: from the whole model, or in each layer or block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

from deadhead.errors import HeadError, unknown_name
from deadhead.layout import Attention, Head, HeadLayout

from .amounts import (
    HEADS,
    KEPT,
    KEPT_BY_BLOCK,
    KEPT_BY_LAYER,
    PERCENT,
    Rounding,
    by_block,
    count,
    counts,
    only_blocks,
    whole,
)
from .draws import Seed, draw, keep, shares
from .strategy import Blocks, Heads, Scores, Strategy


def random(
    layout: HeadLayout,
    percent: float | Fraction,
    *,
    seed: Seed = 0,
    scores: Scores | None = None,
    blocks: Blocks = None,
    per: Literal["model", "block", "layer"] = "model",
    rounding: Rounding = "nearest",
    of: Literal["left", "born"] = "left",
    nested: bool = False,
) -> Heads:
    """Remove a percentage of the heads, drawn uniformly.

    per: draw from the whole `model`, or the same percentage from each `block` or each `layer`.
    of: the percentage is of the heads `left` now, or of all the model was `born` with; then heads
        removed before count towards it: 50 leaves half of the original model.
    nested: larger percentages contain smaller ones, because all are prefixes of one shuffle per
        seed (the same as in `random_k`); otherwise each percentage is a draw of its own.
    """
    if of not in ("left", "born"):
        raise unknown_name("value of `of`", of, ("left", "born"))
    chosen: set[Head] = set()
    for place, part in _parts(only_blocks(layout, blocks), per).items():
        before = sum(len(a.removed) for a in part) if of == "born" else 0
        total = sum(len(a.kept) for a in part) + before
        target = count(percent, total, rounding)
        if target < before:
            raise HeadError(
                f"{percent} % of the {total} heads of {place} is {target}, "
                f"but {before} are gone already.",
                "give a higher percentage",
            )
        chosen |= draw(place, part, target - before, seed, nested)
    return frozenset(chosen)


def random_k(
    layout: HeadLayout,
    k: int,
    *,
    seed: Seed = 42,
    scores: Scores | None = None,
    blocks: Blocks = None,
    nested: bool = True,
) -> Heads:
    """Remove k heads drawn uniformly.

    nested: the first k of one shuffle per seed; otherwise a new draw for each k.
    """
    return draw("model", only_blocks(layout, blocks).attentions, whole(k, "k"), seed, nested)


def stratified(
    layout: HeadLayout,
    kept: int = 1,
    *,
    seed: Seed = 0,
    scores: Scores | None = None,
    blocks: Blocks = None,
) -> Heads:
    """Keep this number of random heads in every layer of every block (1 for the papers' 87 %)."""
    parts = _parts(only_blocks(layout, blocks), "layer")
    number = whole(kept, "kept")
    return frozenset().union(*(keep(place, part, number, seed) for place, part in parts.items()))


def per_layer(
    layout: HeadLayout,
    kept: str | Sequence[Any] | Mapping[str, Any],
    *,
    seed: Seed = 0,
    scores: Scores | None = None,
    blocks: Blocks = None,
) -> Heads:
    """Keep the numbers of heads that a text spells, layer 0 first, drawn uniformly in each layer.

    `888444` keeps 8 heads in each of the lower three layers and 4 in the upper; write `12,12,6`
    where a number has two digits. For more blocks give a mapping from block to text, or its written
    form `encoder=888444;cross=444888` (the papers' ES, ED, DS work too): a block without a name
    stays whole. Or give a text for every block, in the order of the papers: encoder, cross,
    decoder, then any other in layout order; written, that is `888444/444888/888444`.
    """
    layout, chosen = only_blocks(layout, blocks), set[Head]()
    for block, text in by_block(layout, kept).items():
        numbers, attentions = counts(text), layout.of(block)
        if len(numbers) != len(attentions):
            raise HeadError(
                f"{text!r} is for {len(numbers)} layers, but {block} has {len(attentions)}.",
                f"give {len(attentions)} numbers of heads to keep, layer 0 first; "
                "put commas between numbers of 10 or more",
            )
        for attention, number in zip(attentions, numbers, strict=True):
            chosen |= keep(f"{block}.{attention.layer}", (attention,), number, seed)
    return frozenset(chosen)


def per_block(
    layout: HeadLayout,
    kept: int | str | Sequence[int] | Mapping[str, int],
    *,
    seed: Seed = 0,
    scores: Scores | None = None,
    blocks: Blocks = None,
    balanced: bool = False,
) -> Heads:
    """Keep this number of heads in each block, such as (14, 31, 30), drawn over all its layers.

    A triple is in the order of the papers: encoder (ES), cross (ED), decoder (DS); written,
    `14/31/30`. The other forms of `per_layer` work too: a mapping, or `ES=14;DS=30`, which leaves
    cross whole.
    balanced: every layer of a block keeps the same number, or one (one group) more where the
        number does not divide.
    """
    layout, chosen = only_blocks(layout, blocks), set[Head]()
    for block, text in by_block(layout, kept).items():
        number, attentions = whole(text, block), layout.of(block)
        if not balanced:
            chosen |= keep(block, attentions, number, seed)
            continue
        by_layer = shares(block, attentions, number, seed)
        for attention, share in zip(attentions, by_layer, strict=True):
            chosen |= keep(f"{block}.{attention.layer}", (attention,), share, seed)
    return frozenset(chosen)


def _parts(layout: HeadLayout, per: str) -> dict[str, tuple[Attention, ...]]:
    """The parts of the layout to draw from, each by its name."""
    if per == "model":
        return {"model": layout.attentions}
    if per == "block":
        return {block: layout.of(block) for block in layout.blocks}
    if per == "layer":
        return {f"{a.block}.{a.layer}": (a,) for a in layout.attentions}
    raise unknown_name("value of `per`", per, ("model", "block", "layer"))


RANDOM = Strategy(
    select=random,
    amount=PERCENT,
    draws=True,
    help="Remove this percentage of all heads, drawn at random.",
    label="random share",
    sentence="{amount} % of the heads at random",
)
RANDOM_K = Strategy(
    select=random_k,
    amount=HEADS,
    draws=True,
    help="Remove this number of heads, drawn at random; more contain fewer.",
    label="random heads",
    short="random",
    sentence="{amount} heads at random",
    sentence_of_one="a head at random",
)
STRATIFIED = Strategy(
    select=stratified,
    amount=KEPT,
    draws=True,
    help="Keep this number of heads in every layer, drawn at random.",
    label="random, the same number kept in each layer",
    sentence="all heads but {amount} of each layer",
)
PER_LAYER = Strategy(
    select=per_layer,
    amount=KEPT_BY_LAYER,
    draws=True,
    flag="keep",
    help="Keep this number of heads in each layer, drawn at random: 888444.",
    label="random, by layer",
    sentence="all heads but {amount} (by layer)",
)
PER_BLOCK = Strategy(
    select=per_block,
    amount=KEPT_BY_BLOCK,
    draws=True,
    help="Keep this number of heads in each block, drawn at random: 14/31/30.",
    label="random, by block",
    sentence="all heads but {amount} (by block)",
)
