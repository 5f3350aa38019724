"""Which heads to remove: pure functions, with no model and no torch in sight.

Every strategy is called alike and answers with the set of heads to remove; same arguments, same set:

    strategy(layout, amount, *, seed=0, scores=None, blocks=None, **its own options)

`amount` is the strategy's own measure: a percentage, a number of heads, a layer set. `seed` (a whole
number or a text) matters to those that draw, `scores` to those that rank, and every strategy takes
both, so that a study can call any of them. `blocks` leaves the other blocks alone, and out of the count.

What holds for all of them:
- Only heads the layout still has are drawn or counted.
- Heads that share a key/value head (`Attention.groups`) go together.
- A number of heads is met exactly or refused, never rounded.
- Draws use `random.Random` seeded with a text and its method `random()`, and nothing else of it: these
  are what Python promises to keep, so a seed means the same heads on every machine and version.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import isnan
from typing import Any

from deadhead.errors import HeadError, unknown_name
from deadhead.layout import Attention, Head, HeadLayout

from .amounts import block_named, by_block, count, counts, layer_set, whole
from .draws import Bundle, Heads, Seed, draw, keep, prefix, shares

Scores = Mapping[Head, float]
Blocks = str | Iterable[str] | None


def random(
    layout: HeadLayout,
    percent: float | Fraction,
    *,
    seed: Seed = 0,
    scores: Scores | None = None,
    blocks: Blocks = None,
    per: str = "model",
    rounding: str = "nearest",
    of: str = "left",
    nested: bool = False,
) -> Heads:
    """Remove a percentage of the heads, drawn uniformly.

    per: draw from the whole `model`, or the same percentage from each `block` or each `layer`.
    of: the percentage is of the heads `left` now, or of all the model was `born` with; then those
        already gone count towards it, so that 50 means half of the original model is gone afterwards.
    nested: larger percentages contain smaller ones, being the beginnings of one shuffle per seed (the same
        as in `random_k`); otherwise each is a draw of its own.
    """
    if of not in ("left", "born"):
        raise unknown_name("value of `of`", of, ("left", "born"))
    removed: set[Head] = set()
    for place, part in _parts(_only(layout, blocks), per).items():
        gone = sum(len(a.removed) for a in part) if of == "born" else 0
        total = sum(len(a.kept) for a in part) + gone
        wanted = count(percent, total, rounding)
        if wanted < gone:
            raise HeadError(
                f"{percent} % of the {total} heads of {place} is {wanted}, but {gone} are gone already.",
                "give more per cent",
            )
        removed |= draw(place, part, wanted - gone, seed, nested)
    return frozenset(removed)


def random_k(
    layout: HeadLayout,
    k: int,
    *,
    seed: Seed = 42,
    scores: Scores | None = None,
    blocks: Blocks = None,
    nested: bool = True,
) -> Heads:
    """Remove k heads drawn uniformly: the first k of one shuffle per seed, or not `nested`, a new draw for each k."""
    return draw("model", _only(layout, blocks).attentions, whole(k, "k"), seed, nested)


def stratified(
    layout: HeadLayout,
    kept: int = 1,
    *,
    seed: Seed = 0,
    scores: Scores | None = None,
    blocks: Blocks = None,
) -> Heads:
    """Keep this many random heads in every layer of every block (one, for the 87 % of the papers)."""
    parts = _parts(_only(layout, blocks), "layer")
    return frozenset().union(
        *(keep(place, part, whole(kept, "kept"), seed) for place, part in parts.items())
    )


def per_layer(
    layout: HeadLayout,
    kept: str | Sequence[Any] | Mapping[str, Any],
    *,
    seed: Seed = 0,
    scores: Scores | None = None,
    blocks: Blocks = None,
) -> Heads:
    """Keep the numbers of heads a string spells, layer 0 first, drawn uniformly in each layer.

    `888444` keeps 8 heads in each of the lower three layers and 4 in the upper; write `12,12,6` where a
    number has two digits. For several blocks give a mapping from block to string, or its written form
    `encoder=888444;cross=444888` (the papers' ES, ED, DS will do): a block that is not named stays whole.
    Or give a string for every block, in the order of the papers: encoder, cross, decoder, then any other
    in layout order; written, that is `888444/444888/888444`.
    """
    layout, removed = _only(layout, blocks), set[Head]()
    for block, text in by_block(layout, kept).items():
        numbers, attentions = counts(text), layout.of(block)
        if len(numbers) != len(attentions):
            hint = f"give {len(attentions)} numbers of heads to keep, layer 0 first; put commas between those of 10 or more"
            raise HeadError(
                f"{text!r} is for {len(numbers)} layers, but {block} has {len(attentions)}.", hint
            )
        for attention, number in zip(attentions, numbers, strict=True):
            removed |= keep(f"{block}.{attention.layer}", (attention,), number, seed)
    return frozenset(removed)


def per_block(
    layout: HeadLayout,
    kept: int | str | Sequence[int] | Mapping[str, int],
    *,
    seed: Seed = 0,
    scores: Scores | None = None,
    blocks: Blocks = None,
    balanced: bool = False,
) -> Heads:
    """Keep this many heads in each block, such as (14, 31, 30), drawn uniformly over all its layers.

    A triple is in the order of the papers: encoder (ES), cross (ED), decoder (DS); written, `14/31/30`.
    The other forms of `per_layer` will do too: a mapping, or `ES=14;DS=30`, which leaves cross whole.
    balanced: every layer of a block keeps the same number, or one (one group) more where it does not divide.
    """
    layout, removed = _only(layout, blocks), set[Head]()
    for block, text in by_block(layout, kept).items():
        number, attentions = whole(text, block), layout.of(block)
        if not balanced:
            removed |= keep(block, attentions, number, seed)
            continue
        for attention, share in zip(
            attentions, shares(block, attentions, number, seed), strict=True
        ):
            removed |= keep(f"{block}.{attention.layer}", (attention,), share, seed)
    return frozenset(removed)


def layers(
    layout: HeadLayout,
    which: str | int | Iterable[int],
    *,
    seed: Seed = 0,
    scores: Scores | None = None,
    blocks: Blocks = None,
    first: int = 1,
) -> Heads:
    """Remove all heads of a set of layers in every block: `top 3 + bottom 3`, `odd`, `0,2,5-7` (see `layer_set`)."""
    layout = _only(layout, blocks)
    removed = set[Head]()
    for block in layout.blocks:
        chosen = layer_set(which, [a.layer for a in layout.of(block)], block, first)
        removed.update(head for a in layout.of(block) if a.layer in chosen for head in a.heads)
    return frozenset(removed)


def lowest(
    layout: HeadLayout,
    k: int,
    *,
    seed: Seed = 0,
    scores: Scores | None = None,
    blocks: Blocks = None,
) -> Heads:
    """Remove the k heads of lowest score; equal scores fall by (layer, head), lower first.

    Heads that go together count with the mean of their scores. Scores of other heads are ignored.
    """
    return prefix("model", _ascending(_only(layout, blocks), scores), whole(k, "k"))


def highest(
    layout: HeadLayout,
    k: int,
    *,
    seed: Seed = 0,
    scores: Scores | None = None,
    blocks: Blocks = None,
) -> Heads:
    """Remove the k heads of highest score: the order of `lowest`, read from its end."""
    return prefix("model", _ascending(_only(layout, blocks), scores)[::-1], whole(k, "k"))


STRATEGIES: dict[str, Callable[..., Heads]] = {
    "random": random,
    "random_k": random_k,
    "stratified": stratified,
    "per_layer": per_layer,
    "per_block": per_block,
    "layers": layers,
    "lowest": lowest,
    "highest": highest,
}


def choose(name: str, layout: HeadLayout, amount: Any, **options: Any) -> Heads:
    """Call a strategy by name; a name that is not known or an option it does not take is refused."""
    if name not in STRATEGIES:
        raise unknown_name("strategy", name, STRATEGIES)
    known = list(inspect.signature(STRATEGIES[name]).parameters)[2:]
    for option in options:
        if option not in known:
            raise unknown_name(f"option of {name}", option, known)
    return STRATEGIES[name](layout, amount, **options)


def _only(layout: HeadLayout, blocks: Blocks) -> HeadLayout:
    if blocks is None:
        return layout
    names = [
        block_named(layout, name)
        for name in (blocks.split(",") if isinstance(blocks, str) else blocks)
    ]
    return HeadLayout(a for a in layout.attentions if a.block in names)


def _parts(layout: HeadLayout, per: str) -> dict[str, tuple[Attention, ...]]:
    """The layout cut into what is drawn from separately, each by its name."""
    if per == "model":
        return {"model": layout.attentions}
    if per == "block":
        return {block: layout.of(block) for block in layout.blocks}
    if per == "layer":
        return {f"{a.block}.{a.layer}": (a,) for a in layout.attentions}
    raise unknown_name("value of `per`", per, ("model", "block", "layer"))


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
    means = {
        bundle: sum(scores[head] for head in bundle) / len(bundle)
        for a in layout.attentions
        for bundle in a.groups
    }
    bad = next((bundle for bundle, mean in means.items() if isnan(mean)), None)
    if bad is not None:
        name = next((head for head in bad if isnan(scores[head])), bad[0])
        raise HeadError(
            f"the score of {name} is not a number (NaN).",
            "look for a division by zero or an overflow where it was made",
        )
    return sorted(means, key=lambda bundle: (means[bundle], bundle[0].layer, bundle[0].index))
