"""Folders of data for tests: files are written, and the sizes of the splits are read back."""

import gzip

from deadhead.tasks import load_data
from deadhead.tasks.task import SPLITS


def put(root, files):
    """Write files by their paths; one that ends in .gz is packed."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return root


def sizes(task, lang, root, **options):
    """The rows of train, dev and test."""
    return [len(load_data(task, lang, split, root=root, **options)) for split in SPLITS]


def words(data):
    """The first word of each row."""
    return [row.texts[0] for row in data.rows]
