"""How long the work of trials takes: an estimate from the sizes of models and data.

A weight takes two operations for each sub-word of a forward pass, and four more in a backward one.
Devices are assumed to sustain a share of their peak; the share was measured on one of them.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from deadhead.errors import DeadheadError
from deadhead.files.hub import split as split_name
from deadhead.papers.catalogue import combined
from deadhead.tasks.catalogue import papers_corpus
from deadhead.tasks.load import FILES

from .execution.processes import cores, gpus
from .missing_data import estimated_rows, rows_on_hub
from .step import Read
from .steps.data import place_options
from .trial import Trial

# Rows of corpora by split, and weights of models, for what is not in a folder here.
OTHER_ROWS = {
    "rte": {"train": 2_490, "dev": 277},
    "mrpc": {"train": 3_668, "dev": 408},
    "cola": {"train": 8_551, "dev": 1_043},
    "parallel": {"train": 30_000},
}
ROWS = {**combined("rows"), **OTHER_ROWS}
OTHERS = {"bert-base-cased": 108e6, "transformer-small": 13e6, "transformer-mini": 6e5}
WEIGHTS = {**combined("weights"), **OTHERS}
USUAL_ROWS, USUAL_WEIGHTS = 10_000, 110e6  # of a corpus or a model nothing is known of
WORLD_ROWS, WORLD_WEIGHTS = {"train": 2_000, "dev": 300, "test": 300}, 1e6  # the small world
HELD_OUT = 0.1  # dev and test of an unknown size: the share that deadhead cuts from a corpus
FORWARD = 2 * 40  # operations per weight and example: some 40 sub-words
# Operations per second in float32: the peaks as NVIDIA prints them (H100 and H200: SXM).
PEAKS = {"t4": 8.1e12, "v100": 15.7e12, "a100": 19.5e12, "h100": 67e12, "h200": 67e12}
# The share of the peak that an H200 sustained with BERT-base in float32: 1,578 examples a second
# in training with batches of 128, 1,232 with batches of 32, and 4,650 in scoring.
SUSTAINED = 0.6
USUAL_GPU = "a100"  # what the GPUs of this machine count as
CORE = 2e10  # operations per second of a CPU core, assumed
MOST_CORES = 8  # that an estimate counts on
RULE = "6 operations per weight and sub-word in training and 2 in scoring"

Work = tuple[int, Trial]  # the place of a step, and its trial
Where = tuple[tuple[str, str], ...]  # options of data


def estimate(operations: float) -> tuple[float, str]:
    """The seconds of these operations on this machine, and what they are based on."""
    cards = len(gpus(os.environ))
    count = cards or min(cores(), MOST_CORES)
    rate = count * (SUSTAINED * PEAKS[USUAL_GPU] if cards else CORE)
    name = f"{'GPU' if cards else 'core'}{'s' * (count != 1)}"
    counted = f", counted as {USUAL_GPU}" if cards else ""
    at = f"{rate:.2g} a second".replace("e+", "e")
    return operations / rate, f"a rough estimate: {RULE}, on {count} {name}{counted} at {at}"


def gpu_hours(operations: float) -> dict[str, float]:
    """The hours of these operations on one GPU of each kind."""
    return {name: operations / (SUSTAINED * peak) / 3600 for name, peak in PEAKS.items()}


def operations(works: Iterable[Work]) -> float:
    """The operations of these steps."""
    rows = cache(_rows)  # for this plan alone: files may change
    return sum(_operations(place, trial, rows) for place, trial in works)


def _operations(place: int, trial: Trial, count: Callable[[Read, Where], float]) -> float:
    where = place_options(trial)
    total = 0.0
    for read, passes, most in trial.protocol[place].passes(trial, place):
        rows = _used(trial, read, count(read, where))
        total += passes * min(rows, most or rows)
    return FORWARD * weights(trial) * total


def _used(trial: Trial, read: Read, rows: float) -> float:
    """The rows that are read, where a trial trains on some of them."""
    _, language, split = read
    if split != "train":
        return rows
    parts = trial.data.parts
    tenths = parts.get(language) if isinstance(parts, Mapping) else parts
    rows *= (tenths or 10) / 10
    return min(rows, trial.data.examples or rows)


def _rows(read: Read, where: Where) -> float:
    """About how many rows a split has: in its file, else on the hub, else in the papers."""
    task, language, split = read
    options = dict(where)
    if options.get("root") == "world":
        return WORLD_ROWS[split]
    if rows := _rows_of_file(read, options):
        return rows
    source = options.get("source")
    if split == "train" and (rows := rows_on_hub(task, language, source)):
        return rows
    corpus = papers_corpus(task, language) if source in (None, FILES) else None
    known = {**ROWS.get(task.partition("-")[0], {}), **(corpus.sizes if corpus else {})}
    if split in known:
        return known[split]
    return USUAL_ROWS if split == "train" else HELD_OUT * _rows((task, language, "train"), where)


def _rows_of_file(read: Read, options: Mapping[str, Any]) -> float | None:
    """The rows in the files of a split; of a pair, both languages have the same."""
    from deadhead.tasks import task_of

    task, language, split = read
    files, known = _files(read, options), task_of(task)
    if not files or (known.train_on and split != "train"):  # one file of XNLI has all languages
        return None
    cut = split != "train" and files == _files((task, language, "train"), options)
    share = (HELD_OUT if cut else 1) / (2 if known.traits.language_pair else 1)
    return sum(map(estimated_rows, files)) * share


def _files(read: Read, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The files of a split; none if it is missing or not in a folder."""
    from deadhead.tasks import data_files

    try:
        files = data_files(*read, **options)
    except DeadheadError:
        return ()
    return files if all(Path(file).is_file() for file in files) else ()


def weights(trial: Trial) -> float:
    """The weights of a trial's model."""
    name = str(trial.get("model"))
    if name.startswith("world/"):
        return WORLD_WEIGHTS
    files = list(Path(name).glob("*.safetensors")) if Path(name).is_dir() else []
    if files:
        return sum(file.stat().st_size for file in files) / 4
    return WEIGHTS.get(split_name(name)[0], USUAL_WEIGHTS)
