"""Evidence out of the papers' own tables, which lie beside the recipes; and the numbers their texts state."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from typing import Any

from deadhead.papers import published_files
from deadhead.results import Arm, Merged, Pick, Score, Search
from deadhead.tasks import task_of

from .evidence import Evidence, Rho
from .strength import rho_p

PAPERS = ("weak-link", "mbert-prunability", "contributions")
SCORES = {
    "weak-link": ("table1", "table2", "table3", "table4", "table5", "table6"),
    "mbert-prunability": ("table1",),
}
SINGLE = ("table2", "table3", "table4")  # of contributions: one source, unpruned and pruned
LABELS = ("model", "task", "source", "target", "remove")  # of a printed score
AXES = ("model", "task", "source", "target", "setting")  # what tells one pair from another
TRIED = tuple(range(1, 13))  # heads removed in the trials of a printed search
PAIRS = {"pos": 24, "ner": 24, "slots": 8}  # source-target pairs behind each stated rho

FOLLOW_IN_PART = {  # statements that do not hold as stated, some of them only implied, of which the tables bear out a part
    *("W3b", "W10", "W12", "W13", "M2", "M4"),
    *("C-max-vs-rand", "C-rand-vs-low", "C-multi-all", "C-single-NER"),
}


@cache
def rows(paper: str, table: str) -> tuple[dict[str, str], ...]:
    """The numbers of one table, one a row."""
    with published_files()[f"{paper}/{table}.csv"].open(encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def stated(paper: str, quantity: str, **where: str) -> float:
    """A number the text of a paper states."""
    found = [
        r
        for r in rows(paper, "text")
        if r["quantity"] == quantity and all(r[axis] == text for axis, text in where.items())
    ]
    if len(found) != 1:
        raise LookupError(f"{paper} states {quantity} {where} {len(found)} times")
    return float(found[0]["value"])


@cache
def printed() -> Evidence:
    """All three papers' tables."""
    scores = (
        _score(row)
        for paper, tables in SCORES.items()
        for table in tables
        for row in rows(paper, table)
    )
    return Evidence(
        scores=tuple(dict.fromkeys(scores)),  # tables 1-3 and 4-6 repeat some rows
        searches=tuple(_searches()),
        merged=tuple(_merged()),
        rhos=tuple(_rhos()),
        printed=True,
    )


def _score(row: dict[str, str]) -> Score:
    labels: dict[str, Any] = {name: row[name] for name in LABELS}
    return Score(
        **labels,
        share=float(row["percent"]),
        value=float(row["value"]),
        kind=task_of(row["task"]).kind,
    )


def printed_arm(arm: str, gain: float, full: float) -> Arm:
    """An arm of which a paper prints the best of 12 trials."""
    return Arm(arm=arm, full=full, picks={"test": Pick(None, full + gain, gain)}, tried=TRIED)


def _searches() -> Iterator[Search]:
    scores: dict[tuple[str, ...], dict[str, float]] = {}
    for row in (row for table in SINGLE for row in rows("contributions", table)):
        scores.setdefault(_pair(row), {})[row["arm"]] = float(row["value"])
    gains: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows("contributions", "table5"):
        gains.setdefault(_pair(row), {})[row["arm"]] = float(row["value"])
    for pair, by_arm in scores.items():
        full = by_arm["full"]
        by_name = {"lowest": round(by_arm["lowest"] - full, 2), **gains.get(pair, {})}
        arms = {arm: printed_arm(arm, gain, full) for arm, gain in by_name.items()}
        labels: dict[str, Any] = dict(zip(AXES, pair, strict=True))
        yield Search(**labels, unpruned=full, arms=arms)


def _pair(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[axis] for axis in AXES)


def _merged() -> Iterator[Merged]:
    scores: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows("contributions", "table6"):
        scores.setdefault(_pair(row)[:4], {})[row["arm"]] = float(row["value"])
    for (model, task, train, target), by_arm in scores.items():
        full = by_arm.pop("FL")
        yield Merged(
            model=model, task=task, train=train, target=target, unpruned=full, scores=by_arm
        )


def _rhos() -> Iterator[Rho]:
    for row in rows("contributions", "text"):
        if row["quantity"] == "spearman_of_gain":
            rho, pairs = float(row["value"]), PAIRS[row["task"]]
            yield Rho(
                model=row["model"],
                task=row["task"],
                setting=row["setting"],
                against=row["of"],
                rho=rho,
                pairs=pairs,
                p=rho_p(rho, pairs),
            )
