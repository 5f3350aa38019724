"""Two runs of one model: the whole one, and the one whose earlier projections are replaced.

A run gives what an output projection reads and gives, and what the model adds to its output next,
which is the residual stream. It stops there. Nothing of the model changes: a replaced projection
is a function that takes the place of a module's forward for the time of a run.

A run starts where the last one for the same batch stopped. Since then only a projection at that
place has changed, so all that was computed before it is the same: the outputs of the layers before,
and of the modules inside its layer, are kept for as many batches as fit into memory, and these are
skipped. Other batches run from the start, so the memory does not grow with the data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.forward import forward
from deadhead.heads.layers import StackLayer, layers_around, replaced
from deadhead.heads.residual import Following
from deadhead.heads.site import Site
from deadhead.layout import Batch

MEMORY = 2 << 30  # bytes for the outputs of layers, at least
FREE = 0.25  # of a GPU's free memory, if that is more
CLOSE = 1e-3  # relative; a run from the middle that differs by more is a wrong one
INSIDE = -1  # the place of a module inside a layer
TASK_LAYER = "task layer"  # the block of the site behind all layers

Install = Callable[[], Callable[[], None]]  # changes a site; returns the undo function


@dataclass
class Call:
    """A call of an output projection."""

    inputs: Tensor
    output: Tensor
    added: Tensor | None = None  # what the model adds to the output next, in the same shape


class Streams:
    """Runs a model on batches up to an output projection, whole or with earlier ones changed."""

    def __init__(
        self, model: nn.Module, sites: Iterable[Site], teacher: Mapping[int, Install] | None = None
    ):
        """teacher: id of a site -> a change in whole runs, if these are to be of another model.

        As Kwon et al. have it, the projection of neurons at which a run ends is not changed.
        """
        self.model, self.sites, self.teacher = model, list(sites), teacher or {}
        self.calls: Counter[int] = Counter()  # id of a site -> its calls in a run
        self.order: list[Site] = []  # in which the sites run; the others do not run
        self._changes: dict[int, tuple[Site, Install]] = {}  # id of a site -> in small runs
        self._layers: list[StackLayer] = []  # in the order in which they run
        self._inside: dict[str, nn.Module] = {}  # path -> modules with weights that run once
        self._stored: dict[bool, dict[int, _Outputs]] = {False: {}, True: {}}  # whole, small
        self._bytes = 0
        self._limit = _limit(next(model.parameters()).device)

    def trace(self, batch: Batch) -> None:
        """Find the order of the sites and of the layers around them, by a run of one batch."""
        layers = layers_around(self.model, self.sites)
        seen: Counter[int] = Counter()
        with ExitStack() as stack, torch.no_grad():
            for site in self.sites:
                for out in site.outs:
                    stack.enter_context(
                        out.register_forward_hook(lambda *_, site=site: self._count(site))
                    )
            modules = {id(module): module for layer in layers for module in layer.module.modules()}
            for module in modules.values():
                stack.enter_context(
                    module.register_forward_hook(lambda module, *_: seen.update([id(module)]))
                )
            forward(self.model, batch)
        ran = [layer for layer in layers if seen[id(layer.module)]]
        once = all(seen[id(layer.module)] == 1 for layer in ran)
        # weights that layers share run more than once
        if once and not any(site.tied for site in self.sites):
            places = {number: place for place, number in enumerate(seen)}
            self._layers = sorted(ran, key=lambda layer: places[id(layer.module)])
            around = {id(layer.module) for layer in layers}
            self._inside = {
                path: module
                for path, module in self.model.named_modules()
                if seen[id(module)] == 1
                and id(module) not in around
                and next(module.parameters(), None) is not None
            }
            self._check_skipping(batch)

    def _count(self, site: Site) -> None:
        if not self.calls[id(site)]:
            self.order.append(site)
        self.calls[id(site)] += 1

    def _check_skipping(self, batch: Batch) -> None:
        """Skip no layers if a run from the middle differs from a run from the start."""
        if not self.order:
            return
        first = self.run(-1, batch, self.order[-1])[0]
        try:
            second = self.run(-1, batch, self.order[-1])[0]
            same = is_close(first.inputs, second.inputs) and is_close(first.output, second.output)
        except Exception:  # any: the model reads more of a layer than what the last one gave
            same = False
        if not same:
            self._layers, self._inside = [], {}
        self._stored[False].clear()
        self._bytes = 0

    def reaches(self, batch: Batch, site: Site) -> bool:
        """Add a site behind all layers; whether a run from the last layer gives what it gives."""
        assert site.out is not None
        self.calls[id(site)] = 1
        outputs: list[Tensor] = []
        hook = site.out.register_forward_hook(lambda module, args, output: outputs.append(output))
        with hook, torch.no_grad():
            forward(self.model, batch)
        self.run(-1, batch, site)
        (call,) = self.run(-1, batch, site)
        self._store(False, -1, {})
        return is_close(call.output, outputs[0])

    def change(self, site: Site, install: Install) -> None:
        """Have small runs change this site from now on; sites come in their order."""
        if not self.is_changed:  # up to here, both runs were the same
            self._stored[True] = {n: dict(outputs) for n, outputs in self._stored[False].items()}
            self._bytes *= 2
        self._changes[id(site)] = site, install

    @property
    def is_changed(self) -> bool:
        """Whether small runs differ from whole ones."""
        return bool(self._changes or self.teacher)

    def run(
        self, number: int, batch: Batch, site: Site, *, small: bool = False, follow: bool = False
    ) -> list[Call]:
        """The calls of the output projection of a site in a run of this batch.

        number: of the batch.
        follow: also find what the model adds to the output.
        """
        small = small and self.is_changed
        outputs = self._stored[small].get(number, {})
        watch = _Watch(self.calls[id(site)], follow)
        with ExitStack() as stack, torch.no_grad():
            reached, skipped = self._skip(stack, site, outputs, watch)
            for changed, install in self._changed(small, site):
                if not f"{changed.path}.".startswith(skipped):  # or it would not run
                    stack.callback(install())
            for out in site.outs:
                stack.enter_context(out.register_forward_hook(watch.see))
            try:
                with watch:
                    forward(self.model, batch)
            except _Stop:
                pass
        self._store(small, number, {**_of_layers(outputs), **reached})
        return watch.calls

    def _changed(self, small: bool, end: Site) -> Iterable[tuple[Site, Install]]:
        """The sites that a run up to this site changes."""
        if small:
            return self._changes.values()
        sites = [s for s in self.sites if s is not end or s.kind == "heads"]
        return [(s, self.teacher[id(s)]) for s in sites if id(s) in self.teacher]

    def _skip(
        self, stack: ExitStack, site: Site, outputs: _Outputs, watch: _Watch
    ) -> tuple[_Outputs, tuple[str, ...]]:
        """Skip the layers, and the modules inside of one, whose outputs are known.

        Gives a dict that fills with the outputs of the others, and the prefixes of the skipped.
        """
        reached: _Outputs = {}
        skipped: list[str] = []
        path = f"{site.path}."
        places = [n for n, layer in enumerate(self._layers) if path.startswith(layer.prefix)]
        end = len(self._layers) if site.block == TASK_LAYER else min(places, default=0)
        for place, layer in enumerate(self._layers[:end]):
            known = outputs.get(layer.stack)
            if known is not None and place <= known[0]:
                give = partial(_give, known[1])
                stack.callback(replaced(layer.module, give))
                skipped.append(layer.prefix)
            else:
                keep = partial(_keep, reached, layer.stack, place)
                stack.enter_context(layer.module.register_forward_hook(keep))
        ends = {id(out) for out in site.outs}
        for path, module in self._inside.items():
            known = outputs.get(path)
            if known is not None and ends.isdisjoint(map(id, module.modules())):
                stack.callback(replaced(module, partial(_give, known[1])))
            inside = any(path.startswith(layer.prefix) for layer in self._layers[end : end + 1])
            if inside and id(module) not in ends:
                keep = partial(_keep_inside, reached, watch, path)
                stack.enter_context(module.register_forward_hook(keep))
        return reached, tuple(skipped)

    def _store(self, small: bool, number: int, outputs: _Outputs) -> None:
        stored = self._stored[small]
        self._bytes -= _size(stored.pop(number, {}))
        if (
            self._bytes + _size(outputs) > self._limit / 2
        ):  # leave room for the layers of other batches
            outputs = _of_layers(outputs)
        if outputs and self._bytes + _size(outputs) <= self._limit:
            stored[number] = outputs
            self._bytes += _size(outputs)


# Stack of layers -> place and output of its last known layer; path of a module inside -> its output
_Outputs = dict[str, tuple[int, Any]]


def _limit(device: torch.device) -> float:
    """Return how many bytes the outputs of layers may take on a device."""
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 0
    return max(MEMORY, FREE * free)


def _of_layers(outputs: _Outputs) -> _Outputs:
    return {name: known for name, known in outputs.items() if known[0] != INSIDE}


class _Stop(Exception):
    """Ends a run that has seen enough."""


class _Watch(Following):
    """Records the calls of a projection, follows its output to what is added, and ends the run."""

    def __init__(self, expected: int, follow: bool):
        super().__init__()
        self.expected, self.is_following = expected, follow
        self.calls: list[Call] = []

    def see(self, module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        """The forward hook of the projection."""
        self.calls.append(Call(args[0], output.clone()))  # the model may change it in place
        if self.is_following:
            self.follow(output)
        else:
            self.end()

    def add(self, other: Tensor, total: Tensor) -> None:
        call = self.calls[-1]
        other = other.reshape(call.output.shape)
        call.added = other if call.added is None else call.added + other

    def end(self) -> None:
        if len(self.calls) == self.expected:
            raise _Stop


def _give(value: Any, *args: Any, **kwargs: Any) -> Any:
    """The forward pass of a skipped layer."""
    return _copied(value)


def _keep(
    reached: _Outputs, stack: str, place: int, module: nn.Module, args: Any, output: Any
) -> None:
    """The hook of a layer that is not skipped."""
    reached[stack] = (place, _copied(output))


def _keep_inside(
    reached: _Outputs, watch: _Watch, path: str, module: nn.Module, args: Any, output: Any
) -> None:
    """The hook of a module inside the layer in which a run ends; it may run before the end."""
    if not watch.calls:
        for part in [name for name in reached if name.startswith(f"{path}.")]:
            del reached[part]
        reached[path] = (INSIDE, _copied(output))


def _copied(value: Any) -> Any:
    """A copy of what a layer gave, since the model may change it in place."""
    if isinstance(value, Tensor):
        return value.clone()
    if type(value) in (tuple, list):
        return type(value)(map(_copied, value))
    return value


def _size(value: Any) -> int:
    """The bytes of all tensors in what layers gave."""
    if isinstance(value, Tensor):
        return value.nbytes
    if isinstance(value, dict):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, tuple | list) else 0


def is_close(first: Tensor, second: Tensor) -> bool:
    if first.shape != second.shape or not first.numel():
        return first.shape == second.shape
    limit = CLOSE * float(first.nan_to_num(0, 0, 0).abs().max())
    return torch.allclose(first, second, rtol=CLOSE, atol=limit, equal_nan=True)
