"""Statistics of each layer for the methods of choosing, from passes over the calibration data.

The forward pass gives what the output projection of each layer reads, the backward pass, of
activations alone, the gradient of the loss at every gate. Only sums are kept, so memory does not
grow with the data. The sums of a batch are in the model's precision (at least float32), those over
batches in double precision.

The moment of a layer has columns x columns numbers in double precision: 134 MB for the heads of a
Llama of 8 billion weights, 1.6 GB for its neurons, and it has 32 layers. So `collect_with_orders`
makes as many passes over the data as keep the moments within a bound: each adds up those of some
layers, turns them into the order in which their units leave, and drops them.

Everything is on the scale of the loss. The loss of an example is a mean over its T labelled tokens,
and the curvature of a mean of T losses is T times the square of its gradient, so the gradients of
an example are multiplied by the square root of T.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from deadhead.display.progress import Progress
from deadhead.errors import DataError, UnsupportedModel
from deadhead.forward import device_of, forward, on_device, precise
from deadhead.heads.hooks import attach, hooked
from deadhead.heads.layers import is_repeated
from deadhead.heads.parts import out_axis
from deadhead.heads.rows import batch_first, real_rows
from deadhead.heads.site import Site
from deadhead.layout import Batch, SiteKey
from deadhead.numerics import precise_product
from deadhead.rankers.gate_gradients import open_gates
from deadhead.rankers.loss import FiniteLoss, examples_of, labelled_tokens

from .allocate import UnitIndices
from .reconstruction import Order, order_of_removal

BATCH = 32  # examples of a batch whose mean loss Kwon et al. take the gradient of

MEMORY = 2 * 10**9  # bytes for the moments of a pass
BYTES = 8  # of a number in double precision

NOT_FINITE = "check the model's weights for nan (or an overflow of float16: try bfloat16)"


@dataclass(kw_only=True)
class LayerStatistics:
    """The sums of one place. Columns are those of its output projection, `width` for each unit.

    rows: how many tokens were read; of shared weights, in all layers that use them.
    moment: sum over rows of the products of all columns, each row weighted by its squared gradient
        at the projection's output, mean over outputs; None where no method asks for it.
    by_token: for each unit the sum over tokens of its squared gate gradient there.
    by_batch: its gate gradients of the mean loss of batches, batches x units, each times the same
        number: half the sum of their squares is a rise of the loss. None where no method asks.
    """

    units: tuple[UnitIndices, ...]
    width: int
    weight: Tensor  # outputs x columns
    rows: Tensor
    columns: Tensor  # sums over rows
    squares: Tensor
    moment: Tensor | None = None  # columns x columns
    by_token: Tensor
    by_batch: Tensor | None = None


@dataclass(kw_only=True)
class Statistics:
    """Sums from one pass over the data.

    fisher: the sum over examples of the products of the gate gradients of all heads, in the order
        of `places`; units of heads that share a key/value head count as one.
    """

    places: dict[SiteKey, LayerStatistics]
    fisher: Tensor
    examples: int = 0
    columns: dict[SiteKey, range]  # the rows of each layer in fisher
    orders: dict[SiteKey, Order] = field(default_factory=dict)  # by reconstruction

    def matrix(self, places: Collection[SiteKey]) -> Any:
        """The Fisher matrix of the heads of these layers, in their order, as a numpy array."""
        numbers = [number for place in places for number in self.columns[place]]
        return (self.fisher[numbers][:, numbers] / self.examples).double().cpu().numpy()


def collect_with_orders(
    model: nn.Module,
    sites: Sequence[Site],
    batches: Sequence[Batch],
    *,
    kinds: Collection[str],
    gradients: bool,
    by_batch: bool = False,
    progress: Progress,
) -> Statistics:
    """The statistics of these layers; `orders` has those of these kinds."""
    passes = _passes([site for site in sites if site.kind in kinds]) or [[]]
    first: Statistics | None = None
    for number, chosen in enumerate(passes):

        def count(
            done: int, total: int, note: str = "", *, before: int = number * len(batches)
        ) -> None:
            progress(before + done, len(passes) * len(batches), note)

        statistics = collect(
            model,
            sites if first is None else chosen,
            batches,
            moments=[site.key for site in chosen],
            gradients=gradients,
            by_batch=by_batch and first is None,
            progress=count,
        )
        first = first or statistics
        for site in chosen:
            _add_order(first, statistics, site.key)
    assert first is not None  # there is at least one pass
    return first


def _passes(sites: Sequence[Site]) -> list[list[Site]]:
    """The layers of each pass: as many as fit, at least one."""
    passes: list[list[Site]] = []
    left = 0
    for site in sites:
        size = BYTES * (len(site.kept) * site.width) ** 2
        if not passes or size > left:
            passes.append([])
            left = MEMORY
        passes[-1].append(site)
        left -= size
    return passes


def _add_order(to: Statistics, statistics: Statistics, place: SiteKey) -> None:
    facts = statistics.places[place]
    assert facts.moment is not None  # this pass was for it
    moment, facts.moment = facts.moment.div_(statistics.examples), None
    if moment.device.type == "mps":
        moment = moment.cpu().double()
    to.orders[place] = order_of_removal(moment, facts.weight, facts.width)


def collect(
    model: nn.Module,
    sites: Sequence[Site],
    batches: Sequence[Batch],
    *,
    moments: Collection[SiteKey] = (),
    gradients: bool = True,
    by_batch: bool = False,
    progress: Progress,
) -> Statistics:
    """Run the batches once. The model is in evaluation mode with frozen weights.

    moments: the places whose second moment is needed; it has columns x columns numbers, and needs
        gradients.
    gradients: also run backward, from the losses of the examples.
    by_batch: also keep the gradients of batches of BATCH examples, whatever the batches here are.
    """
    reader = _Reader(model, sites, moments)
    if by_batch:
        reader.count_batches(-(-sum(map(examples_of, batches)) // BATCH))
    finite = FiniteLoss()
    with ExitStack() as stack:
        stack.enter_context(hooked(model, sites))
        for site in sites:
            stack.callback(attach(site, reader.at(site)))
            for out in site.outs if site.key in moments else ():
                stack.enter_context(out.register_forward_hook(reader.after(site)))
        gates = stack.enter_context(open_gates(model, per_token=True, sites=sites))
        for number, batch in enumerate(batches):
            reader.batch = on_device(batch, model)
            if gradients:
                weights = labelled_tokens(model, batch).cpu().double().sqrt()
                at_gates = gates.gradients(model, batch, finite, weights)
                reader.add_gradients(at_gates, weights)
            else:
                with torch.no_grad():
                    forward(model, reader.batch)
            progress(number + 1, len(batches))
    _check(reader.statistics, gradients)
    finite.check()
    reader.finish()
    return reader.statistics


class _Reader:
    """Adds up what each layer reads, and the gradients at its gates and its output."""

    def __init__(self, model: nn.Module, sites: Sequence[Site], moments: Collection[SiteKey]):
        self.model = model
        self.batch: Batch = {}
        self.rows: dict[SiteKey, Tensor] = {}  # what a projection that runs now reads
        self.tokens: Tensor | None = None  # labelled ones of each batch of BATCH examples
        device = device_of(model)
        self.precise = torch.float32 if device.type == "mps" else torch.float64
        places = {site.key: self._empty(site, moments) for site in sites}
        heads = [place for place in places if place[0] == "heads"]
        columns, end = {}, 0
        for place in heads:
            columns[place] = range(end, end + len(places[place].units))
            end = columns[place].stop
        fisher = torch.zeros(end, end, dtype=self.precise, device=device)
        self.statistics = Statistics(places=places, fisher=fisher, columns=columns)

    def _empty(self, site: Site, moments: Collection[SiteKey]) -> LayerStatistics:
        if site.out is None and site.key in moments:
            raise UnsupportedModel(
                f"{type(site.core).__name__} has no module as output projection, whose gradient "
                "reconstruction needs.",
                'choose by method="fisher"',
            )
        weight = _weight(site)
        units = site.groups
        if len({len(unit) for unit in units}) > 1:
            raise UnsupportedModel(
                f"expected as many heads for each key/value head, got {site.block} layer "
                f"{site.layer}, where their numbers differ.",
                "shrink the model before you remove single heads from it",
            )
        size, wants_moment = weight.shape[1], site.key in moments

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=self.precise, device=weight.device)

        return LayerStatistics(
            units=units,
            width=size // len(units),
            weight=weight,
            rows=zeros(),
            columns=zeros(size),
            squares=zeros(size),
            moment=zeros(size, size) if wants_moment else None,
            by_token=zeros(len(units)),
        )

    def at(self, site: Site) -> Callable[[Tensor], Tensor]:
        layer = self.statistics.places[site.key]

        def read(context: Tensor) -> Tensor:
            if is_repeated():
                return context
            rows = batch_first(site, context.detach())
            real = real_rows(self.model, self.batch, site, rows)
            if real is None:
                layer.rows += rows[..., 0].numel()
            else:
                layer.rows += real.sum()
                rows = rows.masked_fill(~real[..., None], 0)
            rows = rows.flatten(0, -2)
            if layer.moment is not None:
                self.rows[site.key] = rows  # until the gradient arrives
            rows = precise(rows)
            layer.columns += rows.sum(0)
            layer.squares += rows.square().sum(0)
            return context

        return read

    def after(self, site: Site) -> Callable[[nn.Module, Any, Tensor], None]:
        """A hook that adds to the moment once the gradient arrives at the output of a projection.

        A token whose output does not matter to the loss does not matter to a refit either: in the
        last layer of a classifier, all but the first one.
        """
        moment = self.statistics.places[site.key].moment
        assert moment is not None  # or this hook is not asked for

        def add(rows: Tensor, gradient: Tensor) -> None:
            squares = precise(gradient).square()
            weights = batch_first(site, squares.mean(-1, keepdim=True)).flatten(0, -2)
            rows = precise(rows)
            moment.add_(precise_product((rows * weights).T, rows))

        def hook(module: nn.Module, args: Any, output: Tensor) -> None:
            if output.requires_grad and not is_repeated():
                output.register_hook(partial(add, self.rows.pop(site.key)))

        return hook

    def count_batches(self, count: int) -> None:
        """Also add up the gradients of this number of batches."""
        self.tokens = self.statistics.fisher.new_zeros(count)
        for layer in self.statistics.places.values():
            layer.by_batch = layer.by_token.new_zeros(count, len(layer.units))

    def finish(self) -> None:
        """Turn the sums of batches into gradients of mean losses, on the scale of the loss."""
        if self.tokens is not None:
            factors = (self.tokens.mean() / len(self.tokens)).sqrt() / self.tokens
            for layer in self.statistics.places.values():
                assert layer.by_batch is not None
                layer.by_batch *= factors[:, None].to(layer.by_batch.device)

    def add_gradients(self, gradients: Mapping[SiteKey, Tensor], roots: Tensor) -> None:
        """Add the gate gradients of a batch: examples x positions x heads or neurons.

        roots: of the numbers of labelled tokens, by which the gradients are multiplied.
        """
        statistics, examples = self.statistics, len(roots)
        rows = statistics.fisher.new_zeros(examples, len(statistics.fisher))
        member = rows.new_zeros(0)
        if self.tokens is not None:  # which example is in which batch
            numbers = (statistics.examples + torch.arange(examples, device=rows.device)) // BATCH
            batches = torch.arange(len(self.tokens), device=rows.device)
            member = (numbers == batches[:, None]) * roots.to(rows)
            self.tokens += member @ roots.to(rows)
        statistics.examples += examples
        for place, gradient in gradients.items():
            layer = statistics.places[place]
            by_unit = gradient.unflatten(-1, (len(layer.units), -1)).sum(-1)
            layer.by_token += by_unit.square().flatten(0, -2).sum(0)
            by_example = by_unit.flatten(1, -2).sum(1, dtype=self.precise)
            if layer.by_batch is not None:
                layer.by_batch += member.to(by_example) @ by_example
            if place in statistics.columns:
                rows[:, [*statistics.columns[place]]] = by_example.to(rows.device)
        statistics.fisher += rows.T @ rows


def _weight(site: Site) -> Tensor:
    """The output projection of a layer as outputs x columns."""
    if site.out is None:  # XLNet: model x heads x width
        weight: Any = site.core.o
    else:
        weight = site.out.weight.T if out_axis(site.out) else site.out.weight
    matrix: Tensor = weight.detach().flatten(1)
    return matrix


def _check(statistics: Statistics, gradients: bool) -> None:
    """Raise an error that names the first layer whose numbers are no finite ones."""
    for place, layer in statistics.places.items():
        where = f"the {place[0]} of {place[1]} layer {place[2]}"
        if not float(layer.rows):
            raise DataError(
                f"no batch runs {where}.", "give batches that use this part of the model"
            )
        if not bool(layer.columns.isfinite().all() & layer.squares.isfinite().all()):
            raise DataError(f"what comes out of {where} is not a finite number.", NOT_FINITE)
    for place, layer in statistics.places.items():
        finite = layer.by_token.isfinite().all()
        if layer.moment is not None:
            finite = finite & layer.moment.isfinite().all()
        if gradients and not bool(finite):
            where = f"the {place[0]} of {place[1]} layer {place[2]}"
            raise DataError(f"the gradient at {where} is not a finite number.", NOT_FINITE)
    if gradients and not any(bool(layer.by_token.any()) for layer in statistics.places.values()):
        raise UnsupportedModel(
            "the gradient of the loss is 0 at every head and neuron.",
            "check that the task layer's weights are not all 0",
        )
