"""Tasks: their data as rows, as tensors, and their metrics.

    data = load_data("pos", "de", "test", root=folder)
    encoded = encode(data, tokenizer)
    for batch in batches(encoded, size=32): model(**batch)
    score("pos", predictions, data)

TASKS (`registry.py`) lists the tasks, KINDS (`task.py`) what tasks of a kind share, METRICS
(`metrics.py`) the metrics; a new one is one entry there. `locating` finds files, `reading` turns
them into rows, `encoding` rows into tensors. Nothing here loads torch before the first batch.
"""

from deadhead.tasks.encoding.batches import Batches, batches
from deadhead.tasks.encoding.encode import Encoded, encode

from .bootstrap import MetricValues, score
from .check_folder import check_folder
from .dataset import Dataset, concatenate, dataset, distinct, draw_examples, first_parts
from .distances import distances
from .languages import group, language, paper_languages
from .load import data_files, find_data, load_data
from .metrics import METRICS, Metric, bleu_signature, points, points_text
from .registry import TASKS, task_of
from .task import KINDS, Kind, Row, Task
from .task_file import read_task_file

__all__ = ["KINDS", "METRICS", "TASKS", "Batches", "Dataset", "Encoded", "Kind", "Metric"]
__all__ += ["MetricValues", "Row", "Task", "batches", "bleu_signature", "check_folder"]
__all__ += ["concatenate", "data_files", "dataset", "distances", "distinct"]
__all__ += ["draw_examples", "encode", "find_data", "first_parts", "group", "language", "load_data"]
__all__ += ["paper_languages", "points", "points_text", "read_task_file", "score", "task_of"]
