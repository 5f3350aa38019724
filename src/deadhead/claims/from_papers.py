"""Evidence out of the papers' own tables, which lie beside the recipes; and the numbers their texts state."""

from __future__ import annotations

import csv
from functools import cache
from typing import Any

from deadhead.papers import published_files
from deadhead.tasks import task_of

from .evidence import Best, Evidence, Fact, Merged, Rho, Search
from .strength import rho_p

PAPERS = ("weak-link", "mbert-prunability", "contributions")
SCORES = {
    "weak-link": ("table1", "table2", "table3", "table4", "table5", "table6"),
    "mbert-prunability": ("table1",),
}
SINGLE = ("table2", "table3", "table4")  # of contributions: one source, unpruned and pruned
AXES = ("model", "task", "source", "target", "setting")  # what tells one pair from another
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
    facts = [
        _fact(row)
        for paper, tables in SCORES.items()
        for table in tables
        for row in rows(paper, table)
    ]
    distinct = tuple(dict.fromkeys(facts))  # tables 1-3 and 4-6 repeat some rows
    return Evidence(
        distinct, tuple(_searches()), tuple(_merged()), rhos=tuple(_rhos()), printed=True
    )


def _fact(row: dict[str, str]) -> Fact:
    share = float(row["percent"])
    kind = task_of(row["task"]).kind
    return Fact(
        row["model"],
        row["task"],
        row["source"],
        row["target"],
        row["remove"],
        share,
        float(row["value"]),
        kind=kind,
    )


def _searches() -> list[Search]:
    scores: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in (row for table in SINGLE for row in rows("contributions", table)):
        scores.setdefault(_pair(row), {})[row["arm"]] = float(row["value"])
    gains: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in rows("contributions", "table5"):
        gains.setdefault(_pair(row), {})[row["arm"]] = float(row["value"])
    found = []
    for pair, by_arm in scores.items():
        arms = {"lowest": Best(round(by_arm["lowest"] - by_arm["full"], 2))}
        arms |= {arm: Best(gain) for arm, gain in gains.get(pair, {}).items()}
        found.append(Search(**dict(zip(AXES, pair, strict=True)), full=by_arm["full"], arms=arms))
    return found


def _pair(row: dict[str, str]) -> tuple[Any, ...]:
    return tuple(row[axis] for axis in AXES)


def _merged() -> list[Merged]:
    scores: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in rows("contributions", "table6"):
        scores.setdefault(_pair(row)[:4], {})[row["arm"]] = float(row["value"])
    return [
        Merged(model, task, train, target, by_arm.pop("FL"), by_arm)
        for (model, task, train, target), by_arm in scores.items()
    ]


def _rhos() -> list[Rho]:
    told = [row for row in rows("contributions", "text") if row["quantity"] == "spearman_of_gain"]
    return [
        Rho(
            r["model"],
            r["task"],
            r["setting"],
            r["of"],
            rho,
            PAIRS[r["task"]],
            rho_p(rho, PAIRS[r["task"]]),
        )
        for r, rho in ((r, float(r["value"])) for r in told)
    ]
