"""Evidence from the tables that papers print, and the numbers that their texts state."""

import csv
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from deadhead.papers.catalogue import papers, published_files
from deadhead.results import Arm, Merged, Pick, Score, Search
from deadhead.tasks import task_of

from .evidence import Evidence, Rho

PrintedNumber = dict[str, str]
LABELS = ("model", "task", "source", "target", "remove")  # of a printed score
AXES = ("model", "task", "source", "target", "setting")  # of a printed search
MERGED = ("FL", "MD", "SD", "EC")  # arms of several sources; FL is the unpruned model
TRIED = tuple(range(1, 13))  # heads removed in the trials of a printed search
PAIRS = {"pos": 24, "ner": 24, "slots": 8}  # source-target pairs behind each stated rho


@cache
def rows(paper: str, table: str) -> tuple[PrintedNumber, ...]:
    """The numbers of one table, one a row."""
    with published_files()[f"{paper}/{table}.csv"].open(encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def stated(paper: str, quantity: str, **where: str) -> float:
    """A number that the text of a paper states."""
    matches = [
        row
        for row in rows(paper, "text")
        if row["quantity"] == quantity and all(row[axis] == text for axis, text in where.items())
    ]
    if len(matches) != 1:
        raise LookupError(f"{paper} states {quantity} {where} {len(matches)} times")
    return float(matches[0]["value"])


def printed(paper: str = "") -> Evidence:
    """What a paper prints, and the papers it builds on; without a name, what all papers print."""
    known = papers()
    return _printed((*known[paper].builds_on, paper) if paper else tuple(known))


@cache
def _printed(names: tuple[str, ...]) -> Evidence:
    """The columns of a table say what it has: `remove` and `percent` scores, `arm` searches."""
    known: list[PrintedNumber] = []
    for file in published_files():
        paper, _, table = file.removesuffix(".csv").partition("/")
        if paper in names:
            known += rows(paper, table)
    scores = [_score(row) for row in known if "remove" in row and "percent" in row]
    arms = [row for row in known if "arm" in row]
    return Evidence(
        scores=tuple(dict.fromkeys(scores)),  # tables repeat some rows
        searches=tuple(_searches([row for row in arms if row["arm"] not in MERGED])),
        merged=tuple(_merged([row for row in arms if row["arm"] in MERGED])),
        rhos=tuple(_rho(row) for row in known if row.get("quantity") == "spearman_of_gain"),
        printed=True,
    )


def _score(row: PrintedNumber) -> Score:
    labels: dict[str, Any] = {name: row[name] for name in LABELS}
    kind = task_of(row["task"]).kind
    return Score(**labels, share=float(row["percent"]), value=float(row["value"]), kind=kind)


def _by_arm(
    arms: list[PrintedNumber], axes: Sequence[str]
) -> dict[tuple[str, ...], dict[str, float]]:
    values: dict[tuple[str, ...], dict[str, float]] = {}
    for row in arms:
        values.setdefault(tuple(row[axis] for axis in axes), {})[row["arm"]] = float(row["value"])
    return values


def _searches(arms: list[PrintedNumber]) -> Iterator[Search]:
    """Papers print the best trial of an arm: `lowest` as a score, controls as gains over `full`."""
    for pair, by_arm in _by_arm(arms, AXES).items():
        full = by_arm.pop("full")
        gains = {**by_arm, "lowest": round(by_arm["lowest"] - full, 2)}
        labels: dict[str, Any] = dict(zip(AXES, pair, strict=True))
        picks = {arm: {"test": Pick(None, full + gain, gain)} for arm, gain in gains.items()}
        printed_arms = {
            arm: Arm(arm=arm, full=full, picks=best, tried=TRIED) for arm, best in picks.items()
        }
        yield Search(**labels, unpruned=full, arms=printed_arms)


def _merged(arms: list[PrintedNumber]) -> Iterator[Merged]:
    for place, by_arm in _by_arm(arms, AXES[:4]).items():
        labels: dict[str, Any] = dict(zip(("model", "task", "train", "target"), place, strict=True))
        yield Merged(**labels, unpruned=by_arm.pop("FL"), scores=by_arm)


def _rho(row: PrintedNumber) -> Rho:
    labels = {name: row[name] for name in ("model", "task", "setting")}
    rho, pairs = float(row["value"]), PAIRS[row["task"]]
    return Rho(**labels, against=row["of"], rho=rho, pairs=pairs, p=rho_p(rho, pairs))


def rho_p(rho: float, n: int) -> float:
    """Two-sided p-value of Spearman's rho over n pairs, by Student's t, from rho alone."""
    from scipy.stats import t

    return float(2 * t.sf(abs(rho) * ((n - 2) / (1 - rho * rho)) ** 0.5, n - 2))
