"""Read a text with the reader of a format, for tests of readers."""

from collections import Counter

from deadhead.tasks import TASKS
from deadhead.tasks.reading.formats import reader_of

Notes = Counter[str]


def read(tmp_path, form, text, task, **options):
    path = tmp_path / "file.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    notes: Notes = Counter()
    known = TASKS[task] if isinstance(task, str) else task
    return reader_of(form)({"": path}, known, notes, **options), +notes
