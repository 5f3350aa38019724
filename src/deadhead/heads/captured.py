"""Keep what the output projections read in a run, to patch heads of another run with it."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch import Tensor, nn

from deadhead.errors import DataError, HeadError
from deadhead.layout import Head, HeadLayout, LayerKey

from .call import Calls
from .discover import find_sites, layout_of
from .hooks import attach, hooked
from .means import check_fits
from .rows import batch_first
from .site import Site


@dataclass(frozen=True, kw_only=True)
class Captured:
    """What the output projections of a model read in a run.

    values: for each (block, layer) a tensor, batch x tokens x heads * width; several where layers
        share their weights, in the order of the run.
    kept: for each attention layer of the model, the numbers of its heads.
    padding: for each block the mask of its real tokens; None: the run had no mask.
    """

    values: dict[LayerKey, list[Tensor]]
    kept: dict[LayerKey, tuple[int, ...]]
    padding: dict[str, Tensor | None] = field(default_factory=dict)

    def check(self, layout: HeadLayout) -> None:
        """Raise an error unless this is a run of a model with the heads of this layout."""
        if not self.values:
            raise DataError(
                "expected a captured run, got an empty one.",
                "run the model first: with captured(model) as clean: model(**batch)",
            )
        widths = {
            place: runs[0].shape[-1] // max(1, len(self.kept[place]))
            for place, runs in self.values.items()
        }
        again = "capture a run of this model: with captured(model) as clean: model(**batch)"
        check_fits("captured run", self.kept, widths, layout.attentions, again)
        if layout.feed_forwards:
            raise HeadError(
                "`neurons` expect zeros, means or other examples as `fill`, got a captured run.",
                "a captured run has heads only: gate the neurons in a block of their own",
            )

    def of(self, attention: Site) -> list[Tensor]:
        """The values of the heads that an attention layer has left, for each of its calls."""
        place = attention.layer_key
        if place not in self.values:
            raise HeadError(
                f"the captured run has nothing of {place[0]} layer {place[1]}.",
                "capture its heads too, and with inputs that run this part of the model",
            )
        if attention.kept == self.kept[place]:
            return self.values[place]
        rows = [self.kept[place].index(number) for number in attention.kept]
        return [
            value.unflatten(-1, (-1, attention.width))[..., rows, :].flatten(-2)
            for value in self.values[place]
        ]


@contextmanager
def captured(model: nn.Module, heads: Iterable[Head | str] | None = None) -> Iterator[Captured]:
    """Keep what the output projections read while the model runs, once, in this block.

    heads: keep only the layers of these heads, to save memory.

    The values are detached. They fit a forward pass with inputs of the same shape and padding,
    not the steps of generation after its first. Inside of a gated block they are those of the
    gated model.

    >>> with captured(model) as clean:
    ...     model(**clean_batch)
    >>> with gated(model, closed=["decoder.3.7"], fill=clean):
    ...     logits = model(**corrupt_batch).logits
    """
    sites = find_sites(model)
    layout = layout_of(sites)
    places = {head[:2] for head in (layout if heads is None else layout.check(heads))}
    with capturing(model, sites, places) as run:
        yield run


@contextmanager
def capturing(
    model: nn.Module, sites: list[Site], places: Collection[LayerKey]
) -> Iterator[Captured]:
    """Keep what is read at these places of a model, whose attention layers are known."""
    run = Captured(values={}, kept={site.layer_key: site.kept for site in sites})
    with hooked(model, sites) as stack:
        calls = Calls(model, stack)
        for site in sites:
            if site.layer_key in places:
                stack.callback(attach(site, _keep(run, site, calls)))
        yield run


def _keep(run: Captured, site: Site, calls: Calls) -> Callable[[Tensor], Tensor]:
    def keep(context: Tensor) -> Tensor:
        now = calls.run
        if not now.running and calls.checkpointed:
            return context  # the same rows again, during the backward pass
        if calls.now().number > 1:
            raise DataError(
                "expected one run of the model to capture, got a second one.",
                "open a block for each run; to generate, capture the run of the whole text",
            )
        values = batch_first(site, context).detach().clone()
        if site.block not in run.padding:
            run.padding[site.block] = calls.padding(site)
        run.values.setdefault(site.layer_key, []).append(values)
        return context

    return keep
