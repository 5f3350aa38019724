"""The heads changed by hand: hooks written for these tests, which share no code with the gates."""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import torch

from deadhead.heads.discover import find_sites

# block, layer, which call of the layer in this run, batch x tokens x heads x width -> the same
Change = Callable[[str, int, int, torch.Tensor], torch.Tensor]


@contextmanager
def changed(model, change):
    """Pass what each output projection reads through `change`, heads and their width apart."""
    undo: list[Callable[[], None]] = []
    for site in find_sites(model):
        uses = [0]
        core: Any = site.core

        def apply(read, site=site, uses=uses):  # heads side by side
            swap = type(site.core).__module__.endswith(("modeling_fsmt", "modeling_xlnet"))
            rows = read.transpose(0, 1) if swap else read
            rows = rows.unflatten(-1, (-1, site.width))
            rows = change(site.block, site.layer, uses[0], rows).flatten(-2)
            uses[0] += 1
            return rows.transpose(0, 1) if swap else rows

        if site.out is not None:
            hook = site.out.register_forward_pre_hook(
                lambda _, args, apply=apply: (apply(args[0]), *args[1:])
            )
            undo.append(hook.remove)
        else:
            original = core.post_attention

            def wrapped(h, read, *args, original=original, apply=apply, **k):
                return original(h, apply(read.flatten(-2)).view_as(read), *args, **k)

            core.post_attention = wrapped
            undo.append(lambda core=core: delattr(core, "post_attention"))
    try:
        yield
    finally:
        for step in undo:
            step()


def read(model, run):
    """What each output projection read in this run, once for each call of a layer."""
    kept: dict[tuple[str, int], list[torch.Tensor]] = {}

    def keep(block, layer, use, rows):
        kept.setdefault((block, layer), []).append(rows)
        return rows

    with changed(model, keep), torch.no_grad():
        run()
    return kept
