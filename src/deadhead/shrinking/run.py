"""`shrink`: choose units, remove them, and repair the remaining layers."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from torch import nn

from deadhead.display.progress import Progress, reported
from deadhead.errors import Notice, deprecated
from deadhead.heads.gates import gated
from deadhead.heads.layers import checkpointed, copy_with_same_weights
from deadhead.heads.loading import make_ordinary
from deadhead.heads.prune import prune
from deadhead.layout import Batch
from deadhead.numerics import as_written
from deadhead.rankers.label_free import Loss
from deadhead.rankers.run import frozen

from .allocate import Budget
from .budgets import budgets_for, check_reach, most, quotas_for
from .calibration import Calibration, calibrate
from .choose import AUTO, CHOOSERS, Choice, choose_by_each
from .costs import InputShape
from .distances import text_distances
from .latency import Latency, latency, time_models
from .layers import check_layers, method_of, plan_layers
from .refitting import RefitPlan
from .repairs import REPAIRS, Repair
from .report import report, timed
from .shrunk import STAGES, Shrunk
from .target import check_score, read_allowed, read_layers, read_targets

CLOSE = 0.05  # share of the time: a first prediction that misses by more is corrected once


def shrink(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    layers: float | str | Sequence[int | str] | None = None,
    heads: float | str | None = None,
    neurons: float | str | None = None,
    macs: float | str | None = None,
    parameters: float | str | None = None,
    speedup: float | None = None,
    on: InputShape | None = None,
    even: bool = False,
    multiple: int | None = None,
    method: str = "auto",
    repair: str = "refit",
    loss: Loss | str | None = None,
    guard: Iterable[Batch] = (),
    fit_guard: bool = True,
    seed: int = 0,
    score: Callable[[nn.Module], Any] | None = None,
    checkpointing: bool = False,
    progress: bool | Progress = True,
    compensation: str | None = None,
) -> Shrunk:
    """Remove layers, heads and neurons without training, and repair the remaining layers.

    Give one target, or several of layers, heads and neurons.

    Args:
        batches: calibration data, dicts ready for `model(**batch)`, with `labels` unless there is
            a loss; some hundreds of examples are a good start.
        layers: whole transformer layers to remove: a share, a number, or a list such as [3, 7] or
            ["decoder.3"]. The result is an ordinary model with fewer layers. Shares of heads and
            neurons are then shares of those that are left.
        heads, neurons: what to remove: a share (0.75 or "75%") or a number.
        macs: the share of the multiply-accumulates that remains, on inputs `on`, counted in the
            attention and feed-forward layers that deadhead can cut: not in embeddings, output
            layers and mixtures of experts.
        parameters: the share of the model's parameters that remains.
        speedup: how many times as fast the model shall run on inputs `on`, on this machine. The
            times of its layers are measured first.
        on: examples and tokens of each of the inputs; by default (32, 128), or fewer tokens where
            the model cannot read as many.
        even: keep the same number of heads and of neurons in every layer, and add no biases. If
            the class of the model has a config for such layers, the result is an ordinary model
            with smaller numbers there; a note says whether it is.
        multiple: keep heads and neurons of each layer in multiples of this number. A layer may
            then lose more than was asked for.
        method: how to choose, a name of CHOOSERS; "auto" tries two of them, reconstruction and
            fisher, and keeps the choice with the lower held-out loss after a refit to some of the
            batches. Layers have methods of their own: "greedy" (that of "auto") removes one after
            the other, always the one without which the loss after its repair is lowest;
            "similarity" removes those whose outputs are most similar to their inputs, as ShortGPT
            does, in much less time.
        repair: how the remaining layers are repaired, a name of REPAIRS. "refit": solve the output
            projections that lose inputs by least squares, and the task layer of a classifier; of
            several candidates, the best on held-out tokens is kept. "refit-all": all output
            projections (takes longer; better on data like the batches, worse on other data).
            "scales": one factor for each unit, as Kwon et al. 2022. "mean": add the mean of what
            was removed to the biases. "none": only cut.
        loss: as for `rank`: "self" or "embedding", where there are no labels, or a function.
        guard: batches of general texts, without labels, that keep the model sound where the
            calibration data shows nothing. They take part in the repair, and in a choice without
            labels; an eighth of them, or 100 if it can, is only measured. fit_guard=False:
            measure all of them.
        score: called with the model before the cut, after it, and after the repair; the results
            are in the report.
        checkpointing: to choose, compute the activations of layers again in the backward pass
            instead of keeping them: less memory, more time, the same numbers.
        compensation: the old name of `repair`.

    Losses are measured on an eighth of the examples. Nothing is fitted to them; "auto" compares its
    methods on them, so its loss is slightly optimistic. `distances` of the report are those of
    held-out texts and of the guard from the whole model, by length; a notice says where they are
    much larger than those of your texts.

    The model stays as it was after any error. Weights, biases and the config change in place; make
    optimizers afterwards.

    >>> report = shrink(model, batches, heads=0.75)
    >>> print(report)
    >>> save(model, "smaller", tokenizer)
    """
    # Long by its parameters and what they mean.
    if compensation is not None:
        deprecated("shrink(compensation=...)", "shrink(repair=...)")
        repair = compensation
    named = {"heads": heads, "neurons": neurons, "macs": macs, "parameters": parameters}
    check_score(score)
    amount = read_layers(layers)
    targets = read_targets(named | {"speedup": speedup}, layers=amount is not None)
    allowed = read_allowed(even, multiple, targets)
    repairs = partial(_repair, even=allowed.even)
    chosen_repair = repairs(repair)
    by_layers = None if amount is None else method_of(method, repair, bool(targets))
    with ExitStack() as stack:
        show = stack.enter_context(reported(progress, "shrink"))
        stack.enter_context(as_written())
        if amount is not None:
            check_layers(model, amount)
        calibration = whole = calibrate(
            model, batches, targets=targets, on=on, method=method, loss=loss, seed=seed,
            score=score, guard=guard, fit_guard=fit_guard, show=show, allowed=allowed,
        )  # fmt: skip
        measured = [whole.measure()]
        plan_of_layers, whole_model = None, model
        if amount is not None and by_layers is not None:
            plan_of_layers = plan_layers(whole, amount, by_layers, repair)
            if not targets:
                with plan_of_layers.cut():
                    measured.append(whole.measure())
            whole_model = copy_with_same_weights(model)
            undo = stack.enter_context(ExitStack())  # after an error alone
            undo.callback(plan_of_layers.apply())
            calibration = whole.again()
        table = _time_layers(calibration) if "speedup" in targets else None
        budgets = budgets_for(
            targets, kinds=calibration.kinds, layout=calibration.layout, costs=calibration.costs,
            table=table, repair=chosen_repair,
            quotas=quotas_for(model, calibration.sites, calibration.kinds, allowed),
        )  # fmt: skip
        choices, factors = (
            [Choice(heads=(), neurons={}, predicted=None, method={})],
            dict[str, float](),
        )
        if targets:
            choices, factors = _choose(calibration, table, budgets, checkpointing)
        else:
            chosen_repair = REPAIRS["none"]  # layers are repaired by themselves
        choice, plan, tried = _plan_best(calibration, choices, chosen_repair, repairs)
        if targets:
            with gated(model, closed=choice.heads, neurons=choice.neurons):
                measured.append(calibration.measure())
        with calibration.stage("measure"), frozen(model, seed), frozen(whole_model, seed):
            distances = text_distances(
                whole_model, model, plan, calibration.held_out, calibration.guard[1]
            )
        full = None if table is None else copy_with_same_weights(model)
        plan.apply()
        measured.append(calibration.measure())
        speed = None
        if table is not None and full is not None:
            factor = factors.get(choice.name, 1.0)
            predicted = table.speed_without(calibration.removed_by(choice), factor)
            speed = timed(calibration, full, predicted)
        fields = make_ordinary(model) if allowed.even else None
        shrunk = report(
            calibration, choice, plan, budgets=budgets, tried=tried, speed=speed,
            measured=dict(zip(STAGES, measured, strict=True)), whole=whole, layers=plan_of_layers,
            distances=distances, fields=fields,
        )  # fmt: skip
        if plan_of_layers is not None:
            undo.pop_all()
    if shrunk.warning is not None:
        warnings.warn(Notice(shrunk.warning), stacklevel=2)
    return shrunk


def _repair(name: str, *, even: bool) -> Repair:
    """The repair of a name; even layers get no biases, which few classes have a config for."""
    return REPAIRS[name].without_new_biases() if even else REPAIRS[name]


def _time_layers(calibration: Calibration) -> Latency:
    sites = [site for site in calibration.sites if site.kept]
    with calibration.stage("time layers") as progress, frozen(calibration.model, calibration.seed):
        return latency(
            calibration.model, sites, calibration.fit[0], calibration.costs.shape, progress=progress
        )


def _choose(
    calibration: Calibration, table: Latency | None, budgets: Sequence[Budget], checkpointing: bool
) -> tuple[list[Choice], dict[str, float]]:
    """The choice of each method, from one pass over the data.

    Also gives for some methods the time saved, relative to the prediction of the table.
    """
    methods = [calibration.method]
    if calibration.method == "auto":  # one of them needs projections that are modules, unlike XLNet
        modules = all(site.out is not None for site in calibration.sites)
        methods = [name for name in AUTO if modules or not CHOOSERS[name].needs_moments]
    factors: dict[str, float] = {}
    adjust = None if table is None else partial(_adjusted, calibration, table, budgets, factors)
    checkpoints = checkpointed(calibration.model) if checkpointing else nullcontext()
    with calibration.stage("choose") as progress, checkpoints:
        choices = choose_by_each(
            calibration.model, calibration.fit, methods, budgets=budgets, adjust=adjust,
            loss=calibration.loss, seed=calibration.seed,
            progress=calibration.forecast(progress),
        )  # fmt: skip
    return choices, factors


def _adjusted(
    calibration: Calibration,
    table: Latency,
    budgets: Sequence[Budget],
    factors: dict[str, float],
    choice: Choice,
) -> list[Budget] | None:
    """The budget by the measured time of a cut copy, and its factor; None if the table is close."""
    model, shape, (budget,) = calibration.model, calibration.costs.shape, budgets
    small = prune(copy_with_same_weights(model), choice.heads, neurons=choice.neurons)
    full, seconds = time_models([model, small], calibration.fit[0], shape)
    measured = seconds / full
    predicted = 1 / table.speed_without(calibration.removed_by(choice))
    if abs(measured - predicted) <= CLOSE * predicted:
        return None
    factor = (1 - measured) / (1 - predicted)
    least = 1 - max(0.0, factor) * most(budget) / budget.whole
    check_reach("speedup", calibration.targets["speedup"], least, shape)
    factors[choice.name] = factor
    return [replace(budget, total=budget.total / factor)]


def _plan_best(
    calibration: Calibration,
    choices: Sequence[Choice],
    repair: Repair,
    repairs: Callable[[str], Repair],
) -> tuple[Choice, RefitPlan, dict[str, float]]:
    """Solve the repair of the choice whose repair on some batches has the lowest held-out loss.

    Also gives the loss of each method, if several were tried.
    """

    def solve(choice: Choice, repair: Repair, batches: Sequence[Batch]) -> RefitPlan:
        with calibration.stage("refit") as progress:
            return repair.plan(calibration.model, batches, choice, progress)

    best, *others = choices
    if not others:
        return best, solve(best, repair, calibration.repair), {}
    quick = repair if repair.compare_by is None else repairs(repair.compare_by)
    some = calibration.to_compare()
    tried: dict[str, float] = {}
    for choice in choices:
        other = solve(choice, quick, some)
        with calibration.stage("measure"), other.tried():
            loss = calibration.held_out_loss()
        if not tried or loss < min(tried.values()):
            best, plan = choice, other
        tried[choice.name] = loss
    if quick is not repair or len(some) < len(calibration.repair):
        plan = solve(best, repair, calibration.repair)
    return best, plan, tried
