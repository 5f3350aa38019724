"""Records as a table: one row for each cell of the recipe, with its metrics and what it cost.

`frame(folder)` is a pandas DataFrame, `rows(folder)` the same without pandas. A trial that several
cells share stands in each of their rows; a cell whose trial is not done has no metrics.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deadhead.errors import MissingExtra
from deadhead.studies.removal import label, strategy_of
from deadhead.studies.store import folder as place
from deadhead.studies.store.folder import StudyError
from deadhead.studies.store.records import summaries
from deadhead.studies.study import described

if TYPE_CHECKING:
    import pandas


def rows(folder: str | Path) -> Iterator[dict[str, Any]]:
    """One dict per cell: labels, strategy and amount, id, state, metrics, cost."""
    home = place.inside(Path(folder))
    cells, known = described(home)["cells"], summaries(home)
    for labels, trial in cells:
        row = {name: label(value) for name, value in labels.items()}
        strategy = strategy_of(labels.get("remove"))
        if strategy is not None:
            row |= {"strategy": strategy, "amount": labels["remove"][strategy]}
        record = known.get(trial)
        if record is None:
            yield {**row, "id": trial, "state": "left"}
        else:
            yield {
                **row,
                "id": trial,
                "state": record.state,
                **record.metrics,
                **{f"cost {k}": v for k, v in record.cost.items()},
            }


def frame(folder: str | Path, *, long: bool = False) -> pandas.DataFrame:
    """The records of a study as a DataFrame.

    long: one row per cell, language, split and metric instead of a column for each.
    """
    try:
        import pandas
    except ImportError:
        raise MissingExtra("pandas", "report", "a data frame") from None
    wide = pandas.DataFrame(list(rows(folder)))
    if not long:
        return wide
    scores = [name for name in wide.columns if str(name).count("/") == 2]
    rest = [
        name for name in wide.columns if name not in scores and not str(name).startswith("cost ")
    ]
    tall = wide.melt(id_vars=rest, value_vars=scores, var_name="score", value_name="value").dropna(
        subset=["value"]
    )
    tall[["language", "split", "metric"]] = tall.pop("score").str.split("/", expand=True)
    return tall.reset_index(drop=True)


def write_csv(folder: str | Path, out: str | Path) -> int:
    """The rows as a CSV file; how many there are."""
    found = list(rows(folder))
    names = list(dict.fromkeys(name for row in found for name in row))

    def write(draft: Path) -> None:
        with draft.open("w", encoding="utf-8", errors="replace", newline="") as file:
            table = csv.DictWriter(file, names)
            table.writeheader()
            table.writerows(found)

    _put(Path(out), write, "--csv")
    return len(found)


def write_parquet(folder: str | Path, out: str | Path) -> int:
    """The rows as a Parquet file; how many there are."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtra("pyarrow", "report", "a Parquet file") from None
    table = frame(folder)
    for name in [name for name in table.columns if str(table[name].dtype) == "object"]:
        if table[name].map(type).nunique() > 1:  # Parquet knows one type per column
            table[name] = table[name].map(
                lambda value: None if value is None or value != value else str(value)
            )
    _put(Path(out), table.to_parquet, "--parquet")
    return len(table)


def _put(out: Path, write: Callable[[Path], Any], option: str) -> None:
    if not out.parent.is_dir():
        raise StudyError(f"there is no folder {out.parent}.", "make it first")
    place.put(out, write, option)
