"""What replaces the output of a closed head: 0, its mean, or its output in another run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from torch import Tensor

from deadhead.heads.hooks import attach
from deadhead.heads.sites import Site

from .head_copies import Fill

Contexts = Mapping[tuple[str, int], list[Tensor]]  # what each layer's output projection read


@contextmanager
def reading_contexts(sites: Iterable[Site]) -> Iterator[Contexts]:
    """Keep what the output projections read in the run inside, every call in its order."""
    contexts: dict[tuple[str, int], list[Tensor]] = {}

    with ExitStack() as stack:
        for site in sites:
            calls = contexts.setdefault((site.block, site.layer), [])

            def keep(context: Tensor, calls: list[Tensor] = calls) -> Tensor:
                calls.append(context)
                return context

            stack.callback(attach(site, keep))
        yield contexts


def zero(site: Site, call: int) -> float:
    return 0.0


def fill_from(contexts: Contexts) -> Fill:
    """Fill with what the same layer read, at the same call, in another run."""

    def fill(site: Site, call: int) -> Tensor:
        context = contexts[site.block, site.layer][call]
        return context.transpose(0, 1) if site.time_first else context

    return fill
