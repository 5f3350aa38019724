"""Refit the output projections that lose inputs by least squares.

Layer by layer from the input upwards, the small model (with the layers before cut and refitted)
reads the calibration data, and its projection learns to give what that of the full model gave. It
also corrects the error that is in the residual stream already: its target is the stream of the full
model behind the layer minus that of the small model before it.

Each layer has several candidates, from no change to a full refit, and keeps the best by its error
on held-out examples. A task layer, which gives the logits of classes, is refitted last. Nothing of
the model changes before all layers are solved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.display.progress import Progress, reported
from deadhead.errors import DataError, UnsupportedModel
from deadhead.heads.discover import find_every_site
from deadhead.heads.hooks import attach, hooked
from deadhead.heads.means import evaluating
from deadhead.heads.output_bias import set_output
from deadhead.heads.prune import Cut, checked_cuts, note_in_config, prune
from deadhead.heads.site import Site
from deadhead.layout import Batch, Head, Neurons
from deadhead.numerics import as_written, computing

from .candidates import CANDIDATES, check_candidates
from .held_out import FitBatches, Parts
from .projection import Projection, Solution, columns_of
from .solve import NOTHING
from .streams import Streams
from .task_layer import solve_task_layer


@dataclass(frozen=True, kw_only=True)
class LayerRefit:
    """The result for one output projection.

    The errors are those of its output on the held-out tokens: the mean over tokens of the squared
    error relative to the squared target, after the cut alone and as the layer is now. For the task
    layer, which loses nothing, they are the distance of its logits from those of the whole model:
    the mean divergence (for a regressor the mean square), before its own refit and after it.
    """

    kind: str
    block: str
    layer: int
    candidate: str  # such as "nothing", "mean", "refit 1e-02", "weighted 1e-01"
    error_cut: float
    error_refitted: float
    target: str  # the "residual" stream, or the "output" that is added to none


@dataclass(frozen=True, kw_only=True)
class RefitReport:
    """The projections that were refitted, in the order in which they run."""

    layers: tuple[LayerRefit, ...]
    notes: tuple[str, ...]  # layers that could not be refitted, or only to their output
    tokens: int  # that the weights were fitted to, in the layer that read the most
    held_out_tokens: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def refit(
    model: nn.Module,
    batches: Iterable[Batch],
    heads: Iterable[Head | str] | Mapping[int, Iterable[int]] = (),
    neurons: Neurons | None = None,
    *,
    candidates: Iterable[str] = CANDIDATES,
    everywhere: bool = False,
    progress: bool | Progress = True,
) -> RefitReport:
    """Remove heads and neurons, and refit the output projections without any training.

    Args:
        batches: calibration data, dicts for `model(**batch)`; labels are not needed.
        heads, neurons: what to remove, as for `prune`.
        candidates: what to try in each layer, besides no change at all.
            - "mean": add the mean error to the bias (as FLAP does).
            - "scales": a factor for each head or neuron, and a bias.
            - "refit": all weights and the bias, by ridge regression from the old weights on.
            - "weighted": a mean and a refit in which each token weighs 1 / |target|^2, as it does
              in the error on the held-out tokens.
        everywhere: refit all output projections, not only those that lose inputs.

    An eighth of the examples judges the candidates.

    A projection should give the whole model's residual stream behind the layer, given the small
    model's stream before it; or the output of the whole model's projection, where the model adds
    it to no stream.

    The model is unchanged until every layer is solved, and after an error. A projection without a
    bias gets one if its best candidate has one. Sums are in float64; their products are in the
    precision of the model, but at least float32.
    """
    plan = plan_refit(
        model, batches, heads, neurons=neurons, candidates=candidates, everywhere=everywhere,
        progress=progress,
    )  # fmt: skip
    plan.apply()
    return plan.report


def plan_refit(
    model: nn.Module,
    batches: Iterable[Batch],
    heads: Iterable[Head | str] | Mapping[int, Iterable[int]] = (),
    neurons: Neurons | None = None,
    *,
    candidates: Iterable[str] = CANDIDATES,
    everywhere: bool = False,
    new_biases: bool = True,
    progress: bool | Progress = True,
) -> RefitPlan:
    """Solve a refit without any change of the model: it can be tried, and applied.

    new_biases: whether projections without a bias may get one.
    """
    names = check_candidates(candidates)
    cuts = checked_cuts(model, heads, neurons, biases=bool(names), everywhere=everywhere)
    changed = [cut for cut in cuts if names and (everywhere or cut.left != cut.site.kept)]
    return planned(
        lambda: Solver(model, FitBatches(model, batches), names, new_biases=new_biases),
        model, cuts, changed, progress,
    )  # fmt: skip


def planned(
    solver_of: Callable[[], Solver],
    model: nn.Module,
    cuts: Sequence[Cut],
    changed: Sequence[Cut],
    progress: bool | Progress,
) -> RefitPlan:
    """Solve the changed ones of these cuts."""
    begin = time.monotonic()
    with (
        as_written(),
        torch.inference_mode(False),
        torch.no_grad(),
        computing(model),
        evaluating(model),
        hooked(model, [cut.site for cut in cuts]),
        reported(progress, "refit") as tick,
    ):
        solver = solver_of()
        solutions = solver.solve(changed, tick)
        task_layer = solver.solve_task_layer() if solutions and "refit" in solver.names else None
    report = RefitReport(
        layers=tuple(solver.layers),
        notes=tuple(solver.notes),
        tokens=solver.tokens,
        held_out_tokens=solver.held_out_tokens,
        seconds=time.monotonic() - begin,
    )
    return RefitPlan(model, cuts, solutions, report, task_layer)


@dataclass
class RefitPlan:
    """The changes that a refit will make."""

    model: nn.Module
    cuts: Sequence[Cut]
    solutions: Sequence[Solution]
    report: RefitReport
    task_layer: Solution | None = None

    @contextmanager
    def tried(self) -> Iterator[nn.Module]:
        """The model, still whole, gives what it will give when the plan is applied."""
        solved = {id(solution.cut.site): solution for solution in self.solutions}
        with hooked(self.model, [cut.site for cut in self.cuts]) as stack:
            for cut in self.cuts:
                if (solution := solved.get(id(cut.site))) is not None:
                    stack.callback(solution.install())
                elif cut.left != cut.site.kept:
                    stack.callback(closed(cut))
            if self.task_layer is not None:
                stack.callback(self.task_layer.install())
            yield self.model

    def apply(self) -> None:
        """Remove the heads and neurons, and write the new weights and biases."""
        _prune(self.model, self.cuts)
        refitted = [solution for solution in self.solutions if solution.name != NOTHING]
        with torch.inference_mode(False):
            for solution in refitted:
                set_output(solution.cut.site, solution.weight, solution.bias)
            if self.task_layer is not None:
                self.task_layer.write()
        if refitted:
            note_in_config(self.model, find_every_site(self.model))  # it lists the new biases


def _prune(model: nn.Module, cuts: Iterable[Cut]) -> None:
    """Cut the layers as checked; `heads` may be an iterator, which is used up by now."""
    removed = [(site, sorted({*site.kept}.difference(left))) for site, left in cuts]
    heads = [Head(*s.layer_key, n) for s, units in removed if s.kind == "heads" for n in units]
    neurons = {s.layer_key: units for s, units in removed if s.kind == "neurons" and units}
    prune(model, heads, neurons=neurons)


class Solver:
    """Solves the projections of a model one after the other."""

    def __init__(
        self, model: nn.Module, data: FitBatches, names: tuple[str, ...], *, new_biases: bool = True
    ):
        self.model, self.data, self.names = model, data, names
        self.new_biases = new_biases
        self.layers: list[LayerRefit] = []
        self.notes: list[str] = []
        self.tokens = self.held_out_tokens = 0

    def solve(self, cuts: Sequence[Cut], tick: Progress) -> list[Solution]:
        """The solutions of these projections, in the order in which they run."""
        if not cuts:
            return []
        self.streams = self._streams(cuts)
        _, first = next(iter(self.data))
        self.streams.trace(first)
        of_site = {id(cut.site): cut for cut in cuts}
        order = [of_site.pop(id(site)) for site in self.streams.order]
        for cut in of_site.values():
            no_module = "its projection is not a module of its own"
            self._leave(cut, no_module if cut.site.out is None else "the data do not run it")
        solutions = []
        for number, cut in enumerate(order):

            def count(done: int, before: int = number * len(self.data)) -> None:
                tick(before + done, len(order) * len(self.data))

            if (solution := self._solve(cut, order, count)) is not None:
                solutions.append(solution)
                self.streams.change(cut.site, solution.install)
        if solutions and not any(self._can_change(solution) for solution in solutions):
            self.notes.append(
                "the repair could change nothing: it only changes biases, the projections that "
                "were cut have none, and layers that stay even get none; choose another repair"
            )
        return solutions

    def _can_change(self, solution: Solution) -> bool:
        """Whether a candidate could change a projection: a mean needs a bias to change."""
        only_bias = all(CANDIDATES[name].unknowns == "bias" for name in self.names)
        return not only_bias or self.new_biases or solution.bias is not None

    def _streams(self, cuts: Sequence[Cut]) -> Streams:
        return Streams(self.model, [cut.site for cut in cuts])

    def solve_task_layer(self) -> Solution | None:
        """The task layer, once all others are solved; None if there is none, or no better one."""
        solution = solve_task_layer(self.model, self.streams, self.data)
        if solution is None or solution.name == NOTHING:
            return None
        self.layers.append(row(solution, "output"))
        return solution

    def _leave(self, cut: Cut, reason: str) -> None:
        """Leave a projection as it is after the cut, in small runs too."""
        if cut.left == cut.site.kept:
            return
        self.notes.append(f"{name_of(cut.site)} is cut, but not refitted: {reason}.")
        self.streams.change(cut.site, partial(closed, cut))

    def _solve(
        self, cut: Cut, order: Sequence[Cut], count: Callable[[int], None]
    ) -> Solution | None:
        """The best candidate for a projection; None if it can only be cut."""
        projection = Projection(cut, self._names_for(cut), new_bias=self.new_biases)
        target = self._read(projection, count)
        if target is None:
            return None
        self._check_number(projection, order)
        solution = projection.solution()
        self.layers.append(row(solution, target))
        return solution

    def _read(self, projection: Projection, count: Callable[[int], None]) -> str | None:
        """Add up what a projection reads and should give; returns None if it can only be cut."""
        cut, target = projection.cut, "residual"
        site = cut.site
        if self.streams.calls[id(site)] > 1:  # each of its uses reads what the others gave
            self.streams.change(site, projection.unchanged().install)
        for number, batch in self.data:
            run = partial(self.streams.run, number, batch, site)
            whole = run(follow=target == "residual")
            if number == 0 and not all(projection.explains(call) for call in whole):
                self._leave(cut, "its output is not its weight times its input")
                return None
            if target == "residual" and any(call.added is None for call in whole):
                target = self._without_residual(site, number)
            small = whole
            if self.streams.is_changed:
                small = run(small=True, follow=target == "residual")
            for calls in zip(whole, small, strict=True):
                projection.add(*calls, self._parts(number, batch, site, calls[1].inputs))
            count(number + 1)
        self._check_finite(projection)
        return target

    def _parts(self, number: int, batch: Batch, site: Site, context: Tensor) -> Parts:
        return self.data.parts(number, batch, site, context)

    def _names_for(self, cut: Cut) -> tuple[str, ...]:
        """The candidates for a projection.

        One that loses nothing has a single family of them, since the sums of a second would take
        much of the time. In layers that lose something, this family wins 97 times of 100.
        """
        if cut.left != cut.site.kept:
            return self.names
        return tuple(name for name in self.names if CANDIDATES[name].relative) or self.names

    def _without_residual(self, site: Site, number: int) -> str:
        """The target of a projection whose output meets something else than an addition."""
        if number:
            raise UnsupportedModel(
                f"{name_of(site)} adds its output to the residual stream for batch 0, but not for "
                f"batch {number}.",
                "give batches that the model computes in the same way",
            )
        self.notes.append(
            f"{name_of(site)} is refitted to its own output: the model does not add this output to "
            "the residual stream as it is."
        )
        return "output"

    def _check_finite(self, projection: Projection) -> None:
        if not projection.is_finite():
            raise DataError(
                f"the activations of {name_of(projection.cut.site)} are not finite numbers.",
                "check the model's weights for nan (a diverged training, or an overflow of "
                "float16: try bfloat16 or float32)",
            )
        self.tokens = max(projection.tokens, self.tokens)
        self.held_out_tokens = max(projection.held_out_tokens, self.held_out_tokens)

    def _check_number(self, projection: Projection, order: Sequence[Cut]) -> None:
        """Raise an error for too few tokens."""
        site = projection.cut.site
        tokens, held_out = projection.tokens, projection.held_out_tokens
        # the largest layer of the block, so that it is known after the first one
        sizes = [len(c.left) * c.site.width for c in order if c.site.block == site.block]
        solves_weights = any(CANDIDATES[name].unknowns == "inputs" for name in self.names)
        needed = 1 + (max(sizes) if solves_weights else 0)
        if tokens < needed or not held_out:
            raise DataError(
                f"a refit of the {site.block} expects at least {needed} tokens, and 1 in the "
                f"held-out examples, got {tokens} and {held_out}.",
                "give more texts (a larger --examples, or a longer file with --text), or choose "
                "--repair scales or --repair mean; in Python, more batches, or in shrink "
                'repair="scales" or "mean", in refit candidates=("mean", "scales")',
            )


def row(solution: Solution, target: str) -> LayerRefit:
    site = solution.cut.site
    return LayerRefit(
        kind=site.kind,
        block=site.block,
        layer=site.layer,
        candidate=solution.name,
        error_cut=solution.error_cut,
        error_refitted=solution.error_refitted,
        target=target,
    )


def closed(cut: Cut) -> Callable[[], None]:
    """Close the units of a cut that leave; returns the undo function."""
    gates = torch.zeros(len(cut.site.kept) * cut.site.width)
    gates[columns_of(cut)] = 1
    return attach(cut.site, lambda context: context * gates.to(context))


def name_of(site: Site) -> str:
    kind = "attention" if site.kind == "heads" else "feed-forward"
    return f"the {kind} projection of {site.block} layer {site.layer}"
