"""`shrink`: choose units, remove them, and refit what is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from deadhead.display.progress import Progress, reported
from deadhead.display.progress import stage as say_stage
from deadhead.errors import UnsupportedModel
from deadhead.heads.discover import find_every_site, layout_of
from deadhead.heads.gates import gated
from deadhead.heads.hooks import is_gated
from deadhead.heads.layers import checkpointed, copy_with_same_weights
from deadhead.heads.prune import prune, unfit
from deadhead.heads.site import Site
from deadhead.layout import HeadLayout
from deadhead.rankers.label_free import Loss, with_loss
from deadhead.rankers.loss import examples_of
from deadhead.rankers.run import frozen

from .allocate import Budget, Place, units_of
from .budgets import budgets_for, check_reach, check_targets, most
from .choose import AUTO, CHOOSERS, Choice, check_method, checked_batches, choose_by_each
from .costs import Costs, Shape, costs
from .held_out import check_number, check_share, mean_loss, split_examples
from .latency import Latency, latency, time_models
from .refitting import RefitPlan, plan_refit
from .scales import plan_scales
from .shrunk import Layer, Shrunk, Speed, group_notes, speed_notes
from .solve import CANDIDATES
from .target import Amount, check_compensation, check_score, read_targets

CLOSE = 0.05  # share of the time: a first prediction that misses by more is corrected once
CANDIDATES_OF = {  # for each compensation, the candidates of a refit
    "none": (),
    "mean": ("mean",),
    "scales": (),  # a solver of its own: scales.py
    "refit": CANDIDATES,
    "refit-all": CANDIDATES,
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
    checkpointing: bool = False,
    progress: bool | Progress = True,
) -> Shrunk:
    """Remove heads and feed-forward neurons from the model without training, and refit the rest.

    Give one target, or heads and neurons together.

    Args:
        batches: calibration data, dicts ready for `model(**batch)`, with `labels` unless there is
            a loss; some hundreds of examples are a good start.
        heads, neurons: what to remove: a share (0.75 or "75%") or a number.
        macs: the share of the multiply-accumulates that remains, on inputs `on`, counted in the
            attention and feed-forward layers that deadhead can cut: not in embeddings, output
            layers and mixtures of experts.
        parameters: the share of the model's parameters that remains.
        speedup: how many times as fast the model shall run on inputs `on`, on this machine. The
            times of its layers are measured once and kept in the cache folder.
        on: examples and tokens of each of the inputs; by default (32, 128), or fewer tokens where
            the model cannot read as many.
        method: how to choose, a name of CHOOSERS; "auto" tries two of them, reconstruction and
            fisher, and keeps the choice with the lower held-out loss after its refit.
        compensation: what is done about the loss: "refit" the output projections by least squares
            (the best of several candidates, by held-out tokens), "refit-all" of them, also those
            that lose nothing (takes longer; better on data like the batches, worse on other data),
            only "scales" of units as Kwon et al. 2022, only the "mean" of what left, or "none". A
            refit ends with the task layer of a classifier.
        loss: as for `rank`: "self", where there are no labels, or a function.
        held_out: the share of the examples that losses are measured on. Nothing is fitted to them;
            "auto" compares its methods on them, so its loss is slightly optimistic.
        score: called with the model when it is whole, cut and refitted; the results are in the
            report.
        checkpointing: to choose, compute the activations of layers again in the backward pass
            instead of keeping them: less memory, more time, the same numbers.

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
    check_score(score)
    work = _Work(
        model=model, targets=targets, method=method, loss=loss, seed=seed, score=score,
        checkpointing=checkpointing, compensation=compensation,
    )  # fmt: skip
    with reported(progress, "shrink") as show:
        work.show = show
        work.prepare(batches, held_out, on)
        return work.finish(work.best(work.choose()))


@dataclass
class _Trial:
    """A choice with its refit, and the held-out loss with it if there are others."""

    choice: Choice
    plan: RefitPlan
    loss: float = 0.0


@dataclass(kw_only=True)
class _Work:
    """One call of `shrink`: what its stages know."""

    model: nn.Module
    targets: Mapping[str, Amount]
    method: str
    loss: Loss | str | None
    seed: int
    score: Callable[[nn.Module], Any] | None
    checkpointing: bool
    compensation: str
    show: Progress = field(init=False)
    sites: list[Site] = field(init=False)
    layout: HeadLayout = field(init=False)  # before anything left
    fit: list[Batch] = field(init=False)
    held_out: list[Batch] = field(init=False)
    costs: Costs = field(init=False)
    budgets: list[Budget] = field(init=False)
    table: Latency | None = None
    # method -> what its choice saves, divided by what the table predicts that it saves
    factors: dict[str, float] = field(default_factory=dict)
    losses: dict[str, float] = field(default_factory=dict)
    scores: dict[str, Any] = field(default_factory=dict)
    tried: dict[str, float] = field(default_factory=dict)  # method -> held-out loss
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[Progress]:
        """Time a stage; what to call as it proceeds."""
        begin = time.perf_counter()
        say_stage(f"shrink: {name}")

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
        kinds, shape = check_targets(self.model, self.targets, on)
        needs_labels = check_method(self.method, kinds, self.loss)
        with self.stage("count"), frozen(self.model, self.seed):
            checked = checked_batches(self.model, batches, labels=needs_labels)
            self.layout = layout_of(self.sites)
            check_number(sum(map(examples_of, checked)))
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
        facts = self.layout, self.costs, self.table, self.compensation
        self.budgets = budgets_for(self.targets, kinds, *facts)
        self.measure("whole")

    def choose(self) -> list[Choice]:
        """The units to remove, by the method or by each that "auto" tries."""
        methods = [self.method]
        if self.method == "auto":  # XLNet's projections are no modules, which one of them needs
            modules = all(site.out is not None for site in self.sites)
            methods = [name for name in AUTO if modules or not CHOOSERS[name].needs_moments]
        kept = checkpointed(self.model) if self.checkpointing else nullcontext()
        with self.stage("choose") as progress, kept:
            return choose_by_each(
                self.model,
                self.fit,
                methods,
                budgets=self.budgets,
                adjust=self.corrected if self.table is not None else None,
                loss=self.loss,
                seed=self.seed,
                progress=progress,
            )

    def best(self, choices: Sequence[Choice]) -> _Trial:
        """The choice with the lowest held-out loss after its refit, which is not applied yet."""
        names, everywhere = CANDIDATES_OF[self.compensation], self.compensation == "refit-all"
        if len(choices) == 1:
            return _Trial(choices[0], self.plan(choices[0], names, everywhere=everywhere))
        best = min((self.tried_out(choice, names) for choice in choices), key=lambda t: t.loss)
        if everywhere:  # it takes longer, so the others are compared without it
            best.plan = self.plan(best.choice, names, everywhere=True)
        return best

    def tried_out(self, choice: Choice, names: tuple[str, ...]) -> _Trial:
        """A choice with its refit and the held-out loss."""
        trial = _Trial(choice, self.plan(choice, names))
        with self.stage("measure"), trial.plan.tried(), frozen(self.model, self.seed):
            trial.loss = mean_loss(self.model, self.held_out)
        self.tried[_method(choice)] = trial.loss
        return trial

    def plan(self, choice: Choice, names: tuple[str, ...], everywhere: bool = False) -> RefitPlan:
        """The refit of a choice. names: of the candidates."""
        with self.stage("refit") as progress:
            if self.compensation == "scales":
                return plan_scales(self.model, self.fit, choice, progress=progress)
            return plan_refit(
                self.model, self.fit, choice.heads, choice.neurons,
                candidates=names, everywhere=everywhere, progress=progress,
            )  # fmt: skip

    def corrected(self, choice: Choice) -> list[Budget] | None:
        """The budget corrected by the time of a cut copy, if the prediction missed by much.

        `choose` calls it with its first choice, while the model is in evaluation mode.
        """
        small = prune(copy_with_same_weights(self.model), choice.heads, neurons=choice.neurons)
        whole, seconds = time_models([self.model, small], self.fit[0], self.costs.shape)
        measured, predicted = seconds / whole, 1 / self._predicted(choice)
        if abs(measured - predicted) <= CLOSE * predicted:
            return None
        (budget,) = self.budgets
        factor = (1 - measured) / (1 - predicted)
        self.factors[_method(choice)] = factor
        least = 1 - max(0.0, factor) * most(budget) / budget.whole
        check_reach("speedup", self.targets["speedup"], least, self.costs.shape)
        return [replace(budget, total=budget.total / factor)]

    def _predicted(self, choice: Choice) -> float:
        """How many times as fast the model will be, by the table and its correction."""
        assert self.table is not None
        saved = 1 - self.table.after(self._removed(choice)) / self.table.whole
        return 1 / (1 - self.factors.get(_method(choice), 1.0) * saved)

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

    def finish(self, trial: _Trial) -> Shrunk:
        """Remove the units, write the new weights, and report."""
        choice, report = trial.choice, trial.plan.report
        with gated(self.model, closed=choice.heads, neurons=choice.neurons):
            self.measure("cut")
        whole = copy_with_same_weights(self.model) if self.table is not None else None
        trial.plan.apply()
        self.measure("refitted")
        notes = [*group_notes(self.layout, choice.heads, self.budgets), *report.notes]
        risen = self.losses["refitted"] > self.losses["cut"] * (1 + 1e-6)  # beyond rounding
        if risen and self.compensation != "none":
            notes.append(
                "the refit raised the held-out loss: give more calibration data, or choose the "
                "compensation none"
            )
        speed = None if whole is None else self._speed(whole, choice)
        sizes = self._sizes(self._removed(choice))
        notes += speed_notes(self.targets, sizes)
        return Shrunk(
            model=self.model,
            choice=choice,
            loss=_name(self.loss),
            losses=self.losses,
            tried=self.tried,
            scores=self.scores,
            sizes=sizes,
            shape=self.costs.shape,
            seconds=self.seconds,
            speed=speed,
            layers=self._layers(trial.plan),
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
        macs, after = self.costs.macs, sum(p.numel() for p in self.model.parameters())
        return {
            "heads": (len(self.layout), len(left)),
            "neurons": (_neurons(self.layout), _neurons(left)),
            "parameters": (self.costs.model_parameters, after),
            "macs": (int(self.costs.of(macs)), int(self.costs.of(macs, removed))),
        }

    def _layers(self, plan: RefitPlan) -> tuple[Layer, ...]:
        """A row for each place that lost units or was refitted, and for the task layer."""
        refits = {(r.kind, r.block, r.layer): r for r in plan.report.layers}
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
        if (task := plan.task_layer) is not None:
            rows.append(
                Layer(
                    kind="outputs",
                    block=task.cut.site.block,
                    layer=0,
                    before=len(task.weight),
                    left=len(task.weight),
                    candidate=task.name,
                    errors=(task.error_cut, task.error_refitted),
                )
            )
        return tuple(rows)


def _neurons(layout: HeadLayout) -> int:
    return sum(len(layer.kept) for layer in layout.feed_forwards)


def _name(loss: Loss | str | None) -> str:
    if loss is None or isinstance(loss, str):
        return loss or "labels"
    return getattr(loss, "__name__", type(loss).__name__)


def _method(choice: Choice) -> str:
    return " and ".join(dict.fromkeys(choice.method.values()))
