"""The rows of `shrink_curves.py`: their files, what each model lost, means over seeds and tasks.

Every number is a change in points against the whole model of the same seed. Where tasks are
averaged, the mean over tasks is taken for each seed first, from the seeds that have all tasks. NLI
is in no mean: not every treatment of it was measured. Where most cells have several seeds, a cell
of one seed is left out. `auto` is what `shrink` keeps by default: at each share, of the two methods
it tries, the one with the lower held-out loss after its refit.
"""

from __future__ import annotations

import json
import lzma
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from machine import torch_machine

from deadhead import files
from deadhead.errors import DeadheadError
from deadhead.results.statistics.chance import deviation
from deadhead.shrinking import AUTO

WHOLE, RETRAINED, EPOCH = "whole", "retrained", ", one epoch"
LOWEST, HIGHEST = "gradient", "gradient, highest"
TASKS = {"pos": "POS", "ner": "NER", "slots": "slots", "sst2": "SST-2", "xnli": "NLI"}
AVERAGED = ("pos", "ner", "slots", "sst2")
ALL = "all"  # the mean of these tasks
ENGLISH, TRANSFER = "English", "transfer"
UNITS = ("heads", "neurons", "both")
REPAIRED = ("cut", "mean", "refit")  # without any training
TRAINED = (f"cut{EPOCH}", f"refit{EPOCH}", RETRAINED)
TREATMENTS = (*REPAIRED, *TRAINED)
SEEDS = 5  # for most cells; others name their number
Row = dict[str, Any]
Key = tuple[str, str, int, str]  # units, choice, share, treatment


class Cell(NamedTuple):
    """What was measured, for some seeds."""

    task: str
    measure: str
    units: str
    choice: str
    share: int
    treatment: str


Changes = Mapping[Cell, Mapping[int, float]]  # by seed, in points


class Rows:
    """The rows of a file, to which rows are added one by one."""

    def __init__(self, file: Path, facts: Mapping[str, Any]):
        """facts: the settings of the run; a file of other settings is refused."""
        self.file = file
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()  # a killed run may leave half a line
        first, *rows = [json.loads(line) for line in lines] or [None]
        if first is None:
            first = {**facts, "machine": torch_machine(facts["device"])}
        elif any(first.get(name) != value for name, value in facts.items()):
            hint = "name another folder with --out"
            raise DeadheadError(f"{file} has rows of other settings: {first}.", hint)
        self.known = {key_of(row) for row in rows}
        files.write(file, "".join(json.dumps(row) + "\n" for row in [first, *rows]))

    def add(self, row: Row) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        self.known.add(key_of(row))


def key_of(row: Mapping[str, Any]) -> Key:
    return row["units"], row["choice"], row["share"], row["treatment"]


def read(paths: Iterable[Path]) -> list[Row]:
    """The rows of all files; the first line of a run has its settings."""
    rows = []
    for path in paths:
        try:
            with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as file:
                lines = [json.loads(line) for line in file if line.endswith("\n")]
        except OSError as problem:
            hint = "name a file of rows, such as FOLDER/pos-0.jsonl"
            raise DeadheadError(f"{path} cannot be read: {problem.strerror}.", hint) from None
        rows += [line for line in lines if "units" in line]
    return rows


def with_auto(rows: Sequence[Row]) -> list[Row]:
    """The rows, and as the choice `auto` once more those of the method that `shrink` keeps."""
    groups: dict[Any, dict[str, list[Row]]] = {}
    for row in rows:
        place = row["task"], row["seed"], row["units"], row["share"]
        groups.setdefault(place, {}).setdefault(row["choice"], []).append(row)
    kept: list[Row] = []
    for group in groups.values():
        losses = {
            choice: row["loss"]
            for choice in AUTO
            for row in group.get(choice, ())
            if row["treatment"] == "refit"
        }
        if losses.keys() == {*AUTO}:
            best = min(losses, key=losses.__getitem__)
            # not every method has trained rows, so their mean would be one of chosen seeds
            own = (row for row in group[best] if row["treatment"] in REPAIRED)
            kept += [{**row, "choice": "auto"} for row in own]
    return [*rows, *kept]


def changes(rows: Sequence[Row]) -> dict[Cell, dict[int, float]]:
    """What each row lost or gained against the whole model of its task and seed."""
    whole = {(r["task"], r["seed"]): measures(r) for r in rows if r["treatment"] == WHOLE}
    table: dict[Cell, dict[int, float]] = {}
    for row in rows:
        before = whole.get((row["task"], row["seed"]))
        if row["treatment"] == WHOLE or before is None:
            continue
        for measure, points in measures(row).items():
            facts = (row["units"], row["choice"], row["share"], row["treatment"])
            cell = Cell(row["task"], measure, *facts)
            table.setdefault(cell, {})[row["seed"]] = points - before[measure]
    least = min(2, max(map(len, table.values()), default=0))
    return {cell: values for cell, values in table.items() if len(values) >= least}


def measures(row: Row) -> dict[str, float]:
    """The points in English, and the mean of the other languages where there are any."""
    others = [points for lang, points in row["points"].items() if lang != "en"]
    return {ENGLISH: row["points"]["en"]} | ({TRANSFER: fmean(others)} if others else {})


@dataclass(frozen=True)
class Interval:
    """A mean over seeds; half: half of its 95 % interval, nan for one seed."""

    mean: float
    half: float
    n: int

    def __str__(self) -> str:
        half = f" ± {self.half:.2f}" if self.n > 2 else ""
        return f"{self.mean:+.2f}{half}" + (f" ({self.n})" if self.n != SEEDS else "")


def interval(values: Iterable[float]) -> Interval | None:
    """The mean of these values; None if there is none."""
    values = list(values)
    if not values:
        return None
    half = math.nan
    if len(values) > 1:
        from scipy.special import stdtrit

        half = float(stdtrit(len(values) - 1, 0.975)) * deviation(values) / math.sqrt(len(values))
    return Interval(fmean(values), half, len(values))


def over_tasks(table: Changes, cell: Cell, tasks: Sequence[str]) -> dict[int, float]:
    """For each seed that has all these tasks, their mean."""
    parts = [table.get(cell._replace(task=task), {}) for task in tasks]
    seeds = set(parts[0]).intersection(*parts[1:]) if parts else set()
    return {seed: fmean(part[seed] for part in parts) for seed in sorted(seeds)}


def minus(one: Mapping[int, float], other: Mapping[int, float]) -> dict[int, float]:
    """The differences for the seeds that both have."""
    return {seed: one[seed] - other[seed] for seed in one if seed in other}


def text(values: Mapping[int, float]) -> str:
    return str(interval(values.values()) or "")


def tasks_of(table: Changes, measure: str) -> list[str]:
    present = {cell.task for cell in table if cell.measure == measure}
    return [task for task in TASKS if task in present]


def measured(table: Changes, name: str, **where: Any) -> list[Any]:
    """The values of a field, among the cells that have these other values."""
    cells = (c for c in table if all(getattr(c, key) == value for key, value in where.items()))
    return list(dict.fromkeys(getattr(cell, name) for cell in cells))


def averaged(table: Changes, measure: str) -> list[str]:
    """The tasks of a mean; of a record with none of them, all tasks that it has."""
    tasks = tasks_of(table, measure)
    return [task for task in tasks if task in AVERAGED] or tasks
