"""The task layer of a classifier or tagger, refitted last to the logits of the whole model.

The layers before it are refitted to the residual stream, all directions of which count alike.
This layer reads what is left, and what is wrong along its own directions it can still correct.
"""

import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.forward import forward
from deadhead.heads.prune import Cut
from deadhead.heads.site import Site
from deadhead.rankers.label_free import kind_of_logits, logit_distance, problem_of

from .candidates import CANDIDATES
from .held_out import FitBatches, Parts
from .projection import Projection, Solution
from .solve import NOTHING, TIE, Change, candidates
from .streams import TASK_LAYER, Call, Streams

NAMES = tuple(name for name, kind in CANDIDATES.items() if kind.unknowns != "units")
MOST_CLASSES = 1024  # more outputs are words, whose weights are too many to fit


def solve_task_layer(model: nn.Module, streams: Streams, data: FitBatches) -> Solution | None:
    """The best weights for the task layer, judged by the held-out examples; None: leave it."""
    _, first = next(iter(data))
    site = _find(model, first)
    if site is None or not streams.reaches(first, site):
        return None
    projection = Projection(Cut(site, site.kept), NAMES)
    for whole, small, parts in _calls(streams, data, site):
        projection.add(whole, small, parts)
    if not projection.is_finite() or projection.tokens <= len(site.kept):
        return None
    weight = projection.weight.T.double()
    fit, weighted = projection.fit.precise(), projection.weighted.precise()
    nothing = Change(NOTHING, torch.zeros_like(weight), torch.zeros_like(fit.errors))
    changes = [nothing, *candidates(NAMES, fit, weighted, weight.to(fit.inputs), 1)]
    errors, scale = [0.0 for _ in changes], 0.0
    for whole, small, (_, held_out) in _calls(streams, data, site):
        inputs, target = (value.flatten(0, -2)[held_out] for value in (small.inputs, whole.output))
        kind, target = kind_of_logits(whole.output, problem_of(model)), target.double()
        # a divergence of 1 is large already, but numbers may have any unit
        scale += float(target.square().sum()) if kind == "numbers" else len(target)
        for number, change in enumerate(changes):
            output = projection.output(inputs, change)
            errors[number] += float(logit_distance(output, target, kind).sum())
    best = min(range(len(errors)), key=errors.__getitem__)
    if errors[best] >= errors[0] - TIE * scale:  # no change wins ties
        best = 0
    count = max(1, projection.held_out_tokens)
    before, after = (errors[number] / count for number in (0, best))
    return projection.solution_by(changes[best], (before, after))


def _find(model: nn.Module, batch: Any) -> Site | None:
    """The linear layer whose output are the logits, if it may change: its weights are its own."""
    calls: dict[str, list[weakref.ref[Tensor]]] = {}  # path -> outputs, which are not kept alive

    def see(path: str, module: nn.Module, args: Any, output: Tensor) -> None:
        calls.setdefault(path, []).append(weakref.ref(output))

    with ExitStack() as stack:
        for path, module in model.named_modules():
            if type(module) is nn.Linear:
                stack.enter_context(module.register_forward_hook(partial(see, path)))
        logits = getattr(forward(model, batch), "logits", None)
    paths = [path for path, outputs in calls.items() if outputs[-1]() is logits]
    if not isinstance(logits, Tensor) or not paths:
        return None
    path = paths[0]
    layer: Any = model.get_submodule(path)
    uses = Counter(id(p) for _, p in model.named_parameters(remove_duplicate=False))
    is_own = uses[id(layer.weight)] == 1 and len(calls[path]) == 1
    if layer.bias is None or not is_own or layer.out_features > MOST_CLASSES:
        return None
    kept, size = tuple(range(layer.in_features)), layer.in_features
    return Site(
        kind="neurons", core=layer, path=path, out=layer, size=size, keys=size, width=1, kept=kept,
        block=TASK_LAYER,
    )  # fmt: skip


def _calls(streams: Streams, data: FitBatches, site: Site) -> Iterator[tuple[Call, Call, Parts]]:
    """For each batch the call of the whole and of the small model, and which rows are what."""
    for number, batch in data:
        (whole,) = streams.run(number, batch, site)
        (small,) = streams.run(number, batch, site, small=True)
        yield whole, small, data.parts(number, batch, site, small.inputs)
