"""Runs of a model whose layers are skipped and refitted, while nothing of it changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from deadhead.errors import DataError
from deadhead.forward import forward, is_encoder_decoder, on_device, real_tokens
from deadhead.heads.depth import stacks_of, text
from deadhead.heads.discover import find_every_site
from deadhead.heads.layers import replaced
from deadhead.heads.prune import Cut
from deadhead.heads.site import Site
from deadhead.layout import Batch, LayerKey

from .ends import End, ends_of, owners_of, stream_of
from .held_out import FitBatches, mean_loss
from .projection import Projection, Solution
from .streams import Call, Streams

CANDIDATES = ("weighted",)  # tokens weigh as in the error: relative to their targets


def hidden_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The residual stream that a layer gets."""
    return args[0] if args else kwargs["hidden_states"]


def _unchanged() -> Callable[[], None]:
    return lambda: None


def _skipped(own: Callable[..., Any] | None, *args: Any, **kwargs: Any) -> Any:
    """The forward pass of a layer that gives what it gets.

    own: its own, if it gives more than the stream: T5's first layer gives a bias to all others.
    """
    given = hidden_of(args, kwargs)
    if own is None:
        return given
    output = own(*args, **kwargs)
    return (given, *output[1:])


@dataclass(frozen=True)
class State:
    """Layers that are removed, and the new projections of others."""

    removed: tuple[LayerKey, ...] = ()
    solutions: Mapping[LayerKey, tuple[Solution, ...]] = field(default_factory=dict)

    def solved(self, key: LayerKey, solution: Solution) -> State:
        """This state with one more new projection, in this layer."""
        site = solution.cut.site
        others = tuple(s for s in self.solutions.get(key, ()) if s.cut.site is not site)
        return State(self.removed, {**self.solutions, key: (*others, solution)})


class Depth:
    """A model whose layers are skipped and refitted, while nothing of it changes."""

    def __init__(self, model: nn.Module, batches: Sequence[Batch]):
        """batches: to refit with."""
        self.model, self.data = model, FitBatches(model, batches)
        self.sites, self.stacks = find_every_site(model), stacks_of(model)
        self.layers = {
            key: layer
            for stack in self.stacks.values()
            for key, layer in zip(stack.keys, stack.layers, strict=True)
        }
        self.owners = owners_of(self.layers)
        first = on_device(batches[0], model)
        self.ends, self.tensors = ends_of(model, self.layers, self.sites, first)
        for key in self.layers:
            if key not in self.tensors:
                raise DataError(f"the data do not run layer {text(key)}.", "give other data")

    def skip(self, key: LayerKey) -> Callable[[], None]:
        """Have a layer give what it gets; returns the undo function."""
        layer = self.layers[key]
        own = None if self.tensors[key] else layer.forward
        return replaced(layer, partial(_skipped, own))

    def reading(self, batches: Sequence[Batch]) -> Depth:
        """The same runs of other batches."""
        other = copy(self)
        other.data = FitBatches(self.model, batches)
        return other

    @contextmanager
    def tried(self, state: State) -> Iterator[nn.Module]:
        """The model, still whole, gives what it will give with this state."""
        with ExitStack() as stack:
            for key in state.removed:
                stack.callback(self.skip(key))
            for solutions in state.solutions.values():
                for solution in solutions:
                    stack.callback(solution.install())
            yield self.model

    def streams(self, state: State) -> Streams:
        """Runs of the whole model, and of the model in this state."""
        streams = Streams(self.model, self.sites)
        _, first = next(iter(self.data))
        streams.trace(first)
        # whole runs go further than small ones, so that neither may resume where the other stopped
        streams.change(self.sites[0], _unchanged)
        for key in state.removed:
            streams.change(self._marker(key), partial(self.skip, key))
        for solutions in state.solutions.values():
            for solution in solutions:
                streams.change(solution.cut.site, solution.install)
        return streams

    def _marker(self, key: LayerKey) -> Site:
        """A site of a layer, by whose path a run knows whether it skips the layer anyway."""
        return next(site for site in self.sites if self.owners.get(id(site.core)) == key)

    def solve(self, streams: Streams, site: Site, end: End | None, target: End | None) -> Solution:
        """Refit a projection.

        end, target: of its layer, and of that whose stream it should give; None for a projection
        that should give the stream of the whole model right behind itself.
        """
        constant = getattr(site.out, "bias", None) is not None
        projection = Projection(Cut(site, site.kept), CANDIDATES, new_bias=constant)
        for number, batch in self.data:
            goal = site if target is None else target.site
            (whole,) = streams.run(number, batch, goal, follow=True)
            (small,) = streams.run(number, batch, site, small=True, follow=True)
            if small.added is None or whole.added is None:
                break
            wish = whole.output + whole.added
            if end is not None and target is not None and end is not target:
                wish = end.target(target.stream(wish), small.output + small.added)
            goal_call = Call(small.inputs, wish - small.added)
            parts = self.data.parts(number, batch, site, small.inputs)
            projection.add(goal_call, Call(small.inputs, small.output), parts)
        else:
            if projection.is_finite():
                return projection.solution()
        return projection.unchanged()

    def loss(self, state: State, batches: Sequence[Batch]) -> float:
        with self.tried(state):
            return mean_loss(self.model, batches)

    def without(self, state: State, streams: Streams | None, key: LayerKey) -> State:
        """This state without one more layer, and the layer before it refitted.

        streams: runs in this state; None for no refit.
        """
        removed = (*state.removed, key)
        new = State(removed, {k: v for k, v in state.solutions.items() if k != key})
        repairer = self.repairer(key, removed)
        if streams is None or repairer is None:
            return new
        before, end, target = repairer
        return new.solved(before, self.solve(streams, end.site, end, target))

    def repairer(
        self, key: LayerKey, removed: Iterable[LayerKey]
    ) -> tuple[LayerKey, End, End] | None:
        """The layer that takes over what a removed one gave, its end, and the end it must reach."""
        (block, number), removed = key, {*removed}
        while (block, number) in removed:
            number -= 1
        before = (block, number)
        end, target = self.ends.get(before), self._goal(key, removed)
        return None if end is None or target is None else (before, end, target)

    def _goal(self, key: LayerKey, removed: Collection[LayerKey]) -> End | None:
        """The end of the last of the removed layers that follow this one, or of this one."""
        block, number = key
        while (block, number + 1) in removed:
            number += 1
        return self.ends.get((block, number))

    def behind(
        self, order: Iterable[Site], removed: Sequence[LayerKey]
    ) -> list[tuple[LayerKey, Site, End | None, End | None]]:
        """What `solve` takes for each projection behind a removed layer, or in its place."""
        first = {block: min(n for b, n in removed if b == block) for block, _ in removed}
        jobs: list[tuple[LayerKey, Site, End | None, End | None]] = []
        for site in order:
            key = self.owners.get(id(site.out), ("", -1))
            if key in removed or key[1] < first.get(key[0], key[1] + 2) - 1:
                continue
            end, target = self.ends.get(key), self._goal(key, removed)
            if end is None or target is None:
                continue
            if site is end.site:
                jobs.append((key, site, end, target))
            elif key[1] > first[key[0]]:
                jobs.append((key, site, None, None))
        return jobs

    def similarities(self) -> dict[LayerKey, float]:
        """The mean cosine between the input and the output of each layer."""
        sums, pair = dict.fromkeys(self.layers, 0.0), is_encoder_decoder(self.model)

        def add(
            key: LayerKey, real: Any, layer: nn.Module, args: Any, kwargs: Any, out: Any
        ) -> None:
            given, gives = hidden_of(args, kwargs), stream_of(out)
            cosines = F.cosine_similarity(given.float(), gives.float(), dim=-1)
            if real is not None and real.shape == cosines.shape:
                cosines = cosines[real]
            sums[key] += float(cosines.mean())

        for _, batch in self.data:
            with ExitStack() as hooks, torch.no_grad():
                for key, layer in self.layers.items():
                    real = real_tokens(batch, decoder=key[0] == "decoder" and pair)
                    hook = partial(add, key, real)
                    hooks.enter_context(layer.register_forward_hook(hook, with_kwargs=True))
                forward(self.model, batch)
        return {key: total / len(self.data) for key, total in sums.items()}
