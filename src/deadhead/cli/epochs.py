"""A training to look at: a bar with the time to go where somebody sits, a line now and then in a log, a line per epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deadhead.training import Epoch, Tick

EVERY = 30.0  # seconds between two lines of a log


@contextmanager
def following(epochs: int) -> Iterator[tuple[Callable[[Tick], None], Callable[[Epoch], None]]]:
    """What is told of every update and of every epoch. All of it goes to standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from deadhead.training.progress import clock

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]} left"),
    )
    last = time.monotonic()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        line = bar.add_task("", total=None, left="?")

        def update(tick: Tick) -> None:
            nonlocal last
            if not console.is_terminal:
                if time.monotonic() - last >= EVERY:
                    last = time.monotonic()
                    console.print(str(tick), markup=False)
                return
            loss = "" if tick.loss is None else f" loss {tick.loss:.3f}"
            bar.update(
                line,
                description=f"epoch {tick.epoch}/{tick.epochs}{loss} {tick.speed:,.0f} examples/s",
                completed=(tick.epoch - 1) * tick.updates + tick.update,
                total=tick.epochs * tick.updates,
                left=clock(tick.left),
            )

        yield update, lambda epoch: console.print(epoch_line(epoch, epochs), markup=False)


def epoch_line(epoch: Epoch, epochs: int) -> str:
    """One epoch in a line, such as `epoch 1/3: mean loss 0.512, dev micro_f1 81.20 (en 85.00, de 77.40), 12 s`."""
    dev = f", dev {metric_words(epoch.scores)}" if epoch.scores else ""
    return f"epoch {epoch.number}/{epochs}: mean loss {epoch.loss:.3f}{dev}, {epoch.seconds + epoch.scoring:,.0f} s"


def metric_words(scores: dict[str, float]) -> str:
    """The first metric in points, and where there are several sets, that of each."""
    metric = next(iter(scores))
    each = {
        name.removeprefix(f"{metric} "): value
        for name, value in scores.items()
        if name.startswith(f"{metric} ")
    }
    apart = ", ".join(f"{name} {shown(metric, value)}" for name, value in each.items())
    return f"{metric} {shown(metric, scores[metric])}" + (f" ({apart})" if apart else "")


def shown(metric: str, value: float) -> str:
    """A metric of a task in points of 100; a log-likelihood as it is."""
    from deadhead.tasks import METRICS, points

    return f"{points(metric, value):.2f}" if metric in METRICS else f"{value:.3f}"
