"""`shrink`: choose units, remove them, and repair the remaining layers."""

from collections.abc import Callable, Iterable
from typing import Any

from torch import nn

from deadhead.display.progress import Progress, reported
from deadhead.errors import deprecated
from deadhead.layout import Batch
from deadhead.numerics import as_written
from deadhead.rankers.label_free import Loss

from .costs import InputShape
from .held_out import check_share
from .repairs import REPAIRS
from .shrunk import Shrunk
from .stages.calibration import Request, calibrate
from .stages.choice import choose_units
from .stages.evidence import gather
from .stages.repair import apply_repair, plan_best
from .stages.report import report
from .stages.stopwatch import Stopwatch
from .target import check_score, read_targets


def shrink(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    heads: float | str | None = None,
    neurons: float | str | None = None,
    macs: float | str | None = None,
    parameters: float | str | None = None,
    speedup: float | None = None,
    on: InputShape | None = None,
    method: str = "auto",
    repair: str = "refit",
    loss: Loss | str | None = None,
    held_out: float = 0.125,
    seed: int = 0,
    score: Callable[[nn.Module], Any] | None = None,
    checkpointing: bool = False,
    progress: bool | Progress = True,
    compensation: str | None = None,
) -> Shrunk:
    """Remove heads and feed-forward neurons without training, and repair the remaining layers.

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
        repair: how the remaining layers are repaired, a name of REPAIRS. "refit": solve the output
            projections that lose inputs by least squares, and the task layer of a classifier; of
            several candidates, the best on held-out tokens is kept. "refit-all": all output
            projections (takes longer; better on data like the batches, worse on other data).
            "scales": one factor for each unit, as Kwon et al. 2022. "mean": add the mean of what
            was removed to the biases. "none": only cut.
        loss: as for `rank`: "self", where there are no labels, or a function.
        held_out: the share of the examples that losses are measured on. Nothing is fitted to them;
            "auto" compares its methods on them, so its loss is slightly optimistic.
        score: called with the model before the cut, after it, and after the repair; the results
            are in the report.
        checkpointing: to choose, compute the activations of layers again in the backward pass
            instead of keeping them: less memory, more time, the same numbers.
        compensation: the old name of `repair`.

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
    targets = {"heads": heads, "neurons": neurons, "macs": macs, "parameters": parameters}
    check_share(held_out)
    check_score(score)
    request = Request(
        targets=read_targets(targets | {"speedup": speedup}), on=on, method=method,
        repair=REPAIRS[repair], loss=loss, held_out=held_out, seed=seed, score=score,
        checkpointing=checkpointing,
    )  # fmt: skip
    with reported(progress, "shrink") as show, as_written():
        watch = Stopwatch(show)
        calibration = calibrate(model, batches, request, watch)
        evidence = gather(calibration, watch)
        cuts = choose_units(calibration, evidence, watch)
        planned = plan_best(calibration, cuts, watch)
        repaired = apply_repair(calibration, planned, watch)
        return report(calibration, evidence, planned, repaired, watch)
