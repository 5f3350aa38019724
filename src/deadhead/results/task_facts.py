"""What results need to know about a task, also where its task file is missing."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from deadhead.errors import DeadheadError
from deadhead.tasks import task_of


class TaskFacts(NamedTuple):
    """The name of a task without the corpus, its kind, and the one metric that tables show."""

    name: str
    kind: str = ""
    metric: str = ""


@cache
def task_facts(task: str) -> TaskFacts:
    """The facts of a task by its name in a recipe; kind and metric are empty if it is unknown."""
    try:
        known = task_of(task)
    except (DeadheadError, OSError):
        return TaskFacts(task)
    return TaskFacts(known.name, known.kind, known.metric)
