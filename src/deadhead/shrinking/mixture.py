"""Divide a target between whole layers, and the heads and neurons of the layers that stay.

For each number of layers, from none on, heads and neurons take what the layers left of the target.
Compared is the loss of the result on the held-out examples, after a quick repair. The numbers rise
by 1, 1, 2, 4, ... until the loss rises too or the layers alone suffice. At the end the best number
is compared with none after the repair on all batches, since a quick one fits heads and neurons to
fewer tokens, but layers to all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil, nan

from torch import nn

from deadhead.errors import DeadheadError
from deadhead.heads.depth import remove_layers, stacks_of
from deadhead.heads.layers import checkpointed, copy_with_same_weights
from deadhead.heads.prune import prune
from deadhead.layout import Batch, LayerKey
from deadhead.rankers.run import frozen

from .allocate import Budget
from .budgets import OutOfReach, budgets_for, check_budgets, check_reach, most, quotas_for
from .calibration import Calibration
from .choose import AUTO, CHOOSERS, Choice, choose_by_each
from .costs import Full
from .latency import Latency, latency, time_models
from .layers import LayersPlan, plans_of_layers
from .refitting import RefitPlan
from .repairs import REPAIRS, Repair
from .target import Allowed

CLOSE = 0.05  # share of the time: a first prediction that misses by more is corrected once
Adjust = Callable[[Choice], Sequence[Budget] | None]
NOTHING = Choice(heads=(), neurons={}, predicted=None, method={})


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Layers to remove, and the heads and neurons that take the rest of the target."""

    layers: LayersPlan | None
    calibration: Calibration  # without these layers
    budgets: Sequence[Budget]
    choice: Choice
    plan: RefitPlan
    is_final: bool  # or a quick plan
    tried: Mapping[str, float]  # method -> held-out loss, where several were tried
    loss: float  # held-out, with this plan; nan if there was nothing to compare
    seconds: float  # predicted, of a run, where the target is a speed-up


@dataclass(kw_only=True)
class Mixer:
    """Makes mixtures of a model, which is as before after each of them."""

    whole: Calibration
    full: Full
    repair: str
    allowed: Allowed
    checkpointing: bool
    table: Latency | None = None  # for a target `speedup`
    tried: dict[int, float] = field(default_factory=dict)  # number of layers -> held-out loss
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        calibration = self.whole
        if "speedup" not in calibration.targets:
            return
        model, shape = calibration.model, calibration.costs.shape
        sites = [site for site in calibration.sites if site.kept]
        with calibration.stage("time layers") as tick, frozen(model, calibration.seed):
            self.table = latency(model, sites, calibration.fit[0], shape, progress=tick)
        self.full = replace(self.full, seconds=self.table.whole / self._relative_time(model))

    def named_repair(self, name: str) -> Repair:
        """A repair; even layers get no biases, which few classes have a config for."""
        return REPAIRS[name].without_new_biases() if self.allowed.even else REPAIRS[name]

    def best(self) -> Mixture:
        """Of the mixtures that are tried, the one with the lowest loss."""
        best: Mixture | None = None
        deep: Mixture | None = None  # the one that keeps all layers
        problem: OutOfReach | None = None
        for count, layers in self._plans():
            if best is not None and layers is not None:
                with self.whole.stage("measure"), layers.tried():
                    loss = self.whole.held_out_loss()
                if loss >= best.loss:  # with all heads and neurons
                    self.tried[count] = loss
                    break
            try:
                mixture = self.mixture(layers, compare=True)
            except OutOfReach as error:  # one more layer may help
                problem = error
                continue
            self.tried[count] = mixture.loss
            if best is not None and mixture.loss >= best.loss:
                break
            best = mixture
            deep = mixture if layers is None else deep
        if best is None:
            assert problem is not None  # there is at least one plan
            raise problem
        if deep is None or best is deep:
            return best
        deep, best = self._final(deep), self._final(best)
        if best.loss < deep.loss:
            return best
        self.notes.append(
            f"whole layers stay: after the final repair the held-out loss is {deep.loss:.4f}, "
            f"and {best.loss:.4f} where layers go too"
        )
        return deep

    def _final(self, mixture: Mixture) -> Mixture:
        """The mixture with its final plan, and the loss of that."""
        with ExitStack() as undo:
            if mixture.layers is not None:
                undo.callback(mixture.layers.apply())
            plan = self.final_plan(mixture)
            with mixture.calibration.stage("measure"), plan.tried():
                loss = mixture.calibration.held_out_loss()
        return replace(mixture, plan=plan, is_final=True, loss=loss)

    def _plans(self) -> Iterator[tuple[int, LayersPlan | None]]:
        counts = self._counts()
        if counts[0] == 0:
            yield 0, None
        counts = [count for count in counts if count]
        try:
            if counts:
                yield from zip(
                    counts, plans_of_layers(self.whole, counts, self.repair), strict=True
                )
        except DeadheadError as why:
            if not self.tried:
                raise
            self.notes.append(f"whole layers stay: {why.message}")

    def _counts(self) -> list[int]:
        """The numbers of layers to try; an error if no number meets the target."""
        calibration, shape = self.whole, self.whole.costs.shape
        ((name, amount),) = calibration.targets.items()
        (budget,) = self._budgets(calibration, self.table)
        needed, width = budget.total, most(budget)
        if needed <= 0:
            return [0]
        try:
            stacks = stacks_of(calibration.model)
            keys = [key for stack in stacks.values() for key in stack.keys]
            smaller = _without_one_layer(calibration.model, keys)
        except DeadheadError as why:
            self.notes.append(f"whole layers stay: {why.message}")
            check_budgets([budget], calibration.targets, self.full, shape)
            return [0]
        if self.table is None:
            one = float(_parameters(calibration.model) - _parameters(smaller))
        else:
            one = self.table.whole - self._relative_time(smaller) * self.full.seconds
        saved = [
            count * one + width * (1 - count / len(keys))
            for count in range(len(keys) - len(stacks) + 1)
        ]
        missing = (needed - max(saved)) / self.full.amount(name)
        least = self.full.share(name, amount) + missing
        check_reach(name, amount, least, shape, self.full.megabytes)
        enough = (count for count, value in enumerate(saved) if value >= needed)
        first = next(enough, len(saved) - 1)  # rounding may leave none
        last = min(len(saved) - 1, max(first, ceil(needed / one))) if one > 0 else first
        steps = (0, *(2**power for power in range(last.bit_length())))
        return [*(first + step for step in steps if first + step < last), last]

    def mixture(self, layers: LayersPlan | None, *, compare: bool = False) -> Mixture:
        """The best heads and neurons to remove beside these layers.

        compare: measure the loss even if there is one choice alone.
        """
        calibration, table = self.whole, self.table
        factors: dict[str, float] = {}
        with ExitStack() as undo:
            if layers is not None:
                undo.callback(layers.apply())
                calibration = self.whole.again()
                if table is not None:
                    seconds = self._relative_time(calibration.model) * self.full.seconds
                    sites = [site for site in calibration.sites if site.kept]
                    table = table.without_layers(self.whole.sites, sites, seconds)
            budgets = self._budgets(calibration, table)
            check_budgets(budgets, calibration.targets, self.full, calibration.costs.shape)
            choices = [NOTHING]
            if any(budget.total > 0 for budget in budgets):
                adjust = None
                if table is not None:
                    adjust = partial(self._adjusted, calibration, table, budgets, factors)
                scope = "for each number of layers to try" if compare else "in all"
                choices = self._choose(calibration, budgets, adjust, scope)
            best, plan, is_final, losses = self._repaired(calibration, choices, compare)
        seconds = nan
        if table is not None:
            factor = factors.get(best.name, 1.0)
            seconds = table.after(calibration.removed_by(best), factor)
        return Mixture(
            layers=layers, calibration=calibration, budgets=budgets, choice=best, plan=plan,
            is_final=is_final, tried=losses if len(losses) > 1 else {},
            loss=min(losses.values(), default=nan), seconds=seconds,
        )  # fmt: skip

    def final_plan(self, mixture: Mixture) -> RefitPlan:
        """The repair on all batches; the layers of the mixture must be removed."""
        if mixture.is_final:
            return mixture.plan
        calibration, repair = mixture.calibration, self._repair_of(mixture.choice)
        return self._solve(calibration, mixture.choice, repair, calibration.repair)

    def _repair_of(self, choice: Choice) -> Repair:
        """The repair of heads and neurons; that of layers is a part of their plan."""
        return REPAIRS["none"] if choice is NOTHING else self.named_repair(self.repair)

    def _budgets(self, calibration: Calibration, table: Latency | None) -> list[Budget]:
        model, kinds = calibration.model, calibration.kinds
        return budgets_for(
            calibration.targets, kinds=kinds, layout=calibration.layout, costs=calibration.costs,
            full=self.full, table=table, repair=self.named_repair(self.repair),
            quotas=quotas_for(model, calibration.sites, kinds, self.allowed),
        )  # fmt: skip

    def _choose(
        self, calibration: Calibration, budgets: Sequence[Budget], adjust: Adjust | None, scope: str
    ) -> list[Choice]:
        """The choice of each method, from one pass over the data."""
        methods = [calibration.method]
        if calibration.method == "auto":  # one needs projections that are modules, unlike XLNet
            modules = all(site.out is not None for site in calibration.sites)
            methods = [name for name in AUTO if modules or not CHOOSERS[name].needs_moments]
        checkpoints = checkpointed(calibration.model) if self.checkpointing else nullcontext()
        with calibration.stage("choose") as progress, checkpoints:
            return choose_by_each(
                calibration.model, calibration.fit, methods, budgets=budgets, adjust=adjust,
                loss=calibration.loss, seed=calibration.seed,
                progress=calibration.forecast(progress, scope),
            )  # fmt: skip

    def _adjusted(
        self,
        calibration: Calibration,
        table: Latency,
        budgets: Sequence[Budget],
        factors: dict[str, float],
        choice: Choice,
    ) -> list[Budget] | None:
        """The budget by the measured time of a cut copy; None if the table is close.

        It adds to `factors` what corrects the table.
        """
        (budget,) = budgets
        model, speedup = calibration.model, calibration.targets["speedup"]
        small = prune(copy_with_same_weights(model), choice.heads, neurons=choice.neurons)
        measured = self._relative_time(small) * self.full.seconds
        predicted = table.after(calibration.removed_by(choice))
        if abs(measured - predicted) <= CLOSE * predicted:
            return None
        factor = (table.whole - measured) / (table.whole - predicted)
        least = (table.whole - max(0.0, factor) * most(budget)) / self.full.seconds
        check_reach("speedup", speedup, least, calibration.costs.shape)
        factors[choice.name] = factor
        return [replace(budget, total=budget.total / factor)]

    def _relative_time(self, model: nn.Module) -> float:
        """The time of a run of a model, relative to the full one."""
        if model is self.whole.model and self.full.parameters == _parameters(model):
            return 1.0  # nothing was removed from it
        before, after = self.times(model)
        return after / before

    def times(self, model: nn.Module) -> tuple[float, float]:
        """The seconds of a run of the full model and of this one, timed in turns."""
        calibration, full = self.whole, self.full.model
        shape, seed = calibration.costs.shape, calibration.seed
        with frozen(model, seed), frozen(full, seed):
            before, after = time_models([full, model], calibration.fit[0], shape)
        return before, after

    def _repaired(
        self, calibration: Calibration, choices: Sequence[Choice], compare: bool
    ) -> tuple[Choice, RefitPlan, bool, dict[str, float]]:
        """The choice whose repair on some batches has the lowest held-out loss.

        Also gives this repair, whether it is the final one, and the loss of each choice.
        """
        best, batches = choices[0], calibration.repair
        repair = self._repair_of(best)
        if len(choices) == 1 and not compare:
            return best, self._solve(calibration, best, repair, batches), True, {}
        quick = repair if repair.compare_by is None else self.named_repair(repair.compare_by)
        some = calibration.to_compare()
        losses: dict[str, float] = {}
        for choice in choices:
            other = self._solve(calibration, choice, quick, some)
            with calibration.stage("measure"), other.tried():
                loss = calibration.held_out_loss()
            if not losses or loss < min(losses.values()):
                best, plan = choice, other
            losses[choice.name] = loss
        return best, plan, quick is repair and len(some) == len(batches), losses

    def _solve(
        self, calibration: Calibration, choice: Choice, repair: Repair, batches: Sequence[Batch]
    ) -> RefitPlan:
        with calibration.stage("refit") as progress:
            return repair.plan(calibration.model, batches, choice, progress)


def _without_one_layer(model: nn.Module, keys: Sequence[LayerKey]) -> nn.Module:
    """A copy without one layer, near the middle, that can leave; an error if none can."""
    problem: DeadheadError | None = None
    for key in sorted(keys, key=lambda key: abs(keys.index(key) - len(keys) // 2)):
        try:
            return remove_layers(copy_with_same_weights(model), [key])
        except DeadheadError as why:
            problem = problem or why
    assert problem is not None  # there is at least one layer
    raise problem


def _parameters(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())
