"""Activation patching of every head, with all heads of a layer in one pass.

A batch of pairs is run clean and corrupt. Then the patched run is repeated with a copy of the batch
for every head of a layer, from that layer upwards (rankers/head_copies.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from deadhead.display.progress import Progress, reported
from deadhead.errors import DataError, HeadError, UnsupportedModel
from deadhead.heads.call import inputs_of
from deadhead.heads.captured import Captured, capturing
from deadhead.heads.discover import find_sites, layout_of
from deadhead.heads.hooks import hooked
from deadhead.heads.rows import inner_padding
from deadhead.heads.site import Site
from deadhead.layout import Batch, Head, HeadLayout
from deadhead.rankers.batches import check_pairs
from deadhead.rankers.gate_gradients import wide
from deadhead.rankers.head_copies import (
    Change,
    columns_of,
    fill_from,
    in_copies,
    portions,
    token_budget,
)
from deadhead.rankers.label_free import PerExample
from deadhead.rankers.loss import examples_of, forward, on_device
from deadhead.rankers.replay import Replay, replaying
from deadhead.rankers.run import frozen, refuse_resampling
from deadhead.registry.options import accepts

from .effects import Effects, HeadAt
from .metrics import Metric, mean_of, moved

Positions = Literal["each"] | Sequence[int] | None


def patch_effects(
    model: nn.Module,
    clean: Batch | Iterable[Batch],
    corrupt: Batch | Iterable[Batch],
    metric: Metric,
    *,
    into: Literal["corrupt", "clean"] = "corrupt",
    heads: Iterable[Head | str] | None = None,
    positions: Literal["each"] | Iterable[int] | None = None,
    tokens: int | None = None,
    progress: bool | Progress = True,
) -> Effects:
    """How a metric changes when the output of a head comes from another run: activation patching.

    Args:
        clean: a batch ready for `model(**batch)`, or a list of batches.
        corrupt: likewise, with the same shapes and padding: a head is patched position by position.
        metric: a function of the outputs and the batch that gives one number per example, such as
            `logit_difference(answer, wrong)`. It gets the batch as it was passed, with entries
            such as `labels` that the model does not read.
        into: the run that is patched. "corrupt" shows which heads restore the clean metric
            (denoising), "clean" which heads it needs (noising).
        heads: those to patch; by default all.
        positions: "each" or a list of positions, to patch a head at each of them alone; negative
            ones count from the end of the padded row. By default a head is patched at all
            positions at once.
        tokens: at most, padding counted, in one pass of at least one batch; by default 1,024 on a
            CPU and 65,536 on a GPU.
        progress: show a bar in a terminal or a notebook; or a function that is called with the
            number of batches done and their total.

    The model is run in evaluation mode without gradients, and is left as it was.

    >>> effects = patch_effects(model, clean, corrupt, logit_difference(mary, john))
    >>> effects.frame().sort_values("effect")
    """
    # Longer than most functions: half of it describes the arguments.
    if into not in ("corrupt", "clean"):
        raise DataError(f"`into` expects corrupt or clean, got {into!r}.", 'write into="corrupt"')
    refuse_resampling(model)
    sites, pairs = find_sites(model), check_pairs(clean, corrupt)
    every = layout_of(sites)
    layout = every if heads is None else every.without(set(every) - set(every.check(heads)))
    if not len(layout):
        raise HeadError("there is no head to patch.", "name at least one, such as encoder.0.3")
    with (
        frozen(model, seed=0),
        hooked(model, sites),
        torch.no_grad(),
        replaying(model, sites) as replay,
    ):
        patching = _Patching(
            model=model,
            every=sites,
            sites=[site for site in sites if columns_of(site, layout)],
            layout=layout,
            metric=PerExample(metric, "metric"),
            positions=_checked(positions),
            replay=replay,
            budget=token_budget(model, tokens),
        )
        results = []
        with reported(progress, "patch heads") as count:
            for pair in pairs:
                results.append(patching(*(pair if into == "corrupt" else pair[::-1])))
                count(len(results), len(pairs))
    sources, targets, patched = zip(*results, strict=True)
    if len(set(map(tuple, patched))) > 1:
        raise DataError(
            "the batches have different lengths, so their positions cannot be compared.",
            "pad all batches to one length, or leave positions out",
        )
    clean_side, corrupt_side = (sources, targets) if into == "corrupt" else (targets, sources)
    return Effects(
        clean=mean_of(clean_side, "clean run"),
        corrupt=mean_of(corrupt_side, "corrupt run"),
        values={
            place: mean_of([values[place] for values in patched], f"run with {place[0]} patched")
            for place in patched[0]
        },
        into=into,
        examples=sum(examples_of(batch) for batch, _ in pairs),
        layout=every,
    )


@dataclass(frozen=True, kw_only=True)
class _Patching:
    """Patches every head of one batch from another; gives the metric of both and of each patch."""

    model: nn.Module
    every: list[Site]  # all attention layers; those with heads to patch are in `sites`
    sites: Sequence[Site]
    layout: HeadLayout
    metric: PerExample
    positions: Positions
    replay: Replay
    budget: int

    def __call__(self, source: Batch, target: Batch) -> tuple[Tensor, Tensor, dict[HeadAt, Tensor]]:
        layers = {site.layer_key for site in self.sites}
        with capturing(self.model, self.every, layers) as source_run:
            outputs = forward(self.model, on_device(source, self.model))
        source_metric = self._metric(outputs, moved(source, self.model))
        batch, examples = on_device(target, self.model), examples_of(target)
        target = moved(target, self.model)  # once, not for the metric of every head
        outputs = self.replay.record(partial(forward, self.model), batch)
        target_metric, patched = self._metric(outputs, target), {}
        for site in self.sites:
            places = self._places(site, source_run, batch)
            for changes in portions(batch, list(places), self.budget):
                run, fill = partial(forward, self.model), fill_from(source_run)
                outputs = in_copies(run, batch, site, changes, fill=fill, replay=self.replay)
                for number, change in enumerate(changes):
                    rows = slice(number * examples, (number + 1) * examples)
                    copy = _rows(outputs, rows, len(changes) * examples)
                    patched[places[change]] = self._metric(copy, target)
        return source_metric, target_metric, patched

    def _metric(self, outputs: Any, batch: Batch) -> Tensor:
        """The metric of each example, which sees every entry of the user's batch."""
        return wide(self.metric(outputs, batch).detach())

    def _places(self, site: Site, source_run: Captured, batch: Batch) -> dict[Change, HeadAt]:
        """The changes of a layer, each with the head and the position as the user counts it."""
        heads = {
            column: Head(*site.layer_key, site.kept[column])
            for column in columns_of(site, self.layout)
        }
        if self.positions is None:
            return {Change(column): (head, None) for column, head in heads.items()}
        context = source_run.of(site)[0]
        if context.dim() != 3:
            raise UnsupportedModel(
                f"{site.block} layer {site.layer} works on {tuple(context.shape)} numbers, so its "
                "positions cannot be separated.",
                "leave positions out",
            )
        padding = inner_padding(self.model, inputs_of(self.model, batch, site), context)
        length = context.shape[1] - padding
        positions = range(length) if self.positions == "each" else self.positions
        for position in positions:
            if not -length <= position < length:
                raise DataError(
                    f"position {position} is outside the {length} positions of {site.block}.",
                    f"choose from 0 to {length - 1}, or from -{length} to -1",
                )
        rows = [position % length for position in positions]
        if len(set(rows)) < len(rows):
            raise DataError(
                f"`positions` expects each position once, got one of {positions} twice.",
                f"the rows of {site.block} have {length} positions, so -1 is {length - 1}",
            )
        return {
            Change(column, row): (head, position)
            for column, head in heads.items()
            for row, position in zip(rows, positions, strict=True)
        }


def _checked(positions: Any) -> Positions:
    is_list = isinstance(positions, Iterable) and not isinstance(positions, str)
    checked = [*positions] if is_list else positions
    if checked == [] or not accepts(Positions, checked):
        raise DataError(
            f'`positions` expects "each" or a list of whole numbers, got {positions!r}.',
            'write positions="each", or positions=[3, -1]',
        )
    return checked


def _rows(outputs: Any, rows: slice, total: int) -> Any:
    """The outputs of some rows of the batch."""
    if isinstance(outputs, Tensor):
        return outputs[rows] if outputs.dim() and len(outputs) == total else outputs
    if isinstance(outputs, Mapping):  # a ModelOutput of transformers
        return type(outputs)(**{n: _rows(part, rows, total) for n, part in outputs.items()})
    if isinstance(outputs, tuple | list):
        return type(outputs)(_rows(part, rows, total) for part in outputs)
    return outputs
