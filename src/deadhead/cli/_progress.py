"""What a user sees on standard error while a command works: a bar in a terminal, lines in a log."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from deadhead.display.progress import LOG_LINE, bar, clock

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from deadhead.studies import Recipe
    from deadhead.training import Epoch, Tick

STUDY_LINE = 60.0  # seconds between two lines of a log


@contextmanager
def training(epochs: int) -> Iterator[tuple[Callable[[Tick], None], Callable[[Epoch], None]]]:
    """Show a training: what to call after every update, and after every epoch."""
    from rich.console import Console
    from rich.progress import TextColumn

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    last = time.monotonic()
    with bar(console, TextColumn("{task.fields[left]} left")) as live_bar:
        line = live_bar.add_task("", total=None, left="?")

        def update(tick: Tick) -> None:
            nonlocal last
            if not console.is_terminal:
                if time.monotonic() - last >= LOG_LINE:
                    last = time.monotonic()
                    console.print(str(tick), markup=False)
                return
            loss = "" if tick.loss is None else f" loss {tick.loss:.3f}"
            live_bar.update(
                line,
                description=f"epoch {tick.epoch}/{tick.epochs}{loss} {tick.speed:,.0f} examples/s",
                completed=(tick.epoch - 1) * tick.updates + tick.update,
                total=tick.epochs * tick.updates,
                left=clock(tick.left),
            )

        yield update, lambda epoch: console.print(epoch_line(epoch, epochs), markup=False)


def epoch_line(epoch: Epoch, epochs: int) -> str:
    """An epoch in one line.

    Such as `epoch 1/3: mean loss 0.512, dev micro_f1 81.20 (en 85.00, de 77.40), 12 s`.
    """
    dev = f", dev {scores_text(epoch.scores)}" if epoch.scores else ""
    seconds = epoch.seconds + epoch.scoring
    return f"epoch {epoch.number}/{epochs}: mean loss {epoch.loss:.3f}{dev}, {seconds:,.0f} s"


def scores_text(scores: dict[str, float]) -> str:
    """The first metric in points; for several data sets, their mean and the score of each."""
    metric = next(iter(scores))
    own = f"{metric} "
    each = ", ".join(
        f"{name.removeprefix(own)} {_score(metric, value)}"
        for name, value in scores.items()
        if name.startswith(own)
    )
    return f"{metric} {_score(metric, scores[metric])}" + (f" ({each})" if each else "")


def _score(metric: str, value: float) -> str:
    """A metric of a task in points of 100; a log-likelihood as it is."""
    from deadhead.tasks import METRICS, points_text

    return points_text(metric, value) if metric in METRICS else f"{value:.3f}"


Watch = Callable[[dict[str, Any]], None]


@contextmanager
def study(recipe: Recipe, *, quiet: bool) -> Iterator[Watch | bool]:
    """Show a running study; a second Ctrl-C says how to resume it."""
    from rich.console import Console

    console = Console(stderr=True)
    try:
        if quiet:
            yield False
        elif not console.is_terminal:
            yield log_lines()
        else:
            with bar(console) as live_bar:
                yield _study_bar(recipe, live_bar)
    except KeyboardInterrupt as interrupt:
        message = "finished trials are kept. To resume, repeat the command."
        raise type(interrupt)(message) from None


def _study_bar(recipe: Recipe, live_bar: Bar) -> Watch:
    line = live_bar.add_task(recipe.name, total=len(recipe.trials))
    news = _news(live_bar.console.print)

    def watch(facts: dict[str, Any]) -> None:
        news(facts)
        notes = [trial["note"] for trial in facts["running"].values() if trial["note"]]
        state = notes[0] if notes else ""
        if facts["stopping"]:
            state = "finishing the running trials (Ctrl-C again: at once)"
        done, failed = _recorded(facts)
        title = f"{recipe.name} {failed} failed" if failed else recipe.name
        live_bar.update(line, completed=done + failed, description=f"{title} {state}".strip())

    return watch


def log_lines(every: float = STUDY_LINE) -> Watch:
    """Lines for a log: news at once, and counts every minute."""

    def say(text: str) -> None:
        typer.echo(text, err=True)

    last = 0.0
    news = _news(say)

    def watch(facts: dict[str, Any]) -> None:
        nonlocal last
        news(facts)
        if time.monotonic() - last >= every:
            last = time.monotonic()
            done, failed = _recorded(facts)
            running = len(facts["running"])
            say(f"{done}/{facts['total']} done, {failed} failed, {running} running")

    return watch


def _recorded(facts: dict[str, Any]) -> tuple[int, int]:
    """How many trials are done and how many failed, in this run and before it."""
    return facts["before"]["done"] + facts["done"], facts["before"]["failed"] + facts["failed"]


def _news(say: Callable[[str], None]) -> Watch:
    """Say each report once."""
    known: set[str] = set()

    def watch(facts: dict[str, Any]) -> None:
        for text in facts.get("reports", ()):
            if text not in known:
                known.add(text)
                say(text)

    return watch


def print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=1, ensure_ascii=False))


def print_table(columns: Iterable[str], rows: Iterable[Iterable[str]], **options: Any) -> None:
    """Print a table of rich, with its options."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, **options)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def size_text(number: float) -> str:
    """A number of bytes, such as `12.3 MB`: a megabyte is a million bytes in all commands."""
    for unit in ("B", "KB", "MB", "GB"):
        if number < 999.5:  # else three digits would be 1e+03
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def plural(number: int, noun: str) -> str:
    """A number with its noun: `1 trial`, `2,000 trials`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
