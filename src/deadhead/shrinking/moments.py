"""Second moments of the layers, in as many passes over the data as keep them within a bound.

The moment of a layer has columns x columns numbers in double precision: 134 MB for the heads of a
Llama of 8 billion weights, 1.6 GB for its neurons, and it has 32 layers. So a pass adds up the
moments of some layers, turns each into the order in which its units leave, and drops it.
"""

from collections.abc import Collection, Sequence

from torch import nn

from deadhead.display.progress import Progress
from deadhead.heads.sites import Site
from deadhead.layout import Batch, SiteKey

from .reconstruction import order_of_removal
from .statistics import Statistics, collect

MEMORY = 2 * 10**9  # bytes for the moments of a pass
BYTES = 8  # of a number in double precision


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
