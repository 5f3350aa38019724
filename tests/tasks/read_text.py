"""Read a text with the reader of a format, for tests of readers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from deadhead.tasks import TASKS, Row
from deadhead.tasks.reading.formats import reader_of
from deadhead.tasks.task import Task

Notes = Counter[str]


def read(
    tmp_path: Path, form: str, text: str | bytes, task: str | Task, **options
) -> tuple[list[Row], Notes]:
    path = tmp_path / "file.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    notes: Notes = Counter()
    known = TASKS[task] if isinstance(task, str) else task
    return reader_of(form)({"": path}, known, notes, **options), +notes
