"""Run relevance back through a model and read what arrives at each head."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from deadhead.errors import UnsupportedModel
from deadhead.heads.discover import find_sites
from deadhead.heads.hooks import attach
from deadhead.heads.site import Site
from deadhead.layout import Batch, Head, HeadLayout, LayerKey
from deadhead.rankers.head_copies import columns_of
from deadhead.rankers.loss import (
    IGNORED,
    FiniteLoss,
    class_logits,
    examples_of,
    forward,
    losses_of,
    on_device,
    output_kind,
)
from deadhead.rankers.ranker import RankerInputs

from .alphabeta import AlphaBeta
from .epsilon import Epsilon
from .flow import Rules, flowing, only_present, refusal

RULES: dict[str, type] = {"alpha-beta": AlphaBeta, "epsilon": Epsilon}
Relevance = dict[LayerKey, Tensor]  # sentences x heads of the layout


@contextmanager
def relevance(
    model: nn.Module, layout: HeadLayout, rules: Rules
) -> Iterator[Callable[[Batch], Relevance]]:
    """Gives a function: batch -> the relevance of every head of the layout for every sentence."""
    sites = [s for s in find_sites(model) if s.kept and layout[s.layer_key].kept]
    if any(site.time_first or site.out is None for site in sites):
        raise refusal(model, "its own form of attention")
    seen: list[tuple[Site, Tensor]] = []
    finite = FiniteLoss()  # shares of nan, or of the largest of nan, would look like any other
    with ExitStack() as stack:
        rules_in_place = stack.enter_context(flowing(model, rules))
        for site in sites:
            stack.callback(attach(site, partial(_record, seen, site, layout)))

        def relevance_of(batch: Batch) -> Relevance:
            seen.clear()
            batch = on_device(batch, model)
            with rules_in_place:
                outputs = forward(model, batch)
            logits = class_logits(outputs, batch)
            if not logits.requires_grad:
                message = "no relevance reaches any head: the logits do not come from these layers."
                raise UnsupportedModel(message)
            shifted = output_kind(model, batch) == "causal"
            finite.add(losses_of(logits.detach(), batch["labels"], shifted=shifted))
            start = decision(logits, batch["labels"], shifted=shifted)
            return _read(seen, start, layout, rules)

        yield relevance_of
    finite.check()


def mean_shares(inputs: RankerInputs, rule: str) -> dict[Head, float]:
    """The share of each head in the relevance of its layer, mean of the labelled sentences."""
    total: dict[LayerKey, Tensor] = {}
    sentences, rules = 0, RULES[rule]()
    with relevance(inputs.model, inputs.layout, rules) as relevance_of:
        for batch in inputs.counted():
            for layer, values in relevance_of(batch).items():
                size = values.abs().double()
                shares = (size / size.sum(1, keepdim=True).clamp(min=1e-30)).sum(0)
                total[layer] = total.get(layer, 0) + shares
            labelled = (batch["labels"] != IGNORED).view(examples_of(batch), -1).any(1)
            sentences += int(labelled.sum())
    return {
        head: float(value) / sentences
        for a in inputs.layout.attentions
        for head, value in zip(a.heads, total.get(a.layer_key, [0.0] * len(a.kept)), strict=True)
    }


def _read(
    seen: list[tuple[Site, Tensor]], start: Tensor, layout: HeadLayout, rules: Rules
) -> Relevance:
    """Pass the decision back, and sum what arrives at each head over positions."""
    gradients = torch.autograd.grad(start, [context for _, context in seen], allow_unused=True)
    relevant: Relevance = {}
    for (site, context), gradient in zip(seen, gradients, strict=True):
        layer = site.layer_key
        arrived = torch.zeros_like(context)
        if gradient is not None:
            arrived = rules.relevance(context.detach(), gradient)
        heads = arrived.unflatten(-1, (-1, site.width)).sum((1, 3))[:, columns_of(site, layout)]
        # ALBERT uses the weights of one layer more than once
        relevant[layer] = heads if layer not in relevant else relevant[layer] + heads
    everything = torch.cat(list(relevant.values()), 1).cpu()  # one transfer from the device
    parts = everything.split([heads.shape[1] for heads in relevant.values()], 1)
    return dict(zip(relevant, parts, strict=True))


def _record(
    seen: list[tuple[Site, Tensor]], site: Site, layout: HeadLayout, context: Tensor
) -> Tensor:
    """Record what the output projection reads; no relevance is needed below the lowest."""
    if not context.requires_grad:
        context = context.detach().requires_grad_()
    columns = columns_of(site, layout)  # a closed head has one too, but is not scored
    if len(columns) < len(site.kept):
        only_present(context, columns, site.width)
    seen.append((site, context))
    return context


def decision(logits: Tensor, labels: Tensor, *, shifted: bool) -> Tensor:
    """The sum of the logits to explain: of the predicted class at each labelled position."""
    if shifted:
        logits, labels = logits[:, :-1], labels[:, 1:]
    classes = logits.detach().argmax(-1, keepdim=True)
    return logits.gather(-1, classes).squeeze(-1)[labels != IGNORED].sum()
