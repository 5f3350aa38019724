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
    """One training for each point of the grid; those that scored highest first, those that failed last.

    Args:
        build: makes the model to start from, the same every time.
        points: of `grid(...)`.
        folder: keeps each training in a folder of its own there, named by what sets it apart; what is there is not run again.
        options: of `finetune`; `score` or `dev` must be among them, or nothing could be compared.
    """
    if options.get("score") is None and options.get("dev") is None:
        raise DataError(
            "a search needs something to compare by.", "give search dev=encoded or score=function"
        )
    several = list(points)
    if not several:
        raise SettingsError(
            "the grid has no point.",
            "make it with grid(preset) or grid(settings, rate=..., batch=...)",
        )
    varied = [
        f.name for f in fields(Settings) if len({str(getattr(s, f.name)) for s in several}) > 1
    ]
    found = []
    for settings in several:
        name = " ".join(f"{axis}={getattr(settings, axis)}" for axis in varied) or "only"
        place = None if folder is None else Path(folder) / name.replace(" ", ",")
        found.append(finetune(build(), train, settings, folder=place, name=name, **options))
    return sorted(found, key=_rank, reverse=True)


def _rank(history: History) -> tuple[bool, float]:
    value = history.scores.get(history.metric, math.nan)
    return history.state == "done", -math.inf if math.isnan(value) else value
