"""Tables and figures of what `shrink_curves.py` measured. Loads no torch.

    python benchmarks/shrink_curves_report.py FILES [--page PAGE] [--appendix FOLDER]
                                              [--figures FOLDER]

FILES are .jsonl or .jsonl.xz. Every number is a change in points against the whole model of the
same seed, or a difference of two of them; ± is half of the 95 % interval of the mean over seeds
(Student's t). Other numbers of seeds than five are in brackets, and two have no interval.
`shrink_curves_rows.py` says which seeds a mean over tasks has.
With --page, tables are put between the marks of a page; with --appendix, all are written to CSV
files; else they are printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from page import END, fill, markdown, run
from shrink_curves_appendix import write_appendix
from shrink_curves_rows import (
    ALL,
    ENGLISH,
    EPOCH,
    HIGHEST,
    LOWEST,
    REPAIRED,
    RETRAINED,
    TASKS,
    TRANSFER,
    TREATMENTS,
    UNITS,
    WHOLE,
    Cell,
    Changes,
    Row,
    averaged,
    changes,
    measured,
    minus,
    over_tasks,
    read,
    tasks_of,
    text,
    with_auto,
)

from deadhead.errors import DeadheadError

POINT = 1.0  # a loss that a user may accept
SMALL_SHARE = 25  # in %; the short table begins above it
SCRIPT = "shrink_curves_report.py: {}"  # what the marks of a page name, with the name of a table
AFTER_EPOCH = f"refit{EPOCH}"
CONTROL = ("heads", "none", 0, WHOLE + EPOCH)  # the whole model after the same epoch
ANSWER = (  # what `shrink` does; the same without a half of it, or with training
    ("auto", "refit"),
    ("fisher", "cut"),
    ("fisher", "refit"),
    ("fisher", AFTER_EPOCH),
    ("random", "refit"),
    ("random", AFTER_EPOCH),
)
HOW_MUCH = {  # a choice that has the most seeds with each treatment
    "auto": REPAIRED,
    "fisher": (AFTER_EPOCH,),
    LOWEST: (RETRAINED,),
    "random": TREATMENTS,
}


def answer_table(table: Changes, measure: str) -> str:
    """What the main ways to remove units lose, mean of the tasks."""
    rows = []
    for units in UNITS:
        for share in sorted(measured(table, "share", units=units, treatment="refit")):
            cells = [Cell("", measure, units, choice, share, then) for choice, then in ANSWER]
            pooled = [over_tasks(table, cell, averaged(table, measure)) for cell in cells]
            if any(pooled):
                rows.append([units, f"{share} %", *map(text, pooled)])
    return markdown(["removed", "share", *map(", ".join, ANSWER)], rows)


def short_answer_table(table: Changes) -> str:
    """Return the losses from one half on, beside those of a cut alone and of random units."""
    ways = {
        "auto, refit": (ENGLISH, "auto", "refit"),
        "transfer": (TRANSFER, "auto", "refit"),
        "fisher, cut": (ENGLISH, "fisher", "cut"),
        "random, refit": (ENGLISH, "random", "refit"),
    }
    rows = []
    for units in UNITS:
        for share in sorted(measured(table, "share", units=units, choice="auto")):
            cells = [Cell("", m, units, choice, share, then) for m, choice, then in ways.values()]
            pooled = [over_tasks(table, cell, averaged(table, cell.measure)) for cell in cells]
            if share > SMALL_SHARE and pooled[0]:
                rows.append([units, f"{share} %", *map(text, pooled)])
    return markdown(["removed", "share", *ways], rows)


def epoch_table(table: Changes) -> str:
    """What one epoch gains over the refit, and how far that is from the whole model with an epoch.

    The last columns are the question, since an epoch may help the whole model as well.
    """
    columns = {ENGLISH: (ALL, ENGLISH), TRANSFER: (ALL, TRANSFER), "NLI": ("xnli", ENGLISH)}
    rows = []
    for units in UNITS:
        for share in sorted(measured(table, "share", units=units, treatment=AFTER_EPOCH)):
            for choice in measured(table, "choice", units=units):  # one order for all shares
                gains, distances = [], []
                for task, measure in columns.values():
                    tasks = averaged(table, measure) if task == ALL else [task]
                    cell = Cell("", measure, units, choice, share, AFTER_EPOCH)
                    trained = over_tasks(table, cell, tasks)
                    refitted = over_tasks(table, cell._replace(treatment="refit"), tasks)
                    control = over_tasks(table, Cell("", measure, *CONTROL), tasks)
                    gains.append(text(minus(trained, refitted)))
                    distances.append(text(minus(trained, control)))
                if any(gains):
                    rows.append([units, f"{share} %", choice, *gains, *distances])
    titles = [f"{name}, {column}" for name in ("gain", "distance") for column in columns]
    return markdown(["removed", "share", "chosen by", *titles], rows)


def choice_table(table: Changes) -> str:
    """How far the refit of `auto` is ahead of the refits of other choices of heads."""
    shares = sorted(measured(table, "share", units="heads", choice="auto"))
    rows = []
    for measure in (ENGLISH, TRANSFER):
        tasks = averaged(table, measure)
        for choice in ("kwon", "fisher", "reconstruction", "taylor", LOWEST, "random"):
            cells = [Cell("", measure, "heads", choice, share, "refit") for share in shares]
            ahead = [
                minus(
                    over_tasks(table, c._replace(choice="auto"), tasks), over_tasks(table, c, tasks)
                )
                for c in cells
            ]
            if any(ahead):
                rows.append([choice, measure, *map(text, ahead)])
    return markdown(["auto ahead of", "points of", *(f"{share} %" for share in shares)], rows)


def control_table(table: Changes) -> str:
    """What the whole model gains from the same epoch."""
    columns = [(task, m) for m in (ENGLISH, TRANSFER) for task in tasks_of(table, m)]
    cells = [Cell(task, m, *CONTROL) for task, m in columns]
    titles = [f"{TASKS[task]}, {m}" for task, m in columns]
    return markdown(titles, [[text(table.get(cell, {})) for cell in cells]])


def share_table(table: Changes, units: str, measure: str, tasks: Sequence[str]) -> str:
    """A row for each choice and treatment, a column for each share: means over these tasks."""
    own = [cell for cell in table if (cell.measure, cell.units) == (measure, units)]
    pooled_shares = {cell.share for cell in own if over_tasks(table, cell, tasks)}
    shares = sorted(pooled_shares - {0})
    rows = []
    for choice in measured(table, "choice", units=units, measure=measure):
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
    for choice in measured(table, "choice", units=units):  # one order for all shares
        for treatment in TREATMENTS:
            cells = [Cell(task, m, units, choice, share, treatment) for task, m in columns]
            if any(cell in table for cell in cells):
                values = [table.get(cell, {}) for cell in cells]
                rows.append([choice, treatment, *map(text, values)])
    titles = [TASKS[task] + ("" if m == ENGLISH else f", {m}") for task, m in columns]
    return markdown(["units chosen by", "then", *titles], rows)


def how_much_table(table: Changes) -> str:
    """The largest share that loses at most a point, if no smaller one loses more."""
    tasks = tasks_of(table, ENGLISH)
    rows = []
    for units in UNITS:
        for choice, treatments in HOW_MUCH.items():
            for treatment in treatments:
                where = {"units": units, "choice": choice, "treatment": treatment}
                shares = [
                    share
                    for share in sorted(measured(table, "share", **where))
                    if {*averaged(table, ENGLISH)}
                    <= {*measured(table, "task", share=share, **where)}
                ]
                if shares:
                    cells = [_largest(table, task, shares, where) for task in tasks]
                    rows.append(
                        [units, choice, treatment, *cells, f"{', '.join(map(str, shares))} %"]
                    )
    titles = ["removed", "chosen by", "then", *(TASKS[task] for task in tasks), "measured"]
    return markdown(titles, rows)


def _largest(table: Changes, task: str, shares: Sequence[int], where: Mapping[str, Any]) -> str:
    largest = 0
    cells = {share: Cell(task=task, measure=ENGLISH, share=share, **where) for share in shares}
    known = {share: fmean(table[cell].values()) for share, cell in cells.items() if cell in table}
    for share, change in known.items():
        if change < -POINT:
            break
        largest = share
    return f"{largest} %" if largest else f"< {min(known)} %" if known else ""


def paired_table(rows: Sequence[Row], only: Sequence[tuple[str, str]] = ()) -> str:
    """Refit minus retrained, for the same heads and the same seeds.

    only: these tasks with their measures, instead of all and the seconds.
    """
    table = changes(rows)
    means = {m: averaged(table, m) for m in (ENGLISH, TRANSFER)}
    columns = [(task, m) for m, tasks in means.items() if tasks for task in [*tasks, ALL]]
    columns = [column for column in columns if not only or column in only]
    lines = []
    for choice in measured(table, "choice", treatment=RETRAINED):
        for share in sorted(measured(table, "share", treatment=RETRAINED, choice=choice)):
            cells = [choice, f"{share} %"]
            for task, measure in columns:
                tasks = means[measure] if task == ALL else [task]
                one = Cell("", measure, "heads", choice, share, "refit")
                trained = over_tasks(table, one._replace(treatment=RETRAINED), tasks)
                differences = minus(over_tasks(table, one, tasks), trained)
                better = sum(value > 0 for value in differences.values())
                note = f", {better} of {len(differences)} up" if differences and not only else ""
                cells.append(text(differences) + note)
            lines.append([*cells, *([] if only else _seconds(rows, choice, share))])
    titles = [TASKS.get(t, t) + ("" if m == ENGLISH else f", {m}") for t, m in columns]
    seconds = [] if only else ["refit, s", "retrained, s"]
    return markdown(["heads chosen by", "removed", *titles, *seconds], lines)


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


def ranking_table(
    table: Changes, measure: str = ENGLISH, tasks: Sequence[str] | None = None
) -> str:
    """How much better the lowest-ranked heads are to remove than others, with and without training.

    The last column but one is the question: is this more without training than with it?
    """
    rows = []
    without, trained = "cut", RETRAINED
    for share in sorted(measured(table, "share", treatment=RETRAINED, choice=LOWEST)):
        for task in tasks or [*tasks_of(table, measure), ALL]:
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
        "short answer": lambda: short_answer_table(table),
        "answer, English": lambda: answer_table(table, ENGLISH),
        "answer, transfer": lambda: answer_table(table, TRANSFER),
        "one epoch": lambda: epoch_table(table),
        "choices": lambda: choice_table(table),
        "control": lambda: control_table(table),
        "refit or train": lambda: paired_table(rows),
        "refit or train, means": lambda: paired_table(
            rows, [(ALL, ENGLISH), (ALL, TRANSFER), ("pos", TRANSFER)]
        ),
        "ranking": lambda: ranking_table(table),
        "ranking, means": lambda: ranking_table(table, ENGLISH, [ALL]),
        "ranking, transfer": lambda: ranking_table(table, TRANSFER),
        "numbers": lambda: numbers(rows),
    }
    for units in measured(table, "units"):
        for measure in (ENGLISH, TRANSFER):
            name, tasks = f"{units} by share, {measure}", averaged(table, measure)
            functions[name] = partial(share_table, table, units, measure, tasks)
            for task in tasks_of(table, measure):
                alone = partial(share_table, table, units, measure, [task])
                functions[f"{name}, {TASKS[task]}"] = alone
        for share in sorted(filter(None, measured(table, "share", units=units))):
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
        f"{len(own):,} models, from {len(runs)} runs of {len(tasks)} tasks: {trained:,} "
        f"fine-tuned, {epochs:,} trained for one more epoch, {small:,} without any training."
    )


def fill_page(page: Path, tables: Mapping[str, Callable[[], str]]) -> None:
    """Put each table between its marks in the page, and leave the rest as it is."""
    content = page.read_text(encoding="utf-8")
    names = [
        name for name in tables if f"<!-- made by benchmarks/{SCRIPT.format(name)} -->" in content
    ]
    if not names:
        hint = (
            f"write <!-- made by benchmarks/{SCRIPT.format('ranking')} --> and, lines below it, "
            f"{END}"
        )
        raise DeadheadError(f"{page} has no place for the tables.", hint)
    for name in names:
        fill(page, SCRIPT.format(name), [tables[name]()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--appendix", type=Path, help="a folder for CSV files")
    parser.add_argument("--figures", type=Path, help="a folder")
    arguments = parser.parse_args()
    rows = read(arguments.files)
    tables = blocks(rows)
    if arguments.figures:
        from shrink_curves_figure import draw

        for file in draw(arguments.figures, with_auto(rows)):
            print(file)
    if arguments.appendix:
        print(*write_appendix(arguments.appendix, tables), sep="\n")
    if arguments.page:
        fill_page(arguments.page, tables)
    elif not (arguments.figures or arguments.appendix):
        for name, make in tables.items():
            print(f"\n## {name}\n\n{make()}")


if __name__ == "__main__":
    run(main)
