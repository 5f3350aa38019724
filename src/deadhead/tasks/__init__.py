"""Files in, batches and numbers out: the tasks, their languages, their data, their metrics.

    data = load_data("pos", "de", "test", root=folder)
    encoded = encode(data, tokenizer)
    for batch in batches(encoded, size=32): model(**batch)
    score("pos", predictions, data)

TASKS and KINDS are the tables (`table.py`); a new task is a line there. Nothing here loads torch
before the first batch is made.
"""

from deadhead.tasks.encoding.batches import Batches, batches, collect
from deadhead.tasks.encoding.windows import Encoded, encode
from deadhead.tasks.reading.records import Row

from .check import check
from .dataset import Dataset, concatenate, cut_parts, dataset, distinct, draw_examples, first_parts
from .distances import distances
from .languages import group, language, paper_languages
from .load import data_files, find_data, load_data
from .metrics import METRICS, Measured, Metric, bleu_signature, points, score
from .registry import KINDS, TASKS, Task, task_of
from .task_file import read_task_file

__all__ = [
    "KINDS",
    "METRICS",
    "TASKS",
    "Batches",
    "Dataset",
    "Encoded",
    "Measured",
    "Metric",
    "Row",
    "Task",
    "batches",
    "bleu_signature",
    "check",
    "collect",
    "concatenate",
    "cut_parts",
    "data_files",
    "dataset",
    "distances",
    "distinct",
    "draw_examples",
    "encode",
    "find_data",
    "first_parts",
    "group",
    "language",
    "load_data",
    "paper_languages",
    "points",
    "read_task_file",
    "score",
    "task_of",
]
