"""Try a grid of settings on one task, each from the same start, and put the best first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from deadhead.errors import DataError
from deadhead.tasks.encoding.encode import Encoded

from .history import History
from .loop import finetune
from .settings import Settings, SettingsError


def search(
    build: Callable[[], Any],
    train: Encoded,
    points: Iterable[Settings],
    *,
    folder: str | Path | None = None,
    **options: Any,
) -> list[History]:
    """Train once for each point of the grid; sorted by score, failed trainings last.

    Args:
        build: returns the model to start from, the same every time.
        points: the result of `grid(...)`.
        folder: keep each training in a subfolder named after its settings; a finished one is not
            run again.
        options: those of `finetune`, with `score` or `dev`.
    """
    if options.get("score") is None and options.get("dev") is None:
        raise DataError(
            "a search needs a score to compare by.", "give search dev=encoded or score=function"
        )
    grid = list(points)
    if not grid:
        raise SettingsError(
            "the grid has no point.",
            "create it with grid(preset) or grid(settings, rate=..., batch=...)",
        )
    names = [f.name for f in fields(Settings)]
    varied = [n for n in names if len({str(getattr(settings, n)) for settings in grid}) > 1]
    histories = []
    for settings in grid:
        name = " ".join(f"{axis}={getattr(settings, axis)}" for axis in varied) or "only"
        place = None if folder is None else Path(folder) / name.replace(" ", ",")
        histories.append(finetune(build(), train, settings, folder=place, name=name, **options))
    return sorted(histories, key=_rank, reverse=True)


def _rank(history: History) -> tuple[bool, float]:
    value = history.scores.get(history.metric, math.nan)
    return history.state == "done", -math.inf if math.isnan(value) else value
