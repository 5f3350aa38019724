"""`shrink`: choose units, remove them, and refit what is left."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from deadhead.errors import DeadheadError, UnsupportedModel
from deadhead.heads.discover import find_every_site, layout_of
from deadhead.heads.gates import gated
from deadhead.heads.hooks import is_gated
from deadhead.heads.prune import prune, unfit
from deadhead.heads.sites import Site
from deadhead.layout import HeadLayout, Kind
from deadhead.progress import Progress, reported
from deadhead.rankers.batches import check_batches
from deadhead.rankers.label_free import Loss, with_loss
from deadhead.rankers.loss import examples_of
from deadhead.rankers.run import frozen

from .allocate import Budget, Place, removal, units_of
from .choose import Choice, check_method, choose
from .costs import Costs, Prices, Shape, costs, shape_for
from .held_out import check_share, mean_loss, split_examples
from .latency import Latency, latency, time_models
from .refitting import RefitReport, refit
from .shrunk import Layer, Shrunk, Speed
from .solve import CANDIDATES
from .target import KINDS, Amount, check_compensation, count_of, kinds_of, read_targets

CLOSE = 0.05  # of the time: a first prediction that misses by more is corrected once
CANDIDATES_OF = {  # of a refit, for each compensation
    "none": (),
    "mean": ("mean",),
    "scales": ("scales",),
    "refit": CANDIDATES,
}
Batch = Mapping[str, Any]


def shrink(
    model: nn.Module,
    batches: Iterable[Mapping[str, Tensor]],
    *,
    heads: float | str | None = None,
    neurons: float | str | None = None,
    macs: float | str | None = None,
    parameters: float | str | None = None,
    speedup: float | None = None,
    on: Shape | None = None,
    method: str = "auto",
    compensation: str = "refit",
    loss: Loss | str | None = None,
    held_out: float = 0.125,
    seed: int = 0,
    score: Callable[[nn.Module], Any] | None = None,
    progress: bool | Progress = True,
) -> Shrunk:
    """Remove heads and feed-forward neurons from the model without training, and refit the rest.

    Give one target, or heads and neurons together.

    Args:
        batches: calibration data, dicts ready for `model(**batch)`, with `labels` unless there is
            a loss; some hundreds of examples are a good start.
        heads, neurons: what to remove: a share (0.75 or "75%") or a number.
        macs: the share of the multiply-accumulates of the layers that remains, on inputs `on`.
        parameters: the share of the model's parameters that remains.
        speedup: how many times as fast the model shall run on inputs `on`, on this machine. The
            times of its layers are measured once and kept in the cache folder.
        on: examples and tokens of each of the inputs; by default (32, 128), or fewer tokens where
            the model cannot read as many.
        method: how to choose, a name of CHOOSERS; "auto" is the best known.
        compensation: what is done about the loss: "refit" the output projections by least squares
            (the best of several candidates, by held-out tokens), only "scales" of units, only the
            "mean" of what left, or "none".
        loss: as for `rank`: "self", where there are no labels, or a function.
        held_out: the share of the examples that losses are measured on and nothing else.
        score: called with the model when it is whole, cut and refitted; the results are in the
            report.

    The model stays as it was after any error. Weights, biases and the config change in place; make
    optimizers afterwards.

    >>> report = shrink(model, batches, heads=0.75)
    >>> print(report)
    >>> save(model, "smaller", tokenizer)
    """
    # Long by its parameters and what they mean.
    targets = read_targets(
        {"heads": heads, "neurons": neurons, "macs": macs, "parameters": parameters}
        | {"speedup": speedup}
    )
    check_compensation(compensation)
    check_share(held_out)
    work = _Work(model=model, targets=targets, method=method, loss=loss, seed=seed, score=score)
    with reported(progress, "shrink") as show:
        work.show = show
        work.prepare(batches, held_out, on)
        choice = work.choose()
        return work.refit(choice, compensation)


@dataclass(kw_only=True)
class _Work:
    """One call of `shrink`: what its stages know."""

    model: nn.Module
    targets: Mapping[str, Amount]
    method: str
    loss: Loss | str | None
    seed: int
    score: Callable[[nn.Module], Any] | None
    show: Progress = field(init=False)
    sites: list[Site] = field(init=False)
    layout: HeadLayout = field(init=False)  # before anything left
    fit: list[Batch] = field(init=False)
    held_out: list[Batch] = field(init=False)
    costs: Costs = field(init=False)
    budgets: list[Budget] = field(init=False)
    table: Latency | None = None
    factor: float = 1.0  # of what the table says is saved, what is saved
    losses: dict[str, float] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[Progress]:
        """Time a stage; what to call as it proceeds."""
        begin = time.perf_counter()

        def progress(done: int, total: int, note: str = "") -> None:
            self.show(done, total, f"{name} {note}".strip())

        yield progress
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begin

    def prepare(self, batches: Iterable[Batch], held_out: float, on: Shape | None) -> None:
        """Check everything, count and time the layers, and find what must be saved."""
        if (problem := unfit(self.model)) is not None:
            raise problem
        if is_gated(self.model):
            raise UnsupportedModel(
                "expected a model without gates, got one inside a `with gated(...)` block.",
                "shrink after the block",
            )
        self.sites = find_every_site(self.model)
        kinds = self._kinds()
        needs_labels = check_method(self.method, kinds, self.loss)
        shape = shape_for(self.model, on)
        with self.stage("count"), frozen(self.model, self.seed):
            checked = check_batches(self.model, batches, labels=needs_labels)
            self.layout = layout_of(self.sites)
            self.fit, self.held_out = split_examples(checked, held_out)
            self.costs = costs(self.model, self.sites, checked[0], shape)
            if self.loss is None and not all("labels" in batch for batch in self.held_out):
                self.loss = "self"  # the method needs no labels, and there are none to measure by
            if self.loss is not None:
                self.held_out = with_loss(self.model, self.held_out, self.loss, False, self.seed)
        if "speedup" in self.targets:
            with self.stage("time layers") as progress, frozen(self.model, self.seed):
                places = [site for site in self.sites if site.kept]
                self.table = latency(self.model, places, self.fit[0], shape, progress=progress)
        self.budgets = self._budgets(kinds)
        self.measure("whole")

    def _kinds(self) -> tuple[Kind, ...]:
        """The kinds of units that may leave."""
        known = {site.kind for site in self.sites}
        kinds = kinds_of(self.targets)
        if not set(kinds) & set(self.targets):
            kinds = tuple(kind for kind in kinds if kind in known)
        find_every_site(self.model, *kinds)  # raises an error with the reason
        return kinds

    def _budgets(self, kinds: tuple[Kind, ...]) -> list[Budget]:
        """What must be saved, for each target."""
        budgets = []
        for name, amount in self.targets.items():
            if name in KINDS:
                total = int(removal(self.layout, name, 0).whole)
                budgets.append(removal(self.layout, name, count_of(name, amount, total)))
                continue
            share = float(1 / amount if name == "speedup" else amount)
            prices, whole = self._prices(name)
            own = {place: table for place, table in prices.items() if place[0] in kinds}
            saving = {
                place: [table[-1] - cost for cost in reversed(table)]
                for place, table in own.items()
                if len(table) > 1
            }
            budgets.append(Budget(saving=saving, total=(1 - share) * whole, whole=whole, name=name))
            self._check_reach(name, amount, 1 - _most(budgets[-1]) / whole)
        return budgets

    def _check_reach(self, name: str, amount: Amount, least: float) -> None:
        """Raise an error if the target cannot be met; least: the smallest share that can remain."""
        if name == "speedup" and amount * least > 1:
            examples, tokens = self.costs.shape
            raise DeadheadError(
                f"`speedup` expects at most about {1 / least:.2f} for this model on inputs of "
                f"{examples} x {tokens}, got {float(amount):g}.",
                "give a smaller number, or larger inputs, where layers take more of the time: "
                f"on=({examples}, {4 * tokens})",
            )
        if name != "speedup" and amount < least:
            raise DeadheadError(
                f"`{name}` expects at least {least:.3f}, which is left when all heads but one and "
                f"all neurons that can be removed are gone, got {float(amount):g}.",
                f"give a larger share, such as {name}={min(0.99, (1 + least) / 2):.2f}",
            )

    def _prices(self, name: str) -> tuple[Prices, float]:
        """What each layer costs, and the whole that shares are of."""
        if name == "macs":
            return self.costs.macs, self.costs.of(self.costs.macs)
        if name == "parameters":
            return self.costs.parameters, self.costs.model_parameters
        assert self.table is not None
        return self.table.layers, self.table.whole

    def choose(self) -> Choice:
        """The units to remove; and what the model is without them, before any refit."""
        with self.stage("choose") as progress:
            choice = choose(
                self.model,
                self.fit,
                self.method,
                budgets=self.budgets,
                adjust=self.corrected if self.table is not None else None,
                loss=self.loss,
                seed=self.seed,
                progress=progress,
            )
        with gated(self.model, closed=choice.heads, neurons=choice.neurons):
            self.measure("cut")
        return choice

    def corrected(self, choice: Choice) -> list[Budget] | None:
        """The budget corrected by the time of a cut copy, if the prediction missed by much.

        `choose` calls it with its first choice, while the model is in evaluation mode.
        """
        small = prune(copy.deepcopy(self.model), choice.heads, neurons=choice.neurons)
        whole, seconds = time_models([self.model, small], self.fit[0], self.costs.shape)
        measured, predicted = seconds / whole, 1 / self._predicted(choice)
        if abs(measured - predicted) <= CLOSE * predicted:
            return None
        (budget,) = self.budgets
        self.factor = (1 - measured) / (1 - predicted)
        least = 1 - max(0.0, self.factor) * _most(budget) / budget.whole
        self._check_reach("speedup", self.targets["speedup"], least)
        return [replace(budget, total=budget.total / self.factor)]

    def _predicted(self, choice: Choice) -> float:
        """How many times as fast the model will be, by the table and its correction."""
        assert self.table is not None
        saved = 1 - self.table.after(self._removed(choice)) / self.table.whole
        return 1 / (1 - self.factor * saved)

    def _removed(self, choice: Choice) -> dict[Place, int]:
        """How many units each place loses."""
        left = self.layout.without(choice.heads, choice.neurons)
        before, after = units_of(self.layout), units_of(left)
        return {place: len(units) - len(after.get(place, ())) for place, units in before.items()}

    def measure(self, name: str) -> None:
        """The loss of the model as it is now, and its score."""
        with self.stage("measure"):
            with frozen(self.model, self.seed):
                self.losses[name] = mean_loss(self.model, self.held_out)
            if self.score is not None:
                self.scores[name] = self.score(self.model)

    def refit(self, choice: Choice, compensation: str) -> Shrunk:
        """Remove the units, refit the rest, and report."""
        whole = copy.deepcopy(self.model) if self.table is not None else None
        with self.stage("refit") as progress:
            report = refit(
                self.model,
                self.fit,
                choice.heads,
                neurons=choice.neurons,
                candidates=CANDIDATES_OF[compensation],
                progress=progress,
            )
        self.measure("refitted")
        notes = [*report.notes]
        if self.losses["refitted"] > self.losses["cut"]:
            notes.append(
                "the refit raised the held-out loss: give more calibration data, or leave it out "
                'with compensation="none"'
            )
        speed = None if whole is None else self._speed(whole, choice)
        removed = self._removed(choice)
        return Shrunk(
            model=self.model,
            choice=choice,
            loss=_name(self.loss),
            losses=self.losses,
            scores=self.scores,
            sizes=self._sizes(removed),
            shape=self.costs.shape,
            seconds=self.seconds,
            speed=speed,
            layers=self._layers(report),
            examples=(sum(map(examples_of, self.fit)), sum(map(examples_of, self.held_out))),
            notes=tuple(notes),
        )

    def _speed(self, whole: nn.Module, choice: Choice) -> Speed:
        with self.stage("time models"), frozen(self.model, self.seed), frozen(whole, self.seed):
            before, after = time_models([whole, self.model], self.fit[0], self.costs.shape)
        return Speed(
            shape=self.costs.shape,
            target=float(self.targets["speedup"]),
            predicted=self._predicted(choice),
            measured=before / after,
            seconds=(before, after),
        )

    def _sizes(self, removed: Mapping[Place, int]) -> dict[str, tuple[int, int]]:
        left = layout_of(find_every_site(self.model))
        macs = self.costs.macs
        return {
            "heads": (len(self.layout), len(left)),
            "neurons": (_neurons(self.layout), _neurons(left)),
            "parameters": (
                self.costs.model_parameters,
                sum(p.numel() for p in self.model.parameters()),
            ),
            "macs": (int(self.costs.of(macs)), int(self.costs.of(macs, removed))),
        }

    def _layers(self, report: RefitReport) -> tuple[Layer, ...]:
        """A row for each place that lost units or was refitted."""
        refits = {(r.kind, r.block, r.layer): r for r in report.layers}
        left = {site.place: len(site.kept) for site in find_every_site(self.model)}
        rows = []
        for site in self.sites:
            place = site.place
            known = refits.get(place)
            if left[place] == len(site.kept) and known is None:
                continue
            errors = None if known is None else (known.error_cut, known.error_refitted)
            rows.append(
                Layer(
                    kind=site.kind,
                    block=site.block,
                    layer=site.layer,
                    before=len(site.kept),
                    left=left[place],
                    candidate="nothing" if known is None else known.candidate,
                    errors=errors,
                )
            )
        return tuple(rows)


def _most(budget: Budget) -> float:
    """The most that can be saved while one head, or group of heads, is left in the model."""
    heads = [table for place, table in budget.saving.items() if place[0] == "heads"]
    spared = min((table[-1] - table[-2] for table in heads), default=0.0)
    return sum(max(table) for table in budget.saving.values()) - spared


def _neurons(layout: HeadLayout) -> int:
    return sum(len(layer.kept) for layer in layout.feed_forwards)


def _name(loss: Loss | str | None) -> str:
    if loss is None or isinstance(loss, str):
        return loss or "labels"
    return getattr(loss, "__name__", type(loss).__name__)
