"""Layer-wise relevance propagation: how much of the model's decision came through each head.

The decision (the logit of the class predicted, at every labelled position) is handed back through the
network, every operation passing it to its inputs by their share in the output. What arrives at the
input of an attention's output projection, summed over positions, is the relevance of its heads.

Written from the published formulas (Bach et al. 2015, Voita et al. 2019 and 2021, Achtibat et al.
2024). The LRP method is reported to be patented, and free for personal and scientific use only; if
your use is another, find out before you use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from deadhead.errors import UnsupportedModel, unknown_name
from deadhead.heads.discover import find_sites
from deadhead.heads.gates import attach
from deadhead.heads.sites import Site
from deadhead.layout import Head, HeadLayout
from deadhead.rankers import Progress, Scores
from deadhead.rankers.loss import IGNORED, FiniteLoss, answer, losses_of, on_device, task_of
from deadhead.ranking.scores import spread

from .alphabeta import AlphaBeta
from .epsilon import Epsilon
from .flow import Rules, flowing, only_present, refusal

RULES: dict[str, type] = {"alpha-beta": AlphaBeta, "epsilon": Epsilon}
TARGETS = ("predicted", "gold")


@dataclass(frozen=True)
class LRP:
    """Score a head by its share in the relevance of its layer: per sentence, averaged, then scaled to 0..1.

    `epsilon` is AttnLRP and costs one backward pass. `alpha-beta` follows Voita et al.; it lays out the part of every
    weight for every token, which takes a BERT of base size some ten seconds a sentence on one CPU core: use a GPU.
    """

    rule: str = "epsilon"
    target: str = (
        "predicted"  # the class whose logit is explained: the one predicted, or the gold one
    )
    constant_attention: bool = (
        False  # attention weights count as constants: CP-LRP; nothing goes to queries and keys
    )

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise unknown_name("LRP rule", self.rule, RULES)
        if self.target not in TARGETS:
            raise unknown_name("LRP target", self.target, TARGETS)

    def __call__(
        self,
        model: nn.Module,
        layout: HeadLayout,
        batches: Sequence[Mapping[str, Tensor]],
        *,
        seed: int,
        progress: Progress,
    ) -> Scores:
        rules: Rules = RULES[self.rule](self.constant_attention)
        total = {
            (a.block, a.layer): torch.zeros(len(a.kept), dtype=torch.float64)
            for a in layout.attentions
        }
        sentences = 0
        with relevance(model, layout, rules, gold=self.target == "gold") as relevance_of:
            for number, batch in enumerate(batches):
                for place, each in relevance_of(batch).items():
                    size = each.abs().double()
                    total[place] += (size / size.sum(1, keepdim=True).clamp(min=1e-30)).sum(0)
                sentences += int(
                    (batch["labels"] != IGNORED).view(len(batch["labels"]), -1).any(1).sum()
                )
                progress(number + 1, len(batches))
        raw = {
            Head(*place, i): float(t) / sentences
            for place, sums in total.items()
            for i, t in zip(layout[place].kept, sums, strict=True)
        }
        if not any(raw.values()):
            raise UnsupportedModel(
                "no relevance reaches any head: the logits do not depend on attention.",
                "look for weights that are all 0",
            )
        return Scores(spread(raw), raw)


Relevance = dict[tuple[str, int], Tensor]  # (block, layer) -> sentences x heads of the layout


@contextmanager
def relevance(
    model: nn.Module, layout: HeadLayout, rules: Rules, *, gold: bool = False
) -> Iterator[Callable[[Mapping[str, Tensor]], Relevance]]:
    """Gives the function that says how relevant every head of the layout is for every sentence of a batch."""
    sites = [
        site for site in find_sites(model) if site.kept and layout[site.block, site.layer].kept
    ]
    if any(site.time_first or site.out is None for site in sites):
        raise refusal(model, "its own form of attention")
    seen: list[tuple[Site, Tensor]] = []
    finite = FiniteLoss()  # shares of nan, or of the largest of nan, would look like any other
    with ExitStack() as stack:
        rules_in_place = stack.enter_context(flowing(model, rules))
        for site in sites:
            stack.callback(attach(site, partial(_look, seen, site, layout)))

        def relevance_of(batch: Mapping[str, Tensor]) -> Relevance:
            seen.clear()
            batch = on_device(batch, model)
            with rules_in_place:
                logits = answer(model, batch).logits
            if not logits.requires_grad:
                raise UnsupportedModel(
                    "no relevance reaches any head: the logits do not come from these layers."
                )
            shifted = task_of(model, batch) == "causal"
            finite.add(losses_of(logits.detach(), batch["labels"], shifted=shifted))
            start = decision(logits, batch["labels"], shifted=shifted, gold=gold)
            return _read(seen, start, layout, rules)

        yield relevance_of
    finite.check()


def _read(
    seen: list[tuple[Site, Tensor]], start: Tensor, layout: HeadLayout, rules: Rules
) -> Relevance:
    """Hand the decision back, and sum what arrives at each head over positions."""
    gradients = torch.autograd.grad(start, [context for _, context in seen], allow_unused=True)
    found: Relevance = {}
    for (site, context), gradient in zip(seen, gradients, strict=True):
        place = (site.block, site.layer)
        arrived = (
            torch.zeros_like(context)
            if gradient is None
            else rules.relevance(context.detach(), gradient)
        )
        heads = arrived.unflatten(-1, (-1, site.width)).sum((1, 3))[:, _columns(site, layout)]
        found[place] = (
            heads if place not in found else found[place] + heads
        )  # one layer's weights used twice: ALBERT
    everything = torch.cat(list(found.values()), 1).cpu()  # one trip
    return dict(
        zip(found, everything.split([heads.shape[1] for heads in found.values()], 1), strict=True)
    )


def _columns(site: Site, layout: HeadLayout) -> list[int]:
    """Where the heads that are asked about lie among those the layer has: closed ones are there, but not asked about."""
    return [site.kept.index(i) for i in layout[site.block, site.layer].kept]


def _look(
    seen: list[tuple[Site, Tensor]], site: Site, layout: HeadLayout, context: Tensor
) -> Tensor:
    """Remember what the output projection reads; below the lowest such place no relevance is needed."""
    if not context.requires_grad:
        context = context.detach().requires_grad_()
    columns = _columns(site, layout)
    if len(columns) < len(site.kept):
        only_present(context, columns, site.width)
    seen.append((site, context))
    return context


def decision(logits: Tensor, labels: Tensor, *, shifted: bool, gold: bool) -> Tensor:
    """The sum of the logits to explain: one for each labelled position."""
    if shifted:
        logits, labels = logits[:, :-1], labels[:, 1:]
    told = labels != IGNORED
    classes = labels.clamp(min=0) if gold else logits.detach().argmax(-1)
    return logits.gather(-1, classes.unsqueeze(-1)).squeeze(-1)[told].sum()
