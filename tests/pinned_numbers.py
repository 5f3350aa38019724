"""How the numbers of `test_pinned_numbers.py` are read, and how they are stored.

    python tests/pinned_numbers.py --write      store the numbers of today

`pinned_numbers.json.xz` holds every score, table cell, figure value, verdict and statistic of 16
archives in docs/results, the verdicts on the papers' own tables, trial ids and plans. It holds no
sentences: of a sentence it keeps the sorted numbers.

The section "how numbers are read" is the only place that knows the code. When a function moves or
an attribute gets another name, adapt that section; the stored file stays byte for byte as it is.
"""

import hashlib
import json
import lzma
import os
import re
import sys
import tarfile
from collections.abc import Mapping
from functools import lru_cache
from math import fsum, isfinite
from pathlib import Path
from typing import Any

# --- how numbers are read -----------------------------------------------------------------------
from deadhead.papers.claims import (
    FAILS,
    HOLDS,
    IN_PART,
    LUCKY,
    NO,
    OPEN,
    UNSHOWN,
    UNTESTED,
    sources,
)
from deadhead.papers.claims import check as verdicts_on
from deadhead.papers.claims import published as verdicts_on_papers
from deadhead.report.page.content import content as page_content
from deadhead.results import Study
from deadhead.results.frame import rows as frame_rows
from deadhead.studies import built_in as built_in_recipes
from deadhead.studies import load as load_recipe
from deadhead.studies.plan import plan as plan_of
from deadhead.studies.trial import label
from deadhead.tasks import points

# What the code calls it today -> what the stored file calls it.
VERDICTS = {
    HOLDS: "holds",
    UNSHOWN: "compatible",
    FAILS: "fails",
    UNTESTED: "untested",
    OPEN: "open",
}
ON_PAPER = {"": "", NO: "no", IN_PART: "in part", LUCKY: "luck"}
STATES = {name: name for name in ("done", "failed", "left", "partial", "missing", "none")}
MARKS = {None: None, "better": "better", "worse": "worse"}
RULES = {"test": "test", "dev": "dev", "source dev": "source dev", "stop": "stop"}


def scores(folder):
    """Every measured number of every trial, and the rows that report it, each with its labels."""
    values: dict[str, dict[str, float]] = {}
    rows: dict[str, list[Any]] = {}
    for row in Study.open(folder).all_scores():
        name = f"{row.dataset} {row.target} {row.split} {row.metric}"
        values.setdefault(row.trial, {})[name] = row.value / points(row.metric, 1.0)
        amount = row.amount if isinstance(row.amount, int | float) else numbers_in(row.amount)
        labels = [row.source, row.train, row.setting, row.arm, row.rank]
        key = json.dumps([*labels, amount, row.draw, row.seed, row.k, row.parts])
        rows.setdefault(f"{row.trial} {row.dataset}", []).append(key)
    counts = {trial: {key: keys.count(key) for key in keys} for trial, keys in rows.items()}
    return {"values": values, "rows": counts}


def searches(folder):
    """Every search in every language: the unpruned score, and of each arm what each rule chose."""
    stored = []
    for search in Study.open(folder).searches:
        keys = ("dataset", "source", "train", "target", "setting", "rank")
        scale = points(next(iter(search.arms.values())).metric, 1.0)
        stored.append(
            {
                "labels": [getattr(search, key) for key in keys],
                "unpruned": search.unpruned / scale,
                "parts": search.parts,
                "arms": {name: arm_numbers(arm, scale) for name, arm in search.arms.items()},
            }
        )
    return stored


def arm_numbers(arm, scale):
    """The stored file has scores as the metric gives them, a share or BLEU."""
    picks = {
        RULES[rule]: [pick.k, pick.score / scale, pick.gain / scale]
        for rule, pick in arm.picks.items()
    }
    by_k = {k: score / scale for k, score in arm.scores.items()}
    return {"by k": by_k, "picks": picks, "missing": arm.missing, "trials": arm.trials}


def frame(folder):
    """The data frame: rows, and of each column of numbers how many there are and their sum."""
    columns: dict[str, list[float]] = {}
    rows = list(frame_rows(folder))
    for row in rows:
        for name, value in row.items():
            if is_number(value):
                columns.setdefault(name, []).append(value)
    sums = {name: [len(values), fsum(values)] for name, values in columns.items()}
    return {"rows": len(rows), "columns": sums}


def verdict_numbers(verdict):
    return {
        "verdict": VERDICTS[verdict.verdict],
        "on paper": ON_PAPER[verdict.follows],
        "margin": verdict.margin,
        "trials": len(verdict.trials),
        "numbers": numbers_in(verdict.numbers),
        "strength": numbers_in(verdict.strength),
    }


def verdicts(*folders):
    """Every claim of every paper, judged on the studies together."""
    judged = [verdict for paper in sources() for verdict in verdicts_on(*folders, paper=paper)]
    return {verdict.id: verdict_numbers(verdict) for verdict in judged}


def papers_verdicts():
    """Every claim, judged on the papers' own tables, with the numbers of its statement."""
    return {
        verdict.id: {**verdict_numbers(verdict), "statement": numbers_in(verdict.statement)}
        for verdict in verdicts_on_papers()
    }


def page(folder):
    """All numbers that the page of a study shows."""
    content = page_content(folder)
    fields = content["trials"]["fields"]
    return {
        "progress": content["progress"],
        "read": content["opened"],
        "damaged": len(content["damaged"]),
        "findings": [numbers_in(sentence) for sentence in content["findings"]],
        "tables": [table_numbers(table) for table in content["tables"]],
        "figures": [figure_numbers(figure) for figure in content["figures"]],
        "claims": [verdict["id"] for verdict in content["claims"]],
        "layout": content["layout"],
        "maps": [[head_map["trial"], head_map["scores"]] for head_map in content["maps"]],
        "heads": {name: head_numbers(facts) for name, facts in content["heads"].items()},
        "trials": {
            row[fields.index("id")]: [STATES[row[fields.index("state")]], *filter(is_number, row)]
            for row in content["trials"]["rows"]
        },
        "records": {name: record_numbers(record) for name, record in content["records"].items()},
    }


def table_numbers(table):
    return {
        "rows": len(table["rows"]),
        "columns": len(table["columns"]),
        "decimals": table["decimals"],
        "sentences": numbers_in(table["note"], table["test"]),
        "cells": [[cell_numbers(cell) for cell in row] for row in table["cells"]],
    }


def cell_numbers(cell):
    names = ("ours", "spread", "n", "published", "p", "change", "published_change", "records")
    parts = [(value, [part[2] for part in listed]) for value, _, listed in cell["numbers"]]
    return {
        **{name: cell[name] for name in names if cell.get(name) is not None},
        "state": STATES[cell["state"]],
        "mark": MARKS[cell["mark"]],
        "behind": [[value, len(listed), fsum(listed)] for value, listed in parts],
    }


def figure_numbers(figure):
    """The numbers of each row that is drawn, sorted; and those in its labels, such as a rho."""
    rows = list(drawn_rows(figure["spec"]))
    labels = dict.fromkeys(text for row in rows for text in row.values() if isinstance(text, str))
    return {
        "sentences": numbers_in(figure["note"]),
        "labels": numbers_in(*(text for text in labels if not HEAD.fullmatch(text))),
        "rows": [sorted(filter(is_number, row.values())) for row in rows],
    }


def drawn_rows(spec):
    """The rows of all data in a vega-lite spec."""
    if isinstance(spec, list):
        for part in spec:
            yield from drawn_rows(part)
    elif isinstance(spec, dict):
        for name, part in spec.items():
            if name == "data":
                yield from part.get("values", ())
            else:
                yield from drawn_rows(part)


def head_numbers(facts):
    measures = facts["measures"]
    return {
        "rankings": list(facts["rankings"].values()),
        "entropy": measures.get("entropy", {}),
        "weights": measures.get("weights", {}).get("after"),
        "removed": facts["removed"],
        "effect": facts["effect"],
    }


def record_numbers(record):
    metrics = list(record["metrics"].values())
    epochs = [value for epoch in record["epochs"] for value in epoch.values() if is_number(value)]
    sums = [len(metrics), fsum(metrics), len(epochs), fsum(epochs)]
    return [len(record["removed"]), *sums, len(record["sample"]), bool(record["error"])]


@lru_cache(maxsize=2)  # a recipe is read for its trials, then for its plan
def loaded(name, scale):
    return load_recipe(name, scale=scale)


def recipe_numbers(name, scale=None):
    """The trials of a recipe, as one hash of their ids."""
    recipe = loaded(name, scale)
    ids = " ".join(trial.id for trial in recipe.trials)
    digest = hashlib.sha256(ids.encode()).hexdigest()[:16]
    return {"cells": len(recipe.cells), "trials": len(recipe.trials), "ids": digest}


def plan_numbers(name, scale=None):
    """What `deadhead plan` predicts; time in multiples of the recipe `smoke`, on any machine."""
    recipe = loaded(name, scale)
    plan, trials = plan_of(recipe), recipe.trials
    counts = ("cells", "trials", "done", "failed", "trainings", "rankings", "shared", "bytes")
    return {
        **{count: getattr(plan, count) for count in counts},
        **{part: len(getattr(plan, part)) for part in ("warnings", "shortfalls")},
        "models": len({str(trial.get("model")) for trial in trials}),
        "tasks": len({trial.task for trial in trials}),
        "languages": len({lang for trial in trials for _, lang, _ in trial.reads()}),
        "removals": len({str(label(trial.get("remove", "none"))) for trial in trials}),
        "time": plan.seconds / plan_of(loaded("smoke", None)).seconds,
    }


# --- what is pinned ------------------------------------------------------------------------------
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
PINNED = Path(__file__).resolve().with_name("pinned_numbers.json.xz")
# recipes that came after the numbers were stored, and archives of these recipes
NEWER = ("shrink", "sst2-layers.yaml", "nli-layers.yaml", "pos-search-seeds.yaml")
NEWER_RECORDS = ("pos-search-more.yaml",)  # the recipe is pinned, its archive came later
ARCHIVES = sorted(
    name
    for file in RESULTS.glob("*.tar.xz")
    if f"{(name := file.name.removesuffix('.tar.xz'))}.yaml" not in NEWER + NEWER_RECORDS
)
RECIPES = tuple(
    name
    for name in (*built_in_recipes(), *sorted(file.name for file in RESULTS.glob("*.yaml")))
    if name not in NEWER
)
WITHOUT_MINI = ("demo", "smoke")
DIGITS = 10  # significant ones
HEAD = re.compile(r"[\w-]+\.\d+\.\d+")  # encoder.3.7
NUMBER = re.compile(r"(?<![\w.+-])[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")
SECTIONS = {
    "scores": scores,
    "searches": searches,
    "frame": frame,
    "page": page,
    "verdicts": verdicts,
}


def is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def numbers_in(*sentences):
    """The numbers of some sentences, sorted: their order may change with the words."""
    text = " ".join(map(str, sentences)).replace("\u2212", "-").replace("+-", " ")
    return sorted(float(number.replace(",", "")) for number in NUMBER.findall(text))


def unpack(archive, folder):
    """The study folder of an archive."""
    with tarfile.open(RESULTS / f"{archive}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    return folder / archive


def to_json(value, digits=None):
    """Plain data as JSON stores it; with `digits`, numbers of that many significant digits."""
    if isinstance(value, Mapping):
        return {str(name): to_json(part, digits) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(part, digits) for part in value]
    if isinstance(value, float):
        if not isfinite(value):
            return str(value)
        rounded = value if digits is None else float(f"{value:.{digits}g}")
        return int(rounded) if rounded == int(rounded) else rounded
    return value


def recipe_section(name):
    """The trial ids of one recipe at each scale, and its plans if it comes with deadhead."""
    if name.endswith(".yaml"):
        return {"full": recipe_numbers(str(RESULTS / name))}
    scales = (None,) if name in WITHOUT_MINI else (None, "mini")
    return {
        scale or "full": recipe_numbers(name, scale) | {"plan": plan_numbers(name, scale)}
        for scale in scales
    }


def count(value):
    """How many numbers, ids and verdicts there are in it."""
    if isinstance(value, Mapping):
        return sum(map(count, value.values()))
    return sum(map(count, value)) if isinstance(value, list) else 1


def write(folder):
    """Store the numbers of today."""
    os.chdir(folder)  # where no recipe finds data
    os.environ.pop("DEADHEAD_DATA", None)
    folders = {archive: unpack(archive, folder) for archive in ARCHIVES}
    stored = {
        "archives": {
            archive: {section: read(home) for section, read in SECTIONS.items()}
            for archive, home in folders.items()
        },
        "together": verdicts(*folders.values()),
        "papers": papers_verdicts(),
        "recipes": {name: recipe_section(name) for name in RECIPES},
    }
    text = json.dumps(to_json(stored, digits=DIGITS), sort_keys=True, separators=(",", ":"))
    PINNED.write_bytes(lzma.compress(text.encode(), preset=9))
    print(f"{PINNED}: {count(stored):,} numbers, {PINNED.stat().st_size:,} bytes")


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    import tempfile

    with tempfile.TemporaryDirectory() as home:
        write(Path(home))
