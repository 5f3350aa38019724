"""Records as a table: one row for each cell of the recipe, with its metrics and its cost.

`frame(folder)` is a pandas DataFrame, `rows(folder)` the same without pandas. A trial that many
cells share is in each of their rows; a cell whose trial is not done has no metrics.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deadhead.errors import optional
from deadhead.studies.store import folder as study_folder
from deadhead.studies.store.folder import StudyError
from deadhead.studies.trial import label, strategy_of

from .study import Study

if TYPE_CHECKING:
    import pandas


def rows(folder: str | Path) -> Iterator[dict[str, Any]]:
    """One dict per cell: labels, strategy and amount, id, state, metrics, cost."""
    for cell in Study.open(folder).cells:
        row = {name: label(value) for name, value in cell.labels.items()}
        remove = cell.labels.get("remove")
        strategy = strategy_of(remove)
        if remove is not None and strategy is not None:
            row |= {"strategy": strategy, "amount": remove[strategy]}
        row |= {"id": cell.trial, "state": cell.state}
        if cell.summary is not None:
            row |= cell.summary.metrics
            row |= {f"cost {name}": value for name, value in cell.summary.cost.items()}
        yield row


def frame(folder: str | Path, *, long: bool = False) -> pandas.DataFrame:
    """The records of a study as a DataFrame.

    long: one row per cell, language, split and metric instead of a column for each.
    """
    wide = optional("pandas", "report", "a data frame").DataFrame(list(rows(folder)))
    if not long:
        return wide
    names = [str(name) for name in wide.columns if not str(name).startswith("cost ")]
    scores = [name for name in names if name.count("/") == 2]
    rest = [name for name in names if name not in scores]
    tall = wide.melt(id_vars=rest, value_vars=scores, var_name="score", value_name="value")
    tall = tall.dropna(subset=["value"])
    tall[["language", "split", "metric"]] = tall.pop("score").str.split("/", expand=True)
    return tall.reset_index(drop=True)


def write_csv(folder: str | Path, out: str | Path) -> int:
    """Write the rows as a CSV file; returns how many there are."""
    table = list(rows(folder))
    names = list(dict.fromkeys(name for row in table for name in row))

    def write(draft: Path) -> None:
        with draft.open("w", encoding="utf-8", errors="replace", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(table)

    if not Path(out).parent.is_dir():
        raise StudyError(f"there is no folder {Path(out).parent}.", "create it first")
    study_folder.put(Path(out), write, "--csv")
    return len(table)
