"""Rankings of heads that papers propose, each as a function of a model and batches of examples.

They are rows of `rankings.py`, written from the formulas of the papers. `rank(model, batches)`
gives each head a number; heads with the lowest numbers are removed first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from deadhead import captured, discover, rank
from deadhead.heads.discover import find_sites
from deadhead.heads.site import Site
from deadhead.layout import Head
from deadhead.measures.weights import head_weights
from deadhead.rankers.attention_maps import statistics
from deadhead.rankers.ranker import RankerInputs
from deadhead.ranking.scores import spread
from deadhead.shrinking.reconstruction import order_of_removal

Scores = Mapping[Head, float]
Batches = Sequence[Mapping[str, Tensor]]
ALPHA = 0.5  # weight of the importance in HIES; the authors tune it for each task and size


def output_norm(model: Any, batches: Batches) -> Scores:
    """The mean length of what a head adds to the residual stream, over all tokens."""
    return by_site(
        model,
        batches,
        lambda site, read: torch.einsum("thw,ohw->tho", read, blocks(site)).norm(dim=-1).sum(0),
        lambda site, lengths: lengths,
    )


def magnitude(model: Any, batches: Batches) -> Scores:
    """The sum of the magnitudes of all weights of a head: query, key, value and output."""
    scores: dict[Head, float] = {}
    for site in find_sites(model):
        scores |= dict(heads(site, blocks(site).abs().sum((0, 2))))
    for name, tensor in head_weights(model).items():
        scores[Head.parse(name.partition("/")[0])] += float(tensor.abs().sum())
    return scores


def wanda(model: Any, batches: Batches) -> Scores:
    """Wanda (Sun et al. 2024): each output weight times the norm of its input, over a head."""
    return by_site(
        model,
        batches,
        lambda site, read: read.square().sum(0),
        lambda site, squares: (blocks(site).abs().sum(0) * squares.sqrt()).sum(1),
    )


def hies(model: Any, batches: Batches) -> Scores:
    """HIES (Choi et al. 2025): importance, and how focused the attention is, each from 0 to 1.

    The entropy of a query is divided by the logarithm of the length of its text.
    """

    def entropy(maps: Tensor, keys: Tensor) -> Tensor:
        return torch.special.entr(maps).sum(-1) / keys.sum(-1).log()[:, None, None]

    raw = {"normalize": False, "rescale": False}
    importance = spread(rank(model, batches, "gradient", progress=False, **raw).scores)
    inputs = RankerInputs(model=model, layout=discover(model), batches=batches)
    spreads = spread(statistics(inputs, entropy, by_sentence=True))
    return {
        head: ALPHA * score + (1 - ALPHA) * (1 - spreads[head])
        for head, score in importance.items()
    }


def osscar(model: Any, batches: Batches) -> Scores:
    """OSSCAR (Meng et al. 2024): when a head leaves its layer, the same number in every layer.

    The next is the one without which the best refit of the layer has the lowest error. The authors
    then swap heads, which would make a set for each size instead of one order.
    """

    def turns(site: Site, moment: Tensor) -> Tensor:
        order, _ = order_of_removal(moment, blocks(site).flatten(1).double(), site.width)
        return torch.tensor(order).argsort()

    return by_site(
        model,
        batches,
        lambda site, read: read.flatten(1).double().T @ read.flatten(1).double(),
        turns,
    )


def by_site(
    model: Any,
    batches: Batches,
    statistic: Callable[[Site, Tensor], Tensor],
    score: Callable[[Site, Tensor], Tensor],
) -> Scores:
    """Scores of the heads of each layer, from a statistic that is summed over batches.

    statistic: of what the output projection reads, real tokens x heads x width.
    """
    sums: dict[Any, Tensor] = {}
    sites = {site.layer_key: site for site in find_sites(model)}
    for batch in batches:
        with torch.no_grad(), captured(model) as run:
            model(**batch)
        for key, site in sites.items():
            (values,) = run.values[key]
            read = values[batch["attention_mask"].bool()].unflatten(-1, (-1, site.width))
            sums[key] = sums.get(key, 0) + statistic(site, read)
    return {h: x for key, site in sites.items() for h, x in heads(site, score(site, sums[key]))}


def blocks(site: Site) -> Tensor:
    """The output projection as outputs x heads x width."""
    weight: Any = site.out.weight  # type: ignore[union-attr]
    return weight.detach().unflatten(1, (-1, site.width))


def heads(site: Site, values: Tensor) -> Iterator[tuple[Head, float]]:
    """The heads of a layer, each with its value."""
    for number, value in zip(site.kept, values.tolist(), strict=True):
        yield Head(site.block, site.layer, number), value


METHODS: dict[str, Callable[[Any, Batches], Scores]] = {
    "output-norm": output_norm,
    "magnitude": magnitude,
    "wanda": wanda,
    "hies": hies,
    "osscar": osscar,
}
