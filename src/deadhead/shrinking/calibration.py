"""The full model and the data of `shrink`: checked, divided, counted and measured."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from deadhead.display.progress import Progress, clock
from deadhead.display.progress import stage as say_stage
from deadhead.forward import real_tokens
from deadhead.heads.discover import find_every_site, layout_of
from deadhead.heads.hooks import check_no_gates
from deadhead.heads.prune import check_changeable
from deadhead.heads.site import Site
from deadhead.layout import Batch, HeadLayout, Kind, SiteKey
from deadhead.rankers.label_free import LabelFree, Loss, label_free, with_default_loss, with_loss
from deadhead.rankers.loss import examples_of
from deadhead.rankers.run import frozen

from .allocate import units_of
from .budgets import check_targets
from .choose import Choice, check_method, checked_batches
from .costs import Costs, InputShape, costs
from .held_out import check_number, guard_measured, mean_loss, split_examples
from .target import Allowed, Amount

FEWER = 4  # choices are compared on one batch of this many,
ENOUGH = 2  # if they have this many tokens for each input of a layer
AFTER = 2.5  # the time of the refit, in passes of the choice over all batches, as measured
SOON = 0.05  # share of a pass of the choice after which the time is estimated
MEASURES = 4  # more measurements of the loss after that of the whole model


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The full model, its layers, and the data to fit and to measure on."""

    model: nn.Module
    targets: Mapping[str, Amount]
    method: str
    loss: Loss | None  # None: that of the labels
    seed: int
    score: Callable[[nn.Module], Any] | None
    show: Progress
    seconds: dict[str, float]  # each stage so far
    sites: Sequence[Site]
    layout: HeadLayout  # the full model's
    kinds: Sequence[Kind]  # that may be removed
    fit: Sequence[Batch]  # to choose with
    repair: Sequence[Batch]  # to repair with
    held_out: Sequence[Batch]
    guard: tuple[Sequence[Batch], Sequence[Batch]]  # general texts: fitted to, only measured
    costs: Costs

    def stage(self, name: str) -> AbstractContextManager[Progress]:
        """Time a stage; give what to call as it proceeds."""
        return _stage(name, self.seconds, self.show)

    def held_out_loss(self) -> float:
        """The loss of the model as it is now."""
        with frozen(self.model, self.seed):
            return mean_loss(self.model, self.held_out)

    def measure(self) -> tuple[float, Any]:
        """The held-out loss of the model as it is now, and what `score` gives for it."""
        with self.stage("measure"):
            return self.held_out_loss(), None if self.score is None else self.score(self.model)

    def to_compare(self) -> Sequence[Batch]:
        """Some of the batches to repair with, on which choices are compared in less time.

        They have several tokens for each input of the widest layer, or else they are all batches.
        """
        widest = max(len(site.kept) * site.width for site in self.sites)
        for step in range(FEWER, 1, -1):
            # batches are often sorted by length, so the first is the shortest
            some = self.repair[step // 2 :: step]
            if _tokens(some) >= ENOUGH * widest:
                return some
        return self.repair

    def forecast(self, progress: Progress, scope: str = "in all") -> Progress:
        """Also say, after the first batches of the choice, about how long everything will take.

        scope: what the estimate is of.

        The very first is not counted: it takes longer, and it may be much shorter than others.
        """
        sizes = [_size(batch) for batch in self.fit]
        begin, ran, time_text = 0.0, 0, ""

        def forecasting(done: int, total: int, note: str = "") -> None:
            nonlocal begin, ran, time_text
            passes = max(1, total // len(sizes))
            if done == 1:
                begin = time.perf_counter()
            elif not time_text:
                ran += sizes[min((done - 1) // passes, len(sizes) - 1)]
                if ran >= SOON * sum(sizes):
                    one = (time.perf_counter() - begin) * sum(sizes) / ran
                    seconds = one * (passes + AFTER) + MEASURES * self.seconds["measure"]
                    time_text = f"about {clock(seconds)} {scope}"
                    say_stage(f"shrink: {time_text}")
            progress(done, total, note or time_text)

        return forecasting

    def again(self) -> "Calibration":
        """The same data for the model as it is now, after whole layers were removed."""
        sites = find_every_site(self.model)
        with frozen(self.model, self.seed):
            counted = costs(self.model, sites, self.fit[0], self.costs.shape)
        return replace(self, sites=sites, layout=layout_of(sites), costs=counted)

    def removed_by(self, choice: Choice) -> dict[SiteKey, int]:
        """Count the units that each layer loses."""
        after = units_of(self.layout.without(choice.heads, choice.neurons))
        return {
            place: len(units) - len(after.get(place, ()))
            for place, units in units_of(self.layout).items()
        }


def calibrate(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    targets: Mapping[str, Amount],
    on: InputShape | None,
    method: str,
    loss: Loss | str | None,
    seed: int,
    score: Callable[[nn.Module], Any] | None,
    guard: Iterable[Batch],
    fit_guard: bool,
    show: Progress,
    allowed: Allowed,
) -> Calibration:
    """Check everything before the first long computation, and divide the examples."""
    check_changeable(model)
    check_no_gates(model, "shrink")
    sites = find_every_site(model)
    kinds, on = check_targets(model, targets, on, allowed)
    batches, loss = with_default_loss(model, batches, loss)
    needs_labels = bool(targets) and check_method(method, kinds, loss)
    seconds: dict[str, float] = {}
    with _stage("count", seconds, show), frozen(model, seed):
        checked = checked_batches(model, batches, labels=needs_labels)
        check_number(sum(map(examples_of, checked)))
        fit, held_out = split_examples(checked)
        counted = costs(model, sites, checked[0], on)
        if loss is None and not all("labels" in batch for batch in held_out):
            loss = "self"
        loss = label_free(model, loss) if isinstance(loss, str) else loss
        general = _split_guard(model, [*guard], fit_guard)
        repair = [*fit, *general[0]]
        # a choice by labels cannot read the guard, nor can a function that may want labels
        if isinstance(loss, LabelFree) or (loss and not any("labels" in b for b in fit)):
            fit = repair
        if loss is not None:
            held_out = with_loss(model, held_out, loss, False, seed)
    return Calibration(
        model=model, targets=targets, method=method, loss=loss, seed=seed, score=score, show=show,
        seconds=seconds, sites=sites, layout=layout_of(sites), kinds=kinds, fit=fit,
        repair=repair, held_out=held_out, guard=general, costs=counted,
    )  # fmt: skip


def _split_guard(
    model: nn.Module, batches: list[Batch], fitted: bool
) -> tuple[Sequence[Batch], Sequence[Batch]]:
    """The batches of the guard to fit to, and those only to measure."""
    if not batches:
        return (), ()
    checked = checked_batches(model, batches, labels=False)
    size = sum(map(examples_of, checked))
    if not fitted or size < 2:
        return (), checked
    return split_examples(checked, guard_measured(size) / size)


def _tokens(batches: Sequence[Batch]) -> int:
    """The tokens that the encoder reads, or the decoder if those are fewer."""
    masks = [[real_tokens(b, decoder=flag) for b in batches] for flag in (False, True)]
    return min(sum(0 if m is None else int(m.sum()) for m in both) for both in masks)


def _size(batch: Batch) -> int:
    return max(value.numel() for value in batch.values() if isinstance(value, Tensor))


@contextmanager
def _stage(name: str, seconds: dict[str, float], show: Progress) -> Iterator[Progress]:
    begin = time.perf_counter()
    say_stage(f"shrink: {name}")

    def progress(done: int, total: int, note: str = "") -> None:
        show(done, total, f"{name} {note}".strip())

    yield progress
    seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - begin
