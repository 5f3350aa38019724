"""The strategies: heads drawn at random, whole layers, and the heads of lowest or highest score."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import isnan
from typing import Any, Literal

from deadhead.errors import HeadError, unknown_name
from deadhead.layout import Attention, Head, HeadLayout

from . import amounts
from .amounts import Rounding, by_block, whole
from .draws import Bundle, Seed, draw, keep, prefix, rng_for, shuffled
from .strategy import Heads, HeadScores, Strategy


def random(
    layout: HeadLayout,
    percent: float | Fraction,
    *,
    seed: Seed = 0,
    scores: HeadScores = None,
    per: Literal["model", "block", "layer"] = "model",
    rounding: Rounding = "nearest",
) -> Heads:
    """Remove a percentage of the heads, drawn uniformly; each percentage is a draw of its own.

    per: draw from the whole `model`, or the same percentage from each `block` or each `layer`.
    """
    chosen: set[Head] = set()
    for place, part in _parts(layout, per).items():
        total = sum(len(a.kept) for a in part)
        chosen |= draw(place, part, amounts.count(percent, total, rounding), seed)
    return frozenset(chosen)


def random_k(layout: HeadLayout, k: int, *, seed: Seed = 42, scores: HeadScores = None) -> Heads:
    """Remove k heads drawn uniformly: the first k of one shuffle per seed."""
    bundles = [bundle for a in layout.attentions for bundle in a.groups]
    return prefix("model", shuffled(bundles, rng_for(seed, "model")), whole(k, "k"))


def stratified(
    layout: HeadLayout, kept: int = 1, *, seed: Seed = 0, scores: HeadScores = None
) -> Heads:
    """Keep this number of random heads in every layer of every block (1 for the papers' 87 %)."""
    parts, number = _parts(layout, "layer"), whole(kept, "kept")
    return frozenset().union(*(keep(place, part, number, seed) for place, part in parts.items()))


def per_layer(
    layout: HeadLayout,
    kept: str | Sequence[Any] | Mapping[str, Any],
    *,
    seed: Seed = 0,
    scores: HeadScores = None,
) -> Heads:
    """Keep the numbers of heads that a text spells, layer 0 first, drawn uniformly in each layer.

    `888444` keeps 8 heads in each of the lower three layers and 4 in the upper; write `12,12,6`
    where a number has two digits. For more blocks give a text for every block, in the order of the
    papers: encoder, cross, decoder, then any other in layout order; written, that is
    `888444/444888/888444`. Or give a mapping from block (the papers' ES, ED, DS work too) to text:
    a block without a name stays whole.
    """
    chosen = set[Head]()
    for block, text in by_block(layout, kept).items():
        numbers, attentions = amounts.counts(text), layout.of(block)
        if len(numbers) != len(attentions):
            raise HeadError(
                f"expected a number for each of the {len(attentions)} layers of {block}, "
                f"got {len(numbers)} in {text!r}.",
                "give the numbers of heads to keep, layer 0 first; "
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
    scores: HeadScores = None,
) -> Heads:
    """Keep this number of heads in each block, such as (14, 31, 30), drawn over all its layers.

    A triple is in the order of the papers: encoder (ES), cross (ED), decoder (DS); written,
    `14/31/30`. A mapping such as {"ES": 14, "DS": 30} leaves cross whole.
    """
    chosen = set[Head]()
    for block, number in by_block(layout, kept).items():
        chosen |= keep(block, layout.of(block), whole(number, block), seed)
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


def layers(
    layout: HeadLayout,
    which: str | int | Iterable[int],
    *,
    seed: Seed = 0,
    scores: HeadScores = None,
) -> Heads:
    """Remove all heads of a set of layers in every block: `top 3 + bottom 3`, `odd`, `0,2,5-7`.

    `layer_set` explains the words.
    """
    chosen = set[Head]()
    for block in layout.blocks:
        numbers = amounts.layer_set(which, [a.layer for a in layout.of(block)], block)
        chosen.update(head for a in layout.of(block) if a.layer in numbers for head in a.heads)
    return frozenset(chosen)


def lowest(layout: HeadLayout, k: int, *, seed: Seed = 0, scores: HeadScores = None) -> Heads:
    """Remove the k heads of lowest score; equal scores are ordered by (layer, head), lower first.

    Heads that must go together count with the mean of their scores. Scores of other heads are
    ignored.
    """
    return prefix("model", _ascending(layout, scores), whole(k, "k"))


def highest(layout: HeadLayout, k: int, *, seed: Seed = 0, scores: HeadScores = None) -> Heads:
    """Remove the k heads of highest score: the order of `lowest`, read from its end."""
    return prefix("model", _ascending(layout, scores)[::-1], whole(k, "k"))


def lowest_layers(
    layout: HeadLayout, n: int, *, seed: Seed = 0, scores: HeadScores = None
) -> Heads:
    """Remove all heads of the n layers of lowest score, which is the mean of their heads' scores.

    Layers of all blocks count together, and layers that have no heads left do not count.
    """
    bundles = [a.heads for a in layout.attentions if a.heads]
    return _whole_layers(_ascending(layout, scores, bundles), n)


def random_layers(
    layout: HeadLayout, n: int, *, seed: Seed = 42, scores: HeadScores = None
) -> Heads:
    """Remove all heads of n layers drawn uniformly: the first n of one shuffle per seed."""
    bundles = [a.heads for a in layout.attentions if a.heads]
    return _whole_layers(shuffled(bundles, rng_for(seed, "layers")), n)


def _whole_layers(bundles: Sequence[Bundle], n: int) -> Heads:
    number = whole(n, "n", "layers")
    if number > len(bundles):
        message = f"cannot remove {number} layers: {len(bundles)} have heads."
        raise HeadError(message, f"remove {len(bundles)} or fewer")
    return frozenset(head for bundle in bundles[:number] for head in bundle)


def _ascending(
    layout: HeadLayout, scores: HeadScores, bundles: Sequence[Bundle] | None = None
) -> list[Bundle]:
    """The bundles by the mean of their scores, lowest first, ties by (layer, head).

    bundles: by default the heads that must go together.
    """
    if scores is None:
        hint = "pass scores=ranking.scores_for(layout)"
        raise HeadError("`scores` expects a number for each head, got None.", hint)
    missing = [head for head in layout if head not in scores]
    if missing:
        message = f"{len(missing)} of {len(layout)} heads have no score; the first is {missing[0]}."
        raise HeadError(message, "rank all heads of this layout")
    if bundles is None:
        bundles = [bundle for a in layout.attentions for bundle in a.groups]
    means = {b: sum(scores[head] for head in b) / len(b) for b in bundles}
    bad = next((bundle for bundle, mean in means.items() if isnan(mean)), None)
    if bad is not None:
        name = next((head for head in bad if isnan(scores[head])), bad[0])
        hint = "check for a division by zero or an overflow in the ranking"
        raise HeadError(f"the score of {name} is not a number (NaN).", hint)
    return sorted(means, key=lambda bundle: (means[bundle], bundle[0].layer, bundle[0].index))


RANDOM = Strategy(
    select=random,
    amount=amounts.PERCENT,
    draws=True,
    even=True,
    help="Remove this percentage of the heads, at random.",
    label="random share",
    sentence="{amount} % of the heads at random",
)
RANDOM_K = Strategy(
    select=random_k,
    amount=amounts.HEADS,
    draws=True,
    even=True,
    nested=True,
    help="Remove K heads at random. With one seed, a larger K adds heads to a smaller K.",
    label="random heads",
    short="random",
    sentence="{amount} heads at random",
    sentence_of_one="a head at random",
)
STRATIFIED = Strategy(
    select=stratified,
    amount=amounts.KEPT,
    draws=True,
    even=True,
    flag="keep-in-each-layer",
    help="Keep K heads in every layer and remove the others, at random.",
    label="random, the same number kept in each layer",
    sentence="all heads but {amount} of each layer",
)
PER_LAYER = Strategy(
    select=per_layer,
    amount=amounts.KEPT_BY_LAYER,
    draws=True,
    flag="keep-per-layer",
    help="Keep heads at random, a digit for each layer: 888444.",
    label="random, by layer",
    sentence="all heads but {amount} (by layer)",
)
PER_BLOCK = Strategy(
    select=per_block,
    amount=amounts.KEPT_BY_BLOCK,
    draws=True,
    flag="keep-per-block",
    help="Keep heads at random, a number for each block: 14/31/30.",
    label="random, by block",
    sentence="all heads but {amount} (by block)",
)
LAYER_SET = Strategy(
    select=layers,
    amount=amounts.LAYERS,
    flag="remove-heads-of-layers",
    help="Remove all heads of these layers: 'top 3 + bottom 3', 'odd', '0,2,5-7'.",
    label="whole layers",
    sentence="all heads of the layers {amount}",
)
LOWEST = Strategy(
    select=lowest,
    amount=amounts.HEADS,
    needs_scores=True,
    help="Remove the K lowest heads of --ranking.",
    label="lowest-ranked",
    sentence="the {amount} lowest-ranked heads",
    sentence_of_one="the lowest-ranked head",
)
HIGHEST = Strategy(
    select=highest,
    amount=amounts.HEADS,
    needs_scores=True,
    help="Remove the K highest heads of --ranking.",
    label="highest-ranked",
    sentence="the {amount} highest-ranked heads",
    sentence_of_one="the highest-ranked head",
)
LOWEST_LAYERS = Strategy(
    select=lowest_layers,
    amount=amounts.WHOLE_LAYERS,
    needs_scores=True,
    flag="remove-heads-of-lowest-layers",
    help="Remove all heads of the N lowest layers of --ranking.",
    label="lowest-ranked layers",
    short="lowest",
    sentence="all heads of the {amount} lowest-ranked layers",
    sentence_of_one="all heads of the lowest-ranked layer",
)
RANDOM_LAYERS = Strategy(
    select=random_layers,
    amount=amounts.WHOLE_LAYERS,
    draws=True,
    even=True,
    nested=True,
    flag="remove-heads-of-random-layers",
    help="Remove all heads of N layers at random. With one seed, a larger N adds layers.",
    label="random layers",
    short="random",
    sentence="all heads of {amount} layers at random",
    sentence_of_one="all heads of a layer at random",
)
