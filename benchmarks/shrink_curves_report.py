"""Tables and figures of what `shrink_curves.py` measured. Loads no torch.

    python benchmarks/shrink_curves_report.py FILES [--page PAGE] [--figures FOLDER]

FILES are .jsonl or .jsonl.xz. Every number is a change in points against the whole model of the
same seed, or a difference of two of them; ± is half of the 95 % interval of the mean over seeds
(Student's t). Other numbers of seeds than five are in brackets, and two have no interval. Where
tasks are averaged, the mean over tasks is taken for each seed first, from the seeds that have all
tasks. NLI is in no mean: not every treatment of it was measured. Where most cells have several
seeds, a cell of one seed is left out. `auto` is what `shrink` keeps by default: at each share, of
the two methods it tries, the one with the lower held-out loss after its refit.
With --page, the tables are put between the marks of a page; else they are printed.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

from deadhead.errors import DeadheadError
from deadhead.results.statistics.chance import deviation
from deadhead.shrinking import AUTO

WHOLE, RETRAINED, EPOCH = "whole", "retrained", ", one epoch"
LOWEST, HIGHEST = "gradient", "gradient, highest"
TASKS = {"pos": "POS", "ner": "NER", "slots": "slots", "sst2": "SST-2", "xnli": "NLI"}
AVERAGED = ("pos", "ner", "slots", "sst2")
ALL = "all"  # the mean of these tasks
ENGLISH, TRANSFER = "English", "transfer"
COMPENSATED = ("cut", "mean", "refit")  # without any training
TRAINED = (f"cut{EPOCH}", f"refit{EPOCH}", RETRAINED)
TREATMENTS = (*COMPENSATED, *TRAINED)
POINT = 1.0  # a loss that a user may accept
SEEDS = 5  # of most cells; others name their number
MARKS = ("<!-- made by benchmarks/shrink_curves_report.py: {} -->", "<!-- end -->")
Row = dict[str, Any]


class Cell(NamedTuple):
    """What was measured, for some seeds."""

    task: str
    measure: str
    units: str
    choice: str
    share: int
    treatment: str


Changes = Mapping[Cell, Mapping[int, float]]  # by seed, in points


def read(paths: Iterable[Path]) -> list[Row]:
    """The rows of all files; the first line of a run has its settings."""
    rows = []
    for path in paths:
        with lzma.open(path, "rt") if path.suffix == ".xz" else path.open() as file:
            lines = [json.loads(line) for line in file if line.endswith("\n")]
        rows += [line for line in lines if "task" in line]
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
            # of trained rows not every method has one, so their mean would be of chosen seeds
            own = (row for row in group[best] if row["treatment"] in COMPENSATED)
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


def markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def text(values: Mapping[int, float]) -> str:
    return str(interval(values.values()) or "")


def tasks_of(table: Changes, measure: str) -> list[str]:
    present = {cell.task for cell in table if cell.measure == measure}
    return [task for task in TASKS if task in present]


def _values(table: Changes, name: str, **where: Any) -> list[Any]:
    """The values of a field, among the cells that have these other values."""
    cells = (c for c in table if all(getattr(c, key) == value for key, value in where.items()))
    return list(dict.fromkeys(getattr(cell, name) for cell in cells))


def averaged(table: Changes, measure: str) -> list[str]:
    """The tasks of a mean; of a record with none of them, all tasks that it has."""
    tasks = tasks_of(table, measure)
    return [task for task in tasks if task in AVERAGED] or tasks


def share_table(table: Changes, units: str, measure: str, tasks: Sequence[str]) -> str:
    """A row for each choice and treatment, a column for each share: means over these tasks."""
    shares = sorted(_values(table, "share", units=units, measure=measure, treatment="refit"))
    rows = []
    for choice in _values(table, "choice", units=units, measure=measure):
        for treatment in TREATMENTS:
            cells = [Cell("", measure, units, choice, share, treatment) for share in shares]
            pooled = [over_tasks(table, cell, tasks) for cell in cells]
            if any(pooled):
                trials = str(len(tasks) * sum(map(len, pooled)))
                rows.append([choice, treatment, *map(text, pooled), trials])
    names = ", ".join(TASKS[task] for task in tasks)
    titles = ["units chosen by", "then", *(f"{share} %" for share in shares), "models"]
    what = f"mean of {names}" if len(tasks) > 1 else names
    return f"Points of {measure}, {what}:\n\n{markdown(titles, rows)}"


def task_table(table: Changes, units: str, share: int) -> str:
    """A row for each choice and treatment at a share, a column for each task and measure."""
    columns = [
        (task, m) for task in TASKS for m in (ENGLISH, TRANSFER) if task in tasks_of(table, m)
    ]
    rows = []
    for choice in _values(table, "choice", units=units, share=share):
        for treatment in TREATMENTS:
            cells = [Cell(task, m, units, choice, share, treatment) for task, m in columns]
            if any(cell in table for cell in cells):
                values = [table.get(cell, {}) for cell in cells]
                rows.append([choice, treatment, *map(text, values)])
    titles = [TASKS[task] + ("" if m == ENGLISH else f", {m}") for task, m in columns]
    return markdown([f"{share} % of {units}, chosen by", "then", *titles], rows)


def how_much_table(table: Changes) -> str:
    """The largest share that loses at most a point, if no smaller one loses more."""
    tasks = tasks_of(table, ENGLISH)
    rows = []
    for units in _values(table, "units"):
        for choice in ("auto", "reconstruction", "random"):
            for treatment in TRAINED if choice == "reconstruction" else TREATMENTS:
                where = {"units": units, "choice": choice, "treatment": treatment}
                shares = sorted(_values(table, "share", **where))
                if shares:
                    cells = [_largest(table, task, shares, where) for task in tasks]
                    measured = ", ".join(map(str, shares))
                    rows.append([units, choice, treatment, *cells, f"{measured} %"])
    titles = ["removed", "chosen by", "then", *(TASKS[task] for task in tasks), "measured"]
    return markdown(titles, rows)


def _largest(table: Changes, task: str, shares: Sequence[int], where: Mapping[str, Any]) -> str:
    largest = 0
    cells = {share: Cell(task=task, measure=ENGLISH, share=share, **where) for share in shares}
    measured = {
        share: fmean(table[cell].values()) for share, cell in cells.items() if cell in table
    }
    for share, change in measured.items():
        if change < -POINT:
            break
        largest = share
    return f"{largest} %" if largest else f"< {min(measured)} %" if measured else ""


def paired_table(rows: Sequence[Row]) -> str:
    """Refit minus retrained, for the same heads and the same seeds."""
    table = changes(rows)
    means = {m: averaged(table, m) for m in (ENGLISH, TRANSFER)}
    columns = [(task, m) for m, tasks in means.items() if tasks for task in [*tasks, ALL]]
    lines = []
    for choice in _values(table, "choice", treatment=RETRAINED):
        for share in sorted(_values(table, "share", treatment=RETRAINED, choice=choice)):
            cells = [choice, f"{share} %"]
            for task, measure in columns:
                tasks = means[measure] if task == ALL else [task]
                one = Cell("", measure, "heads", choice, share, "refit")
                trained = over_tasks(table, one._replace(treatment=RETRAINED), tasks)
                differences = minus(over_tasks(table, one, tasks), trained)
                better = sum(value > 0 for value in differences.values())
                note = f", {better} of {len(differences)} up" if differences else ""
                cells.append(text(differences) + note)
            cells += _seconds(rows, choice, share)
            lines.append(cells)
    titles = [TASKS.get(t, t) + ("" if m == ENGLISH else f", {m}") for t, m in columns]
    return markdown(["heads chosen by", "removed", *titles, "refit, s", "retrained, s"], lines)


def _seconds(rows: Sequence[Row], choice: str, share: int) -> list[str]:
    """The median seconds of a refit and of a training, of the runs that have both."""
    key = ("heads", choice, share)
    seconds: dict[str, dict[Any, float]] = {"refit": {}, RETRAINED: {}}
    for row in rows:
        if (row["units"], row["choice"], row["share"]) == key and row["treatment"] in seconds:
            seconds[row["treatment"]][row["task"], row["seed"]] = row["seconds"]
    refitted, trained = seconds.values()
    both = refitted.keys() & trained.keys()
    return [f"{median(values[run] for run in both):.1f}" for values in seconds.values()]


def ranking_table(table: Changes, measure: str = ENGLISH) -> str:
    """How much better the lowest-ranked heads are to remove than others, with and without training.

    The last column is the question: is this more without training than with it?
    """
    rows = []
    without, trained = "cut", RETRAINED
    for share in sorted(_values(table, "share", treatment=RETRAINED, choice=LOWEST)):
        for task in [*tasks_of(table, measure), ALL]:
            for other in ("random", HIGHEST):
                gaps = {
                    treatment: gap(table, task, measure, share, treatment, other)
                    for treatment in (without, "refit", trained)
                }
                if any(gaps.values()):
                    more = minus(gaps[without], gaps[trained])
                    name = "highest" if other == HIGHEST else other
                    texts = [*map(text, gaps.values()), text(more), str(len(gaps[without]))]
                    rows.append([f"{share} %", TASKS.get(task, task), name, *texts])
    titles = ["removed", "task", "lowest instead of", "cut", "refit", "retrained"]
    return markdown([*titles, "cut minus retrained", "seeds"], rows)


def gap(
    table: Changes, task: str, measure: str, share: int, treatment: str, other: str
) -> dict[int, float]:
    """By seed: how many points more are left without the lowest heads than without others."""
    low = Cell(task, measure, "heads", LOWEST, share, treatment)
    tasks = averaged(table, measure) if task == ALL else [task]
    high = low._replace(choice=other)
    return minus(over_tasks(table, low, tasks), over_tasks(table, high, tasks))


def blocks(rows: Sequence[Row]) -> dict[str, Callable[[], str]]:
    """The tables by their name in the marks of a page."""
    rows = with_auto(rows)
    table = changes(rows)
    functions: dict[str, Callable[[], str]] = {
        "how much": lambda: how_much_table(table),
        "refit or train": lambda: paired_table(rows),
        "ranking": lambda: ranking_table(table),
        "ranking, transfer": lambda: ranking_table(table, TRANSFER),
        "numbers": lambda: numbers(rows),
    }
    for units in _values(table, "units"):
        for measure in (ENGLISH, TRANSFER):
            name, tasks = f"{units} by share, {measure}", averaged(table, measure)
            functions[name] = partial(share_table, table, units, measure, tasks)
            for task in tasks_of(table, measure):
                alone = partial(share_table, table, units, measure, [task])
                functions[f"{name}, {TASKS[task]}"] = alone
        for share in sorted(_values(table, "share", units=units)):
            name = f"{units} by task, {share} %"
            functions[name] = partial(task_table, table, units, share)
    return functions


def numbers(rows: Sequence[Row]) -> str:
    """How many models were measured."""
    own = [row for row in rows if row["choice"] != "auto"]
    tasks = {row["task"] for row in own}
    runs = {(row["task"], row["seed"]) for row in own}
    trained = sum(row["treatment"] in (WHOLE, RETRAINED) for row in own)
    epochs = sum(row["treatment"].endswith(EPOCH) for row in own)
    small = len(own) - trained - epochs
    return (
        f"{len(own):,} models, from {len(runs)} runs of {len(tasks)} tasks: {trained:,} fine-tuned, "
        f"{epochs:,} trained for one more epoch, {small:,} without any training."
    )


def fill_page(page: Path, tables: Mapping[str, Callable[[], str]]) -> None:
    """Put each table between its marks in the page, and leave the rest as it is."""
    content = page.read_text(encoding="utf-8")
    begin, end = MARKS
    names = [name for name in tables if begin.format(name) in content]
    if not names:
        hint = f"write {begin.format('ranking')} and, lines below it, {end}"
        raise DeadheadError(f"{page} has no place for the tables.", hint)
    for name in names:
        before, mark, rest = content.partition(begin.format(name))
        _, closing, after = rest.partition(end)
        if not closing:
            raise DeadheadError(f"{page}: {mark} has no end.", f"write {end} below it")
        content = f"{before}{mark}\n\n{tables[name]()}\n\n{end}{after}"
    page.write_text(content, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--figures", type=Path, help="a folder")
    arguments = parser.parse_args()
    rows = read(arguments.files)
    tables = blocks(rows)
    if arguments.figures:
        from shrink_curves_figure import draw

        for file in draw(arguments.figures, with_auto(rows)):
            print(file)
    if arguments.page:
        fill_page(arguments.page, tables)
    elif not arguments.figures:
        for name, make in tables.items():
            print(f"\n## {name}\n\n{make()}")


if __name__ == "__main__":
    try:
        main()
    except DeadheadError as problem:
        raise SystemExit(f"{problem.message} {problem.hint}") from None
