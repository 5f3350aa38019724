"""Choose whole layers to remove, and refit the layers that stay.

The last projection of a layer is refitted so that the residual stream behind it is what the removed
layers after it gave in the whole model. "greedy" removes one layer after the other: it does so
without each of the layers that are left, and removes the one without which the loss is lowest.
At the end, the projections behind the first removed layer are solved again in the order in which
they run, since each of them reads what those before it give now. One that does not lower the loss
stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.display.progress import Progress
from deadhead.errors import DeadheadError, unknown_name
from deadhead.heads.depth import checked_layers, removal, stacks_of, text
from deadhead.heads.parts import out_axis
from deadhead.layout import Batch, LayerKey
from deadhead.rankers.label_free import with_loss
from deadhead.rankers.loss import examples_of
from deadhead.rankers.run import frozen

from .calibration import Calibration
from .depth import Depth, State
from .held_out import split_examples
from .projection import Solution
from .refitting import LayerRefit, row
from .target import MIXED, LayerAmount, count_of

METHODS = ("greedy", "similarity")
REPAIRS = ("refit", "refit-all", "none")  # that can repair the loss of layers
# How much of the data is read: by each removal for a loss and for a refit, and by the last refit
MEASURED, SEARCHED, FITTED = 4096, 16_384, 131_072  # tokens
ON_GPU = 4  # times as many
SHORTLIST = 12  # layers that are tried after the first removal


def method_of(method: str, repair: str, others: bool) -> str:
    """The method that chooses layers; raises an error for methods that cannot.

    others: whether heads or neurons are removed too, by the method that is named.
    """
    if repair not in REPAIRS:
        raise DeadheadError(
            f"removed layers expect one of the repairs {', '.join(REPAIRS)}, got {repair!r}.",
            "leave the repair out, or write --repair none to only cut",
        )
    if method in METHODS:
        if others:
            message = f"{method} chooses layers alone, got heads or neurons to remove too."
            raise DeadheadError(message, "leave the method out, or shrink twice")
        return method
    if method != "auto" and not others:
        raise unknown_name("method of choosing layers", method, ("auto", *METHODS))
    return METHODS[0]


def mixes(targets: Iterable[str], method: str, repair: str) -> bool:
    """Whether layers are chosen for these targets too, beside heads and neurons."""
    return {*targets} <= {*MIXED} and method == "auto" and repair in REPAIRS


def check_layers(model: nn.Module, amount: LayerAmount) -> int:
    """How many layers an amount removes; raises an error if the model cannot lose as many.

    It needs no weights.
    """
    stacks = stacks_of(model)
    if isinstance(amount, tuple):
        return len(checked_layers(stacks, amount))
    total = sum(len(stack.layers) for stack in stacks.values())
    return count_of("layers", amount, total, total - len(stacks))


@dataclass(frozen=True)
class LayersPlan:
    """The layers to remove, and how the others change."""

    depth: Depth
    state: State
    method: str
    rows: tuple[LayerRefit, ...]
    notes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The removed layers, in their order."""
        return tuple(text(key) for key in self.depth.layers if key in self.state.removed)

    def cut(self) -> AbstractContextManager[nn.Module]:
        """The model gives what it gives without these layers, and nothing else changed."""
        return self.depth.tried(State(self.state.removed))

    def tried(self) -> AbstractContextManager[nn.Module]:
        """The model gives what it will give once the plan is applied."""
        return self.depth.tried(self.state)

    def apply(self) -> Callable[[], None]:
        """Remove the layers and write the new weights; returns the undo function."""
        model = self.depth.model
        remove = removal(model, self.state.removed)
        undo = _snapshot(model)
        try:
            with torch.inference_mode(False):
                for solutions in self.state.solutions.values():
                    for solution in solutions:
                        _write(solution)
            remove()
        except BaseException:
            undo()
            raise
        return undo


def _snapshot(model: nn.Module) -> Callable[[], None]:
    """Give back the modules, the parameters and the plain attributes of a model."""
    modules = list(model.modules())
    states = [(m, dict(vars(m)), dict(m._modules), dict(m._parameters)) for m in modules]

    def undo() -> None:
        for module, attributes, children, parameters in states:
            vars(module).clear()
            vars(module).update(attributes)
            module._modules, module._parameters = children, parameters

    return undo


def _write(solution: Solution) -> None:
    """Give a projection new weights; copies of the model that share the old ones keep them."""
    out: Any = solution.cut.site.out
    weight = solution.weight if out_axis(out) == 0 else solution.weight.T.contiguous()
    out.weight = nn.Parameter(weight, requires_grad=out.weight.requires_grad)
    if solution.bias is not None:
        out.bias = nn.Parameter(solution.bias, requires_grad=out.bias.requires_grad)


def plan_layers(
    calibration: Calibration, amount: LayerAmount, method: str, repair: str
) -> LayersPlan:
    """Choose layers and refit the others. Nothing of the model changes."""
    search = _Search(calibration, repair != "none")
    with search.stage("choose layers") as tick:
        count = check_layers(calibration.model, amount)
        if isinstance(amount, tuple):
            method, options = "list", [[key] for key in checked_layers(search.depth.stacks, amount)]
        elif method == "similarity":
            order = search.by_similarity()
            options = [[key] for key in order[:count]]
        else:
            options = [list(search.depth.layers)] * count
        for step, keys in enumerate(options):
            search.remove_one(keys, tick, step, count)
    return search.plan(method, amount)


def plans_of_layers(
    calibration: Calibration, counts: Iterable[int], repair: str
) -> Iterator[LayersPlan]:
    """Plans that remove these numbers of layers, which rise, by one greedy search."""
    search = _Search(calibration, repair != "none")
    for count in counts:
        while len(search.state.removed) < count:
            with search.stage("choose layers") as tick:
                search.remove_one([*search.depth.layers], tick)
        yield search.plan(METHODS[0], count)


class _Search:
    """A greedy search; `state` is what it has removed so far."""

    def __init__(self, calibration: Calibration, refits: bool):
        model, loss = calibration.model, calibration.loss
        self.calibration, self.refits = calibration, refits
        self.state, self.losses = State(), dict[LayerKey, float]()
        times = ON_GPU if next(model.parameters()).device.type == "cuda" else 1
        fit, measured = calibration.fit, calibration.fit
        if sum(map(examples_of, fit)) >= SHORTLIST:
            fit, measured = split_examples(fit)
        measured = _first(measured, times * MEASURED)
        with frozen(model, calibration.seed):
            if loss is not None:
                measured = with_loss(model, measured, loss, False, calibration.seed)
            self.measured = measured
            self.depth = Depth(model, _first(fit, times * SEARCHED))
        self.fit = _first(fit, times * FITTED)

    @contextmanager
    def stage(self, name: str) -> Iterator[Progress]:
        model, seed = self.calibration.model, self.calibration.seed
        with self.calibration.stage(name) as tick, frozen(model, seed):
            yield tick

    def loss(self, state: State) -> float:
        return self.depth.loss(state, self.measured)

    def plan(self, method: str, amount: LayerAmount) -> LayersPlan:
        """The plan with the layers that are removed so far."""
        state = self.state
        if self.refits:
            with self.stage("refit layers") as tick:
                state = self.refit_again(state, tick)
        rows = [row(s, "residual") for solutions in state.solutions.values() for s in solutions]
        notes = tuple(self.notes(state, amount))
        return LayersPlan(self.depth, state, method, tuple(rows), notes)

    def remove_one(
        self, keys: Sequence[LayerKey], tick: Progress, step: int = 0, steps: int = 1
    ) -> None:
        """Remove one more of these layers: that without which the loss is lowest."""
        left = [key for key in keys if key not in self.state.removed]
        if self.losses and len(left) > SHORTLIST:  # that seemed best last time, in their order
            left = sorted(sorted(left, key=lambda key: self.losses[key])[:SHORTLIST])
        tried: list[tuple[float, State]] = []
        streams = self.depth.streams(self.state) if self.refits else None
        for number, key in enumerate(left):
            new = self.depth.without(self.state, streams, key)
            self.losses[key] = self.loss(new) if len(left) > 1 else 0.0
            tried.append((self.losses[key], new))
            tick(step * len(left) + number, steps * len(left))
        tried.sort(key=lambda pair: pair[0])
        self.state = self._first_allowed([new for _, new in tried])

    def _first_allowed(self, states: Sequence[State]) -> State:
        """The first of these states that the model can be in."""
        problem: DeadheadError | None = None
        for state in states:
            try:
                removal(self.depth.model, state.removed)
            except DeadheadError as why:
                problem = problem or why
            else:
                return state
        assert problem is not None  # there is at least one state
        raise problem

    def by_similarity(self) -> list[LayerKey]:
        """The layers by how similar their outputs are to their inputs, the most similar first."""
        return sorted(self.depth.layers, key=self.depth.similarities().__getitem__, reverse=True)

    def refit_again(self, state: State, tick: Progress) -> State:
        """Refit what runs behind the first removed layer, in order, each if the loss falls."""
        depth = self.depth.reading(self.fit)
        streams, lowest = depth.streams(state), self.loss(state)
        order = depth.behind(streams.order, state.removed)
        for number, (key, site, end, target) in enumerate(order):
            solution = depth.solve(streams, site, end, target)
            new = state.solved(key, solution)
            if (loss := self.loss(new)) < lowest:
                state, lowest = new, loss
                streams.change(site, solution.install)
            tick(number + 1, len(order))
        return state

    def notes(self, state: State, amount: LayerAmount) -> list[str]:
        notes = []
        total, count = len(self.depth.layers), len(state.removed)
        if not isinstance(amount, tuple | int) and amount * total != count:
            notes.append(f"{float(amount):.3g} of {total} layers: removed {count}")
        if self.refits:
            alone = [
                key for key in state.removed if self.depth.repairer(key, state.removed) is None
            ]
            notes += [
                f"no layer before {text(key)} can be refitted to give what it gave"
                for key in sorted(alone)
            ]
        return notes


def _first(batches: Sequence[Batch], tokens: int) -> list[Batch]:
    """The first batches with this many tokens; at least one."""
    chosen: list[Batch] = []
    for batch in batches:
        if tokens <= 0:
            break
        chosen.append(batch)
        tensors = (
            value for value in batch.values() if isinstance(value, Tensor) and value.dim() > 1
        )
        tokens -= max((value.shape[0] * value.shape[1] for value in tensors), default=1)
    return chosen
