"""`shrink`: choose units, remove them, and repair the remaining layers."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from deadhead.display.progress import Progress, reported
from deadhead.errors import Notice, deprecated
from deadhead.heads.gates import gated
from deadhead.heads.layers import copy_with_same_weights
from deadhead.heads.loading import make_ordinary
from deadhead.layout import Batch
from deadhead.numerics import as_written
from deadhead.rankers.label_free import Loss
from deadhead.rankers.run import frozen

from .budgets import check_megabytes
from .calibration import calibrate
from .costs import Full, InputShape
from .distances import text_distances
from .layers import check_layers, method_of, mixes, plan_layers
from .mixture import Mixer
from .repairs import REPAIRS
from .report import report, speed_of
from .shrunk import STAGES, Shrunk
from .target import check_score, read_allowed, read_layers, read_targets


def shrink(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    layers: float | str | Sequence[int | str] | None = None,
    heads: float | str | None = None,
    neurons: float | str | None = None,
    macs: float | str | None = None,
    parameters: float | str | None = None,
    megabytes: float | str | None = None,
    speedup: float | None = None,
    on: InputShape | None = None,
    full: nn.Module | None = None,
    precision: torch.dtype | None = None,
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
    timed: bool = True,
    progress: bool | Progress = True,
    compensation: str | None = None,
) -> Shrunk:
    """Remove layers, heads and neurons without training, and repair the remaining layers.

    Give one target; heads and neurons go together, and layers with every target.

    Args:
        batches: calibration data, dicts ready for `model(**batch)`, with `labels` unless there is
            a loss; some hundreds of examples are a good start.
        layers: whole transformer layers to remove: a share, a number, or a list such as [3, 7] or
            ["decoder.3"]. The result is an ordinary model with fewer layers. Shares of heads and
            neurons are then shares of those that are left. By default the targets parameters,
            megabytes and speedup choose layers too, if `method` is "auto": one more as long as
            the loss is lower than with heads and neurons alone. layers=0: none.
        heads, neurons: what to remove: a share (0.75 or "75%") or a number.
        macs: the share of the multiply-accumulates that remains, on inputs `on`, counted in the
            attention and feed-forward layers that deadhead can cut: not in embeddings, output
            layers and mixtures of experts.
        parameters: the share of the model's parameters that remains.
        megabytes: the megabytes of weights that remain.
        speedup: how many times as fast the model shall run on inputs `on`, on this machine. The
            times of its layers are measured first, and the result is timed at the end.
        on: examples and tokens of each of the inputs; by default (32, 128), or fewer tokens where
            the model cannot read as many.
        full: the model that parameters, macs and speedup count from, if something was removed from
            `model` before, such as tokens of the vocabulary. It reads the same batches.
        precision: of the weights when they are saved, to count megabytes; by default as they are.
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
        timed: time the result of a target `speedup`.
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
    targets = read_targets(
        named | {"megabytes": megabytes, "speedup": speedup}, layers=bool(amount)
    )
    allowed = read_allowed(even, multiple, targets)
    REPAIRS[repair]  # or raise that there is none
    by_layers = method_of(method, repair, bool(targets)) if amount else ""
    with ExitStack() as stack:
        show = stack.enter_context(reported(progress, "shrink"))
        stack.enter_context(as_written())
        if amount:
            check_layers(model, amount)
        whole = calibrate(
            model, batches, targets=targets, on=on, method=method, loss=loss, seed=seed,
            score=score, guard=guard, fit_guard=fit_guard, show=show, allowed=allowed,
        )  # fmt: skip
        measured = [whole.measure()]
        whole_model = copy_with_same_weights(model)
        mixer = Mixer(
            whole=whole, full=Full.of(full or whole_model, whole.costs, precision), repair=repair,
            allowed=allowed, checkpointing=checkpointing,
        )  # fmt: skip
        check_megabytes(targets, mixer.full.megabytes)
        if amount is None and mixes(targets, method, repair):
            mixture = mixer.best()
        else:
            layers_plan = plan_layers(whole, amount, by_layers, repair) if amount else None
            mixture = mixer.mixture(layers_plan)
        calibration, choice = mixture.calibration, mixture.choice
        if mixture.layers is not None:
            if not choice.method:
                with mixture.layers.cut():
                    measured.append(whole.measure())
            undo = stack.enter_context(ExitStack())  # after an error alone
            undo.callback(mixture.layers.apply())
        if len(measured) == 1:
            with gated(model, closed=choice.heads, neurons=choice.neurons):
                measured.append(calibration.measure())
        plan = mixer.final_plan(mixture)
        with calibration.stage("measure"), frozen(model, seed), frozen(whole_model, seed):
            distances = text_distances(
                whole_model, model, plan, calibration.held_out, calibration.guard[1]
            )
        plan.apply()
        measured.append(calibration.measure())
        fields = make_ordinary(model) if allowed.even else None
        shrunk = report(
            mixer, mixture, plan, measured=dict(zip(STAGES, measured, strict=True)),
            speed=speed_of(mixer, mixture, timed=timed), distances=distances, fields=fields,
        )  # fmt: skip
        if mixture.layers is not None:
            undo.pop_all()
    if shrunk.warning is not None:
        warnings.warn(Notice(shrunk.warning), stacklevel=2)
    return shrunk
